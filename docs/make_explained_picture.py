"""Draw docs/images/explained.jpg: captions of sample photos, with one map per content word.

Run as: python docs/make_explained_picture.py [BUNDLE]
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

import sightwords
from sightwords.samples import sample_paths

SHOWN = ("coffee", "cat")
WIDTH = 1400


def main() -> None:
    """One figure below the other, as wide as the page."""
    captioner = sightwords.load(sys.argv[1] if len(sys.argv) > 1 else None)
    figures = [captioner.explain(p) for p in sample_paths() if p.stem in SHOWN]
    small = [f.resize((WIDTH, round(f.height * WIDTH / f.width))) for f in figures]
    sheet = Image.new("RGB", (WIDTH, sum(f.height for f in small)), "white")
    top = 0
    for figure in small:
        sheet.paste(figure, (0, top))
        top += figure.height
    sheet.save(Path(__file__).parent / "images" / "explained.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main()
