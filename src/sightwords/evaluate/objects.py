"""Files of object boxes -> the classes of the objects in each image, for CHAIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sightwords.corpus.ids import canonical_ids
from sightwords.errors import ScoreError
from sightwords.evaluate.results import read_text
from sightwords.strict_json import loads, reason_of

FORMS = 'COCO\'s instances JSON, or {"image id": ["dog", "car"]}, or lists of {"label": "dog"}'


def read_boxes(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read the classes of the objects in each image, by image id; `.gz` is unpacked.

    COCO's instances file lists images, annotations and categories; images without annotations have
    no objects.
    """
    where, text = str(path), read_text(path)
    try:
        content = loads(text)
    except ValueError as error:
        raise ScoreError(f"{where}: is not JSON: {reason_of(error)}") from error
    if not isinstance(content, Mapping):
        raise ScoreError(f"{where}: is a {type(content).__name__}; expected {FORMS}")
    found = (
        _of_instances(content, where) if "annotations" in content else _of_mapping(content, where)
    )
    ids = canonical_ids(found, where=where)
    return {ids[key]: labels for key, labels in found.items()}


def _of_mapping(content: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for image, objects in content.items():
        if not isinstance(objects, Sequence) or isinstance(objects, str):
            raise ScoreError(f"{where}: image {image!r} has {objects!r:.60}; expected {FORMS}")
        labels = [o.get("label") if isinstance(o, Mapping) else o for o in objects]
        if not all(isinstance(label, str) for label in labels):
            raise ScoreError(f"{where}: image {image!r} has {objects!r:.60}; expected {FORMS}")
        found[image] = tuple(map(str, labels))
    return found


def _of_instances(content: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    try:
        names = {row["id"]: str(row["name"]) for row in content["categories"]}
        found: dict[str, list[str]] = {str(row["id"]): [] for row in content["images"]}
        for row in content["annotations"]:
            found[str(row["image_id"])].append(names[row["category_id"]])
    except (KeyError, TypeError) as error:
        raise ScoreError(f"{where}: {error!r} is missing; expected {FORMS}") from error
    return {image: tuple(labels) for image, labels in found.items()}
