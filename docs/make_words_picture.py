"""Draw docs/images/words.jpg: what the detector inside the package finds in sample photos.

Run as: python docs/make_words_picture.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from sightwords.images import decode
from sightwords.samples import sample_paths
from sightwords.words.detector import Detector
from sightwords.words.heatmap import detected_heatmap
from sightwords.words.noisy_or import pool

SHOWN = (
    ("coffee", "cup"),  # a noun
    ("cat", "looking"),  # a verb
    ("coffee", "wooden"),  # an adjective
    ("coffee", "spoon"),  # a small thing
    ("photographer", "camera"),  # a held thing
    ("astronaut", "man"),  # a failure
)
COLUMNS, WIDTH, HEIGHT, GAP = 3, 420, 340, 12


def main() -> None:
    """Draw one map a word, in rows."""
    detector = Detector.load()
    pictures = [_map(detector, photo, word) for photo, word in SHOWN]
    rows = -(-len(pictures) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * (WIDTH + GAP), rows * (HEIGHT + GAP)), "white")
    for i, picture in enumerate(pictures):
        left, top = i % COLUMNS * (WIDTH + GAP), i // COLUMNS * (HEIGHT + GAP)
        sheet.paste(picture, (left + (WIDTH - picture.width) // 2, top))
    sheet.save(Path(__file__).parent / "images" / "words.jpg", quality=85, optimize=True)


def _map(detector: Detector, photo: str, word: str) -> Image.Image:
    image = decode(next(p for p in sample_paths() if p.stem == photo))
    regions = detector(image)
    index = detector.vocabulary.index(word)
    (detected,) = detector.describe(pool(regions), regions, [index]).words
    picture = detected_heatmap(image, regions, index, detected)
    shrink = min(WIDTH / picture.width, HEIGHT / picture.height)
    return picture.resize((round(picture.width * shrink), round(picture.height * shrink)))


if __name__ == "__main__":
    main()
