"""Rules for the whole test suite."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

MUST_RUN_IN_CI = ("java", "browser", "database", "ray")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a skipped test of these kinds has failed: nobody would notice it otherwise."""
    report = yield
    marked = [m for m in MUST_RUN_IN_CI if item.get_closest_marker(m)]
    if report.skipped and marked and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"CI=true and a test marked {marked[0]!r} was skipped: {report.longrepr}"
    return report
