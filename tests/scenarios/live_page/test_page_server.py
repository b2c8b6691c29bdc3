"""The server of a live page: for browsers of this host alone, and held up by nobody."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.live_page import page_server
from sheafedge.scenarios.live_page.drawings import Drawing, Drawings
from sheafedge.scenarios.live_page.page_server import MOST_VISITORS, PageServer, open_port

LIMIT_S = 20.0
PAGE = b"<!doctype html><p>round 1</p>"


class Served:
    """A server with one drawing."""

    def __init__(self) -> None:
        listening = open_port(0)
        self.host, self.port = listening.getsockname()
        self.drawings = Drawings()
        self.drawings.changed()
        self.drawings.drawn(Drawing(1, PAGE))
        self.server = PageServer(listening, self.drawings)

    def ask(self, path: str = "/", method: str = "GET", host: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)
        connection.request(method, path, headers={} if host is None else {"Host": host})
        return connection.getresponse()  # the server closes it

    def raw(self, said: bytes) -> socket.socket:
        visitor = socket.create_connection((self.host, self.port), timeout=LIMIT_S)
        visitor.sendall(said)
        return visitor


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    yield served
    served.server.close()


def test_the_page_is_on_loopback_alone_and_may_be_kept_or_framed_by_nobody(served: Served) -> None:
    assert served.host == "127.0.0.1"
    answer = served.ask()
    assert (answer.status, answer.read()) == (200, PAGE)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Python" not in answer.headers["Server"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1]", "10.0.0.1"])
def test_a_name_that_was_made_to_lead_here_is_refused(served: Served, host: str) -> None:
    """DNS rebinding: the page of a stranger asks for ours under the stranger's name."""
    answer = served.ask(host=host)
    assert answer.status == 403
    assert PAGE not in answer.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8080", "LOCALHOST:1"])
def test_names_of_this_host_are_taken(served: Served, host: str) -> None:
    assert served.ask(host=host).status == 200


def test_a_request_without_a_host_is_refused(served: Served) -> None:
    with served.raw(b"GET / HTTP/1.0\r\n\r\n") as visitor:
        assert visitor.recv(100).startswith(b"HTTP/1.0 403 ")


@pytest.mark.parametrize("path", ["/index.html", "/../run/metrics.jsonl", "/%2e%2e/", "/?after=1/../.."])
def test_there_are_no_files(served: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "FIRST_PATIENCE_S", 0.01)
    answer = served.ask(path)
    assert (answer.status, answer.read()) in [(404, b"see /\n"), (200, PAGE)]
    assert (answer.status == 200) == path.startswith("/?")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_only_get_is_known(served: Served, method: str) -> None:
    assert served.ask(method=method).status == 501


def test_who_has_the_newest_drawing_waits_for_the_next(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "PATIENCE_S", 0.01)
    assert served.ask("/?after=1").status == 204
    assert served.ask("/?after=0").read() == PAGE
    assert served.ask("/?after=7").read() == PAGE  # of an earlier run at this port
    assert served.ask("/?after=-1").read() == PAGE
    assert served.ask("/?after=" + "9" * 5000).read() == PAGE


def test_a_drawing_is_asked_for_by_who_waits_and_goes_to_all(served: Served) -> None:
    drawings, answers = served.drawings, []
    drawings.changed()
    assert drawings.wanted(0.0) is None  # nobody looks
    visits = [threading.Thread(target=lambda: answers.append(served.ask("/?after=1").read())) for _ in range(3)]
    for visit in visits:
        visit.start()
    assert drawings.wanted(LIMIT_S) == 2
    drawings.drawn(Drawing(2, b"round 2"))
    for visit in visits:
        visit.join(LIMIT_S)
    assert answers == [b"round 2"] * 3


def test_visitors_that_say_nothing_read_nothing_or_talk_nonsense_keep_nobody_out(served: Served) -> None:
    served.drawings.drawn(Drawing(1, PAGE + b" " * (8 << 20)))  # more than the system keeps for a reader
    said = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\0\xff\r\n\r\n", b"A" * 70_000)
    slow = [served.raw(said[place % len(said)]) for place in range(2 * MOST_VISITORS)]
    assert served.ask().status == 200
    assert threading.active_count() < 2 * MOST_VISITORS
    for visitor in slow:
        visitor.close()


def test_a_port_that_is_taken_is_a_sentence(served: Served) -> None:
    with pytest.raises(
        ConfigError, match=rf"--live-port {served.port} cannot be used \(Address already in use\); give"
    ):
        open_port(served.port)
