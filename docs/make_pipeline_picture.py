"""Draw docs/images/pipeline.png: the stages of `pipeline.py` over a sample photo.

    python docs/make_pipeline_picture.py

The grid is the real 12 x 12 one of `images.region_boxes`; no output of a model is shown.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from sightwords.images import decode, region_boxes
from sightwords.samples import sample_paths

INK, PAPER, ACCENT, SOFT = "#1b2733", "#ffffff", "#0b6e99", "#e8f1f5"
WIDTH, HEIGHT, PHOTO = 1600, 380, 300
STAGES = (
    ("detect", "probability of 1000 words\nin each region, pooled\nby noisy-OR", "Eq. 1, 2"),
    ("calibrate", "words with a precision\nmeasured on\nheld-out photos", "section 3.2"),
    ("generate", "sentences from the words:\nmax-ent language model,\nbeam search", "section 4"),
    ("choose", "image-sentence similarity\nand weights tuned on\nthe metric", "section 5"),
)


def main() -> None:
    """Draw and save the picture."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(picture)
    picture.paste(_photo(), (30, 20))
    draw.text((30, 332), "one photo, 144 regions", INK, _font(22))
    left, width, gap = 370, 276, 34
    for number, (name, text, source) in enumerate(STAGES):
        x = left + number * (width + gap)
        draw.line([(x - gap + 2, 170), (x - 10, 170)], ACCENT, 4)
        draw.polygon([(x - 14, 162), (x - 2, 170), (x - 14, 178)], ACCENT)
        draw.rounded_rectangle([x, 20, x + width, 320], 14, SOFT, ACCENT, 2)
        draw.text((x + 20, 42), name, ACCENT, _font(34))
        draw.multiline_text((x + 20, 110), text, INK, _font(20), spacing=10)
        draw.text((x + 20, 278), source, INK, _font(18))
    draw.text(
        (left, 332), "every word keeps its probability, precision and location", INK, _font(22)
    )
    picture.save(Path(__file__).parent / "images" / "pipeline.png", optimize=True)


def _photo() -> Image.Image:
    """The cat with its regions' first cells drawn, one region shown whole."""
    path = next(p for p in sample_paths() if p.stem == "cat")
    photo = decode(path).resize((PHOTO, PHOTO))
    draw = ImageDraw.Draw(photo, "RGBA")
    regions = region_boxes(window=5, stride=1, canvas=16)
    for step in range(17):
        at = round(step * PHOTO / 16)
        draw.line([(at, 0), (at, PHOTO)], (255, 255, 255, 90))
        draw.line([(0, at), (PHOTO, at)], (255, 255, 255, 90))
    box = regions.box(3, 6)
    assert box is not None
    corners = [box.x0 * PHOTO, box.y0 * PHOTO, box.x1 * PHOTO, box.y1 * PHOTO]
    draw.rectangle(corners, (11, 110, 153, 60), (255, 220, 80, 255), 3)
    return photo


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


if __name__ == "__main__":
    main()
