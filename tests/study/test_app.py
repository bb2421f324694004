"""The judges' server over HTTP, on both databases."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
import sqlalchemy as sa

pytest.importorskip("starlette")

from sightwords import http_server
from sightwords.study import schema, server
from sightwords.study.model import Answer, Pair, Showing
from sightwords.study.pages import end_page, message_page, pair_page
from sightwords.study.rehearsal import choice_for
from sightwords.study.store import Store, read_ballots, read_judges

Make = Callable[..., Store]
Serve = Callable[[Store], int]
EVIL = "<script>alert(1)</script> & \"quotes\" 'too'"


class Reply:
    """Status, headers and body of an answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.data = response.read()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8")


def ask(port: int, path: str, form: dict[str, str] | None = None) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        if form is None:
            connection.request("GET", path)
        else:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, urlencode(form), kind)
        return Reply(connection.getresponse())
    finally:
        connection.close()


def raw(port: int, text: bytes) -> bytes:
    """What the server says to these bytes until it closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as found:
        found.sendall(text)
        try:
            while chunk := found.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
    return answer


def link_of(store: Store, number: int = 0) -> str:
    with store.read() as connection:
        return f"/j/{read_judges(connection)[number].token}"


def shown(text: str) -> str:
    found = re.search(r"name=showing value=(\d+)", text)
    assert found, text
    return found[1]


def attentive(pair: Pair) -> Answer:
    return "better" if pair.is_check else "worse"


def votes(store: Store) -> int:
    with store.read() as connection:
        return len(read_ballots(connection))


def test_a_whole_sitting(make: Make, serve: Serve) -> None:
    store = make()
    port, link = serve(store), link_of(store)
    for number in range(7):
        reply = ask(port, link)
        assert f"{number + 1} of 7" in reply.text
        showing = shown(reply.text)
        photo = ask(port, f"{link}/photo/{showing}")
        assert photo.data[:2] == b"\xff\xd8"
        with store.read() as connection:
            choice = choice_for(connection, int(showing), attentive)
        answer = ask(port, f"{link}/vote", {"showing": showing, "choice": choice})
        assert (answer.status, answer.headers["location"]) == (303, link)
    assert "Thank you" in ask(port, link).text
    assert votes(store) == 5


def test_a_request_sent_twice_at_once_is_one_vote(make: Make, serve: Serve) -> None:
    store = make(checks_per_judge=0)
    port, link = serve(store), link_of(store)
    showing = shown(ask(port, link).text)
    replies: list[int] = []

    def send(choice: str) -> None:
        form = {"showing": showing, "choice": choice}
        replies.append(ask(port, f"{link}/vote", form).status)

    threads = [threading.Thread(target=send, args=(c,)) for c in ("first", "second") * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [303] * 12
    assert votes(store) == 1
    assert "2 of 5" in ask(port, link).text


def test_leaving_and_coming_back_shows_the_same_pair(make: Make, serve: Serve) -> None:
    store = make()
    port, link = serve(store), link_of(store)
    first = ask(port, link).text
    other = ask(port, link_of(store, 1)).text
    assert ask(port, link).text == first
    assert shown(other) != shown(first)


def test_what_a_judge_may_not_do(make: Make, serve: Serve) -> None:
    store = make()
    port, link, other = serve(store), link_of(store), link_of(store, 1)
    showing = shown(ask(port, link).text)
    assert ask(port, "/j/not-a-token").status == 404
    assert ask(port, "/j/not-a-token/vote", {"showing": showing, "choice": "same"}).status == 404
    assert ask(port, f"{other}/photo/{showing}").status == 404
    for number in ("9" * 5000, "-1", "x", "%00"):
        assert ask(port, f"{link}/photo/{number}").status == 404
    assert ask(port, f"{other}/vote", {"showing": showing, "choice": "same"}).status == 400
    wrong_forms: list[dict[str, str]] = [
        {},
        {"showing": showing},
        {"showing": "x", "choice": "same"},
        {"showing": showing, "choice": "best"},
        {"showing": "9" * 30, "choice": "same"},
    ]
    for wrong in wrong_forms:
        assert ask(port, f"{link}/vote", wrong).status == 400
    assert ask(port, f"{link}/vote", {"showing": "1" * 5000, "choice": "same"}).status == 413
    assert votes(store) == 0
    assert shown(ask(port, link).text) == showing


@pytest.mark.parametrize("path", ["/results", "/j", "/study", "/docs", "/j/x/results", "/admin"])
def test_no_address_gives_results(make: Make, serve: Serve, path: str) -> None:
    assert ask(serve(make()), path).status == 404


def test_pages_ask_nothing_of_others_and_are_not_kept(make: Make, serve: Serve) -> None:
    store = make()
    reply = ask(serve(store), link_of(store))
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert "http" not in reply.text.replace('http-equiv="', "")
    assert 'src="/j/' in reply.text


def test_a_page_says_nothing_of_whose_caption_is_whose(make: Make, serve: Serve) -> None:
    """Neither the system's name nor the image's id, nor whether it is a check case."""
    store = make()
    port, link = serve(store), link_of(store)
    for _ in range(7):
        text = ask(port, link).text
        captions = re.findall(r"<span>(.*?)</span>", text)
        rest = re.sub(r"(?s)<(span|style|script)\b.*?</\1>", "", text).replace(link, "").lower()
        for word in ("ours", "human", "check", "img-", "system", "first_is"):
            assert word not in rest
        assert len(captions) == 3
        showing = shown(text)
        with store.read() as connection:
            choice = choice_for(connection, int(showing), attentive)
        ask(port, f"{link}/vote", {"showing": showing, "choice": choice})


def test_a_failed_check_is_not_told(make: Make, serve: Serve) -> None:
    store = make()
    port, link = serve(store), link_of(store)
    for number in range(7):
        text = ask(port, link).text
        assert f"{number + 1} of 7" in text
        form = {"showing": shown(text), "choice": "same"}
        assert ask(port, f"{link}/vote", form).status == 303
    assert "Thank you" in ask(port, link).text
    assert votes(store) == 0


def test_a_database_that_is_gone_is_said_politely(
    make: Make, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make()
    port, link = serve(store), link_of(store)

    def fail(*_: object, **__: object) -> None:
        raise sa.exc.OperationalError("select", {}, Exception("gone"))

    monkeypatch.setattr("sightwords.study.judging.find_judge", fail)
    reply = ask(port, link)
    assert reply.status == 503
    assert "no answer is lost" in reply.text


class Tags(HTMLParser):
    """Collects tags, and checks that what opens also closes."""

    VOID = ("meta", "img", "input", "link")

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.mark.parametrize(
    "text",
    [
        pair_page(Showing(1, "k", EVIL, EVIL, EVIL, 1, 24), base="/j/x"),
        end_page(finished=True),
        end_page(finished=False),
        message_page(EVIL, EVIL),
    ],
)
def test_pages_are_whole_and_escaped(text: str) -> None:
    tags = Tags()
    tags.feed(text)
    assert not tags.stack
    assert tags.seen.count("script") == 1
    assert "alert(1)</script>" not in text


def test_schema_has_no_two_showings_of_a_pair_for_a_judge() -> None:
    names = {c.name for c in schema.showing.constraints if isinstance(c, sa.UniqueConstraint)}
    assert "a_judge_sees_a_pair_once" in names


def test_clients_that_send_slowly_or_too_much(
    make: Make, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(server, "MAX_FORM_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "DRAIN_SECONDS", 0.5)
    store = make()
    port, link = serve(store), link_of(store)
    assert raw(port, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") == b""
    head = f"POST {link}/vote HTTP/1.1\r\nHost: x\r\nContent-Length: ".encode()
    slow = raw(port, head + b"100\r\n\r\nshowing=")
    assert b" 408 " in slow
    large = raw(port, head + b"9999999999\r\n\r\n" + b"x" * 10_000)
    assert b" 413 " in large
    assert b"connection: close" in large.lower()
    assert ask(port, link).status == 200
