"""sightwords: captions you can check."""

from sightwords._version import __version__

__all__ = ["__version__"]
