"""Nodes that are off and edges that are down, on three stations in a row: instants worked out by hand.

Undisturbed, a round of the heavy phase takes 2.75 s: 0 sends at 2.5, heard by 1 a quarter of a second later.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from doubles.carried import submitted
from doubles.emulation import message
from doubles.stations import HEAVY, LIGHT, Stations, out, plan
from sheafedge.emulator.contracts import Arrival, MessageKind
from sheafedge.emulator.faults.fault_plan import Corruption, FaultPlan
from sheafedge.emulator.network.transport.errors import WireError
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport, with_flipped_bits
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport

NOTHING_LOST = np.zeros(0, dtype=np.int64)
N_MESSAGES = 2000


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_faults_that_never_come_change_nothing() -> None:
    later = plan(nodes={0: out((1e6, 2e6))}, edges={(0, 1): out((1e6, math.inf))})
    assert Stations(faults=later).play(3).recorder.trace_hash == Stations().play(3).recorder.trace_hash


def test_a_node_that_is_off_is_not_waited_for_at_the_barrier() -> None:
    """Without station 0 the others compute until 1.5, hear each other until 1.75, and give up on it at the deadline."""
    played = Stations([HEAVY], faults=plan(nodes={0: out((0.0, 100.0))}), deadline_s=5.0).play(3)
    assert played.computed(0) == []
    assert [now_s for _, _, now_s in played.computed(1)] == [0.0, 5.0, 10.0]
    assert played.env.now == 15.0
    assert played.off() == [(0, 0), (0, 1), (0, 2)]


def test_a_node_that_is_off_hears_nothing_and_those_who_need_it_do_without() -> None:
    played = Stations([HEAVY], faults=plan(nodes={0: out((0.0, 100.0))}), deadline_s=5.0).play(2)
    assert played.heard(0) == []
    assert played.heard(1) == [(2,), (2,)]
    traffic = played.recorder.traffic
    assert (traffic.dropped_by_faults, traffic.lost_messages, traffic.messages) == (2, 2, 6)


def test_work_that_a_node_cannot_finish_is_not_done() -> None:
    """Station 0 goes off at 2, half a second before its work is done: it has paid for 2 s and learned nothing."""
    played = Stations([HEAVY], faults=plan(nodes={0: out((2.0, 3.0))}), deadline_s=5.0).play(1)
    assert (played.computed(0), played.learners[0].number) == ([], 1.0)
    assert played.recorder.energy_j[0] == 4.0 * 2.0
    finished = Stations([HEAVY], faults=plan(nodes={0: out((2.75, 3.0))}), deadline_s=5.0).play(1)
    assert finished.computed(0) == [("heavy", 0, 0.0)]


def test_a_node_takes_part_again_from_the_next_round_on_with_what_it_knew() -> None:
    """Off from 2 to 3; the others give up on it at 5 and begin the second round with it."""
    played = Stations([HEAVY], faults=plan(nodes={0: out((2.0, 3.0))}), deadline_s=5.0).play(3)
    assert played.computed(0) == [("heavy", 1, 5.0), ("heavy", 2, 7.75)]
    assert played.heard(1) == [(2,), (0, 2), (0, 2)]
    assert played.env.now == 5.0 + 2 * 2.75
    assert played.off() == [(0, 0)]


def test_a_node_that_goes_off_while_it_waits_for_messages_forgets_them_and_frees_the_others() -> None:
    """Station 2 waits for 1 from 1.0 to 1.75, and goes off at 1.5: round over at 2.75, when 1 has heard 0."""
    played = Stations([HEAVY], faults=plan(nodes={2: out((1.5, 1.625))}), deadline_s=5.0).play(2)
    assert played.heard(2) == [(1,)]  # of the second round alone
    assert played.heard(1) == [(0, 2), (0, 2)]
    assert [now_s for _, _, now_s in played.computed(2)] == [0.0, 2.75]
    assert played.off() == [(2, 0)]


def test_a_node_that_goes_off_at_the_barrier_does_not_hold_the_others() -> None:
    """Station 2 has heard 1 at 1.75 and waits for the others until 2.75; it goes off at 2.5."""
    played = Stations([HEAVY, LIGHT], faults=plan(nodes={2: out((2.5, 2.625))}), deadline_s=5.0).play(1)
    assert played.computed(2) == [("heavy", 0, 0.0)]
    assert [now_s for _, _, now_s in played.computed(1)] == [0.0, 2.75]
    assert played.heard(1) == [(0, 2), (0,)]
    assert played.env.now == 2.75 + 5.0  # 1 waits for 2 until the deadline of the light phase


def test_while_everybody_is_off_time_goes_on_and_no_round_is_played() -> None:
    away = plan(nodes={0: out((0.0, 8.0)), 1: out((0.0, 10.0)), 2: out((0.0, 9.0))})
    played = Stations([HEAVY], faults=away, deadline_s=5.0).play(2)
    assert played.computed(0) == [("heavy", 0, 8.0), ("heavy", 1, 13.0)]
    assert played.off() == [(1, 0), (2, 0)]
    assert played.env.now == 13.0 + 2.75


def test_everybody_may_go_off_in_the_middle_of_a_round() -> None:
    away = plan(nodes={node: out((0.25, 4.0)) for node in range(3)})
    played = Stations([HEAVY], faults=away).play(2)
    assert played.off() == [(0, 0), (1, 0), (2, 0)]
    assert [played.computed(node) for node in range(3)] == [[("heavy", 1, 4.0)]] * 3


def test_every_station_is_looked_at_in_every_round() -> None:
    played = Stations(faults=plan(nodes={0: out((1.0, 7.0)), 2: out((4.0, 5.0))}), deadline_s=5.0).play(5)
    for round_index in range(5):
        assert sorted(told[0] for told in played.observed if told[1] == round_index) == [0, 1, 2]


def test_what_comes_for_a_round_that_a_node_has_left_is_late() -> None:
    """Station 2 is back at 1.375, before 1 speaks at 1.5; it has no round to use that in."""
    played = Stations([HEAVY], faults=plan(nodes={2: out((1.25, 1.375))}), deadline_s=5.0).play(1)
    assert (played.recorder.traffic.late_messages, played.recorder.traffic.dropped_by_faults) == (1, 1)


@pytest.mark.parametrize(("node", "outage"), [(0, (2.625, 2.6875)), (1, (2.625, 2.6875)), (0, (2.75, 3.0))])
def test_a_message_is_lost_if_one_of_its_ends_goes_off_while_it_is_on_its_way(
    node: int, outage: tuple[float, float]
) -> None:
    """Station 0 sends at 2.5, to be heard at 2.75; what waits in the queue of a node that is off never leaves it."""
    played = Stations([HEAVY], faults=plan(nodes={node: out(outage)}), deadline_s=5.0).play(1)
    assert 0 not in [sender for senders in played.heard(1) for sender in senders]
    assert played.recorder.traffic.dropped_by_faults == 1


def test_under_stale_a_late_word_counts_in_the_next_round() -> None:
    """And a neighbor that is off is represented by its last words."""
    faults = plan(nodes={0: out((2.8125, 100.0))})
    skipped = Stations([HEAVY], faults=faults, deadline_s=4.0).play(3)
    stale = Stations([HEAVY], faults=faults, deadline_s=4.0, policy="stale").play(3)
    assert (skipped.heard(1), stale.heard(1)) == ([(0, 2), (2,), (2,)], [(0, 2)] * 3)


# --- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outage", "heard"),
    [((0.0, 100.0), []), ((2.625, 2.6875), []), ((2.75, 100.0), []), ((2.0, 2.25), [0]), ((2.8125, 100.0), [0])],
)
def test_a_message_is_lost_if_its_edge_is_down_at_any_instant_of_its_way(
    outage: tuple[float, float], heard: list[int]
) -> None:
    """Station 0 sends at 2.5, and is heard at 2.75."""
    played = Stations([HEAVY], faults=plan(edges={(0, 1): out(outage)}), deadline_s=5.0).play(1)
    assert played.heard(1) == [(*heard, 2)]


def test_an_edge_that_is_down_is_down_in_both_directions_and_leaves_the_others_alone() -> None:
    played = Stations([HEAVY], faults=plan(edges={(0, 1): out((0.0, 100.0))}), deadline_s=5.0).play(1)
    assert [played.heard(node) for node in range(3)] == [[()], [(2,)], [(1,)]]
    assert played.recorder.traffic.dropped_by_faults == 2
    assert played.recorder.traffic.by_kind["encoder"].lost_messages == 2


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MemoryTransport, ZmqTransport])
@pytest.mark.parametrize("lost", [NOTHING_LOST, np.array([0])])
def test_a_receiver_notices_every_single_bit_that_was_flipped(make: type[MemoryTransport], lost: np.ndarray) -> None:
    transport = make(Wire(frozenset({MessageKind.ENCODER})))
    try:
        sent = message(values=np.linspace(0.0, 1.0, 6))
        in_flight = submitted(transport, sent)
        n_bits = 8 * (sent.payload.nbytes - 16 * lost.size)
        for bit in range(n_bits):
            with pytest.raises(WireError, match="checksum"):
                transport.forward_damaged(Arrival(in_flight, lost, 16), np.array([bit]))
        sound = transport.forward_damaged(Arrival(in_flight, lost, 16), np.zeros(0, dtype=np.int64))  # the control
        assert sound.payload[2:].tolist() == sent.payload[2:].tolist()
    finally:
        transport.close()


def test_a_bit_that_is_named_twice_is_flipped_once() -> None:
    payload = bytes(4)
    assert with_flipped_bits(memoryview(payload), np.array([9, 9, 32 + 9, 31])) == bytes([0, 2, 0, 128])
    assert payload == bytes(4)


def corrupting(share: float, seed: int = 0, edges: frozenset[tuple[int, int]] | None = None) -> FaultPlan:
    return FaultPlan(seed, corruptions=(Corruption(edges, share, out((2.0, 5.0)), "corrupted 0"),))


def n_hit(plan_: FaultPlan, at_s: float = 3.0, receiver: int = 1) -> int:
    transport = MemoryTransport(Wire(frozenset({MessageKind.ENCODER})))
    sent = [submitted(transport, message(receiver=receiver, round_index=index)) for index in range(N_MESSAGES)]
    return sum(plan_.flipped_bits(one, at_s) is not None for one in sent)


def test_the_share_of_messages_that_was_asked_for_is_hit() -> None:
    share = 0.1
    error = math.sqrt(N_MESSAGES * share * (1.0 - share))
    assert abs(n_hit(corrupting(share)) - share * N_MESSAGES) < 4.0 * error
    assert n_hit(corrupting(1.0)) == N_MESSAGES
    assert n_hit(corrupting(0.0)) == 0


def test_only_messages_of_its_time_and_its_edges_are_hit() -> None:
    everywhere, elsewhere = corrupting(1.0), corrupting(1.0, edges=frozenset({(0, 2)}))
    assert [n_hit(everywhere, at_s) > 0 for at_s in (1.0, 2.0, 4.0, 5.0)] == [False, True, True, False]
    assert (n_hit(elsewhere), n_hit(elsewhere, receiver=2)) == (0, N_MESSAGES)


def test_which_messages_are_hit_depends_on_the_seed_and_on_no_other_message() -> None:
    transport = MemoryTransport(Wire(frozenset({MessageKind.ENCODER})))
    sent = [submitted(transport, message(round_index=index)) for index in range(100)]

    def hit(plan_: FaultPlan, order: range) -> list[int]:
        return sorted(index for index in order if plan_.flipped_bits(sent[index], 3.0) is not None)

    forwards = hit(corrupting(0.3), range(100))
    assert forwards == hit(corrupting(0.3), range(99, -1, -1))
    assert forwards != hit(corrupting(0.3, seed=1), range(100))
