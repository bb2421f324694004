"""The judges' page in Chromium, from the first pair to the thanks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sightwords.samples import sample_paths
from sightwords.study.create import create_study
from sightwords.study.model import Answer, Design, Pair
from sightwords.study.rehearsal import choice_for
from sightwords.study.store import Store, read_ballots, read_judges

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

Serve = Callable[[Store], int]

SAID = {
    "astronaut": "A woman in an orange space suit smiles in front of a flag.",
    "cat": "A close view of a tabby cat that looks to the side.",
    "coffee": "A cup of coffee on a saucer with a spoon.",
    "photographer": "A man in a dark coat looks through a camera on a tripod.",
    "rocket": "A rocket stands on its launch pad at night.",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Five photographs, all pairs and one check case for each of three judges."""
    lines = []
    for path in sample_paths():
        shutil.copy(path, tmp_path / path.name)
        lines.append(
            f'{{"id": "{path.stem}", "image": "{path.name}", "captions": ["{SAID[path.stem]}"]}}'
        )
    (tmp_path / "photographs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    design = Design(
        "ours", pairs=5, judges_per_pair=3, pairs_per_judge=5, checks_per_judge=1,
        origin="simulated", seed=4,
    )  # fmt: skip
    store = create_study(
        str(tmp_path / "study.db"),
        design,
        images=tmp_path / "photographs.jsonl",
        system={path.stem: f"a picture of a {path.stem} in a room" for path in sample_paths()},
    )
    yield store
    store.close()


@pytest.fixture
def address(store: Store, serve: Serve) -> str:
    with store.read() as connection:
        token = read_judges(connection)[0].token
    return f"http://127.0.0.1:{serve(store)}/j/{token}"


@pytest.fixture
def watched(chromium: Browser, address: str) -> Iterator[tuple[Page, list[str], list[str]]]:
    """A page with all the requests it makes and all it complains of."""
    context = chromium.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    yield page, requests, complaints
    context.close()


def attentive(pair: Pair) -> Answer:
    return "better" if pair.is_check else "worse"


def right_choice(store: Store, page: Page) -> str:
    showing = page.locator("input[name=showing]").input_value()
    with store.read() as connection:
        return choice_for(connection, int(showing), attentive)


def progress(page: Page) -> str:
    return page.locator("header label").inner_text()


def votes(store: Store) -> int:
    with store.read() as connection:
        return len(read_ballots(connection))


def test_a_sitting_by_mouse_and_keys(
    store: Store, watched: tuple[Page, list[str], list[str]], address: str
) -> None:
    page, requests, complaints = watched
    keys = {"first": "1", "second": "2", "same": "0"}
    for number in range(6):
        assert progress(page) == f"{number + 1} of 6"
        loaded = page.locator("img").evaluate("image => image.complete && image.naturalWidth")
        assert loaded
        choice = right_choice(store, page)
        with page.expect_navigation():
            if number % 3 == 0:
                page.keyboard.press(keys[choice])
            elif number % 3 == 1:
                page.click(f"button[value={choice}]")
            else:  # by Tab and Enter alone
                while page.evaluate("document.activeElement.value") != choice:
                    page.keyboard.press("Tab")
                page.keyboard.press("Enter")
    assert page.locator("h1").inner_text() == "Thank you!"
    assert votes(store) == 5
    origin = re.match(r"http://127\.0\.0\.1:\d+/", address)
    assert origin is not None
    assert all(url.startswith(origin[0]) for url in requests)
    assert complaints == []


def test_leaving_and_resuming_elsewhere(
    store: Store, chromium: Browser, watched: tuple[Page, list[str], list[str]], address: str
) -> None:
    page = watched[0]
    for _ in range(2):
        with page.expect_navigation():
            page.click(f"button[value={right_choice(store, page)}]")
    captions = page.locator("button span").all_inner_texts()
    page.close()
    phone = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    again = phone.new_page()
    again.goto(address)
    assert progress(again) == "3 of 6"
    assert again.locator("button span").all_inner_texts() == captions
    phone.close()


def test_going_back_shows_what_is_to_be_judged(
    store: Store, watched: tuple[Page, list[str], list[str]]
) -> None:
    page = watched[0]
    with page.expect_navigation():
        page.click(f"button[value={right_choice(store, page)}]")
    page.goto("about:blank")
    page.go_back()
    assert progress(page) == "2 of 6"


def test_an_impatient_judge_votes_once(
    store: Store, watched: tuple[Page, list[str], list[str]]
) -> None:
    page = watched[0]
    page.evaluate(
        "for (const name of ['first', 'first', 'second'])"
        " document.forms[0].requestSubmit(document.querySelector('button[value=' + name + ']'))"
    )
    page.wait_for_function("document.querySelector('header label').innerText === '2 of 6'")
    with store.read() as connection:
        from sqlalchemy import select

        from sightwords.study.schema import showing

        rows = connection.execute(select(showing.c.choice)).scalars()
        assert [choice for choice in rows if choice] == ["first"]


@pytest.mark.parametrize("scripts", [True, False])
def test_on_a_phone(store: Store, chromium: Browser, address: str, scripts: bool) -> None:
    context = chromium.new_context(
        viewport={"width": 360, "height": 740},
        has_touch=True,
        is_mobile=True,
        java_script_enabled=scripts,
    )
    page = context.new_page()
    page.goto(address)
    boxes = [button.bounding_box() for button in page.locator("button").all()]
    for box in boxes:
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360  # nothing to scroll sideways
        assert box["height"] >= 44  # a fingertip
        assert box["y"] + box["height"] <= 740  # all answers in sight with the photograph
    with page.expect_navigation():
        page.locator(f"button[value={right_choice(store, page)}]").tap()
    assert progress(page) == "2 of 6"
    picture = os.environ.get("SIGHTWORDS_SCREENSHOTS")
    if picture and scripts:
        save_screenshots(chromium, page, address, Path(picture))
    context.close()


def save_screenshots(chromium: Browser, phone: Page, address: str, folder: Path) -> None:
    """For docs/study.md: the page on a phone and on a desk."""
    phone.screenshot(path=folder / "study-phone.png")
    desk = chromium.new_page(viewport={"width": 1000, "height": 860})
    desk.goto(address)
    desk.screenshot(path=folder / "study-judge.png")


def test_what_assistive_technology_is_told(watched: tuple[Page, Any, Any]) -> None:
    page = watched[0]
    assert page.locator("img").get_attribute("alt") == "Photo"
    assert page.get_by_role("group").count() == 1
    names = [button.inner_text() for button in page.get_by_role("button").all()]
    assert len(names) == 3
    assert all(names)
    assert page.get_by_role("progressbar").get_attribute("max") == "6"
    assert page.locator("html").get_attribute("lang") == "en"
