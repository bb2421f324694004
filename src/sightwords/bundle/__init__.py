"""A whole system as one directory or zip: seal, load, verify.

    manifest   bundle.json: what the bundle is, and the SHA-256 sum of every file in it
    store      a directory, a zip or hf://OWNER/NAME -> a checked directory
    seal       write bundle.json; directory -> zip and back
    parts      the stages, loaded

`docs/bundle.md` describes the format.
"""

from sightwords.bundle.manifest import Manifest
from sightwords.bundle.parts import DEFAULT_BUNDLE, Bundle
from sightwords.bundle.seal import pack, seal, unpack
from sightwords.bundle.store import open_bundle

__all__ = ["DEFAULT_BUNDLE", "Bundle", "Manifest", "open_bundle", "pack", "seal", "unpack"]
