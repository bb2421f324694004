"""Every address of `/v1`: answers, limits, errors."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from starlette.testclient import TestClient

import sightwords
from sightwords.batch.records import caption_record
from sightwords.samples import sample_paths
from sightwords.web.engine import Engine
from sightwords.web.guard import HEADERS
from sightwords.web.limits import Limits
from sightwords.web.schema import CaptionAnswer, Captioned, RankAnswer, WordsAnswer
from sightwords.web.serve import guarded_app

JPEG = {"content-type": "image/jpeg"}
Running = Callable[[Any], AbstractContextManager[str]]
InThread = Callable[[Any], Any]


def picture(
    left: str = "red", right: str = "blue", *, size: tuple[int, int] = (64, 48), kind: str = "PNG"
) -> bytes:
    """Two colours side by side."""
    image = Image.new("RGB", size, left)
    image.paste(Image.new("RGB", (size[0] // 2, size[1]), right), (size[0] // 2, 0))
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def code(response: Any) -> str:
    """The error's code, after checking the shape of the answer."""
    document = response.json()
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message"}
    assert "Traceback" not in response.text
    return str(document["error"]["code"])


def files(*pictures: bytes) -> list[tuple[str, tuple[str, bytes, str]]]:
    return [("image", (f"{i}.png", data, "image/png")) for i, data in enumerate(pictures)]


def test_a_caption_is_the_librarys(client: TestClient, tiny_bundle: Path) -> None:
    data = picture()
    answer = client.post("/v1/caption", files=files(data)).json()
    CaptionAnswer.model_validate(answer)
    expected = caption_record(sightwords.load(tiny_bundle, threads=1)(data), n_best=5)
    found = answer["images"][0]
    assert {key: found[key] for key in expected} == expected
    assert found["name"] == "0.png"


def test_a_raw_body_and_a_form_say_the_same(client: TestClient) -> None:
    raw = client.post("/v1/caption", content=picture(), headers=JPEG).json()["images"][0]
    form = client.post("/v1/caption", files=files(picture())).json()["images"][0]
    assert raw.pop("name") == "photo"
    form.pop("name")
    assert raw == form


def test_several_photographs_in_order_and_a_bad_one_among_them(client: TestClient) -> None:
    sent = files(picture("red", "red"), b"no image", picture("blue", "blue"))
    answer = client.post("/v1/caption", files=sent)
    assert answer.status_code == 200
    CaptionAnswer.model_validate(answer.json())
    first, second, third = answer.json()["images"]
    assert "red" in first["caption"]
    assert second["error"]["code"] == "unreadable_image"
    assert "blue" in third["caption"]


def test_options(client: TestClient) -> None:
    def ask(**options: Any) -> dict[str, Any]:
        answer = client.post("/v1/caption", params=options, files=files(picture()))
        found: dict[str, Any] = answer.json()["images"][0]
        return found

    assert "dog" in ask(require="dog")["caption"].split()
    assert ask(require="dog")["unmet"] == []
    assert "red" not in ask(forbid=["red"])["caption"].split()
    assert ask(n_best=0).get("n_best", []) == []
    assert len(ask(n_best=2)["n_best"]) == 2


def test_a_misspelt_forbidden_word_is_named_in_the_answer(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    for forbid, said in (["red"], []), (["bleu,red"], ["'bleu' (did you mean 'blue'?)"]):
        answer = client.post("/v1/caption", params={"forbid": forbid}, files=files(picture()))
        [found] = CaptionAnswer.model_validate(answer.json()).images
        assert isinstance(found, Captioned)
        assert "red" not in found.caption.split()
        assert [warning.rpartition(": ")[2] for warning in found.warnings] == said
    assert client.post("/v1/explain?forbid=bleu", files=files(picture())).status_code == 200
    assert not caplog.messages  # no client's spelling fills the log


def test_scores_are_the_sum_of_features_times_weights(client: TestClient) -> None:
    found = client.post("/v1/caption", files=files(picture())).json()["images"][0]
    for sentence in found["n_best"]:
        total = sum(value * found["weights"][name] for name, value in sentence["features"].items())
        assert total == pytest.approx(sentence["score"], abs=1e-3)


def test_detail_has_pieces_and_maps(client: TestClient) -> None:
    answer = client.post("/v1/caption?detail=true", files=files(picture("red", "black"))).json()
    CaptionAnswer.model_validate(answer)
    found = answer["images"][0]
    detail = found["detail"]
    assert "".join(piece["text"] for piece in detail["pieces"]) == found["caption"]
    width, height = detail["map_size_px"]
    red = next(word for word in detail["words"] if word["word"] == "red")
    levels = base64.b64decode(red["map"])
    assert len(levels) == width * height
    row = levels[width * (height // 2) :][:width]
    assert row[0] > 250  # red on the left, where the picture is
    assert row[-1] < 60


def test_words_and_their_threshold(client: TestClient) -> None:
    strict = client.post("/v1/words", params={"min_precision": 0.9}, files=files(picture()))
    all_words = client.post("/v1/words", params={"min_precision": 0}, files=files(picture()))
    WordsAnswer.model_validate(all_words.json())
    listed = all_words.json()["images"][0]["words"]
    assert len(listed) == 8
    assert len(strict.json()["images"][0]["words"]) < 8


def test_explain_is_a_figure(client: TestClient) -> None:
    answer = client.post("/v1/explain", files=files(picture()))
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as figure:
        assert figure.width > 240
    assert code(client.post("/v1/explain", files=files(picture(), picture()))) == "invalid"


def test_rank_without_a_similarity_model(client: TestClient) -> None:
    answer = client.post("/v1/rank", files=files(picture()), data={"sentence": ["a dog", "red"]})
    assert (answer.status_code, code(answer)) == (404, "no_similarity_model")


def test_rank(make_ranking_engine: Callable[[], Engine], in_thread: InThread) -> None:
    with guarded_app(in_thread(make_ranking_engine)) as app:
        client = TestClient(app, base_url="http://localhost")

        def rank(*sentences: str) -> Any:
            return client.post(
                "/v1/rank", files=files(picture()), data={"sentence": list(sentences)}
            )

        answer = rank("a dog", "A red bus, here.", "cats")
        RankAnswer.model_validate(answer.json())
        ranked = answer.json()["images"][0]["sentences"]
        assert [s["place"] for s in ranked] == [1, 0, 2]
        assert ranked[0]["sentence"] == "A red bus, here."
        for wrong in ([], ["..."], ["a dog " * 400], ["a dog", ""]):
            refused = rank(*wrong)
            assert (refused.status_code, code(refused)) == (422, "invalid")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty file"),
        (b"hello", "hello"),
        (b"%PDF-1.7", "PDF"),
        (b"<!doctype html><p>404", "web page"),
        (picture()[:60], "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged or cut off"),
    ],
)
def test_what_is_no_image_is_said(client: TestClient, body: bytes, words: str) -> None:
    answer = client.post("/v1/caption", content=body, headers=JPEG)
    assert (answer.status_code, code(answer)) == (422, "unreadable_image")
    assert words in answer.json()["error"]["message"]


def test_too_many_pixels_by_the_header_alone(client: TestClient) -> None:
    stream = io.BytesIO()
    Image.new("1", (3000, 3000)).save(stream, "PNG")
    answer = client.post("/v1/caption", content=stream.getvalue(), headers=JPEG)
    assert (answer.status_code, code(answer)) == (422, "unreadable_image")
    assert "megapixels" in answer.json()["error"]["message"]


def test_bodies_that_are_too_large(client: TestClient) -> None:
    said = client.post("/v1/caption", content=b"x" * 500_000, headers=JPEG)
    assert (said.status_code, code(said)) == (413, "too_large")

    def chunks() -> Any:  # no Content-Length to go by
        for _ in range(50):
            yield b"x" * 10_000

    unsaid = client.post("/v1/caption", content=chunks(), headers=JPEG)
    assert (unsaid.status_code, code(unsaid)) == (413, "too_large")
    many = client.post("/v1/caption", files=files(*[picture()] * 5))
    assert (many.status_code, code(many)) == (400, "too_many")


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"content-type": "application/json"}, b"{}", (415, "unsupported_body")),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a", (415, "unsupported_body")),
        ({}, b"abc", (415, "unsupported_body")),
        ({"content-type": "multipart/form-data"}, b"abc", (400, "bad_body")),
        ({"content-type": "multipart/form-data; boundary=x"}, b"abc", (400, "bad_body")),
        ({"content-type": "multipart/form-data; boundary=x"}, b"--x--\r\n", (422, "no_image")),
    ],
)
def test_bodies_of_other_kinds(
    client: TestClient, headers: dict[str, str], body: bytes, expected: tuple[int, str]
) -> None:
    answer = client.post("/v1/caption", content=body, headers=headers)
    assert (answer.status_code, code(answer)) == expected


@pytest.mark.parametrize(
    "charset",
    [
        "undefined",
        "idna",
        "punycode",
        "utf-7",
        "zlib",
        "rot13",
        "a%00",
        "x" * 300,
        '"',
        "unicode_escape",
    ],
)
def test_charsets_that_no_client_needs(client: TestClient, charset: str) -> None:
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    part = b'--x\r\nContent-Disposition: form-data; name="sentence"\r\n\r\n+2D0-\xff\r\n--x--\r\n'
    answer = client.post("/v1/rank", content=part, headers=headers)
    assert (answer.status_code, code(answer)) == (400, "bad_body")


@pytest.mark.parametrize(
    "kind",
    [
        b"multipart/form-data; boundary=", b"multipart/form-data; boundary=\xff\xfe",
        b"multipart/form-data; boundary=" + b"x" * 3000, b"multipart/form-data; boundary*0=x",
        b"multipart/form-data; boundary=\"x", b"multipart/form-data;;;=;boundary=x;charset=",
        b"multipart/form-data; boundary*=undefined''x",
        b"multipart/form-data; charset*=undefined''x; boundary=x",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "disposition",
    [
        b"form-data", b"form-data; name=", b"form-data; name*=undefined''x", b"\x00; name=image",
        b"form-data; name=image; filename*=undefined''x", b"form-data; name*0=a; name*2=b",
        b"form-data; name=\xff; filename=\xff\xfe",
    ],
)  # fmt: skip
def test_odd_headers_of_forms_are_refused(
    client: TestClient, kind: bytes, disposition: bytes
) -> None:
    body = b"--x\r\nContent-Disposition: " + disposition + b"\r\n\r\nabc\r\n--x--\r\n"
    answer = client.post("/v1/caption", content=body, headers={b"content-type": kind})
    assert answer.status_code in (400, 422), answer.text
    assert code(answer) in ("bad_body", "no_image", "invalid", "unreadable_image")


def test_a_form_with_something_else(client: TestClient) -> None:
    other = client.post("/v1/caption", files=[("photo", ("a.png", picture()))])
    assert (other.status_code, code(other)) == (422, "invalid")
    assert "'photo'" in other.json()["error"]["message"]
    text = client.post("/v1/caption", files=files(picture()), data={"sentence": "a dog"})
    assert (text.status_code, code(text)) == (422, "invalid")


@pytest.mark.parametrize(
    "query",
    [
        "min_precision=2", "min_precision=nan", "n_best=-1", "n_best=1000", "n_best=x",
        "require=", "detail=perhaps", f"forbid={'x' * 41}",
    ],
)  # fmt: skip
def test_values_out_of_bounds(client: TestClient, query: str) -> None:
    answer = client.post(f"/v1/caption?{query}", files=files(picture()))
    assert (answer.status_code, code(answer)) == (422, "invalid")
    name, _, value = query.partition("=")
    message = answer.json()["error"]["message"]
    assert message.startswith(f"{name} is")
    assert value[:40] in message


@pytest.mark.parametrize(
    ("path", "slip"),
    [("caption", "min-precision=0.8"), ("words", "require=red"), ("rank", "n_best=2")],
)
def test_an_unknown_parameter_is_refused(client: TestClient, path: str, slip: str) -> None:
    answer = client.post(f"/v1/{path}?{slip}", files=files(picture()))
    assert (answer.status_code, code(answer)) == (422, "invalid")
    message = answer.json()["error"]["message"]
    assert repr(slip.partition("=")[0]) in message
    assert ("did you mean 'min_precision'?" in message) == (path == "caption")


@pytest.mark.parametrize(
    ("query", "expected"),
    [("require=zebra", "unknown_word"), ("require=dog&forbid=dog", "conflict")],
)
def test_options_that_cannot_be_met(client: TestClient, query: str, expected: str) -> None:
    answer = client.post(f"/v1/caption?{query}", files=files(picture()))
    assert (answer.status_code, code(answer)) == (409, expected)


def test_a_clients_path_is_a_label(client: TestClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture())
    sent = [("image", (str(secret), b"", "image/png"))]
    answer = client.post("/v1/caption", files=sent)
    assert (answer.status_code, code(answer)) == (422, "unreadable_image")
    assert str(tmp_path) not in answer.text
    url = client.post("/v1/caption", files=[("image", ("http://a.example/b.png", b"x"))])
    assert "a.example" not in url.text


def test_addresses_that_are_not_there(client: TestClient) -> None:
    assert code(client.get("/v1/nothing")) == "not_found"
    assert code(client.get("/static/../serve.py")) == "not_found"
    assert code(client.get("/static/..%2fserve.py")) == "not_found"
    assert code(client.get("/samples/passwd")) == "not_found"
    wrong = client.get("/v1/caption")
    assert (wrong.status_code, code(wrong)) == (405, "wrong_method")
    assert wrong.headers["allow"] == "POST"


def test_monitors_may_ask_for_heads_alone(client: TestClient) -> None:
    for address in (
        "/", "/healthz", "/openapi.json", "/settings.json", "/static/app.js", "/samples/cat.jpg",
    ):  # fmt: skip
        head, whole = client.head(address), client.get(address)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers == whole.headers
    metrics = client.head("/metrics")  # as long as what was counted by then
    assert (metrics.status_code, metrics.content) == (200, b"")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    assert client.head("/nothing").status_code == 404
    for address in ("/v1/caption", "/v1/words", "/v1/rank", "/v1/explain"):
        head = client.head(address)
        assert (head.status_code, head.content) == (405, b"")
        assert head.headers["allow"] == "POST"


def test_heads_on_one_connection(
    make_engine: partial[Engine], in_thread: InThread, running: Running
) -> None:
    """A real server leaves bodies out, or the next answer would begin with them."""
    with guarded_app(in_thread(make_engine)) as app, running(app) as address:
        connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
        for path, status in ("/metrics", 200), ("/v1/words", 405), ("/nothing", 404), ("/", 200):
            connection.request("HEAD", path)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
            assert int(answer.headers["content-length"]) > 0
        connection.close()


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for answer in (
        client.get("/"), client.get("/nothing"), client.post("/v1/caption"), client.get("/healthz"),
    ):  # fmt: skip
        for name in HEADERS:
            assert name in answer.headers
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


def test_health_and_metrics(client: TestClient) -> None:
    health = client.get("/healthz").json()
    assert health["status"] == "ok"
    assert health["workers"] == 1
    assert len(health["fingerprint"]) == 64
    client.post("/v1/words", files=files(picture()))
    text = client.get("/metrics").text
    assert 'sightwords_requests_total{path="/v1/words",status="200"}' in text
    assert "sightwords_waiting_photographs 0.0" in text
    assert "sightwords_held_bytes 0.0" in text
    assert "sightwords_batch_photographs_bucket" in text


def test_health_means_that_a_caption_can_be_made(
    make_engine: partial[Engine], in_thread: InThread
) -> None:
    worker = in_thread(make_engine)()
    with guarded_app(lambda: worker) as app:
        client = TestClient(app, base_url="http://localhost")
        assert client.get("/healthz").status_code == 200
        worker.ready = lambda: False
        health = client.get("/healthz")
        assert (health.status_code, code(health)) == (503, "no_worker")
        assert health.headers["retry-after"]
        assert "sightwords_workers 0.0" in client.get("/metrics").text


def test_other_hosts_and_other_origins(client: TestClient) -> None:
    rebound = client.get("/healthz", headers={"host": "evil.example"})
    assert (rebound.status_code, code(rebound)) == (403, "unknown_host")
    for origin in ("https://evil.example", "null", "http://[nonsense"):
        foreign = client.post("/v1/words", files=files(picture()), headers={"origin": origin})
        assert (foreign.status_code, code(foreign)) == (403, "other_origin")
    own = client.post("/v1/words", files=files(picture()), headers={"origin": "http://127.0.0.1"})
    assert own.status_code == 200


def test_a_token(make_engine: partial[Engine], in_thread: InThread) -> None:
    with guarded_app(in_thread(make_engine), token="secret") as app:
        client = TestClient(app, base_url="http://localhost")
        refused = client.post("/v1/words", files=files(picture()))
        assert (refused.status_code, code(refused)) == (401, "no_token")
        assert refused.headers["www-authenticate"] == "Bearer"
        wrong = {"authorization": "Bearer secre"}
        assert client.get("/metrics", headers=wrong).status_code == 401
        assert client.head("/metrics").status_code == 401
        right = {"authorization": "Bearer secret"}
        assert client.post("/v1/words", files=files(picture()), headers=right).status_code == 200
        assert client.get("/healthz").status_code == 200
        assert client.get("/").status_code == 200
        assert client.get("/settings.json").json()["wants_token"] is True


def test_samples_are_there(client: TestClient) -> None:
    settings = client.get("/settings.json").json()
    assert settings["samples"] == [path.name for path in sample_paths()]
    assert len(settings["colours"]) == 256
    sample = client.get(f"/samples/{settings['samples'][0]}")
    assert sample.content == sample_paths()[0].read_bytes()


def test_scores_are_remembered_and_pixels_are_not(make_engine: partial[Engine]) -> None:
    engine = make_engine(limits=Limits(remembered=2))
    runs = 0
    network = engine.detector.network
    whole = network.run

    def counted(inputs: Any, **more: Any) -> Any:
        nonlocal runs
        runs += len(inputs["image"])
        return whole(inputs, **more)

    network.run = counted  # type: ignore[method-assign]
    from sightwords.web.engine import Job

    def ask(data: bytes, **options: Any) -> Any:
        return next(engine.answers([Job(kind="caption", name="x", data=data, **options)]))

    first = ask(picture())
    assert ask(picture(), min_precision=0.9)["caption"]
    assert ask(picture()) == first
    assert runs == 1
    for colour in ("green", "white", "black"):
        ask(picture(colour))
    ask(picture())
    assert runs == 5
    ask(picture("black"))  # asked for again, so that the other one is forgotten first
    ask(picture("green"))
    ask(picture("black"))
    assert runs == 6
    kept = [value for value in vars(engine).values() if isinstance(value, (bytes, Image.Image))]
    assert kept == []
