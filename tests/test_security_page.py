"""docs/security.md names a test for each promise; each of them must be there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_the_page_names_is_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named, file = 0, ""
    for path, test in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", text):
        file = path or file
        if path or test:
            source = (ROOT / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in source, f"{file}::{test}"
            named += 1
    assert named > 50
