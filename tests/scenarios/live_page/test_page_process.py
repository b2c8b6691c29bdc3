"""The process of a page, in this one: it hears, draws and serves until the run has ended and its visitors know."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator

import pytest
from sheafedge.scenarios.live_page.page_process import PageProcess
from sheafedge.scenarios.live_page.page_server import open_port

from .conftest import Told, started, told_round

LIMIT_S = 30.0


class Page:
    """A page process that a test tells what happens."""

    def __init__(self, facts: Told) -> None:
        listening = open_port(0)
        self._address = listening.getsockname()
        self._told: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.tell(facts)
        self.failures: list[Exception] = []
        self._process = PageProcess(iter(self._told.get, None), listening)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def tell(self, told: Told) -> None:
        self._told.put(json.dumps(told).encode())

    def say(self, line: bytes) -> None:
        self._told.put(line)

    def close(self) -> None:
        """The pipe ends; the process ends too."""
        self._told.put(None)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def until(self, text: str) -> str:
        """The first page that says this, asked for as a browser does."""
        after = ""
        while True:
            connection = http.client.HTTPConnection(*self._address, timeout=LIMIT_S)
            connection.request("GET", f"/?after={after}")
            page = connection.getresponse().read().decode()
            connection.close()
            if text in page:
                return page
            after = page.partition('data-version="')[2].partition('"')[0]

    def _serve(self) -> None:
        try:
            self._process.serve()
        except Exception as error:  # noqa: BLE001 - a test asks for it
            self.failures.append(error)


@pytest.fixture
def page(facts: Told) -> Iterator[Page]:
    page = Page(facts)
    yield page
    page.close()


def test_a_page_follows_its_run_to_the_end(page: Page) -> None:
    page.until("Loading")
    page.tell(started())
    page.tell(told_round(0))
    assert 'id="scores"' in page.until("Training: 1 of 3 rounds")
    page.tell({"what": "ended", "state": "complete", "sentence": "it has ended well"})
    assert 'class="status complete"' in page.until("it has ended well")
    page.close()
    with pytest.raises(ConnectionRefusedError):
        page.until("anything")
    assert page.failures == []


def test_a_run_that_dies_without_a_word_is_said_to_have_ended(page: Page) -> None:
    page.tell(started())
    page.tell(told_round(0))
    page.until("Training: 1 of 3 rounds")
    closing = threading.Thread(target=page.close)
    closing.start()
    assert 'class="status stopped"' in page.until("ended without a word; 1 of 3 rounds were complete")
    closing.join(LIMIT_S)
    assert page.failures == []


def test_what_cannot_be_understood_ends_the_process_and_not_silently(facts: Told) -> None:
    page = Page(facts)
    page.say(b"{")
    page._thread.join(LIMIT_S)
    assert not page._thread.is_alive()
    assert len(page.failures) == 1
