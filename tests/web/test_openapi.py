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
def api(make_ranking_engine: Callable[[], Engine]) -> Iterator[Any]:
    limits = Limits(images=3, sentences=5)
    with guarded_app(make_ranking_engine, workers=0, limits=limits, hosts=None) as app:
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
        case.call_and_validate()

    check()
