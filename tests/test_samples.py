"""The photographs that come with the package."""

from __future__ import annotations

from pathlib import Path

from sightwords.images import decode
from sightwords.samples import sample_paths


def test_the_samples_are_small_credited_photographs() -> None:
    paths = sample_paths()
    folder = paths[0].parent
    assert sorted(path.name for path in paths) == sorted(p.name for p in folder.glob("*.jpg"))
    credits = Path(folder / "SOURCES.md").read_text(encoding="utf-8")
    for path in paths:
        assert path.stat().st_size <= 120 * 1024
        assert max(decode(path).size) <= 640
        assert f"`{path.name}`" in credits
