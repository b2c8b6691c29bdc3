"""A replay against a server that follows a script, and against a real one: nothing is lost without being counted."""

from __future__ import annotations

import heapq
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tomli_w
from doubles.bundles import tiny_bundle, tiny_manifest
from doubles.corner import N_BEAMS, record_corner
from doubles.running_server import running_server
from rich.console import Console
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.handover import HandoverRule
from sheafedge.emulator.edge.bundle import write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.frame_packets import Answer, Bye, Description, Dropped, Refused, Reply
from sheafedge.emulator.network.transport.curve_keys import make_keys, read_keys
from sheafedge.scenarios.replay import replaying
from sheafedge.scenarios.replay.replay_report import report, report_lines
from sheafedge.scenarios.replay.replaying import recording_of
from sheafedge.scenarios.replay.sensor_faults import BrokenSensor, SensorFaults, parsed_break
from sheafedge.scenarios.replay.session import Pace, Session, described
from sheafedge.scenarios.replay.station_stream import StationStream, station_stream
from sheafedge.scenarios.replay.stream_book import FrameOutcome, ReplayError, StreamBook
from sheafedge.scenarios.running.interrupts import StopRequest
from sheafedge.scenarios.schema.decision_section import DecisionSection
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.terminal import cli
from sheafedge.scenarios.terminal.replay_view import ReplayView, strip
from sheafedge.scenarios.value.handed_users import events_of_warnings
from sheafedge.scenarios.value.served_stations import ServedStation
from sheafedge.scenarios.value.user_links import ServedLink

MANIFEST = tiny_manifest(frames=4)
WINDOW = 4
#: The model warns from the first loud frame on until the last has left its window.
BLOCKED = "...................###........................##........."
LOUD = "................!..!!.........!.............................."[: len(BLOCKED)]
ROUNDING_S = 1e-9  # instants are sums of tenths
LIMIT_S = 60.0
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from sheafedge.scenarios.entry import main; main()"
)


@pytest.fixture
def corner(tmp_path: Path) -> Path:
    return record_corner(tmp_path / "corner.h5", BLOCKED, LOUD)


@pytest.fixture
def stream(corner: Path) -> Iterator[StationStream]:
    with RecordingReader(corner) as reader:
        yield station_stream(reader.base_stations[0], MANIFEST)


@dataclass
class ScriptedServer:
    """Answers as a test says, on a clock that only waiting moves.

    Attributes:
        reply_to: (stream, index, time_s) -> when from now on it says what; nothing: never.
        now_s: of the clock.
        sent: what arrived: when, stream, index, modalities, whether it asks.
        forgotten: streams that were to begin anew, and how much had been sent by then.
    """

    reply_to: Callable[[str, int, float], list[tuple[float, Reply]]]
    now_s: float = 100.0
    sent: list[tuple[float, str, int, tuple[str, ...], bool]] = field(default_factory=list)
    forgotten: list[tuple[str, int]] = field(default_factory=list)
    _due: list[tuple[float, int, Reply]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now_s

    def send(self, stream: str, index: int, time_s: float, frames: Mapping[Any, Any], *, ask: bool = True) -> None:
        self.sent.append((self.now_s, stream, index, tuple(frames), ask))
        if ask:
            for delay_s, reply in self.reply_to(stream, index, time_s):
                self.say(delay_s, reply)

    def say(self, delay_s: float, reply: Reply) -> None:
        heapq.heappush(self._due, (self.now_s + delay_s, len(self._due) + 1000 * len(self.sent), reply))

    def forget(self, stream: str) -> None:
        self.forgotten.append((stream, len(self.sent)))

    def ask_description(self) -> None:
        self.say(0.0, Description(MANIFEST.as_json(), "d" * 64, {"waiting": 3}))

    def receive(self, timeout_s: float = 0.0) -> Reply | None:
        if self._due and self._due[0][0] <= self.now_s + timeout_s:
            due_s, _, reply = heapq.heappop(self._due)
            self.now_s = max(self.now_s, due_s)
            return reply
        self.now_s += timeout_s
        return None


def answer(stream: str, index: int, time_s: float, logit: float = -1.0, **changes: Any) -> Answer:
    told: dict[str, Any] = {
        "stream": stream,
        "index": index,
        "time_s": time_s,
        "label": "blocked" if logit > 0 else "stays clear",
        "label_index": int(logit > 0),
        "probability": 0.9,
        "probabilities": [0.1, 0.9],
        "logits": [logit],
        "attention": {},
        "missing": [],
        "stale_s": {},
        "held": {},
        "spent_s": {"queued": 0.0, "model": 0.001, "total": 0.001},
        "bundle": "tiny",
        "digest": "d" * 64,
    }
    return Answer(**{**told, **changes})


class NobodyLooks:
    def look(self, session: Session, now_s: float, *, idle: bool) -> None:
        pass


def session_with(
    server: ScriptedServer,
    books: list[StreamBook],
    pace: Pace | None = None,
    faults: SensorFaults | None = None,
    stop: StopRequest | None = None,
) -> Session:
    return Session(
        server,
        "tcp://script",
        books,
        pace or Pace(),
        faults or SensorFaults(),
        server.clock,
        NobodyLooks(),
        stop or StopRequest(),
    )


def at_once(stream: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
    return [(0.0, answer(stream, index, time_s))]


def never(stream: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
    return []


def conserved(found: Mapping[str, Any]) -> bool:
    asked = found["questions"]
    return bool(
        asked["asked"]
        == asked["answered"] + asked["dropped"] + asked["refused"] + asked["unanswered"] + asked["awaited"]
    )


def test_at_a_speed_frames_leave_when_they_are_due_whatever_the_answers_do(stream: StationStream) -> None:
    def slow(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        return [(3.0, answer(name, index, time_s))]

    for reply_to in (at_once, slow):
        server = ScriptedServer(reply_to)
        session = session_with(server, [StreamBook(stream, MANIFEST, 2.0)], Pace(2.0))
        session.play()
        due_s = 100.0 + (stream.time_s - stream.time_s[0]) / 2.0
        np.testing.assert_allclose([when for when, *_ in server.sent], due_s, atol=ROUNDING_S)
        assert session.books[0].count(FrameOutcome.ANSWERED) == stream.asks.sum()
        assert session.lag.n_events == len(stream)
        assert session.lag.largest_s < ROUNDING_S


def test_latency_is_counted_from_sending_to_hearing(stream: StationStream) -> None:
    server = ScriptedServer(lambda name, index, time_s: [(0.003 * (1 + index % 2), answer(name, index, time_s))])
    book = StreamBook(stream, MANIFEST)
    session = session_with(server, [book])
    session.play()
    expected = 0.003 * (1 + stream.index[stream.asks] % 2)
    np.testing.assert_allclose(book.latency_s[stream.asks], expected, atol=ROUNDING_S)
    found = report(session, MANIFEST)
    assert found["latency_ms"]["max"] == pytest.approx(6.0)
    assert found["server_ms"]["p50"] == pytest.approx(1.0)


def test_at_full_speed_no_more_than_agreed_is_in_flight(stream: StationStream) -> None:
    open_questions, most = 0, 0

    def reply_to(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        nonlocal open_questions, most
        open_questions += 1
        most = max(most, open_questions)
        return [(0.05, answer(name, index, time_s))]

    class Counting(ScriptedServer):
        def receive(self, timeout_s: float = 0.0) -> Reply | None:
            nonlocal open_questions
            reply = super().receive(timeout_s)
            open_questions -= isinstance(reply, Answer)
            return reply

    session = session_with(Counting(reply_to), [StreamBook(stream, MANIFEST, None)], Pace(None, in_flight=3))
    session.play()
    assert most == 3
    found = report(session, MANIFEST)
    assert found["questions"]["answered"] == stream.asks.sum()
    assert found["foresight"]["usable_ms"] == {}


def test_windows_are_forgotten_before_every_stretch_and_at_the_end(tmp_path: Path) -> None:
    n = 40
    path = record_corner(tmp_path / "two.h5", "." * n, "." * n, sequence=[0] * 25 + [1] * 15)
    with RecordingReader(path) as reader:
        two = station_stream(reader.base_stations[0], MANIFEST)
        server = ScriptedServer(at_once)
        session_with(server, [StreamBook(two, MANIFEST)]).play()
    assert [n_sent for _, n_sent in server.forgotten] == [0, 20, 30]  # the last five frames of each have no label
    asked = [ask for *_, ask in server.sent]
    assert asked == [False] * 3 + [True] * 17 + [False] * 3 + [True] * 7


def test_a_server_that_falls_silent_is_given_up_and_its_questions_are_counted(stream: StationStream) -> None:
    def falls_silent(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        return at_once(name, index, time_s) if index < 10 else []

    server = ScriptedServer(falls_silent)
    session = session_with(server, [StreamBook(stream, MANIFEST)], Pace(1.0, patience_s=2.0))
    with pytest.raises(ReplayError, match=r"silent for 2 s with \d+ questions open"):
        session.play()
    assert server.now_s == pytest.approx(100.0 + 1.0 + 2.0, abs=0.3)
    found = report(session, MANIFEST)
    assert found["questions"]["answered"] == 10 - (WINDOW - 1)
    assert found["questions"]["unanswered"] > 0
    assert conserved(found)


def test_a_server_that_never_answers_ends_a_replay_at_full_speed_too(stream: StationStream) -> None:
    session = session_with(ScriptedServer(never), [StreamBook(stream, MANIFEST, None)], Pace(None, 2, patience_s=1.0))
    with pytest.raises(ReplayError, match="silent for 1 s with 2 questions open"):
        session.play()


def test_what_the_server_drops_or_refuses_is_counted_once(stream: StationStream) -> None:
    def mixed(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        if index % 5 == 0:
            return [(0.0, Dropped(name, index, time_s, "newer"))]
        if index % 5 == 1:
            return [(0.0, Refused(name, index, "values", "a frame of rf is not finite"))]
        if index % 5 == 2:
            return [*at_once(name, index, time_s), *at_once(name, index, time_s)]  # says it twice
        return at_once(name, index, time_s)

    server = ScriptedServer(mixed)
    server.say(0.0, answer("somebody", 3, 0.3))
    server.say(0.0, answer("bs00", 100_000, 0.3))
    session = session_with(server, [StreamBook(stream, MANIFEST)])
    session.play()
    found, asked = report(session, MANIFEST), stream.index[stream.asks]
    questions = found["questions"]
    assert questions["dropped"] == (asked % 5 == 0).sum()
    assert questions["refused"] == found["refusals"]["by_code"]["values"] == (asked % 5 == 1).sum()
    assert questions["unasked_replies"] == (asked % 5 == 2).sum() + 1
    assert questions["asked"] == len(asked)
    assert conserved(found)
    assert report_lines(found, stream.task)["refused"] == "a frame of rf is not finite"


def test_drift_that_the_server_saw_is_reported(stream: StationStream) -> None:
    def drifting(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        outside = {"rf": ["mean"]} if index % 3 == 0 else {}
        return [(0.0, answer(name, index, time_s, outside=outside, drifted={"answers": ["shares"]}))]

    session = session_with(ScriptedServer(drifting), [StreamBook(stream, MANIFEST)])
    session.play()
    found, asked = report(session, MANIFEST), stream.index[stream.asks]
    n_outside = int((asked % 3 == 0).sum())
    assert found["drift"] == {"known": True, "outside": {"rf": n_outside}, "drifted": {"answers": len(asked)}}
    said = f"frames outside of training: {n_outside} of rf; drifted: answers for {len(asked)} answers"
    assert report_lines(found, stream.task)["drift"] == said
    before = report(session, replace(MANIFEST, drift=None))
    assert report_lines(before, stream.task)["drift"].startswith("unknown")


def test_a_replay_without_drift_says_none(stream: StationStream) -> None:
    session = session_with(ScriptedServer(at_once), [StreamBook(stream, MANIFEST)])
    session.play()
    assert report_lines(report(session, MANIFEST), stream.task)["drift"] == "none"


def test_a_server_that_leaves_says_why(stream: StationStream) -> None:
    server = ScriptedServer(at_once)
    server.say(1.0, Bye("it is late"))
    with pytest.raises(ReplayError, match="has left: it is late"):
        session_with(server, [StreamBook(stream, MANIFEST)]).play()


def test_a_new_bundle_with_other_outputs_ends_the_replay(stream: StationStream) -> None:
    """The answer that ends it cannot be scored: its request counts as unanswered, and the report is JSON."""
    server = ScriptedServer(lambda name, index, time_s: [(0.0, answer(name, index, time_s, logits=[0.0] * 8))])
    session = session_with(server, [StreamBook(stream, MANIFEST)])
    with pytest.raises(ReplayError, match="answers with 8 logits"):
        session.play()
    found = report(session, MANIFEST)
    assert (found["questions"]["asked"], found["questions"]["unanswered"]) == (1, 1)
    assert conserved(found)
    assert not {"scores", "persistence"} & found.keys()
    json.dumps(found, allow_nan=False)


def test_a_request_to_stop_ends_it_with_what_was_found(stream: StationStream) -> None:
    stop = StopRequest()

    def stops(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        stop.is_made = index >= 20
        return [(0.5, answer(name, index, time_s))]

    session = session_with(ScriptedServer(stops), [StreamBook(stream, MANIFEST)], stop=stop)
    session.play()
    found = report(session, MANIFEST)
    assert found["questions"]["asked"] == found["questions"]["answered"] == 21 - (WINDOW - 1)
    assert found["recording_s"] == pytest.approx(2.0)
    assert conserved(found)


def test_a_request_to_stop_does_not_wait_for_a_silent_server(stream: StationStream) -> None:
    stop = StopRequest()

    def stops(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        stop.is_made = index >= 20
        return []

    server = ScriptedServer(stops)
    session = session_with(server, [StreamBook(stream, MANIFEST)], Pace(patience_s=30.0), stop=stop)
    session.play()
    assert server.now_s < 100.0 + 2.0 + 3.0
    assert report(session, MANIFEST)["questions"]["unanswered"] == 21 - (WINDOW - 1)


def test_answers_of_a_reloaded_bundle_are_told_apart(stream: StationStream) -> None:
    def reloaded(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        return [(0.0, answer(name, index, time_s, digest="a" if index < 20 else "b"))]

    session = session_with(ScriptedServer(reloaded), [StreamBook(stream, MANIFEST)])
    session.play()
    assert report(session, MANIFEST)["answers_by_digest"] == {"a": 17, "b": int(stream.asks.sum()) - 17}


def test_events_are_those_of_the_answers(stream: StationStream) -> None:
    """Warned at 16 and 17 (taken back) and 18 before the blockage at 19; never before the one at 46."""
    warned = {16, 18, 30, 31}
    server = ScriptedServer(
        lambda name, index, time_s: [(0.02, answer(name, index, time_s, 1 if index in warned else -1))]
    )
    session = session_with(server, [StreamBook(stream, MANIFEST)])
    session.play()
    events = report(session, MANIFEST)["foresight"]
    assert (events["onsets"], events["foretold"], events["missed"]) == (2, 1, 1)
    assert events["lead_ms"]["median"] == pytest.approx(100.0)
    assert events["usable_ms"]["median"] == pytest.approx(80.0)
    assert (events["alarms"], events["false_alarms"]) == (3, 1)


def test_a_run_counts_the_warnings_of_the_same_answers_alike(stream: StationStream) -> None:
    """One rule for both: at the end of a run, on samples; in a replay, on answers of a server."""
    draws = np.random.default_rng(5)
    warned, silent = (set(np.flatnonzero(draws.random(len(BLOCKED)) < share)) for share in (0.6, 0.2))

    def replies(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        if index in silent:
            return [(0.02, Dropped(name, index, time_s, "newer"))]
        return [(0.02, answer(name, index, time_s, 1 if index in warned else -1))]

    session = session_with(ScriptedServer(replies), [StreamBook(stream, MANIFEST)])
    session.play()
    replayed = session.books[0].warning_events()
    samples = stream.samples
    answered = np.isin(samples.end, stream.index[session.books[0].answered])
    station = ServedStation(
        client=cast("Any", None),
        link=ServedLink(samples, 1.0 / stream.rate_hz, np.zeros((0, 1))),
        logits=np.where(np.isin(samples.end, list(warned)), 1.0, -1.0)[:, None],
        delay_s=np.where(answered, 0.02, np.inf),
        device="",
        seconds=0.02,
    )
    known = stream.task.known_blockages(samples)
    assert known is not None
    at_once = DecisionSection(warn_above=0.5, handover=HandoverRule(prepare_s=0.0))
    run = events_of_warnings(stream.task, at_once, station, known)
    assert replayed is not None
    assert [one.outcome for one in run.onsets] == [one.outcome for one in replayed.onsets]
    for mine, theirs in zip(run.onsets, replayed.onsets, strict=True):
        assert (mine.lead_s, mine.usable_s) == pytest.approx((theirs.lead_s, theirs.usable_s))
    assert (run.n_alarms, run.n_false_alarms) == (replayed.n_alarms, replayed.n_false_alarms)
    assert run.clear_s == pytest.approx(replayed.clear_s)
    assert run.n_alarms > run.n_false_alarms > 0


def test_the_server_says_what_it_serves_and_how_much_may_wait() -> None:
    served = described(ScriptedServer(never), "tcp://script", 1.0)
    assert served.manifest == MANIFEST
    assert (served.digest, served.waiting) == ("d" * 64, 3)


# --- sensors that break ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lidar", BrokenSensor("lidar")),
        ("rf@30", BrokenSensor("rf", 30.0)),
        ("gps@1.5-60", BrokenSensor("gps", 1.5, 60.0)),
    ],
)
def test_breaks_are_read(text: str, expected: BrokenSensor) -> None:
    assert parsed_break(text) == expected


@pytest.mark.parametrize("text", ["", "sonar", "lidar@", "lidar@x", "lidar@-3", "lidar@3-", "lidar@9-3", "lidar@3-3"])
def test_what_is_no_break_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--drop"):
        parsed_break(text)


def frames(*modalities: str) -> dict[Any, Any]:
    return {modality: np.zeros(1) for modality in modalities}


def test_a_broken_sensor_gives_nothing_for_its_time_alone() -> None:
    faults = SensorFaults([parsed_break("lidar@1-2")])
    kept = [set(faults.arriving("bs00", at_s, frames("lidar", "rf"))) for at_s in (0.9, 1.0, 1.9, 2.0)]
    assert kept == [{"lidar", "rf"}, {"rf"}, {"rf"}, {"lidar", "rf"}]
    assert (faults.n_broken, faults.n_lost) == (2, 0)


def test_losses_come_from_the_seed_alone_and_a_broken_sensor_does_not_move_them() -> None:
    def lost(seed: int, stream: str = "bs00", broken: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        faults = SensorFaults([parsed_break(one) for one in broken], 0.3, seed)
        return [tuple(faults.arriving(stream, 0.1 * i, frames("lidar", "rf"))) for i in range(400)]

    assert lost(1) == lost(1)
    assert lost(1) != lost(2)
    assert lost(1) != lost(1, "bs01")
    assert ["rf" in one for one in lost(1, broken=("lidar",))] == ["rf" in one for one in lost(1)]
    assert np.mean(["rf" in one for one in lost(1)]) == pytest.approx(0.7, abs=0.07)  # three standard errors


@pytest.mark.parametrize("loss", [-0.1, 1.0, float("nan")])
def test_a_loss_that_is_no_probability_is_refused(loss: float) -> None:
    with pytest.raises(ConfigError, match="--loss must lie in"):
        SensorFaults((), loss)


def test_a_seed_below_zero_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigError, match=r"--seed must be at least 0, got -1; the default is 0"):
        replaying.ReplayRequest(Path("nothing.h5"), "nowhere", loss=0.1, seed=-1)


def test_instants_of_which_everything_is_lost_are_not_asked_and_told(stream: StationStream) -> None:
    faults = SensorFaults([parsed_break("lidar"), parsed_break("rf@2-3")])
    server = ScriptedServer(at_once)
    session = session_with(server, [StreamBook(stream, MANIFEST)], faults=faults)
    session.play()
    found = report(session, MANIFEST)
    assert found["questions"]["withheld"] == 10
    assert found["questions"]["asked"] == stream.asks.sum() - 10
    assert found["frames"] == {"sent": len(stream) - 10, "lost": 0, "broken": len(stream) + 10}
    assert {modalities for *_, modalities, _ in server.sent} == {("rf",)}


# --- the view --------------------------------------------------------------------------------------------------------


def test_a_terminal_shows_what_was_so_and_what_was_said(stream: StationStream) -> None:
    server = ScriptedServer(
        lambda name, index, time_s: [
            (0.0, answer(name, index, time_s, 1 if 16 <= index < 22 else -1, attention={"lidar": 0.25, "rf": 0.75}))
        ]
    )
    console = Console(force_terminal=True, width=100, height=40, record=True, file=StringIO())
    book = StreamBook(stream, MANIFEST)
    with ReplayView(console, MANIFEST, "replaying corner", 5.1) as view:
        session = Session(server, "tcp://script", [book], Pace(), SensorFaults(), server.clock, view, StopRequest())
        session.play()
    lines = [line.plain for line in strip(book, MANIFEST)]
    assert lines[0] == "bs00  corner 0"
    assert lines[1].endswith("▁" * 19 + "███" + "▁" * 24 + "██" + "▁" * 4)
    assert lines[2].endswith("   " + "·" * 13 + "!" * 6 + "·" * 30)
    assert lines[3].endswith("stays clear (0.90), lidar 25% rf 75%")
    assert "balanced accuracy" in console.export_text()


def test_elsewhere_there_are_a_few_plain_lines(stream: StationStream, capsys: pytest.CaptureFixture[str]) -> None:
    server = ScriptedServer(at_once)
    with ReplayView(Console(), MANIFEST, "replaying corner", float(stream.time_s[-1])) as view:
        Session(
            server,
            "tcp://script",
            [StreamBook(stream, MANIFEST)],
            Pace(),
            SensorFaults(),
            server.clock,
            view,
            StopRequest(),
        ).play()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "replaying corner"
    assert 5 <= len(said) <= 8
    assert "\x1b" not in "".join(said)


# --- the command -----------------------------------------------------------------------------------------------------


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", "replay", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code: int | None = ended.value.code  # type: ignore[assignment]
    return code


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny", frames=WINDOW)) as address:
        yield address


def summary(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def model_warns(instant: int) -> bool:
    return "!" in LOUD[instant - WINDOW + 1 : instant + 1]


def test_a_real_server_is_asked_everything_and_scored_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path, served: str
) -> None:
    assert not command(monkeypatch, str(corner), "--to", served, "--speed", "max", "--json")
    found = summary(capsys)
    asked = range(WINDOW - 1, len(BLOCKED) - 5)
    assert found["questions"]["answered"] == found["questions"]["asked"] == len(asked)
    soon = np.array(["#" in BLOCKED[i + 1 : i + 6] for i in asked])
    warned = np.array([model_warns(i) for i in asked])
    assert 0 < warned.sum() < len(asked)
    recalls = (warned[soon].mean(), (~warned[~soon]).mean())
    assert found["scores"]["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    assert found["scores"]["accuracy"] == pytest.approx((warned == soon).mean())
    assert found["foresight"]["foretold"] == 1  # warned from 16 on, blocked from 19 on
    assert found["foresight"]["missed"] == 1
    assert found["foresight"]["lead_ms"]["median"] == pytest.approx(300.0)
    assert found["foresight"]["false_alarms"] == 2  # at 31, and at 22, where the warning outlives its blockage
    assert found["streams"]["bs00"]["station"] == "corner 0"
    assert len(found["answers_by_digest"]) == 1


def test_a_broken_sensor_is_seen_in_the_answers_of_a_real_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path, served: str
) -> None:
    assert not command(monkeypatch, str(corner), "--to", served, "--speed", "max", "--drop", "lidar@2", "--json")
    found = summary(capsys)
    # two stand-ins bridge the first instants, and then it is missing until the end
    assert found["missing"] == {"lidar": len(BLOCKED) - 5 - 20 - 2}
    assert found["held"] == 2
    assert found["questions"]["answered"] == found["questions"]["asked"]
    assert found["frames"]["broken"] == len(BLOCKED) - 5 - 20


def test_all_base_stations_can_be_streamed_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, served: str
) -> None:
    path = record_corner(tmp_path / "three.h5", BLOCKED, LOUD, stations=3)
    assert not command(
        monkeypatch, str(path), "--to", served, "--speed", "max", "--station", "all", "--seconds", "3", "--json"
    )
    found = summary(capsys)
    assert set(found["streams"]) == {"bs00", "bs01", "bs02"}
    assert {one["questions"]["answered"] for one in found["streams"].values()} == {27}
    assert found["questions"]["answered"] == 81


def test_the_summary_of_a_real_session_is_plain_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path, served: str
) -> None:
    assert not command(monkeypatch, str(corner), "--to", served, "--speed", "max", "--from", "1", "--seconds", "2")
    said = capsys.readouterr().out
    assert re.search(r"^answers +\d+ of 17 requests; ", said, re.MULTILINE)
    assert re.search(r"^latency +p50 \d+\.\d ms, p99 \d+\.\d ms; in the server", said, re.MULTILINE)
    assert re.search(r"^onsets +1: 1 predicted in time, 0 missed", said, re.MULTILINE)


def test_a_bundle_that_was_trained_here_is_replayed_where_it_was_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = record_corner(tmp_path / "three.h5", BLOCKED, LOUD, stations=3)
    manifest, content = read_bundle(tiny_bundle(tmp_path / "tiny", frames=WINDOW))
    trained = {**manifest.trained, "recording": "bs01, corner 1", "held_out_from_s": 2.0}
    write_bundle(tmp_path / "own", replace(manifest, trained=trained), content)
    with running_server(tmp_path / "own") as address:
        arguments = (str(path), "--to", address, "--speed", "max", "--json")
        assert not command(monkeypatch, *arguments)
        found = summary(capsys)
        assert list(found["streams"]) == ["bs01"]
        assert found["questions"]["asked"] == len(BLOCKED) - 5 - 20 - (WINDOW - 1)
        assert found["notes"] == []
        assert not command(monkeypatch, *arguments, "--part", "all")
        assert "scores flatter it" in summary(capsys)["notes"][0]
        assert not command(monkeypatch, *arguments, "--from", "2.5")
        assert summary(capsys)["notes"] == []
        assert not command(monkeypatch, *arguments, "--station", "bs02")
        assert "bs02 is not where tiny was trained" in summary(capsys)["notes"][0]


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert command(monkeypatch, *arguments) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("\n") == 1
    return caught.err


def test_a_server_with_keys_answers_who_holds_theirs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    make_keys(keys)
    bundle = tiny_bundle(tmp_path / "tiny", frames=WINDOW)
    with running_server(bundle, keys=read_keys(keys, "engine")) as address:
        arguments = (str(corner), "--to", address, "--speed", "max", "--json")
        assert not command(monkeypatch, *arguments, "--keys", str(keys))
        found = summary(capsys)
        assert found["questions"]["answered"] == found["questions"]["asked"] > 0
        assert "said nothing within 0.3 s" in refused(monkeypatch, capsys, *arguments, "--patience", "0.3")


def test_images_that_training_changed_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, corner: Path
) -> None:
    manifest, content = read_bundle(tiny_bundle(tmp_path / "tiny", frames=WINDOW))
    trained = {**manifest.trained, "recording": "bs00, corner 0", "held_out_from_s": 0.0, "images": "occluded"}
    write_bundle(tmp_path / "own", replace(manifest, trained=trained), content)
    with running_server(tmp_path / "own") as address:
        assert not command(monkeypatch, str(corner), "--to", address, "--speed", "max", "--json")
    (note,) = summary(capsys)["notes"]
    assert note.startswith("tiny was trained on images that are occluded")


def test_nobody_there_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path
) -> None:
    with socket.socket() as taken:  # bound, so that nobody else is there, and deaf
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        said = refused(monkeypatch, capsys, str(corner), "--to", address, "--patience", "0.2")
    assert f"{address} said nothing within 0.2 s; start a server there with: sheafedge serve" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--speed", "fast"), "--speed must be a number above 0, or max, got 'fast'"),
        (("--speed", "0"), "--speed must be a number above 0"),
        (("--speed", "nan"), "--speed must be a number above 0"),
        (("--from", "-1"), "--from must be at least 0 s"),
        (("--seconds", "0"), "--seconds must be above 0"),
        (("--drop", "sonar"), "--drop 'sonar' is no sensor and time"),
        (("--loss", "1"), "--loss must lie in"),
        (("--loss", "0.1", "--seed", "-1"), "--seed must be at least 0, got -1; the default is 0"),
        (("--station", "bs07"), "--station 'bs07' is none of this recording"),
        (("--from", "1000"), "nothing to ask"),
        (("--label", "blocked_power"), "blocked_power"),
    ],
)
def test_every_mistake_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    corner: Path,
    served: str,
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    assert complaint in refused(monkeypatch, capsys, str(corner), "--to", served, *arguments)


def test_what_is_no_recording_or_no_address_needs_no_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path, tmp_path: Path
) -> None:
    assert "nothing.h5" in refused(monkeypatch, capsys, str(tmp_path / "nothing.h5"), "--to", "tcp://127.0.0.1:9")
    assert "10.0.0.1" in refused(monkeypatch, capsys, str(corner), "--to", "tcp://10.0.0.1:9")
    assert "tcp://HOST:PORT" in refused(monkeypatch, capsys, str(corner), "--to", "nowhere")


def test_the_tiny_model_and_the_corner_fit_each_other() -> None:
    assert next(one for one in MANIFEST.inputs if one.modality == "rf").frame_shape == (N_BEAMS,)


def test_a_server_that_falls_silent_leaves_a_summary_and_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], corner: Path
) -> None:
    def falls_silent(name: str, index: int, time_s: float) -> list[tuple[float, Reply]]:
        return at_once(name, index, time_s) if index < 20 else []

    class Scripted(ScriptedServer, AbstractContextManager["Scripted"]):
        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(replaying, "FrameClient", lambda *_, **__: Scripted(falls_silent))
    code = command(monkeypatch, str(corner), "--to", "tcp://script", "--speed", "max", "--patience", "0.2", "--json")
    caught = capsys.readouterr()
    assert code == 2
    assert caught.err.splitlines()[-1].startswith(
        "error: tcp://script has been silent for 0.2 s with 3 questions open;"
    )
    found = json.loads(caught.out)
    assert (found["questions"]["answered"], found["questions"]["unanswered"]) == (17, 3)
    assert conserved(found)


def test_an_interrupt_ends_with_a_summary(tmp_path: Path, served: str) -> None:
    path = record_corner(tmp_path / "long.h5", "." * 6000, "." * 6000)
    arguments = ["replay", str(path), "--to", served]
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("replaying long.h5 to tiny")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert re.search(r"^stopping; press Ctrl-C again to stop without a summary$", out, re.MULTILINE)
    assert re.search(r"^tiny  \d+\.\d s of long.h5", out, re.MULTILINE)
    assert "Traceback" not in err


def test_a_replay_needs_neither_torch_nor_the_runtime() -> None:
    """It may run on a machine that only holds recordings, and starts at once."""
    probe = (
        "import sys; import sheafedge.scenarios.replay.replaying;"
        "print([name for name in ('torch', 'onnx', 'onnxruntime') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.strip() == "[]"


def test_the_folder_of_a_run_stands_for_its_recording(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(ConfigError, match=r"without scenario\.toml"):
        recording_of(run)
    scenario = load_scenario("blockage")
    names = [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    for recordings, n_clients in ((names[:1], 1), (names, 2)):
        edits = {"data.source": "recording", "data.recordings": recordings, "clients.n_clients": n_clients}
        (run / "scenario.toml").write_text(tomli_w.dumps(scenario.edited(edits).tables()), encoding="utf-8")
        if len(recordings) == 1:
            assert recording_of(run) == tmp_path / "a.h5"
        else:
            with pytest.raises(ConfigError, match=r"was trained on .*a.h5, .*b.h5; give one recording"):
                recording_of(run)
    edits = {"data.source": "deepsense", "data.root": "somewhere"}
    (run / "scenario.toml").write_text(
        tomli_w.dumps(load_scenario("beam_tracking").edited(edits).tables()), encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="gathered rows, which hold no frames"):
        recording_of(run)
