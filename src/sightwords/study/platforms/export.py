"""`study export`: writes seats as files of a platform, with the photos."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from sightwords.errors import StudyError
from sightwords.files import write_bytes
from sightwords.study.model import Showing
from sightwords.study.platforms.label_studio import write_label_studio
from sightwords.study.platforms.mturk import write_turk
from sightwords.study.platforms.seats import VALID_DAYS, give_back, make_seats
from sightwords.study.store import Store, read_photo

Platform = Literal["mturk", "label-studio"]

WRITERS: dict[
    str, Callable[[Path, Sequence[Sequence[Showing]], Sequence[Sequence[str]]], list[Path]]
] = {"mturk": write_turk, "label-studio": write_label_studio}


def export_study(
    store: Store,
    folder: str | Path,
    *,
    platform: Platform,
    image_base_url: str,
    now: float,
    valid_days: float = VALID_DAYS,
) -> list[Path]:
    """Write the files of a platform and the folder `photographs/`, to serve at `image_base_url`."""
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise StudyError(
            f"{folder}: not empty; give a new folder, because each export has its own keys"
        )
    seats = make_seats(store, now=now, valid_days=valid_days)
    if not seats:
        raise StudyError(f"{store.name}: nothing to export: every pair has all its judges")
    try:
        names = _write_photos(store, folder / "photographs", seats)
        base = image_base_url.rstrip("/")
        urls = [[f"{base}/{names[showing.image]}" for showing in seat] for seat in seats]
        return WRITERS[platform](folder, seats, urls)
    except OSError:
        give_back(store, seats)
        raise


def _write_photos(store: Store, folder: Path, seats: Sequence[Sequence[Showing]]) -> dict[str, str]:
    """Photos under random names: with its id, a judge could look up captions of a photo."""
    names: dict[str, str] = {}
    with store.read() as connection:
        for image in sorted({showing.image for seat in seats for showing in seat}):
            jpeg = read_photo(connection, image)
            assert jpeg is not None
            names[image] = f"{secrets.token_hex(12)}.jpg"
            write_bytes(folder / names[image], jpeg)
    return names
