"""Out to Mechanical Turk and Label Studio and back, on both databases."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sqlalchemy as sa

from sightwords.errors import StudyError
from sightwords.evaluate.grid import csv_text
from sightwords.study import schema
from sightwords.study.model import Answer, Pair, choice_of
from sightwords.study.platforms.export import export_study
from sightwords.study.platforms.label_studio import read_label_studio
from sightwords.study.platforms.mturk import question_xml, read_turk
from sightwords.study.platforms.seats import (
    ImageVote,
    Imported,
    Record,
    import_records,
    import_votes,
    make_seats,
)
from sightwords.study.platforms.votes_file import read_votes
from sightwords.study.store import Store, read_ballots, read_judges

Make = Callable[..., Store]
BASE = "https://photos.example.org/study"


def attentive(pair: Pair) -> Answer:
    return "better" if pair.is_check else "worse"


def careless(pair: Pair) -> Answer:
    return "same"


def choice_by_key(store: Store, key: str, decide: Callable[[Pair], Answer] = attentive) -> str:
    with store.read() as connection:
        row = connection.execute(
            sa.select(schema.pair, schema.showing.c.system_first)
            .join(schema.showing, schema.showing.c.pair_id == schema.pair.c.id)
            .where(schema.showing.c.key == key)
        ).one()
    pair = Pair(row.image, row.first, row.second, row.is_check)
    return choice_of(decide(pair), system_first=row.system_first)


def ballots(store: Store) -> Counter[int]:
    with store.read() as connection:
        found = read_ballots(connection)
    assert {ballot.answer for ballot in found} <= {"worse"}  # all are of attentive judges
    return Counter(ballot.pair for ballot in found)


def turk_results(
    store: Store, folder: Path, *, bad: str = "", workers: int = 99, prefix: str = "W"
) -> str:
    """What the requester site would give back for the exported batches."""
    out = []
    number = 0
    for table in sorted(folder.glob("input-*.csv")):
        for row in csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))):
            worker = f"{prefix}{number % workers}"
            number += 1
            decide = careless if worker == bad else attentive
            line = {
                "AssignmentId": f"A{number}",
                "WorkerId": worker,
                "AssignmentStatus": "Approved",
            }
            line.update((f"Input.{name}", value) for name, value in row.items())
            for name, key in row.items():
                if name.startswith("key_"):
                    choice = choice_by_key(store, key, decide)
                    line[f"Answer.choice_{name.removeprefix('key_')}"] = choice
            out.append(line)
    names = list(dict.fromkeys(name for line in out for name in line))
    return csv_text([names, *([line.get(name, "") for name in names] for line in out)])


def test_seats_fill_every_open_place(make: Make) -> None:
    store = make()
    seats = make_seats(store, now=0.0)
    assert len(seats) == 10
    assert {len(seat) for seat in seats} == {7}
    for seat in seats:
        assert [showing.number for showing in seat] == list(range(1, 8))
        assert len({(s.image, s.first, s.second) for s in seat}) == 7
    assert make_seats(store, now=1.0) == []  # all are kept
    assert len(make_seats(store, now=31 * 86400.0)) == 10  # and given up in time


def test_mechanical_turk_there_and_back(make: Make, tmp_path: Path) -> None:
    store = make()
    written = export_study(store, tmp_path / "hits", platform="mturk", image_base_url=BASE, now=0.0)
    assert [path.name for path in written] == ["layout-7.html", "input-7.csv"]
    results = tmp_path / "results.csv"
    results.write_text(turk_results(store, tmp_path / "hits"), encoding="utf-8")
    read = Imported()
    done = import_records(store, read_turk(results, read), now=1.0)
    assert (done.written, done.surplus, done.same_judge) == (70, 0, 0)
    assert set(ballots(store).values()) == {5}
    again = import_records(store, read_turk(results, read), now=2.0)
    assert (again.written, again.repeated, again.conflicting) == (0, 70, 0)
    assert not read.skipped


def test_a_worker_who_fails_is_left_out_everywhere_and_the_places_are_exported_again(
    make: Make, tmp_path: Path
) -> None:
    store = make()
    for round_ in range(2):
        folder = tmp_path / f"hits{round_}"
        export_study(store, folder, platform="mturk", image_base_url=BASE, now=0.0)
        text = turk_results(store, folder, bad="R0W3", prefix=f"R{round_}W")
        (tmp_path / "results.csv").write_text(text, encoding="utf-8")
        import_records(store, read_turk(tmp_path / "results.csv", Imported()), now=1.0)
        with store.read() as connection:
            excluded = [j.name for j in read_judges(connection) if j.excluded]
        assert excluded == ["mturk:R0W3"]
        assert sum(ballots(store).values()) == (45 if round_ == 0 else 50)


def test_a_worker_on_two_seats_counts_once_a_pair(make: Make, tmp_path: Path) -> None:
    """Two workers took all ten HITs: no pair can have more than two votes."""
    store = make()
    export_study(store, tmp_path / "hits", platform="mturk", image_base_url=BASE, now=0.0)
    (tmp_path / "r.csv").write_text(turk_results(store, tmp_path / "hits", workers=2))
    done = import_records(store, read_turk(tmp_path / "r.csv", Imported()), now=1.0)
    assert done.same_judge > 0
    assert max(ballots(store).values()) == 2


def test_nothing_exported_says_whose_caption_is_whose(make: Make, tmp_path: Path) -> None:
    store = make()
    folder = tmp_path / "hits"
    export_study(store, folder, platform="mturk", image_base_url=BASE, now=0.0)
    text = "".join(p.read_text() for p in folder.rglob("*") if p.suffix in (".csv", ".xml"))
    for word in ("ours", "human", "img-", "is_check"):
        assert word not in text
    rows = list(csv.DictReader(io.StringIO((folder / "input-7.csv").read_text())))
    first = Counter(
        row[f"first_{n}"].startswith("Something like") for row in rows for n in range(1, 8)
    )
    assert min(first[True], first[False]) > 10
    names = {Path(row[f"image_{n}"]).name for row in rows for n in range(1, 8)}
    assert names == {path.name for path in (folder / "photographs").iterdir()}


def test_the_form_of_a_hit(make: Make, tmp_path: Path) -> None:
    store = make()
    export_study(store, tmp_path / "hits", platform="mturk", image_base_url=BASE, now=0.0)
    layout = (tmp_path / "hits" / "layout-7.html").read_text()
    names = set(re.findall(r"\$\{(\w+)\}", layout))
    header = (tmp_path / "hits" / "input-7.csv").read_text().splitlines()[0].split(",")
    assert names == set(header)
    root = ElementTree.parse(tmp_path / "hits" / "hits" / "0001.xml").getroot()
    content = root[0].text or ""
    assert "externalSubmit" in content
    assert "${" not in content
    assert content.count('type="radio"') == 21


def test_html_in_captions_cannot_break_a_hit() -> None:
    xml = question_xml("<b>]]></b>")
    assert ElementTree.fromstring(xml)[0].text == "<b>]]></b>"


def test_answers_of_the_api(make: Make, tmp_path: Path) -> None:
    store = make()
    seats = make_seats(store, now=0.0)
    schema_name = (
        "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/"
        "QuestionFormAnswers.xsd"
    )
    lines = []
    for number, seat in enumerate(seats):
        answers = "".join(
            f"<Answer><QuestionIdentifier>{name}</QuestionIdentifier><FreeText>{value}</FreeText>"
            "</Answer>"
            for n, s in enumerate(seat, start=1)
            for name, value in ((f"key_{n}", s.key), (f"choice_{n}", choice_by_key(store, s.key)))
        )
        xml = f'<QuestionFormAnswers xmlns="{schema_name}">{answers}</QuestionFormAnswers>'
        status = "Rejected" if number == 0 else "Submitted"
        assignment = {"WorkerId": f"W{number}", "Answer": xml, "AssignmentStatus": status}
        lines.append(json.dumps(assignment))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    read = Imported()
    done = import_records(store, read_turk(tmp_path / "a.jsonl", read), now=1.0)
    assert done.written == 63
    assert read.skipped == {"rejected assignment": 1}


def test_answers_of_crowd_elements(tmp_path: Path) -> None:
    packed = json.dumps([{"choice_1": {"first": False, "same": True, "second": False}}])
    text = csv_text([("WorkerId", "Input.key_1", "Answer.taskAnswers"), ("W", "k", packed)])
    (tmp_path / "r.csv").write_text(text)
    [record] = read_turk(tmp_path / "r.csv", Imported())
    assert (record.key, record.judge, record.choice) == ("k", "mturk:W", "same")


def test_label_studio_there_and_back(make: Make, tmp_path: Path) -> None:
    store = make()
    folder = tmp_path / "project"
    export_study(store, folder, platform="label-studio", image_base_url=BASE, now=0.0)
    config = ElementTree.fromstring((folder / "config.xml").read_text())
    assert [c.get("value") for c in config.iter("Choice")] == ["first", "second", "same"]
    tasks = json.loads((folder / "tasks.json").read_text())
    assert len(tasks) == 70
    assert set(tasks[0]["data"]) == {"key", "image", "first", "second"}
    for number, task in enumerate(tasks):
        choice = choice_by_key(store, task["data"]["key"])
        result = [{"from_name": "choice", "type": "choices", "value": {"choices": [choice]}}]
        who = number // 7
        task["annotations"] = [
            {"completed_by": who if who % 2 else {"id": who}, "result": result},
            {"completed_by": 77, "result": [], "was_cancelled": True},
        ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    read = Imported()
    done = import_records(store, read_label_studio(tmp_path / "export.json", read), now=1.0)
    assert done.written == 70
    assert read.skipped == {"cancelled annotation": 70}
    assert set(ballots(store).values()) == {5}


def test_an_import_is_all_or_nothing(make: Make) -> None:
    store = make()
    seat = make_seats(store, now=0.0)[0]
    good = [Record("file, line 2", s.key, "mturk:W", "same") for s in seat]
    with pytest.raises(StudyError, match="line 9: key 'strange'"):
        import_records(
            store, [*good, Record("file, line 9", "strange", "mturk:W", "same")], now=1.0
        )
    with pytest.raises(StudyError, match=r"line 8: .*'maybe'"):
        import_records(store, [Record("f, line 8", seat[0].key, "mturk:W", "maybe")], now=1.0)
    assert not ballots(store)


def test_votes_cast_elsewhere(make: Make, tmp_path: Path) -> None:
    store = make(checks_per_judge=0, judges_per_pair=2)
    with store.read() as connection:
        images = list(connection.execute(sa.select(schema.pair.c.image)).scalars())
    rows = [(image, f"expert-{n}", "worse") for image in images for n in range(3)]
    path = tmp_path / "votes.csv"
    path.write_text(csv_text([("image", "judge", "answer"), *rows, ("img-x", "e", "same")]))
    done = import_votes(store, read_votes(path), now=1.0)
    assert (done.written, done.surplus) == (30, 10)  # the third expert is one too many
    assert done.skipped == {"image not in the study": 1}
    assert set(ballots(store).values()) == {2}
    again = import_votes(store, read_votes(path), now=1.0)
    assert (again.written, again.repeated) == (0, 30)
    other = import_votes(store, [ImageVote("x", images[0], "votes:expert-0", "same")], now=1.0)
    assert other.conflicting == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,judge,answer\n1,2,best\n", "line 2: .*'best'"),
        ("image,judge\n1,2\n", "line 2: .*'answer'"),
        ('{"image": 1, "judge": "a"}\n', "line 1: .*'answer'"),
        ("{nonsense\n", "line 1: "),
    ],
)
def test_bad_votes_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "votes"
    path.write_text(text)
    with pytest.raises(StudyError, match=message):
        list(read_votes(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "results.csv: .*WorkerId"),
        ('{"WorkerId": "W"}', "line 1: .*WorkerId and Answer"),
        ("WorkerId,Input.key_1,Answer.choice_1\n,k,same\n", "line 2: .*WorkerId"),
        ("WorkerId,Input.key_1,Answer.taskAnswers\nW,k,nonsense\n", "line 2: .*Answer.taskAnswers"),
    ],
)
def test_bad_results_of_mechanical_turk_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(text)
    with pytest.raises(StudyError, match=message):
        list(read_turk(path, Imported()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "export.json: .*JSON"),
        ('{"a": 1}', "list of tasks"),
        ('[{"id": 1, "choice": "first"}]', "task 0: .*data.key"),
        ('[{"data": {"key": "k"}, "annotations": [{"result": []}]}]', "completed_by"),
        (
            '[{"data": {"key": "k"}, "annotations": [{"completed_by": 1, "result": []}]}]',
            "first, same, second",
        ),
    ],
)
def test_bad_exports_of_label_studio_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(StudyError, match=message):
        list(read_label_studio(path, Imported()))


def test_an_export_needs_a_new_folder_and_something_to_do(make: Make, tmp_path: Path) -> None:
    store = make()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("x")
    with pytest.raises(StudyError, match="old: "):
        export_study(store, tmp_path / "old", platform="mturk", image_base_url=BASE, now=0.0)
    export_study(store, tmp_path / "new", platform="mturk", image_base_url=BASE, now=0.0)
    with pytest.raises(StudyError, match="study"):
        export_study(store, tmp_path / "more", platform="mturk", image_base_url=BASE, now=0.0)
