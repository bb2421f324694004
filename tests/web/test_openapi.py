"""schemathesis reads the OpenAPI description and looks for answers that it does not allow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from sightwords.web.engine import Engine
from sightwords.web.limits import Limits
from sightwords.web.serve import guarded_app

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi.checks import negative_data_rejection  # noqa: E402


def _picture(colour: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (24, 16), colour).save(stream, "PNG")
    return stream.getvalue()


PICTURES = st.sampled_from([_picture(c) for c in ("red", "blue", "white")])
RAW = ("image/jpeg", "image/png", "image/webp", "application/octet-stream")
for kind in RAW:
    schemathesis.openapi.media_type(kind, PICTURES)
schemathesis.openapi.format("binary", PICTURES)


@pytest.fixture(scope="module")
def api(
    make_ranking_engine: Callable[[], Engine], in_thread: Callable[[Any], Any]
) -> Iterator[Any]:
    limits = Limits(images=3, sentences=5)
    with guarded_app(in_thread(make_ranking_engine), limits=limits, hosts=None) as app:
        yield schemathesis.openapi.from_asgi("/openapi.json", app)


ADDRESSES = (
    "POST /v1/caption", "POST /v1/words", "POST /v1/rank", "POST /v1/explain", "GET /healthz",
    "GET /metrics",
)  # fmt: skip


def test_every_address_is_described(api: Any) -> None:
    assert {result.ok().label for result in api.get_all_operations()} == set(ADDRESSES)


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", ADDRESSES)
def test_no_answer_breaks_the_description(api: Any, label: str, mode: str) -> None:
    operation = next(o.ok() for o in api.get_all_operations() if o.ok().label == label)
    if mode == "negative" and label.startswith("GET"):
        pytest.skip("takes nothing that could be wrong")
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @settings(
        max_examples=15,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: Any) -> None:
        left_out = [negative_data_rejection] if _becomes_text(case) else []
        case.call_and_validate(excluded_checks=left_out)

    check()


def _becomes_text(case: Any) -> bool:
    """Whether a form would send a number, an object or nothing as text, which is then no mistake.

    Forms know no other type: a sentence that "was an array, became an object" arrives as a string.
    """
    if case.media_type != "multipart/form-data" or not isinstance(case.body, dict):
        return False
    values = [v for value in case.body.values() for v in _each(value)]
    return any(not isinstance(value, str | bytes) for value in values)


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_only_what_a_form_cannot_say_is_left_out() -> None:
    class Case:
        media_type = "multipart/form-data"
        body: Any = None

    case = Case()
    for case.body, left_out in (
        ({"image": b"", "sentence": ["a", "b"]}, False),
        ({"image": b"", "sentence": []}, False),
        ({"sentence": "a"}, False),
        ({"sentence": {"a": 1}}, True),
        ({"sentence": ["a", 3]}, True),
        ({"image": None}, True),
        (b"", False),
    ):
        assert _becomes_text(case) == left_out
    case.media_type, case.body = "image/png", {"a": 1}
    assert not _becomes_text(case)
