"""`sightwords evaluate`: exit codes, stdout as data, files on disk."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sightwords.cli import evaluate
from sightwords.errors import InputError, SightwordsError

RESULTS = {1: "a dog runs on the grass", 2: "two cats sit", 3: "a red bus"}
REFERENCES = {
    "1": ["a dog runs on green grass", "the dog is running", "a running dog"],
    "2": ["two cats are sitting", "cats", "two cats on a bed"],
    "3": ["a red bus on a street", "a big red bus", "the bus is red"],
}
METRICS = "--set=metrics=bleu,rouge_l,cider"


def call(*argv: str | Path) -> int:
    """What main does, but errors come through as exceptions."""
    parser = argparse.ArgumentParser()
    evaluate.add_parser(parser.add_subparsers())
    args = parser.parse_args(["evaluate", *map(str, argv)])
    code: int = args.run(args)
    return code


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"image_id": i, "caption": c} for i, c in RESULTS.items()]
    Path("mine.json").write_text(json.dumps(rows))
    Path("theirs.json").write_text(json.dumps([{**row, "caption": "a man"} for row in rows]))
    lines = [json.dumps({"id": i, "captions": said}) for i, said in REFERENCES.items()]
    Path("refs.jsonl").write_text("\n".join(lines))
    words = [
        {"id": 1, "words": {"dog": 0.9, "red": 0.1}},
        {"id": 2, "words": {"cats": 0.8}},
        {"id": 3, "words": {"red": 0.7, "bus": 0.9}},
    ]
    Path("words.jsonl").write_text("\n".join(map(json.dumps, words)))
    return tmp_path


def test_captions_prints_a_table_with_signatures(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("captions", "mine.json", "--references", "refs.jsonl", METRICS) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "mine (images: 3)"
    assert lines[1].split() == ["metric", "value"]
    assert [line.split()[0] for line in lines[3:9]] == [
        *("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider")
    ]
    assert sum("|images:3|refs:3|tok:" in line for line in lines) == 6
    assert printed.err == ""


def test_json_is_the_only_thing_on_stdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("captions", "mine.json", "--references", "refs.jsonl", METRICS, "--json", "--out", "out")
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert set(content) >= {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"}
    assert "meteor" not in content
    assert json.loads((files / "out" / "scores.json").read_text()) == content
    assert "wrote" in printed.err


def test_a_folder_that_cannot_be_written_is_named(files: Path) -> None:
    Path("taken").write_text("a file, not a folder")
    with pytest.raises(InputError, match=r"^taken: cannot be written"):
        call("captions", "mine.json", "--references", "refs.jsonl", METRICS, "--out", "taken")


def test_notes_are_said_once(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("few.json").write_text(Path("mine.json").read_text().replace('"image_id": 3', '"id": 9'))
    call("captions", "few.json", "--references", "refs.jsonl", METRICS, "--set", "subset=true")
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("subset: 2 images scored") == 1


def test_compare(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    base = ("captions", "mine.json", "--references", "refs.jsonl", METRICS)
    assert call(*base, "--compare", "theirs.json", "--out", "out") == 0
    assert "p (Wilcoxon)" in capsys.readouterr().out
    assert (files / "out" / "comparison.html").exists()
    assert (files / "out" / "scores.json").exists()
    call(*base, "--compare", "theirs.json", "--json")
    content = json.loads(capsys.readouterr().out)
    assert content["differences"]["overlap_4"]["second"] == 0


def test_rows_travel_into_the_tables(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("--references", "refs.jsonl", METRICS, "--set", "rows=kept")
    call("captions", "mine.json", *base, "--set", "save_row=coco:sightwords")
    call("baseline", "human", *base, "--set", "save_row=systems:Human")
    call("baseline", "shuffled-human", *base, "--set", "save_row=systems:Shuffled Human")
    capsys.readouterr()
    assert call("tables", "kept", "--out", "tables.md") == 0
    printed = capsys.readouterr().out
    ours = next(line for line in printed.splitlines() if line.startswith("sightwords"))
    assert "open" in ours  # METEOR was not computed
    markdown = (files / "tables.md").read_text(encoding="utf-8")
    assert markdown.count("### ") == 4
    human = next(line for line in markdown.splitlines() if line.startswith("| Human |"))
    assert human.split(" | ")[3] != "open"


@pytest.mark.parametrize("row", ["words:mine", "nope:mine", "coco"])
def test_a_row_that_cannot_be_kept_is_refused_before_scoring(files: Path, row: str) -> None:
    with pytest.raises((SystemExit, SightwordsError)):
        call("captions", "nowhere.json", "--references", "nowhere", "--set", f"save_row={row}")


def test_baselines(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("baseline", "human", "--references", "refs.jsonl", METRICS, "--set", "choices=2")
    assert "|baseline:human|choices:2|seed:0" in capsys.readouterr().out
    drawn = ("--set", "references_per_image=2", "--set", "seed=7")
    call("baseline", "shuffled-human", "--references", "refs.jsonl", METRICS, *drawn)
    printed = capsys.readouterr().out
    assert "|refs:2|" in printed
    assert "|baseline:shuffled-human|seed:7" in printed


def test_words(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    options = (
        "--out",
        "out",
        "--set",
        "plot=dog,red",
        "--set",
        "save_row=words:mine",
        "--set",
        "rows=kept",
    )
    assert call("words", "words.jsonl", "--references", "refs.jsonl", *options) == 0
    assert "Human Agreement" in capsys.readouterr().out
    assert (files / "out" / "precision_recall.png").stat().st_size > 1000
    assert (files / "out" / "words.csv").read_text().startswith("word,pos,positives,ap")
    assert (files / "kept" / "words" / "mine.json").exists()


def test_plot_needs_a_folder(files: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        call("words", "words.jsonl", "--references", "refs.jsonl", "--set", "plot=dog")
    assert caught.value.code == 2


def test_server(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("list.txt").write_text("1\n2\n3\n")
    names = [f"captions_{split}2014_mine_results.json" for split in ("val", "test")]
    call("server", "mine.json", "--images", "list.txt", "--out", names[0])
    call("server", "mine.json", "--images", "list.txt", "--out", names[1], "--zip", "results.zip")
    assert capsys.readouterr().out.splitlines() == [*names, "results.zip"]
    assert json.loads(Path(names[0]).read_text())[0] == {"image_id": 1, "caption": RESULTS[1]}


@pytest.mark.parametrize(
    "argv",
    [
        ["captions"],
        ["captions", "mine.json"],
        ["baseline", "midge", "--references", "refs.jsonl"],
        ["baseline", "human", "--references", "refs.jsonl", "--set", "references_per_image=-1"],
        ["captions", "mine.json", "--references", "refs.jsonl", "--set", "seed=-1"],
        ["captions", "mine.json", "--references", "refs.jsonl", "--set", "seed=x"],
        [],
    ],
)
def test_wrong_command_lines_exit_with_2(files: Path, argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(*argv)
    assert caught.value.code == 2


def test_every_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ([], ["captions"], ["words"], ["baseline"], ["tables"], ["server"]):
        with pytest.raises(SystemExit) as caught:
            call(*verb, "--help")
        assert caught.value.code == 0
        assert "example: sightwords evaluate" in capsys.readouterr().out


def test_registering_the_verb_loads_no_metric() -> None:
    code = (
        "import sys, argparse\n"
        "from sightwords.cli import evaluate\n"
        "evaluate.add_parser(argparse.ArgumentParser().add_subparsers())\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"sightwords.evaluate", "sightwords.metrics", "sightwords.text", "scipy", "matplotlib"}
    assert not loaded & heavy


def test_metrics_that_count_mistakes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("boxes.json").write_text(json.dumps({"000000000001": ["dog"], "2": [{"label": "bed"}]}))
    Path("mine.json").write_text(
        json.dumps([{"image_id": i, "caption": f"{said} and a car"} for i, said in RESULTS.items()])
    )
    refs = ["mine.json", "--references", "refs.jsonl", "--json"]
    assert call("captions", *refs, "--set=metrics=chair,alt_text", "--set=boxes=boxes.json") == 0
    found = json.loads(capsys.readouterr().out)
    # Images 1 and 2 have boxes; both captions name a car, beside a dog and beside cats.
    assert (found["chair_s"], found["chair_i"]) == (1.0, 0.5)
    assert found["alt_ending"] == 1.0
    with pytest.raises(SightwordsError, match="boxes"):
        call("captions", *refs, "--set=metrics=chair")
    Path("boxes.json").write_text('{"1": "dog"}')
    with pytest.raises(SightwordsError, match=r"boxes\.json.*'1'"):
        call("captions", *refs, "--set=boxes=boxes.json")


def test_boxes_in_cocos_own_form(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instances = {
        "images": [{"id": 1}, {"id": 2}, {"id": 3}],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 18}],
    }
    Path("instances.json").write_text(json.dumps(instances))
    options = [METRICS, "--set=boxes=instances.json", "--json"]
    assert call("captions", "mine.json", "--references", "refs.jsonl", *options) == 0
    assert "chair_s" not in json.loads(capsys.readouterr().out)
    assert call("captions", "mine.json", "--references", "refs.jsonl", *options[1:]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chair_s"] == 0
    assert "with-boxes:3" in found["signatures"]["chair_s"]
