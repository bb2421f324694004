"""The comparison page: self-contained, escaped, and readable without sight of the pictures."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

from PIL import Image

from sightwords.evaluate.compare_report import Entry, comparison_page, thumbnail
from sightwords.evaluate.grid import Grid
from sightwords.types import ImageRef

EVIL = "<script>alert(1)</script> & \"quotes\" 'too'"


def make_page(picture: str = "") -> str:
    entry = Entry(EVIL, (EVIL, ""), (0.5, 0.25), (EVIL, "a dog"), picture)
    grid = Grid(("metric", EVIL), (("cider", EVIL),), title=EVIL, notes=(EVIL,))
    return comparison_page((EVIL, "second"), grid, {EVIL: [entry]}, metric="cider")


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that what opens also closes."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def parse(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    assert not tags.stack
    return tags


def test_everything_from_files_is_escaped() -> None:
    page = make_page()
    assert "<script" not in page
    names = {tag for tag, _ in parse(page).seen}
    known = (
        "html head meta title style body main h1 h2 h3 span p b div table caption thead tbody tr "
        "th td section article dl dt dd i details summary ul li img"
    )
    assert names <= set(known.split())


def test_nothing_is_requested_from_outside() -> None:
    page = make_page("data:image/jpeg;base64,AAAA")
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|//|url\(|@import|<link|<script", page.split("<body>")[1])
    assert [a["src"] for t, a in parse(page).seen if t == "img"] == ["data:image/jpeg;base64,AAAA"]


def test_accessible_and_both_colour_schemes() -> None:
    page = make_page("data:image/jpeg;base64,AAAA")
    seen = parse(page).seen
    assert ("html", {"lang": "en"}) in seen
    assert all(a.get("alt") for t, a in seen if t == "img")
    assert all("scope" in a for t, a in seen if t == "th")
    assert "prefers-color-scheme: dark" in page
    assert "color-scheme: light dark" in page


def test_the_better_caption_is_marked_and_an_empty_one_is_named() -> None:
    page = make_page()
    assert page.count("class=wins") == 1
    assert "<dd><i>(no caption)</i></dd>" in page


def test_thumbnails_are_small_jpegs() -> None:
    buffer = io.BytesIO()
    Image.new("RGBA", (1000, 500), "red").save(buffer, "PNG")
    uri = thumbnail(ImageRef("x.tar", "x.png", buffer.getvalue()))
    kind, data = uri.split(",")
    assert kind == "data:image/jpeg;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (picture.format, picture.size) == ("JPEG", (288, 144))


def test_no_image_and_a_broken_one_give_no_picture() -> None:
    assert thumbnail(None) == ""
    assert thumbnail(ImageRef("x.tar", "x.png", b"not an image")) == ""
