"""A run with a page is the run without one, whatever the page, its process and its visitors do."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.live_page import live_page, page_feed
from sheafedge.scenarios.live_page.live_page import LivePage
from sheafedge.scenarios.live_page.page_feed import PageFeed
from sheafedge.scenarios.live_page.page_server import open_port
from sheafedge.scenarios.running.progress import NoRunProgress, RunProgress
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario

#: Stands for a process that ends at once, with its last words.
FAILS = "sheafedge.version"


class Feed:
    """Remembers what it is told."""

    failure = ""

    def __init__(self, listening: socket.socket, first: Mapping[str, Any]) -> None:
        listening.close()
        self.told: list[dict[str, Any]] = [json.loads(json.dumps(first))]

    def tell(self, what: Mapping[str, Any]) -> None:
        self.told.append(json.loads(json.dumps(what)))

    def close(self) -> None:
        self.told.append({"what": "closed"})


class Shown(NoRunProgress):
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.n_rounds = 0

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.n_rounds += 1


@pytest.fixture
def feeds(monkeypatch: pytest.MonkeyPatch) -> list[Feed]:
    """Feeds instead of processes."""
    made: list[Feed] = []

    def feed(listening: socket.socket, first: Mapping[str, Any]) -> Feed:
        made.append(Feed(listening, first))
        return made[-1]

    monkeypatch.setattr(live_page, "PageFeed", feed)
    return made


def trace_hash(folder: Path) -> str:
    found: str = json.loads((folder / "summary.json").read_text())["trace_hash"]
    return found


def test_the_trace_does_not_know_of_the_page_and_its_visitors(
    tiny: Scenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also not where visitors read nothing, talk nonsense or go away."""
    visitors: list[socket.socket] = []

    class Visiting(NoRunProgress):
        def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
            address = capsys.readouterr().out.rpartition("http://")[2].partition("/")[0].split(":")
            for said in (
                (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\xff\0\r\n\r\n", b"") if len(address) == 2 else ()
            ):
                visitors.append(socket.create_connection((address[0], int(address[1]))))
                visitors[-1].sendall(said)
            visitors[-1].close()

    watched = run_scenario(tiny, tmp_path / "watched", Visiting(), live=True)
    alone = run_scenario(tiny, tmp_path / "alone")
    assert len(visitors) == 3
    for visitor in visitors:
        visitor.close()
    assert trace_hash(watched.folder) == trace_hash(alone.folder)
    metrics = [(folder / "metrics.jsonl").read_bytes() for folder in (watched.folder, alone.folder)]
    assert metrics[0] == metrics[1]


def test_a_page_is_told_what_its_run_writes_down(tiny: Scenario, tmp_path: Path, feeds: list[Feed]) -> None:
    result = run_scenario(tiny, tmp_path / "run", live=True)
    (feed,) = feeds
    facts, *told = feed.told
    assert facts["folder"] == str(tmp_path / "run")
    assert [one["what"] for one in told] == ["started", "round", "round", "ended", "closed"]
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row for one in told[1:3] for row in one["rows"]] == rows
    for group, figures in told[2]["scored"].items():
        assert figures == result.summary["groups"][group]
    assert told[2]["traffic"] == result.summary["traffic"]
    lost = sum(edge[7] for edge in told[2]["edges"])
    assert lost == result.summary["traffic"]["lost_packets"]
    assert told[3]["sentence"] == (
        f"The run has ended: 2 rounds are complete; its results are in {tmp_path / 'run'}"
    )  # fmt: skip


def test_how_a_run_ended_is_told(tiny: Scenario, tmp_path: Path, feeds: list[Feed]) -> None:
    error = ConfigError("the disk is full")
    error.add_note("results so far are in run.failed")
    for raised in (KeyboardInterrupt(), error):
        with pytest.raises(type(raised)), LivePage(open_port(0), tiny, tmp_path / "run"):
            raise raised
    ends = [(feed.told[-2]["state"], feed.told[-2]["sentence"]) for feed in feeds]
    assert ends == [
        ("interrupted", "The run was interrupted after 0 rounds"),
        ("failed", "The run failed after 0 rounds: the disk is full; results so far are in run.failed"),
    ]
    report = tmp_path / "report.html"
    report.write_text("", encoding="utf-8")
    with LivePage(open_port(0), tiny, tmp_path / "run", report):
        pass
    assert feeds[-1].told[-2]["sentence"].endswith(f"its report is {report}")


def test_rounds_before_a_checkpoint_are_told_without_a_broken_last_line(
    tiny: Scenario, tmp_path: Path, feeds: list[Feed]
) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"round": 0}\n{"round": 1}\n{"rou', encoding="utf-8")
    with LivePage(open_port(0), tiny, tmp_path / "run", resumed=tmp_path):
        pass
    assert feeds[0].told[0]["earlier"] == ['{"round": 0}', '{"round": 1}']


def test_every_call_is_passed_on_also_by_a_page_that_fails(
    tiny: Scenario, tmp_path: Path, feeds: list[Feed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object that stands for an emulation has nothing of one, so that the page fails at once."""
    called: list[str] = []
    names = [name for name in vars(RunProgress) if not name.startswith("_")]
    shown = NoRunProgress()
    for name in names:
        monkeypatch.setattr(shown, name, lambda *arguments, name=name: called.append(name))
    with LivePage(open_port(0), tiny, tmp_path / "run") as page:
        progress = page.following(shown)
        for name in names:
            n_arguments = RunProgress.__dict__[name].__code__.co_argcount - 1
            getattr(progress, name)(*[[{"round": 0}]] * n_arguments)
    assert called == [*names[:3], "noted", *names[3:]]


def test_a_process_that_fails_costs_a_note(tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_feed, "PAGE_MODULE", FAILS)
    shown = Shown()
    with LivePage(open_port(0), tiny, tmp_path / "run") as page:
        feed: PageFeed = page._feed
        feed._process.wait()
        feed.tell({"what": "anything"})
        feed._thread.join()
        progress = page.following(shown)
        for _ in range(3):
            progress.noted("something")
            progress.round_recorded([{"round": 0}])
    note = "the live page failed and shows no more of this run (its process ended with exit code 0)"
    assert shown.notes == ["something", note, "something", "something"]
    assert shown.n_rounds == 3


def test_a_process_that_takes_nothing_is_left_alone(
    tiny: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_feed, "MOST_PENDING", 100)
    with LivePage(open_port(0), tiny, tmp_path / "run") as page:
        assert page.failure == "it takes nothing any more"
