"""Rules for the whole test suite."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

# CI draws the same examples every time: a failure there is of the change, not of the dice.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")

MUST_RUN_IN_CI = ("java", "browser", "database", "ray")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `real_data` run where SIGHTWORDS_DATA names a folder of real captions."""
    if "SIGHTWORDS_DATA" in os.environ:
        return
    skip = pytest.mark.skip(reason="SIGHTWORDS_DATA names no folder of real captions")
    for item in items:
        if item.get_closest_marker("real_data"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a skipped test of these kinds has failed: nobody would notice it otherwise."""
    report = yield
    marked = [m for m in MUST_RUN_IN_CI if item.get_closest_marker(m)]
    has_data = "SIGHTWORDS_DATA" in os.environ or not item.get_closest_marker("real_data")
    if report.skipped and marked and has_data and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"CI=true and a test marked {marked[0]!r} was skipped: {report.longrepr}"
    return report
