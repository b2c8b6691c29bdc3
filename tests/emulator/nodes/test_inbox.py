"""What a node waits for, what it gives up, and what it makes of messages that are early, late, partial or missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import simpy
from doubles.emulation import message, quiet_recorder
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import Message, MessageKind, MessageSlot
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.missing import MISSING_POLICIES

ALL_POLICIES = sorted(MISSING_POLICIES)


def expected(round_index: int, *senders: int) -> frozenset[MessageSlot]:
    return frozenset(message(sender, round_index=round_index).slot for sender in senders)


class Desk:
    """An inbox on its own clock, with messages put in at given instants."""

    def __init__(self, policy: str) -> None:
        self.env, self.recorder = simpy.Environment(), quiet_recorder()
        self.inbox = Inbox(self.env, MISSING_POLICIES[policy](), self.recorder)

    def late(self) -> int:
        return self.recorder.traffic.late_messages

    def arrives(self, at_s: float, arriving: Message) -> None:
        self.env.timeout(at_s - self.env.now).callbacks.append(lambda _: self.inbox.put(arriving))

    def gather(self, round_index: int, slots: frozenset[MessageSlot], deadline_s: float | None) -> Sequence[Message]:
        """Messages of one phase; afterwards the clock stands where the phase ended."""
        waiting = self.env.process(self.inbox.gather(round_index, "mix", slots, deadline_s))
        return self.env.run(until=waiting)


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ALL_POLICIES)
@pytest.mark.parametrize("deadline_s", [None, 10.0])
def test_a_phase_ends_with_its_last_message(policy: str, deadline_s: float | None) -> None:
    desk = Desk(policy)
    for at_s, sender in [(3.0, 1), (1.0, 2), (2.0, 3)]:
        desk.arrives(at_s, message(sender))
    got = desk.gather(0, expected(0, 1, 2, 3), deadline_s)
    assert desk.env.now == 3.0
    assert [m.sender for m in got] == [1, 2, 3]  # by sender, not by arrival
    assert desk.late() == 0


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_a_phase_that_expects_nothing_takes_no_time(policy: str) -> None:
    desk = Desk(policy)
    assert desk.gather(0, frozenset(), 5.0) == []
    assert desk.env.now == 0.0


@pytest.mark.parametrize("policy", ["skip", "stale"])
def test_the_deadline_ends_a_phase_without_the_missing(policy: str) -> None:
    desk = Desk(policy)
    desk.arrives(1.0, message(1))
    desk.arrives(7.0, message(2))
    assert [m.sender for m in desk.gather(0, expected(0, 1, 2), 5.0)] == [1]
    assert desk.env.now == 5.0


def test_waiting_knows_no_deadline() -> None:
    desk = Desk("wait")
    desk.arrives(1.0, message(1))
    desk.arrives(7.0, message(2))
    assert [m.sender for m in desk.gather(0, expected(0, 1, 2), 5.0)] == [1, 2]
    assert desk.env.now == 7.0


def test_a_message_at_the_very_deadline_still_counts() -> None:
    desk = Desk("skip")
    desk.arrives(5.0, message(1))
    assert [m.sender for m in desk.gather(0, expected(0, 1), 5.0)] == [1]


def test_a_deadline_that_has_passed_takes_what_is_there() -> None:
    desk = Desk("skip")
    desk.arrives(2.0, message(1))
    desk.env.run(until=4.0)
    assert [m.sender for m in desk.gather(0, expected(0, 1, 2), 3.0)] == [1]
    assert desk.env.now == 4.0


@pytest.mark.parametrize("policy", ALL_POLICIES)
def test_early_messages_are_kept_for_their_own_phase(policy: str) -> None:
    desk = Desk(policy)
    early = message(1, round_index=1, values=[9.0])
    desk.arrives(1.0, early)
    desk.arrives(2.0, message(1))
    assert [m.round_index for m in desk.gather(0, expected(0, 1), None)] == [0]
    assert desk.env.now == 2.0  # the early one did not end the wait
    assert desk.gather(1, expected(1, 1), None) == [early]
    assert desk.env.now == 2.0
    assert desk.late() == 0


def test_early_messages_do_not_end_the_wait_for_a_peer() -> None:
    desk = Desk("skip")
    desk.arrives(1.0, message(1))
    desk.arrives(2.0, message(2, round_index=1))
    desk.arrives(4.0, message(2))
    assert [m.round_index for m in desk.gather(0, expected(0, 1, 2), None)] == [0, 0]
    assert desk.env.now == 4.0


def test_what_is_late_is_counted_and_belongs_to_no_later_phase() -> None:
    desk = Desk("skip")
    desk.arrives(2.0, message(1, values=[8.0]))
    assert desk.gather(0, expected(0, 1), 1.0) == []
    desk.arrives(3.0, message(2, round_index=1))
    assert [m.sender for m in desk.gather(1, expected(1, 1, 2), 5.0)] == [2]
    assert desk.late() == 1


def test_messages_are_ordered_by_sender_kind_and_modality() -> None:
    desk = Desk("skip")
    mixed = [
        message(2, modality="rf"),
        message(2, modality="gps"),
        message(1, kind=MessageKind.REPROJECTION, modality=None),
        message(1, kind=MessageKind.PROJECTION, modality=None),
    ]
    for each in mixed:
        desk.inbox.put(each)
    got = desk.gather(0, frozenset(m.slot for m in mixed), None)
    assert [(m.sender, m.kind.value, m.modality) for m in got] == [
        (1, "projection", None), (1, "reprojection", None), (2, "encoder", "gps"), (2, "encoder", "rf"),
    ]  # fmt: skip


# --- policies ---------------------------------------------------------------------------------------------------------


def said(desk: Desk, round_index: int, *arriving: Message) -> dict[int, Message]:
    """Puts messages in at once and ends the phase; what is absorbed, by sender (1 and 2 are expected)."""
    for each in arriving:
        desk.inbox.put(each)
    return {m.sender: m for m in desk.gather(round_index, expected(round_index, 1, 2), desk.env.now + 1.0)}


def test_skip_does_without_and_remembers_nothing() -> None:
    desk = Desk("skip")
    said(desk, 0, message(1), message(2))
    assert list(said(desk, 1, message(2, round_index=1))) == [2]


def test_skip_hands_over_partial_messages_as_they_are() -> None:
    partial = message(1, values=[1.0, 0.0], received=[True, False])
    assert said(Desk("skip"), 0, partial)[1] is partial


def test_stale_repeats_the_last_words_of_whoever_is_missing() -> None:
    desk = Desk("stale")
    said(desk, 0, message(1, values=[1.0]), message(2, values=[2.0]))
    said(desk, 1, message(1, round_index=1, values=[10.0]))
    got = said(desk, 2, message(2, round_index=2, values=[20.0]))
    assert [got[1].payload.tolist(), got[2].payload.tolist()] == [[10.0], [20.0]]


def test_stale_has_no_words_for_a_neighbor_that_never_spoke() -> None:
    assert list(said(Desk("stale"), 0, message(1))) == [1]


def test_stale_keeps_phases_kinds_and_modalities_apart() -> None:
    desk = Desk("stale")
    desk.inbox.put(message(1, modality="rf", values=[5.0]))
    desk.gather(0, frozenset({message(1, modality="rf").slot}), None)
    assert said(desk, 1) == {}


def test_stale_fills_single_lost_coordinates_with_the_last_value_of_each() -> None:
    desk = Desk("stale")
    said(desk, 0, message(1, values=[1.0, 2.0, 3.0]))
    got = said(desk, 1, message(1, round_index=1, values=[10.0, 0.0, 30.0], received=[True, False, True]))
    assert_array_equal(got[1].payload, [10.0, 2.0, 30.0])
    assert got[1].received is None
    got = said(desk, 2, message(1, round_index=2, values=[0.0, 200.0, 0.0], received=[False, True, False]))
    assert_array_equal(got[1].payload, [10.0, 200.0, 30.0])


def test_stale_leaves_coordinates_open_that_never_arrived() -> None:
    desk = Desk("stale")
    said(desk, 0, message(1, values=[1.0, 0.0, 0.0], received=[True, False, False]))
    got = said(desk, 1, message(1, round_index=1, values=[0.0, 20.0, 0.0], received=[False, True, False]))
    assert_array_equal(got[1].payload[:2], [1.0, 20.0])
    assert_array_equal(got[1].received, [True, True, False])
    got = said(desk, 2, message(1, round_index=2, values=[0.0, 0.0, 300.0], received=[False, False, True]))
    assert_array_equal(got[1].payload, [1.0, 20.0, 300.0])
    assert got[1].received is None


def test_stale_does_not_write_into_messages() -> None:
    desk = Desk("stale")
    first = message(1, values=[1.0, 2.0])
    second = message(1, round_index=1, values=[0.0, 20.0], received=[False, True])
    for each in (first, second):
        each.payload.flags.writeable = False
    said(desk, 0, first)
    said(desk, 1, second)
    assert (first.payload.tolist(), second.payload.tolist()) == ([1.0, 2.0], [0.0, 20.0])


def test_stale_counts_late_words_as_said() -> None:
    desk = Desk("stale")
    assert said(desk, 0) == {}
    desk.inbox.put(message(1, values=[7.0]))
    assert desk.late() == 1
    assert said(desk, 1)[1].payload.tolist() == [7.0]


def test_stale_prefers_what_was_said_last_to_what_arrived_last() -> None:
    """Retransmissions let a message overtake an older one, which is late then."""
    desk = Desk("stale")
    said(desk, 0)
    said(desk, 1, message(1, round_index=1, values=[10.0, 20.0]))
    desk.inbox.put(message(1, round_index=0, values=[1.0, 2.0]))
    assert desk.late() == 1
    assert said(desk, 2)[1].payload.tolist() == [10.0, 20.0]


def test_an_overtaken_message_fills_what_the_newer_one_lost() -> None:
    desk = Desk("stale")
    said(desk, 0)
    said(desk, 1, message(1, round_index=1, values=[10.0, 0.0], received=[True, False]))
    desk.inbox.put(message(1, round_index=0, values=[1.0, 2.0]))
    got = said(desk, 2)[1]
    assert got.payload.tolist() == [10.0, 2.0]
    assert got.received is None


def test_only_waiting_asks_links_to_repeat_until_delivered() -> None:
    assert {name: policy().waits for name, policy in MISSING_POLICIES.items()} == {
        "skip": False, "stale": False, "wait": True,
    }  # fmt: skip
