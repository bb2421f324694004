"""`sightwords bundle info|verify|pack|seal`: show, check, pack and make model bundles."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightwords.cli.options import HelpFormatter, add_json, add_set, read_set
from sightwords.errors import InputError
from sightwords.sealed import read_bytes
from sightwords.strict_json import loads

if TYPE_CHECKING:
    from sightwords.bundle import Manifest


@dataclass(frozen=True)
class SealSettings:
    """JSON files whose contents a manifest quotes."""

    provenance: str = ""
    """A JSON object: data, commands, dates."""
    scores: str = ""
    """A JSON object: the scores that it reached."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb and its four actions."""
    parser = subparsers.add_parser(
        "bundle",
        help="show, verify, pack or seal a model bundle",
        description="A bundle is one directory, or a zip of it, with a whole captioning system.",
        epilog="example: sightwords bundle info\n"
        "example: sightwords bundle verify my-bundle.zip\n"
        "example: sightwords bundle pack my-bundle my-bundle.zip",
        formatter_class=HelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_info(actions)
    _add_verify(actions)
    _add_pack(actions)
    _add_seal(actions)


def _add_info(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "info",
        help="show what a bundle is and what it holds",
        description="Show a bundle's name, licence, size, provenance, scores and files. The files "
        "are verified first.",
        epilog="example: sightwords bundle info\nexample: sightwords bundle info mine --json",
        formatter_class=HelpFormatter,
    )
    _bundle_argument(parser)
    add_json(parser, "one JSON object")
    parser.set_defaults(run=run_info, parser=parser)


def _add_verify(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "verify",
        help="check every file's sum and load every stage",
        description="Compare every file of a bundle with its SHA-256 sum, load every stage once, "
        "and print the bundle's fingerprint.",
        epilog="example: sightwords bundle verify my-bundle.zip",
        formatter_class=HelpFormatter,
    )
    _bundle_argument(parser)
    parser.set_defaults(run=run_verify, parser=parser)


def _add_pack(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "pack",
        help="pack a bundle directory into a zip, or unpack a zip",
        description="Pack a bundle directory into a zip, or unpack a zip into a new directory. The "
        "result is verified before it appears.",
        epilog="example: sightwords bundle pack my-bundle my-bundle.zip\n"
        "example: sightwords bundle pack my-bundle.zip my-bundle",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("source", metavar="SOURCE", type=Path, help="a bundle directory or zip")
    parser.add_argument("target", metavar="TARGET", type=Path, help="the zip or directory to write")
    parser.set_defaults(run=run_pack, parser=parser)


def _add_seal(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "seal",
        help="make a bundle of the parts in a directory",
        description="Load every part in a directory (words/, language/, rerank/, and dmsm/ and "
        "grounded/ if they are there), then write its bundle.json with the sum of every file. "
        "Values of an existing bundle.json that no option replaces are kept.",
        epilog="example: sightwords bundle seal my-bundle --name garden --licence CC-BY-4.0",
        formatter_class=HelpFormatter,
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="the directory of the parts")
    parser.add_argument("--name", help="name of the bundle (default: the directory's name)")
    parser.add_argument("--licence", help="licence of the weights, such as CC-BY-4.0")
    add_set(parser, SealSettings)
    parser.set_defaults(run=run_seal, parser=parser)


def _bundle_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle",
        metavar="BUNDLE",
        nargs="?",
        help="a directory, a zip or hf://OWNER/NAME (default: built in)",
    )


def run_info(args: argparse.Namespace) -> int:
    """Print the manifest."""
    from dataclasses import asdict

    from sightwords.bundle import open_bundle

    with open_bundle(args.bundle) as bundle:
        bundle.verify()
        manifest = bundle.manifest
    if args.json:
        print(json.dumps({**asdict(manifest), "fingerprint": manifest.fingerprint}, indent=1))
        return 0
    print(f"name         {manifest.name}")
    print(f"licence      {manifest.licence}")
    print(f"written by   sightwords {manifest.sightwords}")
    print(f"fingerprint  {manifest.fingerprint}")
    print(f"size         {manifest.size_bytes / 1e6:.1f} MB")
    print(f"stages       {', '.join(manifest.parts)}")
    for title, values in (("provenance", manifest.provenance), ("scores", manifest.scores)):
        for key, value in values.items():
            print(f"{title:12s} {key}: {json.dumps(value, ensure_ascii=False)}")
    for path, file in manifest.files.items():
        print(f"{file.sha256[:12]} {file.size_bytes:>10} {path}")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Sums, then stages; the first thing wrong is the error."""
    from sightwords.bundle import open_bundle

    with open_bundle(args.bundle) as bundle:
        bundle.check()
        bundle.verify()
        manifest = bundle.manifest
    print(f"{manifest.fingerprint}  {manifest.name}: {len(manifest.files)} files are as sealed")
    return 0


def run_pack(args: argparse.Namespace) -> int:
    """Directory to zip, or zip to directory."""
    from sightwords.bundle import pack, unpack

    manifest = (pack if args.source.is_dir() else unpack)(args.source, args.target)
    print(f"{manifest.fingerprint}  {args.target}")
    return 0


def run_seal(args: argparse.Namespace) -> int:
    """Write the manifest; values of an older one that no option replaces are kept."""
    from sightwords.bundle import seal

    old, settings = _before(args.directory), read_set(SealSettings, args)
    licence = args.licence or (old.licence if old else "")
    if not licence:
        args.parser.error("give --licence: nobody may use weights without one")
    manifest = seal(
        args.directory,
        name=args.name or (old.name if old else args.directory.resolve().name),
        licence=licence,
        provenance=_object(settings.provenance) or (old.provenance if old else {}),
        scores=_object(settings.scores) or (old.scores if old else {}),
    )
    print(f"{manifest.fingerprint}  {args.directory}")
    return 0


def _before(directory: Path) -> Manifest | None:
    from sightwords.bundle.manifest import MANIFEST_NAME
    from sightwords.bundle.store import read_manifest

    return read_manifest(directory) if (directory / MANIFEST_NAME).exists() else None


def _object(path: str) -> dict[str, Any] | None:
    if not path:
        return None
    try:
        value = loads(read_bytes(Path(path), limit=1 << 20))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); give a JSON object") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds a {type(value).__name__}; expected a JSON object")
    return value
