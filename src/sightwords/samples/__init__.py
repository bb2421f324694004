"""Five photos with free licences, to try the package; `SOURCES.md` beside them credits all.

None of them is in a caption corpus, so captions of them are honest.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SAMPLES = ("astronaut.jpg", "cat.jpg", "coffee.jpg", "photographer.jpg", "rocket.jpg")


def sample_paths() -> tuple[Path, ...]:
    """Paths of the photos, in alphabetical order.

    >>> [path.name for path in sample_paths()][:2]
    ['astronaut.jpg', 'cat.jpg']
    """
    folder = Path(str(files(__name__)))
    return tuple(folder / name for name in SAMPLES)
