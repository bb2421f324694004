"""Takes the screenshots of docs/serve.md in Chromium: light, dark and phone.

sightwords serve --port 8765 &
python benchmarks/screenshots.py http://127.0.0.1:8765 --out docs/images
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from sightwords.errors import ExternalToolError, require

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    api = require("playwright.sync_api", extra="dev", purpose="taking screenshots of the page")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise ExternalToolError("Chromium is not installed; apt-get install chromium")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        desk(browser, args.address, args.out, dark=False)
        desk(browser, args.address, args.out, dark=True)
        phone(browser, args.address, args.out)
        browser.close()


def desk(browser: Browser, address: str, folder: Path, *, dark: bool) -> None:
    """The cat with a heat map; in dark mode, the coffee with an open candidate."""
    page = browser.new_page(
        viewport={"width": 1120, "height": 1000}, color_scheme="dark" if dark else "light"
    )
    caption_sample(page, address, "coffee" if dark else "cat")
    page.locator("button[data-word=plate], button[data-word=cat]").first.click()
    if dark:
        page.locator("#candidates summary").nth(1).click()
    name = "page-dark.png" if dark else "page-light.png"
    save(page, folder / name, whole=dark)
    page.close()


def phone(browser: Browser, address: str, folder: Path) -> None:
    """The rocket on a small screen."""
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    caption_sample(page, address, "rocket")
    tower = page.locator("#caption button[data-word=tower]")
    (tower if tower.count() else page.locator("#caption button.known")).first.tap()
    save(page, folder / "page-phone.png")
    context.close()


def save(page: Page, path: Path, *, whole: bool = False) -> None:
    """Save with 256 colours, dithered; this halves the file."""
    with Image.open(io.BytesIO(page.screenshot(full_page=whole))) as picture:
        rgb = picture.convert("RGB")
    palette = rgb.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    rgb.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def caption_sample(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.get_by_alt_text(f"Sample: {name}").click()
    page.locator("#caption button").first.wait_for(timeout=120_000)


if __name__ == "__main__":
    main()
