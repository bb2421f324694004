"""recipes/gather_captions.py: what is gathered from repositories, and what is refused."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sightwords.corpus import open_corpus

SCRIPT = Path(__file__).parents[2] / "recipes" / "gather_captions.py"

# Images 1 to 60 are known, 70 is of a validation set, 81 to 86 are new; 99 is not in train2017.
KNOWN = {number: f"A dog number {number} runs." for number in range(1, 61)}
VALIDATION, ABSENT = 70, 99


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("gather_captions", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gather_captions"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Known captions, a validation set, and a git repository of images."""
    lines(tmp_path / "known.jsonl.gz", {n: [caption] for n, caption in KNOWN.items()})
    lines(tmp_path / "val.jsonl.gz", {VALIDATION: ["A cat."]})
    picture = io.BytesIO()
    Image.new("RGB", (32, 32), "teal").save(picture, "JPEG")
    numbers = [*KNOWN, VALIDATION, *range(81, 87)]
    repository(
        tmp_path / "images",
        {f"train2017/{number:012d}.jpg": picture.getvalue() for number in numbers},
    )
    return tmp_path


def lines(path: Path, captions: Mapping[int, list[str]]) -> None:
    rows = ({"id": f"{number:012d}", "captions": own} for number, own in captions.items())
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def repository(folder: Path, files: Mapping[str, bytes | str]) -> str:
    """A git repository with one commit; the commit."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Add captions")):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


def coco(pairs: list[tuple[int, str]]) -> str:
    """COCO's form; the ids of captions are not those of images."""
    rows = [{"image_id": n, "id": 500 + i, "caption": c} for i, (n, c) in enumerate(pairs)]
    return json.dumps({"images": [], "annotations": rows})


def gather(script: Any, data: Path, sources: Mapping[str, Mapping[str, bytes | str]]) -> Any:
    """Run `gather` over repositories; captions by number of the image."""
    entries = []
    for name, files in sources.items():
        commit = repository(data / "clones" / name, files)
        quoted = ", ".join(json.dumps(file) for file in files)
        entries.append(
            f'[[source]]\nrepository = "{name}"\ncommit = "{commit}"\nfiles = [{quoted}]\n'
        )
    (data / "sources.toml").write_text("".join(entries), encoding="utf-8")
    run(script, data)
    return written(data)


def run(script: Any, data: Path, *sources: str) -> None:
    files = {"--sources": "sources.toml", "--known": "known.jsonl.gz", "--exclude": "val.jsonl.gz"}
    files |= {"--images": "images", "--out": "coco-more.jsonl.gz"}
    options = [word for key, name in files.items() for word in (key, str(data / name))]
    script.main(["gather", *(sources or [str(data / "clones")]), *options])


def written(data: Path) -> dict[int, list[str]]:
    text = gzip.decompress((data / "coco-more.jsonl.gz").read_bytes()).decode()
    return {int(row["id"]): row["captions"] for row in map(json.loads, text.splitlines())}


def test_new_images_are_kept_and_repetitions_are_not(
    script: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [f"A red bus, view {letter}." for letter in "abcdefg"]
    pairs = [
        *KNOWN.items(),
        (81, "A bird  sings."),
        (81, "a bird sings"),  # the same tokens
        (82, " "),
        (82, "word " * 61),
        *((83, caption) for caption in many),
        (VALIDATION, "Not this."),
        (ABSENT, "Nor this."),
    ]
    assert gather(script, data, {"a/coco": {"captions.json": coco(pairs)}}) == {
        81: ["A bird sings."],
        83: many[:5],
    }
    out = capsys.readouterr().out
    assert "| a/coco |" in out
    assert "100.0% | 6 | 2 |" in out
    assert "2 images, 6 captions; images by captions: 1 with 1, 1 with 5" in out


def test_a_source_that_disagrees_is_refused_by_name(
    script: Any, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = [(n, "a dog" if n % 10 == 0 else caption) for n, caption in KNOWN.items()]
    few = [(n, KNOWN[n]) for n in range(1, 40)]
    gathered = gather(
        script,
        data,
        {
            "a/machine": {"captions.json": coco([*machine, (81, "Made by a model.")])},
            "b/few": {"captions.json": coco([*few, (82, "Nobody can check this.")])},
            "c/good": {"captions.json": coco([*KNOWN.items(), (83, "A good one.")])},
        },
    )
    assert gathered == {83: ["A good one."]}
    errors = capsys.readouterr().err
    assert "a/machine: refused: 90.0%" in errors
    assert "b/few: refused: only 39" in errors
    assert "c/good: refused" not in errors


def test_sources_are_merged_with_at_most_five_captions_an_image(script: Any, data: Path) -> None:
    first = [(81, f"A {colour} bus.") for colour in ("red", "green", "blue")]
    second = [(81, f"a {colour} bus") for colour in ("blue", "white", "grey", "black")]
    gathered = gather(
        script,
        data,
        {
            "a/first": {"captions.json": coco([*KNOWN.items(), *first])},
            "b/second": {"captions.json": coco([*KNOWN.items(), *second])},
        },
    )
    assert gathered == {
        81: ["A red bus.", "A green bus.", "A blue bus.", "a white bus", "a grey bus"]
    }


def table(delimiter: str) -> str:
    text = io.StringIO()
    rows = csv.writer(text, delimiter=delimiter)
    rows.writerow(["image_id", "id", "caption", "image"])
    for number, caption in [*KNOWN.items(), (81, "A bird, and a tree.")]:
        rows.writerow([number, 7000 + number, caption, f"{number:012d}.jpg"])
    return text.getvalue()


PAIRS = [*KNOWN.items(), (81, "A bird, and a tree.")]
FORMATS: dict[str, Mapping[str, str]] = {
    "csv": {"captions.csv": table(",")},
    "tsv": {"captions.tsv": table("\t")},
    "list": {"a.json": json.dumps([{"image_id": n, "caption": c} for n, c in PAIRS])},
    "lines": {
        "a.jsonl": "\n".join(
            json.dumps({"image": f"train2017/{n:012d}.jpg", "captions": [c]}) for n, c in PAIRS
        )
    },
    "mapping": {"a.json": json.dumps({f"COCO_train2014_{n:012d}.jpg": [c] for n, c in PAIRS})},
    "karpathy": {
        "a.json": json.dumps(
            {"images": [{"cocoid": n, "imgid": 0, "sentences": [{"raw": c}]} for n, c in PAIRS]}
        )
    },
    "text": {f"text/COCO_train2014_{n:012d}.txt": c + "\n" for n, c in PAIRS},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(script: Any, data: Path, kind: str) -> None:
    assert gather(script, data, {"a/source": FORMATS[kind]}) == {81: ["A bird, and a tree."]}


def test_files_at_hand_need_no_clone(script: Any, data: Path) -> None:
    path = data / "captions_train2014.json"
    path.write_text(coco([*KNOWN.items(), (81, "A bird.")]), encoding="utf-8")
    run(script, data, "--files", str(path))
    assert written(data) == {81: ["A bird."]}


def test_a_missing_clone_and_commit_are_named(script: Any, data: Path) -> None:
    entry = '[[source]]\nrepository = "a/gone"\ncommit = "0123456"\nfiles = ["a.json"]\n'
    (data / "sources.toml").write_text(entry, encoding="utf-8")
    with pytest.raises(SystemExit, match="a/gone"):
        run(script, data)
    repository(data / "clones" / "a" / "gone", {"a.json": "[]"})
    with pytest.raises(SystemExit, match="0123456"):
        run(script, data)


@pytest.mark.parametrize("kind", ["git", "folder"])
def test_pack_writes_shards_that_the_recipe_reads(script: Any, data: Path, kind: str) -> None:
    lines(data / "coco-more.jsonl.gz", {81: ["A bird."], 83: ["A bus.", "A red bus."]})
    images = data / "images" if kind == "git" else data / "images" / "train2017"
    out = data / "shards"
    script.main(
        ["pack", str(data / "coco-more.jsonl.gz"), "--images", str(images), "--out", str(out)]
    )
    found = {example.id: example.captions for example in open_corpus(f"{out}/coco-more-*.tar")}
    assert found == {"000000000081": ("A bird.",), "000000000083": ("A bus.", "A red bus.")}


def test_the_list_of_sources_can_be_read(script: Any) -> None:
    entries = script.read_toml(SCRIPT.with_name("caption_sources.toml"))["source"]
    sources = [script.Source(**entry) for entry in entries]
    assert all(len(source.commit) == 40 and source.files for source in sources)
