"""A submission to the COCO captioning server, checked against its rules before it is uploaded.

The rules (upload and results-format pages of the COCO site):

- a file is a JSON array of `{"image_id": int, "caption": str}`;
- it is named `captions_val2014_[alg]_results.json` or `captions_test2014_[alg]_results.json`;
- every image of its split has exactly one caption, and no other image has any;
- one zip named `results.zip` holds both files, under one [alg], at its root.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from sightwords.corpus.ids import canonical_id, canonical_ids
from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_results, read_text
from sightwords.files import write_bytes, write_text
from sightwords.strict_json import loads

_NAME = re.compile(r"captions_(?P<split>val|test)2014_(?P<alg>[A-Za-z0-9.+-]+)_results\.json")


def write_submission(
    results: str | Path | Mapping[str, str], images: str | Path | Iterable[int | str], out: Path
) -> Path:
    """Write one results file for the server, and return its path.

    `images` lists the split: a COCO JSON file with `images` (such as `image_info_test2014.json`),
    or a text file with one id or file name per line. `out` must carry the server's name.
    """
    check_name(out.name)
    captions = (
        read_results(results)
        if isinstance(results, (str, Path))
        else {canonical_id(key): caption for key, caption in results.items()}
    )
    wanted = (
        read_image_list(images)
        if isinstance(images, (str, Path))
        else [_number(i, where="images") for i in images]
    )
    write_text(out, submission_text(captions, wanted))
    return out


def submission_text(captions: Mapping[str, str], images: Iterable[int]) -> str:
    r"""The file's text: the images in their order, one object per line.

    >>> print(submission_text({"25": "a dog", "9": "a cat"}, [9, 25]))
    [
    {"image_id": 9, "caption": "a cat"},
    {"image_id": 25, "caption": "a dog"}
    ]
    <BLANKLINE>
    """
    wanted = list(images)
    twice = next((number for number, times in Counter(wanted).items() if times > 1), None)
    if twice is not None:
        raise ScoreError(f"the image list names {twice} twice; each image belongs there once")
    _refuse_difference(set(captions), {str(number) for number in wanted})
    # Line breaks inside a caption would reach the server's line-based tokeniser as two captions.
    lines = [
        json.dumps(
            {"image_id": number, "caption": " ".join(captions[str(number)].split())},
            ensure_ascii=False,
        )
        for number in wanted
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def check_name(name: str) -> tuple[str, str]:
    """The (split, algorithm) in a file name.

    >>> check_name("captions_val2014_sightwords_results.json")
    ('val', 'sightwords')
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise ScoreError(
            f"the server would not find {name!r}; name the file "
            "captions_val2014_NAME_results.json or captions_test2014_NAME_results.json, where "
            "NAME is letters, digits, '.', '+' or '-'"
        )
    return match["split"], match["alg"]


def other_split(path: Path) -> Path:
    """Where the other split's file of the same algorithm belongs.

    >>> other_split(Path("captions_val2014_mine_results.json")).name
    'captions_test2014_mine_results.json'
    """
    split, algorithm = check_name(path.name)
    other = {"val": "test", "test": "val"}[split]
    return path.with_name(f"captions_{other}2014_{algorithm}_results.json")


def write_zip(files: Iterable[Path], out: Path) -> Path:
    """Pack the validation and the test file into the zip that is uploaded."""
    files = list(files)
    if out.name != "results.zip":
        raise ScoreError(f"{out}: the server expects the zip to be named results.zip")
    names = [check_name(path.name) for path in files]
    if sorted(split for split, _ in names) != ["test", "val"] or len({a for _, a in names}) != 1:
        raise ScoreError(
            "the server needs one val2014 and one test2014 file with the same name, found: "
            + (", ".join(path.name for path in files) or "none")
        )
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise ScoreError(f"{missing[0]} is not there; write that split's file first")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, arcname=path.name)
    write_bytes(out, buffer.getvalue())
    return out


def read_image_list(path: str | Path) -> list[int]:
    """Image numbers out of a COCO JSON file or a text file, in its order."""
    text = read_text(path)
    if text.lstrip().startswith(("{", "[")):
        raw = _ids_of_json(text, where=str(path))
    else:
        raw = [line.strip() for line in text.splitlines() if line.strip()]
    if not raw:
        raise ScoreError(f"{path}: no images in it; expected one id per line, or COCO JSON")
    canonical_ids(raw, where=str(path))
    return [_number(value, where=str(path)) for value in raw]


def _ids_of_json(text: str, *, where: str) -> list[int | str]:
    try:
        content = loads(text, finite=False)
    except ValueError as error:
        raise ScoreError(f"{where}: not valid JSON: {error}") from error
    items = content.get("images") if isinstance(content, dict) else content
    if not isinstance(items, list):
        raise ScoreError(f"{where}: no 'images' array; expected COCO's image_info or captions JSON")
    return [item["id"] if isinstance(item, dict) and "id" in item else item for item in items]


def _number(value: object, *, where: str) -> int:
    key = canonical_id(value) if isinstance(value, (int, str)) else ""
    if not (key.isascii() and key.isdigit()):
        raise ScoreError(
            f"{where}: {value!r} is not a COCO image number; expected such as 9, 000000000009 "
            "or COCO_val2014_000000000009.jpg"
        )
    return int(key)


def _refuse_difference(found: set[str], wanted: set[str]) -> None:
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    if missing:
        raise ScoreError(
            f"{len(missing)} of {len(wanted)} images have no caption (first: {missing[0]}); the "
            "server needs every image of the split"
        )
    if extra:
        raise ScoreError(
            f"{len(extra)} captions are of images outside the list (first: {extra[0]}); remove "
            "them, or give the list of the other split"
        )
