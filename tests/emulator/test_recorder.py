"""The recorder counts what crossed the links, and its hash tells any two different runs apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from doubles.emulation import message, quiet_recorder
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError, Delivery, InFlight, MessageKind, MessageSlot
from sheafedge.emulator.recorder import Fate, Recorder
from sheafedge.emulator.saved_state import SavedState

SLOT = MessageSlot(0, "mix", 3, MessageKind.ENCODER, "gps")
OFFERED = InFlight(SLOT, receiver=5, size_bytes=100, checksum=77, frames=None)
ARRIVED = Delivery(1.5, np.zeros(0, dtype=np.int64), n_packets=4, n_retransmissions=0, airtime_s=0.1)


def losing(*packets: int, n_retransmissions: int = 0) -> Delivery:
    return ARRIVED._replace(lost_packets=np.array(packets, dtype=np.int64), n_retransmissions=n_retransmissions)


def trace(*entries: Callable[[Recorder], object]) -> str:
    recorder = quiet_recorder()
    for entry in entries:
        entry(recorder)
    return recorder.trace_hash


def sent(
    now_s: float = 1.0, offered: InFlight = OFFERED, fate: Delivery = ARRIVED, delivered: bool = True
) -> Callable[[Recorder], object]:
    return lambda recorder: tell(recorder, offered, fate, delivered, now_s)


def seen(now_s: float = 2.0, node: int = 3, round_index: int = 0, **values: Any) -> Callable[[Recorder], object]:
    return lambda recorder: recorder.observation(now_s, node, round_index, values or {"loss": 0.5})


def tell(recorder: Recorder, offered: InFlight, fate: Delivery, delivered: bool, now_s: float = 0.0) -> None:
    """A message, and what became of it."""
    recorder.offered([offered])
    recorder.decided([Fate(now_s, offered, fate, delivered)])


def test_every_message_is_counted_once_in_total_and_once_by_kind() -> None:
    recorder = quiet_recorder()
    projection = InFlight(SLOT._replace(kind=MessageKind.PROJECTION, modality=None, sender=4), 5, 30, 1, None)
    tell(recorder, OFFERED, ARRIVED, True)
    tell(recorder, OFFERED, losing(1, 2, n_retransmissions=3), True)
    tell(recorder, OFFERED, losing(0, 1, 2, 3), False)
    tell(recorder, projection, losing(0), False)
    assert recorder.traffic.as_dict() == {
        "messages": 4, "bytes": 330, "waiting_messages": 0, "lost_messages": 2, "dropped_messages": 0,
        "partial_messages": 1, "late_messages": 0,
        "lost_packets": 7, "retransmissions": 3,
        "dropped_by_faults": 0, "corrupted_messages": 0, "overtaken_messages": 0,
        "by_kind": {
            "encoder": {"messages": 3, "bytes": 300, "lost_messages": 1},
            "projection": {"messages": 1, "bytes": 30, "lost_messages": 1},
            "prototypes": {"messages": 0, "bytes": 0, "lost_messages": 0},
            "reprojection": {"messages": 0, "bytes": 0, "lost_messages": 0},
        },
    }  # fmt: skip
    assert recorder.bytes_sent == {3: 300, 4: 30}


def test_only_declared_kinds_have_counters() -> None:
    recorder = Recorder(frozenset({MessageKind.ENCODER}), lambda *_: None)
    assert list(recorder.traffic.by_kind) == ["encoder"]


def test_late_messages_and_energy_add_up() -> None:
    recorder = quiet_recorder()
    recorder.late(message())
    recorder.late(message())
    for seconds in (0.5, 1.5):
        recorder.computed(7, seconds, power_w=2.0)
    assert recorder.traffic.late_messages == 2
    assert recorder.energy_j == {7: 4.0}
    assert recorder.busy_s == {7: 2.0}


def test_an_observation_is_passed_on_as_it_is() -> None:
    heard: list[tuple[Any, ...]] = []
    recorder = Recorder(frozenset(), lambda *told: heard.append(told))
    recorder.observation(2.5, 3, 1, {"loss": 0.25})
    assert heard == [(3, 1, 2.5, {"loss": 0.25})]


def test_equal_runs_have_equal_hashes() -> None:
    run = (sent(), sent(fate=losing(1)), seen(), lambda recorder: recorder.late(message()))
    assert trace(*run) == trace(*run)
    assert trace(seen(a=1, b=2)) == trace(seen(b=2, a=1))  # the order of keys says nothing


@pytest.mark.parametrize(
    "other",
    [
        sent(now_s=1.0000000000000002),
        sent(offered=OFFERED._replace(receiver=6)),
        sent(offered=OFFERED._replace(size_bytes=101)),
        sent(offered=OFFERED._replace(checksum=78)),
        sent(offered=OFFERED._replace(slot=SLOT._replace(round_index=1))),
        sent(offered=OFFERED._replace(slot=SLOT._replace(phase="project"))),
        sent(offered=OFFERED._replace(slot=SLOT._replace(sender=4))),
        sent(offered=OFFERED._replace(slot=SLOT._replace(kind=MessageKind.PROJECTION))),
        sent(offered=OFFERED._replace(slot=SLOT._replace(modality="rf"))),
        sent(fate=ARRIVED._replace(arrival_s=1.5000000000000002)),
        sent(fate=ARRIVED._replace(n_packets=5)),
        sent(fate=ARRIVED._replace(n_retransmissions=1)),
        sent(fate=losing(1)),
        sent(delivered=False),
    ],
)
def test_any_difference_of_a_message_or_its_fate_changes_the_hash(other: Callable[[Recorder], object]) -> None:
    assert trace(other) != trace(sent())


def test_which_packets_were_lost_changes_the_hash() -> None:
    assert len({trace(sent(fate=losing(*packets))) for packets in [(1,), (2,), (1, 2), ()]}) == 4


@pytest.mark.parametrize(
    "other", [seen(now_s=2.5), seen(node=4), seen(round_index=1), seen(loss=0.5000000000000001), seen(energy=0.5)]
)
def test_any_difference_of_an_observation_changes_the_hash(other: Callable[[Recorder], object]) -> None:
    assert trace(other) != trace(seen())


def test_what_only_reports_show_is_passed_on_and_does_not_change_the_hash() -> None:
    shown = {"residuals": {"1": 0.5}, "consensus_distance": 2.0}
    assert trace(seen(loss=0.5, **shown)) == trace(seen(loss=0.5))
    assert trace(seen(loss=0.5, residual=0.5)) != trace(seen(loss=0.5))
    heard: list[tuple[Any, ...]] = []
    Recorder(frozenset(), lambda *told: heard.append(told)).observation(2.0, 3, 0, shown)
    assert heard == [(3, 0, 2.0, shown)]


def fates_of_an_edge() -> Recorder:
    """Four messages of 100 B from 3 to 5: whole, in part, lost by a fault, refused by a queue; and one that waits."""
    recorder = quiet_recorder()
    tell(recorder, OFFERED, ARRIVED, True, now_s=1.0)
    tell(recorder, OFFERED, losing(1), True, now_s=0.5)
    recorder.offered([OFFERED])
    recorder.decided([Fate(1.0, OFFERED, ARRIVED, delivered=False, by_fault=True)])
    tell(recorder, OFFERED, losing(0, 1, 2, 3)._replace(airtime_s=0.0, dropped=True), False)
    recorder.offered([OFFERED])
    return recorder


def test_every_edge_has_its_losses_delay_and_rate() -> None:
    recorder = fates_of_an_edge()
    of_edge = {
        "messages": 5, "bytes": 500, "lost_messages": 2, "packets": 16, "lost_packets": 5,
        # Of 0.5 s and 1.0 s; of the 300 B that were sent in 0.3 s.
        "mean_delay_s": 0.75, "rate_bps": pytest.approx(8000.0),
    }  # fmt: skip
    assert {ends: one.as_dict() for ends, one in recorder.edges.items()} == {(3, 5): of_edge}
    recorder.refused(OFFERED)  # it had arrived, so that its delay counts
    assert recorder.edges[3, 5].as_dict() == {**of_edge, "lost_messages": 3}


def test_an_edge_without_arrivals_or_airtime_has_no_delay_and_no_rate() -> None:
    recorder = quiet_recorder()
    tell(recorder, OFFERED, losing(0, 1, 2, 3)._replace(airtime_s=0.0), False)
    found = recorder.edges[3, 5].as_dict()
    assert (found["mean_delay_s"], found["rate_bps"], found["lost_packets"]) == (None, None, 4)


def test_times_of_a_node_are_those_since_they_were_last_asked_for() -> None:
    recorder = fates_of_an_edge()
    recorder.computed(3, 0.5, power_w=2.0)
    recorder.waited(3, 0.25)
    recorder.waited(3, 0.5)
    assert recorder.times_since(3) == {"compute_s": 0.5, "airtime_s": pytest.approx(0.3), "waiting_s": 0.75}
    assert recorder.times_since(3) == recorder.times_since(9) == {"compute_s": 0.0, "airtime_s": 0.0, "waiting_s": 0.0}
    assert recorder.busy_s[3] == 0.5


def test_edges_and_times_go_on_from_a_state_and_begin_anew_where_it_has_none() -> None:
    recorder = fates_of_an_edge()
    recorder.waited(4, 0.25)
    again, of_before = quiet_recorder(), quiet_recorder()
    again.restore(SavedState(recorder.state()))
    assert again.counts_edges
    assert again.edges == recorder.edges
    assert [again.times_since(node) for node in (3, 4)] == [recorder.times_since(node) for node in (3, 4)]
    of_before.restore(
        SavedState({name: part for name, part in recorder.state().items() if name not in {"edges", "times"}})
    )
    assert not of_before.counts_edges
    assert of_before.traffic == recorder.traffic


def test_order_and_lateness_change_the_hash() -> None:
    first, second = sent(), sent(offered=OFFERED._replace(receiver=6))
    assert trace(first, second) != trace(second, first)
    assert trace(first) != trace(first, lambda recorder: recorder.late(message()))
    assert trace(lambda r: r.late(message(sender=1))) != trace(lambda r: r.late(message(sender=2)))


fates = st.builds(
    Fate,
    offered_s=st.sampled_from([0.5, 0.1 + 0.2]),
    in_flight=st.builds(
        InFlight,
        slot=st.builds(
            MessageSlot,
            st.integers(0, 1),
            st.sampled_from(["mix", "project"]),
            st.integers(3, 4),
            st.sampled_from([MessageKind.ENCODER, MessageKind.PROJECTION]),
            st.sampled_from([None, "gps"]),
        ),
        receiver=st.integers(5, 6),
        size_bytes=st.integers(0, 99),
        checksum=st.integers(0, 2**64 - 1),
        frames=st.none(),
    ),
    delivery=st.builds(
        Delivery,
        arrival_s=st.floats(1.0, 2.0),
        lost_packets=st.lists(st.integers(0, 9), unique=True).map(lambda lost: np.array(sorted(lost), dtype=np.int64)),
        n_packets=st.just(10),
        n_retransmissions=st.integers(0, 3),
        airtime_s=st.floats(0.0, 0.3),
        dropped=st.booleans(),
    ),
    delivered=st.booleans(),
    by_fault=st.booleans(),
)


@given(told=st.lists(fates, max_size=8), server=st.sampled_from([None, 3, 5]))
def test_messages_told_of_together_leave_what_they_leave_one_by_one(told: list[Fate], server: int | None) -> None:
    kinds = frozenset({MessageKind.ENCODER, MessageKind.PROJECTION})
    together, one_by_one = (Recorder(kinds, lambda *_: None, server) for _ in range(2))
    together.offered([fate.in_flight for fate in told])
    together.decided(told)
    for fate in told:
        one_by_one.offered([fate.in_flight])
        one_by_one.decided([fate])
    assert together.state() == one_by_one.state()


def test_the_chain_of_hashes_is_that_of_every_version_before() -> None:
    """Of a message in time, one in part with repeats, one that a queue refused, and one of another phase."""
    recorder = quiet_recorder()
    other = OFFERED._replace(slot=SLOT._replace(phase="project", kind=MessageKind.PROJECTION, modality=None))
    tell(recorder, OFFERED, ARRIVED, True, now_s=0.1 + 0.2)
    tell(recorder, OFFERED, losing(1, 3, n_retransmissions=2), True, now_s=0.1 + 0.2)
    tell(recorder, OFFERED, losing(0, 1, 2, 3)._replace(dropped=True), False, now_s=1.0)
    tell(recorder, other, ARRIVED, True, now_s=1.0)
    assert recorder.trace_hash == "994a692c59bb8e228de2e7c0fbd7cf46"


#: What became of a message outside of the usual line -> hash after that alone, by version 0.1.
PINNED: dict[str, tuple[Callable[[Recorder], object], str]] = {
    "refused": (lambda recorder: recorder.refused(OFFERED), "bbc28bd8acbd77e63bc65d6955d43689"),
    "late": (
        lambda recorder: recorder.late(message(kind=MessageKind.PROJECTION)),
        "9d3d270552df7fd8027880461ea1eaab",
    ),
    "overtaken": (lambda recorder: recorder.overtaken(message()), "4995f4d580a71f95121ef4c8d1afd7c1"),
}


@pytest.mark.parametrize("fate", PINNED)
def test_the_bytes_that_a_slot_leaves_in_the_trace_are_fixed(fate: str) -> None:
    """A field or a kind that gets another name must not move the trace hash of a run."""
    entry, expected = PINNED[fate]
    recorder = quiet_recorder()
    entry(recorder)
    assert recorder.trace_hash == expected


def test_only_a_server_adds_to_the_state_so_that_checkpoints_of_before_still_open() -> None:
    without, with_server = (Recorder(frozenset(), lambda *_: None, server) for server in (None, 3))
    of_before = {"traffic", "bytes_sent", "energy_j", "trace"}
    assert of_before <= without.state().keys()
    assert not {"server", "busy_s", "up", "down"} & without.state().keys()
    with_server.computed(3, 2.0, 5.0)
    with_server.up.messages = 4
    again = Recorder(frozenset(), lambda *_: None, 3)
    again.restore(SavedState(with_server.state()))
    assert (again.busy_s[3], again.up.messages, again.energy_j[3]) == (2.0, 4, 10.0)
    with pytest.raises(ConfigError, match="have a part 'server'"):
        again.restore(SavedState(without.state()))
