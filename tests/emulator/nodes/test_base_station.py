"""Lives of base stations on the simulated clock: order of calls, instants worked out by hand, errors, pools.

Three stations in a row, 0 - 1 - 2, with devices of different speed; all instants are binary fractions, so exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from doubles.emulation import DirectTransport, ScriptedLearner, ScriptedLink
from doubles.stations import DELAY_S, DEVICES, HEAVY, LIGHT, ROW
from sheafedge.emulator.contracts import ConfigError, DivergedError, Learner, Message, MessageKind, Phase
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.nodes.base_station import BaseStation, play_rounds
from sheafedge.emulator.nodes.compute_pool import ComputePool, SerialPool, ThreadPool
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.learner_host import LocalHost
from sheafedge.emulator.nodes.missing import MISSING_POLICIES
from sheafedge.emulator.nodes.station_context import RoundPace, StationContext
from sheafedge.emulator.recorder import Recorder

ROUNDING = 1e-12  # a few sums of numbers below 100
GIVE_UP_S = 20.0  # only broken code ever waits so long


class Row:
    """A run of three stations; what happened can be read afterwards."""

    def __init__(
        self,
        phases: Sequence[Phase] = (HEAVY, LIGHT),
        *,
        pool: ComputePool | None = None,
        policy: str = "skip",
        deadline_s: float | None = None,
        losses: Mapping[tuple[int, int], Sequence[Sequence[int]]] | None = None,
        observe: Callable[[Learner, int], Mapping[str, Any]] = lambda learner, _: learner.health(),
        learner: type[ScriptedLearner] = ScriptedLearner,
        pace: RoundPace | None = None,
        begin_round: Callable[[ScriptedLearner, float], None] | None = None,
    ) -> None:
        self.env = EmulatorEnvironment(seed=0)
        self.observed: list[tuple[Any, ...]] = []
        self.recorder = Recorder(frozenset({MessageKind.ENCODER}), lambda *told: self.observed.append(told))
        self.learners = [learner(node, peers, phases, lambda: self.env.now) for node, peers in ROW.items()]
        inboxes = {node: Inbox(self.env, MISSING_POLICIES[policy](), self.recorder) for node in ROW}
        edges = [(sender, receiver) for sender, peers in ROW.items() for receiver in peers]
        links = {edge: ScriptedLink(self.env, DELAY_S, (losses or {}).get(edge, ())) for edge in edges}
        deliver: dict[int, Callable[[Message], None]] = {node: inbox.put for node, inbox in inboxes.items()}
        network = Network(self.env, DirectTransport(), links, deliver, self.recorder)
        barrier = Barrier(self.env, len(ROW))
        context = StationContext(self.env, network, barrier, self.recorder, deadline_s, pace)
        works = pool or SerialPool()
        self.stations = [
            BaseStation(
                LocalHost(each, works, observe),
                DEVICES[each.client_id],
                inboxes[each.client_id],
                context,
                begin_round and partial(begin_round, each),
            )
            for each in self.learners
        ]

    def play(self, rounds: int = 1) -> Row:
        play_rounds(self.env, self.stations, range(rounds))
        return self

    def calls(self, node: int) -> list[tuple[str, str, int]]:
        return [(call.name, call.phase, call.round_index) for call in self.learners[node].calls]

    def heard(self, node: int) -> list[tuple[int, ...]]:
        """Senders of what the node absorbed, phase by phase."""
        return [call.senders for call in self.learners[node].calls if call.name == "absorb"]

    def instants(self, name: str, phase: str) -> list[float]:
        return [call.now_s for each in self.learners for call in each.calls if (call.name, call.phase) == (name, phase)]


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    pool = ThreadPool(3)
    yield pool
    pool.close()


# --- order ------------------------------------------------------------------------------------------------------------


def test_every_phase_computes_then_absorbs_and_rounds_follow_each_other() -> None:
    row = Row().play(rounds=2)
    one_life = [(name, phase, r) for r in range(2) for phase in ("heavy", "light") for name in ("compute", "absorb")]
    assert all(row.calls(node) == one_life for node in ROW)
    assert row.heard(1) == [(0, 2)] * 4
    assert row.heard(0) == row.heard(2) == [(1,)] * 4


def test_the_time_of_a_round_is_computing_or_waiting_for_messages_and_for_the_others() -> None:
    row = Row().play(rounds=1)
    times = {node: row.recorder.times_since(node) for node in ROW}
    # Phases last until the message of node 0, the slowest, is there: 2.5 + 0.25 s, then 0.5 + 0.25 s.
    assert {node: one["compute_s"] for node, one in times.items()} == {0: 3.0, 1: 2.0, 2: 1.5}
    assert {node: one["waiting_s"] for node, one in times.items()} == {0: 0.5, 1: 1.5, 2: 2.0}
    assert row.env.now == 3.5


def test_learners_are_looked_at_after_the_last_absorb_of_every_round() -> None:
    calls_seen: list[int] = []

    def observe(learner: Any, round_index: int) -> Mapping[str, Any]:
        calls_seen.append(len(learner.calls))
        return {"round": round_index, **learner.health()}

    row = Row(observe=observe).play(rounds=2)
    assert calls_seen == [4, 4, 4, 8, 8, 8]
    assert [told[1] for told in row.observed] == [told[3]["round"] for told in row.observed] == [0, 0, 0, 1, 1, 1]
    assert [sorted(told[0] for told in part) for part in (row.observed[:3], row.observed[3:])] == [[0, 1, 2]] * 2
    assert {told[0]: told[3]["number"] for told in row.observed[3:]} == {n: row.learners[n].number for n in ROW}


def test_no_round_is_played_when_none_is_asked_for() -> None:
    row = Row().play(rounds=0)
    assert (row.env.now, row.observed, row.calls(0)) == (0.0, [], [])


def test_a_message_of_a_phase_holds_what_was_true_when_the_phase_began() -> None:
    """All compute, then all absorb: nobody hears what a neighbor has learned in the same phase."""
    row = Row([LIGHT]).play()
    for node, peers in ROW.items():
        number = float(node + 1)
        for peer in peers:
            number = np.cos(number) + (peer + 1) + 20.0  # 1 * 2 + 2 * 3 + 3 * 4
        assert row.learners[node].number == pytest.approx(number, abs=ROUNDING)


# --- simulated time ---------------------------------------------------------------------------------------------------


def test_a_phase_ends_for_all_when_the_last_message_is_there() -> None:
    """Heavy: 0 sends at 2.5, heard by 1 at 2.75, the last event. Light: all send at 3.25, heard at 3.5."""
    row = Row().play(rounds=2)
    assert row.instants("compute", "heavy") == [0.0, 3.5] * 3
    assert row.instants("compute", "light") == [2.75, 6.25] * 3
    assert [told[2] for told in row.observed] == [3.5] * 3 + [7.0] * 3
    assert row.env.now == 7.0


def test_compute_time_and_energy_come_from_the_device_profile() -> None:
    row = Row().play(rounds=2)
    assert row.recorder.energy_j == {0: 4.0 * 2 * 3.0, 1: 2.0 * 2 * 2.0, 2: 8.0 * 2 * 1.5}  # W * rounds * s per round


def test_a_slow_station_keeps_all_others_at_the_barrier_even_those_it_does_not_talk_to() -> None:
    """Station 2 has heard from 1 at 1.75 and needs nothing from 0, yet starts the next phase with it."""
    row = Row().play()
    assert [call.now_s for call in row.learners[2].calls if call.name == "compute"] == [0.0, 2.75]


def test_the_deadline_counts_from_the_start_of_the_phase() -> None:
    """Heavy: 1 gives up on 0 at 2.625, 0.125 before its message is there; light: nothing is missing at 3.125 + 0.25."""
    row = Row(deadline_s=2.625).play()
    assert row.heard(1) == [(2,), (0, 2)]
    assert row.heard(0) == row.heard(2) == [(1,), (1,)]
    assert row.instants("compute", "light") == [2.625] * 3
    assert row.recorder.traffic.late_messages == 1
    assert row.env.now == 2.625 + 0.5 + DELAY_S


def test_a_deadline_that_is_never_reached_changes_nothing() -> None:
    assert Row(deadline_s=1000.0).play(3).recorder.trace_hash == Row().play(3).recorder.trace_hash


def test_a_lost_message_costs_its_receiver_the_wait_until_the_deadline() -> None:
    """The message 2 -> 1 never comes: 1 waits until 4.0 though 0 was heard at 2.75; the others wait for 1."""
    row = Row([HEAVY], deadline_s=4.0, losses={(2, 1): [(0, 1, 2)]}).play(rounds=2)
    assert row.heard(1) == [(0,), (0, 2)]
    assert row.instants("compute", "heavy") == [0.0, 4.0] * 3
    assert row.env.now == 4.0 + 2.75


def test_a_station_slower_than_the_deadline_still_sends_and_its_messages_are_late() -> None:
    """Nobody waits for messages beyond 1.25; the barrier waits for station 0 until 2.5."""
    row = Row([HEAVY], deadline_s=1.25).play(rounds=2)
    assert row.heard(0) == [(1,), (1,)]  # sent at 1.5, there before 0 itself is ready
    assert row.heard(1) == [(2,), (2,)]  # there at 1.25, before 1 is ready at 1.5
    assert row.heard(2) == [(), ()]
    assert row.instants("compute", "heavy") == [0.0, 2.5] * 3
    assert row.recorder.traffic.late_messages == 3  # the fourth, 0 -> 1 of the last round, arrives after the end


@pytest.mark.parametrize(("policy", "heard"), [("skip", [(0, 2), (0,)]), ("stale", [(0, 2), (0, 2)])])
def test_the_policy_decides_what_becomes_of_a_missing_message(policy: str, heard: list[tuple[int, ...]]) -> None:
    row = Row([HEAVY], policy=policy, deadline_s=4.0, losses={(2, 1): [(), (0, 1, 2)]}).play(rounds=2)
    assert row.heard(1) == heard


# --- the beginning of a round -----------------------------------------------------------------------------------------


def test_rounds_begin_at_their_instants_after_a_warm_up() -> None:
    """A round takes 3.5 s, as worked out above, and then there is time left."""
    row = Row(pace=RoundPace(10.0, 4.0)).play(rounds=3)
    assert row.instants("compute", "heavy") == [10.0, 14.0, 18.0] * 3
    assert [told[2] for told in row.observed] == [13.5] * 3 + [17.5] * 3 + [21.5] * 3
    assert row.env.now == 21.5


def test_a_round_that_takes_longer_delays_the_next_and_time_is_caught_up() -> None:
    """The loss makes the second round last 5.75 s: the third begins at 17.75 and not at 16; the seventh is on time."""
    row = Row(pace=RoundPace(8.0, 4.0), deadline_s=5.0, losses={(2, 1): [(), (), (0, 1, 2), ()]}).play(rounds=7)
    assert row.instants("compute", "heavy") == [8.0, 12.0, 17.75, 21.25, 24.75, 28.25, 32.0] * 3


def test_a_pace_that_no_round_keeps_up_with_changes_nothing() -> None:
    paced = Row(pace=RoundPace(0.0, 3.0), begin_round=lambda *_: None).play(rounds=3)
    assert paced.recorder.trace_hash == Row().play(rounds=3).recorder.trace_hash
    assert paced.recorder.trace_hash != Row(pace=RoundPace(0.0, 4.0)).play(rounds=3).recorder.trace_hash


@pytest.mark.parametrize("wrong", [(-1.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1.0, float("inf"))])
def test_a_pace_that_cannot_be_is_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=r"live\.(warm_up|round_every)_s must lie in"):
        RoundPace(*wrong)


@pytest.mark.parametrize("threaded", [False, True])
def test_the_beginning_of_every_round_is_told_before_its_first_computation(threaded: bool, threads: ThreadPool) -> None:
    """And after everything of the round before, the look at its end included, on the thread of the clock."""
    told: list[tuple[int, float, list[tuple[str, str, int]], int]] = []

    def begin_round(learner: ScriptedLearner, now_s: float) -> None:
        calls = [(call.name, call.phase, call.round_index) for call in learner.calls]
        told.append((learner.client_id, now_s, calls, threading.get_ident()))

    row = Row(pool=threads if threaded else SerialPool(), begin_round=begin_round).play(rounds=3)
    assert [now_s for _, now_s, _, _ in told] == [0.0] * 3 + [3.5] * 3 + [7.0] * 3
    assert [sorted(node for node, *_ in told[first : first + 3]) for first in (0, 3, 6)] == [[0, 1, 2]] * 3
    for index, (node, _, calls, thread) in enumerate(told):
        assert calls == row.calls(node)[: 4 * (index // len(ROW))]
        assert thread == threading.get_ident()


class Reading(ScriptedLearner):
    """Reads what the beginning of a round changes."""

    n_rows = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[int] = []

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self.seen.append(self.n_rows)
        return super().compute(phase, round_index)


def test_a_learner_sees_a_change_from_the_round_on_that_begins_with_it(threads: ThreadPool) -> None:
    def more_rows(learner: Any, now_s: float) -> None:
        learner.n_rows += 1

    row = Row(pool=threads, learner=Reading, begin_round=more_rows).play(rounds=3)
    assert [learner.seen for learner in row.learners if isinstance(learner, Reading)] == [[1, 1, 2, 2, 3, 3]] * 3


def test_an_error_at_the_beginning_of_a_round_stops_the_run() -> None:
    def begin_round(learner: ScriptedLearner, now_s: float) -> None:
        if now_s > 0.0:
            raise ValueError(f"nothing sensed at {now_s}")

    with pytest.raises(ValueError, match=r"nothing sensed at 3\.5"):
        Row(begin_round=begin_round).play(rounds=3)


# --- errors -----------------------------------------------------------------------------------------------------------


class Diverging(ScriptedLearner):
    """Station 1 fails in the last phase of the second round, where the class says."""

    fails_in = "compute"

    def _called(self, name: str, phase: str, round_index: int, senders: tuple[int, ...] = ()) -> None:
        super()._called(name, phase, round_index, senders)
        if (self.client_id, name, phase, round_index) == (1, self.fails_in, "light", 1):
            raise DivergedError("client 1")


class DivergingLater(Diverging):
    fails_in = "absorb"


@pytest.mark.parametrize("learner", [Diverging, DivergingLater])
@pytest.mark.parametrize("threaded", [False, True])
def test_an_error_of_a_learner_stops_the_run(learner: type[Diverging], threaded: bool, threads: ThreadPool) -> None:
    row = Row(learner=learner, pool=threads if threaded else SerialPool())
    with pytest.raises(DivergedError, match="client 1"):
        row.play(rounds=3)
    assert row.calls(1)[-1] == (learner.fails_in, "light", 1)
    seen_of_1 = [told[1] for told in row.observed if told[0] == 1]
    assert seen_of_1 == [0]  # nothing is reported of the round in which it failed


def test_an_error_of_an_observer_stops_the_run() -> None:
    def observe(learner: Learner, round_index: int) -> Mapping[str, Any]:
        raise ValueError(f"nothing to see in round {round_index}")

    with pytest.raises(ValueError, match="round 0"):
        Row(observe=observe).play()


# --- pools ------------------------------------------------------------------------------------------------------------


def test_serial_and_threads_give_the_same_calls_and_the_same_trace(threads: ThreadPool) -> None:
    """Losses, deadlines and stale words included; every number depends on everything that was ever heard."""
    losses = {(0, 1): [(), (0, 1, 2), (1,)] * 3, (1, 2): [(0,), ()] * 4}

    def life(pool: ComputePool) -> Row:
        return Row(pool=pool, policy="stale", deadline_s=3.0, losses=losses).play(rounds=6)

    serial, threaded = life(SerialPool()), life(threads)
    assert [serial.calls(node) for node in ROW] == [threaded.calls(node) for node in ROW]
    assert [serial.heard(node) for node in ROW] == [threaded.heard(node) for node in ROW]
    assert serial.observed == threaded.observed
    assert serial.recorder.trace_hash == threaded.recorder.trace_hash
    assert serial.recorder.trace_hash != Row(policy="stale", deadline_s=3.0).play(rounds=6).recorder.trace_hash


class Meeting(ScriptedLearner):
    """Computes only when all three stations are computing: stuck if one is waited for before the others are asked."""

    place: threading.Barrier

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self.place.wait()
        return super().compute(phase, round_index)


def test_the_work_of_all_stations_runs_side_by_side(threads: ThreadPool) -> None:
    Meeting.place = threading.Barrier(3, timeout=GIVE_UP_S)

    def observe(learner: Learner, round_index: int) -> Mapping[str, Any]:
        Meeting.place.wait()
        return {}

    assert len(Row(pool=threads, learner=Meeting, observe=observe).play(rounds=2).observed) == 6
