"""Draw docs/images/words.jpg: what the detector inside the package finds in sample photographs.

Run as: python docs/make_words_picture.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from sightwords.images import decode
from sightwords.samples import sample_paths
from sightwords.words.detector import Detector, pool
from sightwords.words.heatmap import detected_heatmap

SHOWN = (("astronaut", "flag"), ("astronaut", "orange"), ("cat", "green"), ("coffee", "cup"))
HEIGHT, GAP = 400, 12


def main() -> None:
    """Draw one map a word, side by side."""
    detector = Detector.load()
    pictures = [_map(detector, photograph, word) for photograph, word in SHOWN]
    width = sum(p.width for p in pictures) + GAP * (len(pictures) - 1)
    sheet = Image.new("RGB", (width, HEIGHT), "white")
    left = 0
    for picture in pictures:
        sheet.paste(picture, (left, 0))
        left += picture.width + GAP
    sheet.save(Path(__file__).parent / "images" / "words.jpg", quality=85, optimize=True)


def _map(detector: Detector, photograph: str, word: str) -> Image.Image:
    image = decode(next(p for p in sample_paths() if p.stem == photograph))
    regions = detector(image)
    index = detector.vocabulary.index(word)
    (detected,) = detector.describe(pool(regions), regions, [index]).words
    picture = detected_heatmap(image, regions, index, detected)
    return picture.resize((round(picture.width * HEIGHT / picture.height), HEIGHT))


if __name__ == "__main__":
    main()
