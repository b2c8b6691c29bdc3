"""Stations at their own pace, three in a row: who hears what when, worked out by hand.

A round takes 2.5, 1.5 and 1.0 s, a message a quarter of a second. Sent by 0 at 2.5, 5, 7.5; by 1 at 1.5, 3, 4.5; by 2
at 1, 2, 3.
"""

from __future__ import annotations

import pytest
from doubles.emulation import message, quiet_recorder
from doubles.stations import DEVICES, HEAVY, LIGHT, Stations, out, plan
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.faults.outages import RandomOutages, Timetable
from sheafedge.emulator.nodes.inbox import Mailbox
from sheafedge.emulator.nodes.missing import Skip, Stale
from sheafedge.emulator.random_streams import named_stream

ALIKE = {node: DeviceProfile("alike", flops_per_s=1.0, overhead_s=0.5, power_w=1.0) for node in range(3)}


def played(rounds: int = 3, policy: str = "skip", **options: object) -> Stations:
    return Stations([HEAVY], policy=policy, in_step=False, **options).play(rounds)  # type: ignore[arg-type]


# --- pace -------------------------------------------------------------------------------------------------------------


def test_every_station_goes_on_as_soon_as_its_own_work_is_done() -> None:
    run = played()
    assert [run.ended_s(node) for node in range(3)] == [[2.5, 5.0, 7.5], [1.5, 3.0, 4.5], [1.0, 2.0, 3.0]]
    in_step = Stations([HEAVY]).play(3)
    assert [in_step.ended_s(node) for node in range(3)] == [[2.75, 5.5, 8.25]] * 3  # the control


def test_a_straggler_holds_up_nobody_but_itself() -> None:
    """Ten times slower: in step it costs all of them ten times."""
    slow = {**DEVICES, 0: DeviceProfile("straggler", flops_per_s=0.1, overhead_s=5.0, power_w=4.0)}
    run = played(devices=slow)
    assert [run.ended_s(node)[-1] for node in range(3)] == [75.0, 4.5, 3.0]
    in_step = Stations([HEAVY], devices=slow, deadline_s=None).play(3)
    assert [in_step.ended_s(node)[-1] for node in range(3)] == [3 * 25.25] * 3


def test_the_run_ends_when_the_last_has_finished_and_what_comes_later_is_not_waited_for() -> None:
    run = played()
    assert run.env.now == 7.5
    assert [len(run.observed), run.recorder.traffic.messages] == [9, 12]


def test_on_equal_devices_and_links_without_delay_it_is_the_synchronous_run() -> None:
    """All send in the same instant, and what is sent in an instant and takes no time is heard in it."""
    options = {"delay_s": 0.0, "devices": ALIKE}
    asynchronous = Stations([HEAVY, LIGHT], in_step=False, **options).play(4)  # type: ignore[arg-type]
    in_step = Stations([HEAVY, LIGHT], **options).play(4)  # type: ignore[arg-type]
    assert [each.calls for each in asynchronous.learners] == [each.calls for each in in_step.learners]
    assert [each.number for each in asynchronous.learners] == [each.number for each in in_step.learners]
    assert asynchronous.told(1, "staleness_max") == [0] * 4
    delayed = Stations([HEAVY, LIGHT], in_step=False, devices=ALIKE).play(4)
    assert [each.number for each in delayed.learners] != [each.number for each in in_step.learners]


def test_with_a_delay_equal_devices_use_words_that_are_one_round_old() -> None:
    run = played(4, devices=ALIKE)
    assert [run.told(node, "staleness_mean") for node in range(3)] == [[None, 1.0, 1.0, 1.0]] * 3


# --- what is heard ----------------------------------------------------------------------------------------------------


def test_a_message_is_used_once_and_of_several_the_newest() -> None:
    """0 hears 1's second and third word before its second round ends; at the end of its third nothing new is there."""
    run = played()
    assert [run.heard(node) for node in range(3)] == [[(1,), (1,), ()], [(2,), (0, 2), (2,)], [(), (1,), ()]]
    assert run.recorder.traffic.overtaken_messages == 2  # 1's second word at 0, and at 2, which has finished by then


def test_under_stale_the_last_words_are_used_until_newer_ones_come() -> None:
    run = played(policy="stale")
    assert [run.heard(node) for node in range(3)] == [[(1,), (1,), (1,)], [(2,), (0, 2), (0, 2)], [(), (1,), (1,)]]


def test_staleness_is_the_own_round_minus_that_of_the_message() -> None:
    """Station 0 is slower than 1, whose third word it hears in its own second round: one round from the future."""
    run = played()
    assert run.told(0, "staleness_mean") == [0.0, -1.0, None]
    assert run.told(1, "staleness_mean") == [0.0, 0.5, 0.0]
    assert run.told(1, "staleness_max") == [0, 1, 0]
    assert run.told(2, "staleness_max") == [None, 1, None]
    assert [run.told(node, "heard") for node in range(3)] == [[1, 1, 0], [1, 2, 1], [0, 1, 0]]
    assert run.recorder.staleness.as_dict() == {"used": 7, "mean": 1 / 7, "max": 1}
    stale = played(policy="stale")
    assert stale.told(1, "staleness_max") == [0, 1, 2]
    assert stale.recorder.staleness.as_dict() == {"used": 10, "mean": 0.5, "max": 2}


def test_nothing_is_said_of_the_age_of_words_where_none_were_heard() -> None:
    run = played(faults=plan(edges={(0, 1): out((0.0, 99.0)), (1, 2): out((0.0, 99.0))}))
    assert run.recorder.staleness.as_dict() == {"used": 0}
    assert run.told(1, "staleness_mean") == [None] * 3


# --- mailbox ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "again"), [(Skip, []), (Stale, [2])])
def test_words_that_were_overtaken_on_their_way_are_not_used(policy: type[Skip], again: list[int]) -> None:
    recorder = quiet_recorder()
    box = Mailbox(policy(), recorder)
    expected = frozenset({message(0, round_index=9).slot})
    box.put(message(0, round_index=2))
    box.put(message(0, round_index=1))
    assert [heard.round_index for heard in box.take(expected)] == [2]
    box.put(message(0, round_index=1))  # older than what was used
    assert [heard.round_index for heard in box.take(expected)] == again
    assert recorder.traffic.overtaken_messages == 2


def test_topics_are_told_apart_by_phase_sender_kind_and_modality() -> None:
    box = Mailbox(Skip(), quiet_recorder())
    others = [message(0), message(0, modality="rf"), message(2)]
    elsewhere = message(0, phase="other")
    for other in (elsewhere, *reversed(others)):
        box.put(other)
    assert box.take(frozenset(other.slot for other in others)) == others
    assert box.take(frozenset(other.slot for other in others)) == []
    assert box.take(frozenset({elsewhere.slot})) == [elsewhere]


def test_what_was_lost_of_a_newer_word_is_filled_with_an_older_one_under_stale() -> None:
    box = Mailbox(Stale(), quiet_recorder())
    box.put(message(0, round_index=0, values=[1.0, 2.0]))
    box.put(message(0, round_index=1, values=[5.0, 0.0], received=[True, False]))
    (heard,) = box.take(frozenset({message(0, round_index=3).slot}))
    assert (heard.payload.tolist(), heard.received, heard.round_index) == ([5.0, 2.0], None, 1)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_station_that_is_off_stands_still_and_begins_its_work_anew() -> None:
    """Station 2 goes off at 1.5, in the middle of its second round, and is back at 8."""
    run = played(faults=plan(nodes={2: out((1.5, 8.0))}))
    assert run.ended_s(2) == [1.0, 9.0, 10.0]
    assert run.computed(2) == [("heavy", 0, 0.0), ("heavy", 1, 8.0), ("heavy", 2, 9.0)]
    assert run.recorder.energy_j[2] == 8.0 * (3 * 1.0 + 0.5)
    assert run.recorder.traffic.dropped_by_faults == 3  # what 1 said at 1.5 arrived at 1.75, and so on
    assert [run.ended_s(node)[-1] for node in (0, 1)] == [7.5, 4.5]


def test_a_station_whose_work_fits_between_two_outages_by_no_instant_waits_for_longer() -> None:
    """1 s of work; on from 1 to 2 and again from 3 on: at 2 it is off, so it does not finish before 4."""
    run = Stations([HEAVY], in_step=False, faults=plan(nodes={2: out((0.0, 1.0), (2.0, 3.0))})).play(1)
    assert run.ended_s(2) == [4.0]
    assert run.recorder.energy_j[2] == 8.0 * 2.0


def test_a_station_that_is_never_on_for_long_enough_stops_the_run_with_a_sentence() -> None:
    seldom = Timetable([RandomOutages(named_stream(0, "fault"), mean_up_s=0.03, mean_down_s=0.03)])
    with pytest.raises(ConfigError, match="client 2 was off 1000 times before it could finish 1 s of work"):
        played(faults=plan(nodes={2: seldom}))
    often = Timetable([RandomOutages(named_stream(0, "fault"), mean_up_s=1.0, mean_down_s=0.03)])
    assert len(played(faults=plan(nodes={2: often})).ended_s(2)) == 3


def test_the_end_of_an_instant_comes_after_everything_in_it_that_takes_no_time() -> None:
    env, order = EmulatorEnvironment(seed=0), []
    env.end_of_instant().callbacks.append(lambda _: order.append("end"))

    def chain() -> object:
        for name in ("one", "two", "three"):
            yield env.timeout(0.0)
            order.append(name)

    env.process(chain())  # type: ignore[arg-type]
    env.timeout(1.0).callbacks.append(lambda _: order.append("later"))
    env.run()
    assert order == ["one", "two", "three", "end", "later"]
