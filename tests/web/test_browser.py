"""The page in Chromium: upload, heat maps, options, errors, keyboard, phone, accessibility."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from sightwords.web.engine import Engine
from sightwords.web.limits import Limits
from sightwords.web.serve import guarded_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

Running = Callable[[Any], AbstractContextManager[str]]
InThread = Callable[[Any], Any]


@pytest.fixture(scope="module")
def address(make_engine: partial[Engine], in_thread: InThread, running: Running) -> Iterator[str]:
    limits = Limits(body_bytes=2_000_000)
    make = partial(make_engine, limits=limits)
    with guarded_app(in_thread(make), limits=limits) as app, running(app) as found:
        yield found


@dataclass
class Watched:
    """A page with all the requests it makes and all it complains of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def watched(chromium: Browser, address: str) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1100, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    found = Watched(context.new_page())
    found.page.on("request", lambda request: found.requests.append(request.url))
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.goto(address)
    found.page.locator("#samples button").nth(4).wait_for()
    yield found
    context.close()


def picture(left: str, right: str) -> bytes:
    image = Image.new("RGB", (160, 120), left)
    image.paste(Image.new("RGB", (80, 120), right), (80, 0))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def upload(page: Page, **pictures: bytes) -> None:
    files: Any = [
        {"name": f"{name}.png", "mimeType": "image/png", "buffer": data}
        for name, data in pictures.items()
    ]
    page.set_input_files("#file", files)


def captioned(page: Page) -> str:
    # Selectors only: the policy of the page allows no scripts of tests.
    page.locator("#result:not(.busy) #caption button").first.wait_for()
    return page.locator("#caption").inner_text()


def pixels(page: Page) -> Image.Image:
    url = page.locator("#canvas").evaluate("canvas => canvas.toDataURL('image/png')")
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB")


def colour(image: Image.Image, across: float) -> tuple[int, ...]:
    found = image.getpixel((int(across * image.width), image.height // 2))
    assert isinstance(found, tuple)
    return found


def light(image: Image.Image, across: float) -> int:
    return sum(colour(image, across))


def test_upload_and_a_words_map(watched: Watched, address: str) -> None:
    page = watched.page
    upload(page, colours=picture("red", "black"))
    assert "red" in captioned(page)
    plain = pixels(page)
    assert colour(plain, 0.1) == (255, 0, 0)
    red = page.locator("#caption button[data-word=red]")
    red.click()
    assert red.get_attribute("aria-pressed") == "true"
    mapped = pixels(page)
    assert mapped.size == plain.size
    assert light(mapped, 0.1) > light(mapped, 0.9) + 150  # the map's light is where the red is
    assert "probability" in page.locator("#word-facts").inner_text()
    assert "left" in (page.locator("#canvas").get_attribute("aria-label") or "")
    other = page.locator("#unused button, #uncertain button, #caption button:not([data-word=red])")
    other.first.click()
    assert pixels(page).tobytes() != mapped.tobytes()
    page.keyboard.press("Escape")
    assert pixels(page).tobytes() == plain.tobytes()
    assert all(url.startswith((address, "blob:")) for url in watched.requests)
    assert watched.complaints == []


def stripes(*colours: str) -> bytes:
    image = Image.new("RGB", (40 * len(colours), 120))
    for place, name in enumerate(colours):
        image.paste(Image.new("RGB", (40, 120), name), (40 * place, 0))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def test_the_slider_changes_words_and_caption(watched: Watched) -> None:
    page = watched.page
    upload(page, colours=stripes("#820000", "#008200", "#000082", "#0a0a0a"))
    whole = captioned(page)
    page.fill("#forbid", "blue")
    page.keyboard.press("Enter")
    page.locator("#unused button[data-word=blue]").wait_for()  # seen, but not said
    with page.expect_response(lambda r: "min_precision=1" in r.url):
        page.locator("#precision").fill("1")
    page.locator("#unused .none").wait_for()
    assert page.locator("#unused button, #uncertain button").count() == 0
    assert page.locator("#precision-value").inner_text() == "1.00"
    assert len(captioned(page).split()) < len(whole.split())  # three words are left to build on
    with page.expect_response(lambda r: "/v1/caption" in r.url):
        page.locator("button[type=reset]").click()
    page.locator("#caption", has_text=re.compile(f"^{whole}$")).wait_for()


def test_options_and_refused_options(watched: Watched) -> None:
    page = watched.page
    upload(page, colours=picture("red", "blue"))
    captioned(page)
    page.fill("#require", "Dog")
    page.fill("#forbid", "red, green")
    page.keyboard.press("Enter")
    page.locator("#caption button[data-word=dog]").wait_for()
    assert "red" not in captioned(page).split()
    assert not page.locator("#unmet").is_visible()
    page.fill("#forbid", "red, gren")
    page.keyboard.press("Enter")
    page.locator("#unmet", has_text="'gren' (did you mean 'green'?)").wait_for()
    page.fill("#require", "zebra")
    page.keyboard.press("Enter")
    page.locator("#error", has_text="zebra").wait_for()
    assert page.locator("#caption button[data-word=dog]").is_visible()  # the last one stays


def test_errors_are_shown(watched: Watched) -> None:
    page = watched.page
    upload(page, broken=b"no image at all")
    page.locator("#error", has_text="broken.png: is not").wait_for()
    assert page.locator("#error").get_attribute("role") == "alert"
    assert page.locator("#result").is_hidden()
    upload(page, huge=b"x" * 3_000_000)
    page.locator("#error", has_text="MB").wait_for()
    upload(page, good=picture("blue", "blue"))
    assert "blue" in captioned(page)
    assert page.locator("#error").is_hidden()


def test_several_photographs_a_sample_and_a_paste(watched: Watched) -> None:
    page = watched.page
    upload(page, one=picture("red", "red"), two=picture("blue", "blue"))
    assert "red" in captioned(page)
    strip = page.locator("#strip button")
    assert strip.count() == 2
    page.locator('#strip img[alt*="blue"]').wait_for()
    strip.nth(1).click()
    assert "blue" in captioned(page)
    page.get_by_alt_text("Sample: cat").click()
    page.locator("#strip button:nth-child(3)").wait_for()
    page.evaluate(
        """bytes => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(bytes)], "", {type: "image/png"}));
        document.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data}));
        }""",
        list(picture("green", "green")),
    )
    page.locator('#strip img[alt*="green"]').wait_for()


def test_a_slow_photograph_keeps_no_other_busy(watched: Watched) -> None:
    page, held = watched.page, list[Any]()

    def hold(route: Any) -> None:
        slow = b'filename="one.png"' in (route.request.post_data_buffer or b"")
        held.append(route) if slow else route.continue_()

    page.route("**/v1/caption**", hold)
    upload(page, one=picture("red", "red"), two=picture("blue", "blue"))
    page.locator('#strip img[alt*="blue"]').wait_for()
    assert "one.png" in page.locator("#status").inner_text()
    page.locator("#strip button").nth(1).click()
    assert "blue" in captioned(page)
    assert page.locator("#status").inner_text() == ""
    page.locator("#strip button").nth(0).click()
    assert "one.png" in page.locator("#status").inner_text()
    for route in held:
        route.continue_()
    assert "red" in captioned(page)
    assert page.locator("#status").inner_text() == ""


def test_what_can_be_taken_away(watched: Watched) -> None:
    page = watched.page
    upload(page, colours=picture("red", "blue"))
    text = captioned(page)
    page.click("#copy")
    page.locator("#status", has_text="Copied").wait_for()
    place = page.locator("#status").bounding_box()
    assert place is not None
    assert place["y"] + place["height"] <= 900  # in sight, not below the best sentences
    alt = page.evaluate("navigator.clipboard.readText()")
    assert alt == f"{text[0].upper()}{text[1:]}."
    with page.expect_download() as found:
        page.click("#json")
    record = json.loads(Path(found.value.path()).read_text(encoding="utf-8"))
    assert found.value.suggested_filename == "colours.json"
    assert record["caption"] == text
    assert record["asked"] == {"min_precision": 0, "require": [], "forbid": []}
    with page.expect_download() as drawn:
        page.click("#figure")
    with Image.open(drawn.value.path()) as figure:
        assert figure.format == "PNG"


def test_candidates_add_up(watched: Watched) -> None:
    page = watched.page
    upload(page, colours=picture("red", "blue"))
    captioned(page)
    page.locator("#candidates summary").nth(1).click()
    table = page.locator("#candidates li").nth(1).locator("table")
    rows = table.locator("tbody tr").all()
    products = [float(row.locator("td").nth(2).inner_text()) for row in rows]
    total = float(table.locator("tfoot td").nth(2).inner_text())
    assert sum(products) == pytest.approx(total, abs=0.01)


def test_captions_are_announced(watched: Watched) -> None:
    """To screen readers, by a text of its own: that of the caption consists of buttons."""
    page, said = watched.page, watched.page.locator("[role=status]", has_text=".png: ")
    upload(page, one=picture("red", "red"), two=picture("blue", "blue"))
    text = captioned(page)
    assert (said.text_content() or "").startswith(f"one.png: {text}.")
    page.locator('#strip img[alt*="blue"]').wait_for()
    page.locator("#strip button").nth(1).click()
    assert said.count() == 0  # the button has said it
    page.fill("#forbid", "blue")
    page.keyboard.press("Enter")
    said.wait_for(state="attached")
    assert (said.text_content() or "").startswith(f"two.png: {captioned(page)}.")


def test_by_keys_alone(watched: Watched) -> None:
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "file"
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the second sample
    captioned(page)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.word"):
            break
    plain = pixels(page).tobytes()
    page.keyboard.press("Space")
    assert pixels(page).tobytes() != plain


def test_keys_keep_their_place_among_photographs(watched: Watched) -> None:
    page = watched.page
    upload(page, one=picture("red", "red"), two=picture("blue", "blue"), three=b"broken")
    page.locator("#strip .failed").wait_for()
    page.locator("#strip button").nth(1).focus()
    page.keyboard.press("Enter")
    page.locator("#caption button[data-word=blue]").wait_for()
    assert "blue" in page.evaluate("document.activeElement.firstElementChild.alt")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("#error", has_text="three.png").wait_for()
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label.startswith("three.png: is not")


def test_a_file_that_has_changed_is_not_the_servers_fault(watched: Watched, tmp_path: Path) -> None:
    page, path = watched.page, tmp_path / "mine.png"
    path.write_bytes(picture("red", "red"))
    page.set_input_files("#file", path)
    captioned(page)
    path.unlink()
    page.fill("#forbid", "dog")
    page.keyboard.press("Enter")
    page.locator("#error", has_text="Cannot read mine.png").wait_for()


def test_many_large_photographs(watched: Watched) -> None:
    """None is kept larger than it is drawn, and those beyond the limit are not dropped unsaid."""
    page = watched.page
    page.evaluate(
        """() => {
        window.large = [];
        const make = window.createImageBitmap.bind(window);
        window.createImageBitmap = async (...given) => {
          const bitmap = await make(...given);
          if (bitmap.width > 1024) window.large.push(bitmap);
          return bitmap;
        };
        }"""
    )
    stream = io.BytesIO()
    Image.new("RGB", (1600, 1200), "red").save(stream, "PNG")
    upload(page, large=stream.getvalue(), **{f"n{number}": b"broken" for number in range(100)})
    assert "red" in captioned(page)
    page.locator("#error", has_text="The first 100 of 101 photos").wait_for()
    assert page.locator("#strip button").count() == 100
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    upload(page, last=picture("blue", "blue"))
    page.locator("#caption button[data-word=blue]").wait_for()
    last = page.locator("#strip button").last
    assert last.get_attribute("title") == "last.png"
    box = last.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 1100  # the strip has moved on to it
    assert pixels(page).size == (1024, 768)
    assert page.evaluate("window.large.map((bitmap) => bitmap.width)") == [0]  # closed


def test_a_format_that_the_browser_cannot_show(watched: Watched) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (160, 120), "red").save(stream, "TIFF")
    upload(watched.page, scan=stream.getvalue())
    assert "red" in captioned(watched.page)
    assert "This browser cannot show" in watched.page.locator("#map-of").inner_text()


def test_what_is_transparent_is_shown_as_the_server_sees_it(watched: Watched) -> None:
    image = Image.new("RGBA", (160, 120), (0, 0, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 80, 120))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    upload(watched.page, half=stream.getvalue())
    captioned(watched.page)
    assert colour(pixels(watched.page), 0.9) == (255, 255, 255)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(chromium: Browser, address: str, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # axe is a script of its own beside the page, which the page's policy does not let in.
    context = chromium.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(address)
    page.locator("#samples button").nth(4).wait_for()
    upload(page, one=picture("red", "blue"), two=b"broken")
    captioned(page)
    page.evaluate("document.getElementById('uncertain-box').open = true")
    page.locator("#candidates summary").nth(1).click()
    page.locator("#caption button").first.click()
    found = axe.Axe().run(page).response["violations"]
    serious = [(v["id"], [n["html"] for n in v["nodes"]]) for v in found]
    assert serious == []
    context.close()


def test_a_pressed_word_is_seen_in_the_readers_own_colours(chromium: Browser, address: str) -> None:
    context = chromium.new_context(forced_colors="active")
    page = context.new_page()
    page.goto(address)
    upload(page, one=picture("red", "blue"))
    captioned(page)
    word = page.locator("#caption button").first

    def ground() -> Any:
        """What is painted; the computed style does not say it of forced colours."""
        return Image.open(io.BytesIO(word.screenshot())).getpixel((2, 8))

    plain = ground()
    word.click()
    page.mouse.move(0, 0)
    assert ground() != plain
    context.close()


def test_on_a_phone(chromium: Browser, address: str) -> None:
    context = chromium.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(address)
    page.locator("#samples button").nth(4).wait_for()
    upload(page, one=picture("red", "blue"))
    captioned(page)
    page.locator("#caption button").first.tap()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360  # nothing to scroll sideways
    for selector in ("#copy", "#samples button >> nth=0", "button[type=submit] >> nth=1"):
        box = page.locator(selector).bounding_box()
        assert box is not None
        assert box["height"] >= 40  # a fingertip
    context.close()


def test_a_token_is_asked_for(
    chromium: Browser, make_engine: partial[Engine], in_thread: InThread, running: Running
) -> None:
    with guarded_app(in_thread(make_engine), token="secret") as app, running(app) as address:
        page = chromium.new_page()
        page.goto(address)
        page.locator("#samples button").nth(4).wait_for()
        upload(page, one=picture("red", "blue"), two=picture("blue", "red"))
        page.locator("#error", has_text="needs an access token").wait_for()
        page.locator("#strip .failed").nth(1).wait_for()
        assert page.evaluate("document.activeElement.id") == "token"
        for token, said in (("sacred", "token is wrong"), ("secret", None)):
            page.keyboard.type(token)
            page.keyboard.press("Enter")
            if said:
                page.locator("#error", has_text=said).wait_for()
                page.locator("#token").fill("")
        assert re.search("red|blue", captioned(page))
        assert page.locator("#error").is_hidden()
        page.locator("#strip img[alt*=waiting], #strip .failed").first.wait_for(state="detached")
        assert page.locator("#strip button").count() == 2  # and neither has failed any more
        page.close()
