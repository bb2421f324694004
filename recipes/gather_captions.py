r"""Gathers captions of further COCO training images: the `coco-more` of `default.toml`.

    repositories named in caption_sources.toml -> (image, caption) pairs -> checks -> JSON lines
    JSON lines + images                        -> coco-more-00000.tar, ...

Clone what `caption_sources.toml` names as CLONES/OWNER/NAME (a bare clone will do), then:

    git clone --bare https://github.com/hai4h/cnn-edge-detection images.git
    python RECIPES/gather_captions.py gather CLONES --images images.git \
        --known coco-train.jsonl.gz --exclude coco-val.jsonl.gz coco-karpathy-test.jsonl.gz
    python RECIPES/gather_captions.py pack coco-more.jsonl.gz --images images.git

With COCO's own annotations no clone is needed: `gather --files captions_train2014.json` and the
same options give five captions of every image.

`--images` is a git repository or a folder of `000000000009.jpg` and so on; where it has a folder
`train2017`, those below it. Only images found there count. `--known` and `--exclude` are JSON
lines with `id` and `captions`. All of val2014 within train2017 is in the three files above, and
val2017 is not in train2017: what is gathered is of train2014, and in no set for tuning or testing.

Kept are pairs of images that none of these files has, without empty captions, captions of more
than 60 words and repetitions (tokens as the COCO tools cut them), at most five for each image.

A source is checked against `--known`: of its pairs whose image is known, 95 % must equal one of
that image's captions. This finds captions written by a model, translated or edited, and ids that
are not COCO's. A source that fails, or has under 50 such pairs, gives nothing, and is named.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sightwords.corpus.formats.manifest import find_fields
from sightwords.corpus.formats.table import delimiter_of
from sightwords.files import atomic_path
from sightwords.settings import read_toml
from sightwords.text.ptb import tokenize

MIN_AGREEMENT = 0.95
MIN_CHECKED = 50
MAX_WORDS = 60
MAX_CAPTIONS = 5

Pair = tuple[str, str]
"""Image id and caption."""
Captions = dict[str, dict[tuple[str, ...], str]]
"""Image id -> tokens -> caption as written."""

_COCO_ID = re.compile(r"(?:^|[/\\_])0*(\d{1,12})(?:\.[A-Za-z]+)?(?:#\d+)?$")


@dataclass(frozen=True)
class Source:
    """One entry of `caption_sources.toml`."""

    repository: str
    """OWNER/NAME on GitHub."""
    commit: str
    files: list[str] = field(default_factory=list)
    """Paths in the repository; `*` stands for any text."""
    licence: str = "none stated"
    captions: int = 0
    """How many new captions it gave when the entry was written."""


@dataclass
class Found:
    """What one source gave."""

    pairs: int = 0
    checked: int = 0
    agreed: int = 0
    new: Captions = field(default_factory=dict)

    @property
    def agreement(self) -> float:
        """Share of the checked pairs that equal a known caption."""
        return self.agreed / self.checked if self.checked else 0.0

    @property
    def refusal(self) -> str:
        """Why the source is not used; empty where it is."""
        if self.checked < MIN_CHECKED:
            return f"only {self.checked} pairs can be checked, {MIN_CHECKED} are needed"
        if self.agreement < MIN_AGREEMENT:
            return f"{self.agreement:.1%} equal a known caption, {MIN_AGREEMENT:.0%} must"
        return ""


def main(arguments: list[str] | None = None) -> None:
    """Run `gather` or `pack`."""
    parser = argparse.ArgumentParser(description="Gather captions of COCO training images.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("gather", help="read the cloned repositories, write captions")
    verb.add_argument("clones", type=Path, nargs="?", help="folder of the clones: OWNER/NAME")
    verb.add_argument("--files", type=Path, nargs="+", default=[], help="caption files at hand")
    default = Path(__file__).with_name("caption_sources.toml")
    verb.add_argument("--sources", type=Path, default=default)
    verb.add_argument("--known", type=Path, required=True, help="coco-train: to check against")
    verb.add_argument("--exclude", type=Path, nargs="+", required=True, help="validation, test")
    verb.add_argument("--images", type=Path, required=True, help="git repository or folder")
    verb.add_argument("--out", type=Path, default=Path("coco-more.jsonl.gz"))
    verb = verbs.add_parser("pack", help="write shards of the captions and their images")
    verb.add_argument("captions", type=Path)
    verb.add_argument("--images", type=Path, required=True, help="git repository or folder")
    verb.add_argument("--out", type=Path, default=Path(), help="folder for the shards")
    options = parser.parse_args(arguments)
    if options.verb == "pack":
        pack(options.captions, options.images, options.out)
        return
    found = [
        (Source(path.name, "-"), pairs_of(path.name, path.read_bytes())) for path in options.files
    ]
    if options.clones is not None:
        listed = [Source(**entry) for entry in read_toml(options.sources)["source"]]
        found += [(source, read_source(source, options.clones)) for source in listed]
    gathered = gather(
        found,
        known=read_captions([options.known]),
        excluded=set(read_captions(options.exclude)),
        images=set(list_images(options.images)),
    )
    write_captions(gathered, options.out)
    counts = Counter(map(len, gathered.values()))
    spread = ", ".join(f"{n} with {k}" for k, n in sorted(counts.items()))
    total = sum(k * n for k, n in counts.items())
    print(f"{options.out}: {len(gathered)} images, {total} captions; images by captions: {spread}")


def gather(
    sources: Iterable[tuple[Source, Iterable[Pair]]],
    *,
    known: Captions,
    excluded: set[str],
    images: set[str],
) -> Captions:
    """Captions of images that are neither known nor excluded, out of all sources that pass."""
    gathered: Captions = {}
    print("| source | commit | pairs | checked | agree | new captions | new images |")
    print("|---|---|---|---|---|---|---|")
    for source, pairs in sources:
        found = examine(pairs, known, images - excluded)
        before = (len(gathered), sum(map(len, gathered.values())))
        for image, captions in {} if found.refusal else found.new.items():
            kept = gathered.setdefault(image, {})
            for tokens, caption in captions.items():
                if len(kept) < MAX_CAPTIONS:
                    kept.setdefault(tokens, caption)
        added = sum(map(len, gathered.values())) - before[1]
        print(
            f"| {source.repository} | {source.commit[:10]} | {found.pairs} | {found.checked} "
            f"| {found.agreement:.1%} | {added} | {len(gathered) - before[0]} |"
        )
        if found.refusal:
            print(f"{source.repository}: refused: {found.refusal}", file=sys.stderr)
        elif source.files and added != source.captions:
            note = f"gave {added} captions, {source.captions} when it was listed"
            print(f"{source.repository}: {note}", file=sys.stderr)
    return gathered


def examine(pairs: Iterable[Pair], known: Captions, allowed: set[str]) -> Found:
    """Compare pairs of known images with what is known, and keep those of allowed new images."""
    found = Found()
    seen: Captions = {}
    for image, caption in pairs:
        text = " ".join(caption.split())
        tokens = tuple(tokenize(text))
        if not 0 < len(tokens) <= MAX_WORDS or tokens in seen.setdefault(image, {}):
            continue
        seen[image][tokens] = text
        found.pairs += 1
        if image in known:
            found.checked += 1
            found.agreed += tokens in known[image]
        elif image in allowed:
            found.new.setdefault(image, {})[tokens] = text
    return found


def read_source(source: Source, clones: Path) -> Iterator[Pair]:
    """All pairs of a source, from the clone, at the commit that its entry names."""
    clone = clones / source.repository
    if not clone.is_dir():
        raise SystemExit(
            f"{source.repository}: not in {clones}; run: "
            f"git clone --bare https://github.com/{source.repository} {clone}"
        )
    names = _git(clone, "ls-tree", "-r", "-z", "--name-only", source.commit).decode().split("\0")
    matching = [n for n in names if any(fnmatch(n, pattern) for pattern in source.files)]
    if not matching:
        raise SystemExit(f"{source.repository}: no file matches {', '.join(source.files)}")
    for name in matching:
        data = _git(clone, "cat-file", "blob", f"{source.commit}:{name}")
        yield from pairs_of(name, data)


def pairs_of(name: str, data: bytes) -> Iterator[Pair]:
    """The pairs of one file whose images have ids that may be COCO's."""
    if name.endswith(".gz"):
        name, data = name[:-3], gzip.decompress(data)
    for image, caption in read_pairs(name, data.decode("utf-8-sig", "replace")):
        if match := _COCO_ID.search(str(image)):
            yield match[1].zfill(12), caption


def read_pairs(name: str, text: str) -> Iterator[tuple[Any, str]]:
    """Image, as the file names it, and caption.

    `.csv`, `.tsv`: a table with a header. `.txt`: one file for each image, a caption per line.
    `.jsonl`, `.json`: rows; one list of rows; COCO's or Karpathy's form; or image -> captions.
    Columns and keys are found by their names, as `sightwords data` finds them.
    """
    kind = name.rsplit(".", 1)[-1].lower()
    rows: Iterable[Any]
    if kind == "txt":
        rows = [{"image": name, "captions": text.splitlines()}]
    elif kind in ("csv", "tsv"):
        header = text.partition("\n")[0]
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(header))
    elif kind == "jsonl":
        rows = map(json.loads, filter(str.strip, text.splitlines()))
    else:
        rows = _json_rows(json.loads(text))
    for row in rows:
        fields = find_fields([key for key in row if key])
        # A row's own id often numbers the caption, so it comes last.
        names = (row.get(key) for key in (fields.image, "image_id", "cocoid", fields.id))
        image = next(filter(None, names), None)
        for key in fields.captions:
            captions = row[key] if isinstance(row[key], list) else [row[key]]
            for caption in captions:
                written = caption.get("raw") if isinstance(caption, dict) else caption
                if isinstance(written, str) and image is not None:
                    yield image, written


def _json_rows(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    for key in ("annotations", "images"):  # COCO's and Karpathy's form
        if isinstance(document.get(key), list):
            return document[key]
    return [{"image": image, "captions": captions} for image, captions in document.items()]


def read_captions(paths: Iterable[Path]) -> Captions:
    """Captions of files with a JSON object per line."""
    captions: Captions = {}
    for path in paths:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
        for row in map(json.loads, text.splitlines()):
            own = captions.setdefault(str(row["id"]).zfill(12), {})
            own.update((tuple(tokenize(caption)), caption) for caption in row["captions"])
    return captions


def write_captions(captions: Captions, out: Path) -> None:
    """JSON lines in the order of ids; the same captions give the same bytes."""
    rows = (
        {"id": image, "captions": list(own.values()), "dataset": "coco", "split": "train"}
        for image, own in sorted(captions.items())
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with atomic_path(out) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


def list_images(place: Path) -> dict[str, str]:
    """Image id -> path within a git repository or a folder."""
    if _is_git(place):
        names = _git(place, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")
    else:
        names = [str(path.relative_to(place)) for path in place.rglob("*.jpg")]
    train = [name for name in names if "train2017" in Path(name).parts] or names
    return {Path(n).stem: n for n in train if re.fullmatch(r"\d{12}\.jpg", Path(n).name)}


def pack(captions: Path, images: Path, out: Path) -> None:
    """Write shards with `sightwords data convert`; images of a git repository are taken out."""
    listed = list_images(images)
    wanted = {image: listed[image] for image in read_captions([captions]) if image in listed}
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        if _is_git(images):
            _take_out(images, wanted, Path(folder))
        else:
            for image, name in wanted.items():
                Path(folder, f"{image}.jpg").symlink_to((images / name).resolve())
        command = ["data", "convert", str(captions), "--images", folder, "--out", str(out)]
        name = captions.name.partition(".")[0]
        subprocess.run(
            [sys.executable, "-m", "sightwords", *command, "--set", f"name={name}"], check=True
        )


def _is_git(place: Path) -> bool:
    return (place / ".git").exists() or (place / "objects").is_dir()


def _take_out(clone: Path, names: dict[str, str], folder: Path) -> None:
    """Write files of a git repository into a folder; one process reads them all."""
    command = [*_of(clone), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for image, name in names.items():
            process.stdin.write(f"HEAD:{name}\n".encode())
            process.stdin.flush()
            size = int(process.stdout.readline().split()[2])
            Path(folder, f"{image}.jpg").write_bytes(process.stdout.read(size))
            process.stdout.read(1)  # the end of line after each file


def _of(clone: Path) -> list[str]:
    """Git on a clone, bare or not; nothing is checked out."""
    return ["git", "--git-dir", str(clone / ".git" if (clone / ".git").exists() else clone)]


def _git(clone: Path, *command: str) -> bytes:
    run = subprocess.run([*_of(clone), *command], capture_output=True, check=False)
    if run.returncode:
        reason = run.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{clone}: {reason}; `git fetch origin COMMIT` brings one commit")
    return run.stdout


if __name__ == "__main__":
    main()
