"""Label Studio: writes a labelling config and tasks, reads the JSON export.

Every task is one showing for one annotator, so set one annotation per task. A task has the address
of the photo, two captions and a random key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sightwords.errors import StudyError
from sightwords.evaluate.results import read_text
from sightwords.files import write_text
from sightwords.strict_json import loads
from sightwords.study.model import CHOICES, Showing
from sightwords.study.platforms.seats import Imported, Record

CONFIG = """<View>
  <Header value="Which caption describes the photo better?"/>
  <Image name="photo" value="$image"/>
  <Text name="first" value="$first"/>
  <Text name="second" value="$second"/>
  <Choices name="choice" toName="photo" choice="single-radio" required="true">
    <Choice value="first" alias="first" hint="The upper caption is better" hotkey="1"/>
    <Choice value="second" alias="second" hint="The lower caption is better" hotkey="2"/>
    <Choice value="same" alias="same" hint="Equally good, or equally bad" hotkey="0"/>
  </Choices>
</View>
"""


def write_label_studio(
    folder: Path, seats: Sequence[Sequence[Showing]], photo_urls: Sequence[Sequence[str]]
) -> list[Path]:
    """Write config.xml and tasks.json."""
    tasks = [
        {
            "data": {
                "key": showing.key,
                "image": url,
                "first": showing.first,
                "second": showing.second,
            }
        }
        for seat, urls in zip(seats, photo_urls, strict=True)
        for showing, url in zip(seat, urls, strict=True)
    ]
    config, path = folder / "config.xml", folder / "tasks.json"
    write_text(config, CONFIG)
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    return [config, path]


def read_label_studio(path: str | Path, done: Imported) -> Iterator[Record]:
    """Answers from the JSON export of a project; cancelled annotations are counted as skipped."""
    text = read_text(path)
    try:
        tasks = loads(text)
    except ValueError as error:
        raise StudyError(f"{path}: invalid JSON: {error}; export the project as JSON") from error
    if not isinstance(tasks, list):
        raise StudyError(f"{path}: expected a list of tasks; export the project as JSON")
    for number, task in enumerate(tasks):
        where = f"{path}, task {number}"
        try:
            key, annotations = task["data"]["key"], task["annotations"]
        except (KeyError, TypeError) as error:
            raise StudyError(
                f"{where}: no data.key or annotations; export the project as JSON, not JSON-MIN"
            ) from error
        if not annotations:
            done.skipped["unanswered task"] += 1
        for annotation in annotations:
            if annotation.get("was_cancelled"):
                done.skipped["cancelled annotation"] += 1
                continue
            yield Record(where, str(key), _annotator(annotation, where), _choice(annotation, where))


def _annotator(annotation: dict[str, Any], where: str) -> str:
    who = annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("id", who.get("email"))
    if who is None or who == "":
        raise StudyError(f"{where}: an annotation has no completed_by, which tells judges apart")
    return f"label-studio:{who}"


def _choice(annotation: dict[str, Any], where: str) -> str:
    for result in annotation.get("result", ()):
        if result.get("from_name") == "choice":
            [choice] = result["value"]["choices"]
            if choice in CHOICES:
                return str(choice)
    raise StudyError(f"{where}: no choice of {', '.join(CHOICES)}; use the exported config.xml")
