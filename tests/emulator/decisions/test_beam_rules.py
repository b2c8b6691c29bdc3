"""Users on beams: what each rule costs for powers that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.emulator.decisions.beam_measurement import BeamMeasurement
from sheafedge.emulator.decisions.beam_rules import Trigger, play
from sheafedge.emulator.decisions.beam_searches import (
    Procedure,
    arrived_answers,
    hierarchical_sweep,
    listed_beams,
    neighbor_sweep,
    sweep_on_bursts,
    sweep_on_request,
)
from sheafedge.emulator.decisions.beam_signals import BeamSignals
from sheafedge.emulator.decisions.service import Service, arrivals_s

from .made_up_beams import DEAD_DB, FRAME_S, GOOD_DB, LINK, N_BEAMS, WEAK_DB, moving, signals_db

STANDARD = BeamMeasurement()
SWEEP_S, READY_S = STANDARD.on_request(N_BEAMS)
EVERY_FRAME, ONCE = Trigger(0.0), Trigger(np.inf)
ON_LOSS = Trigger(np.inf, 3.0)


def swept(signals: BeamSignals, trigger: Trigger, measurement: BeamMeasurement = STANDARD, first: int = 0) -> Service:
    search = sweep_on_request(signals, measurement)
    return played(signals, Procedure(search, search), trigger, measurement, first)


def beside(signals: BeamSignals, n_beams: int, trigger: Trigger = EVERY_FRAME) -> Service:
    procedure = Procedure(
        neighbor_sweep(signals, STANDARD, n_beams), sweep_on_request(signals, STANDARD), swept_first=True
    )
    return played(signals, procedure, trigger)


def answered(
    signals: BeamSignals,
    ranking: list[list[int]],
    late_s: float = 0.0,
    first: int = 0,
    trigger: Trigger = EVERY_FRAME,
    inputs_s: NDArray[np.float64] | None = None,
) -> Service:
    """Of one user, whose device answers about every frame after so long."""
    sensed_s = FRAME_S * np.arange(signals.n_frames, dtype=np.float64)
    beams, at_s = arrived_answers(np.array(ranking), arrivals_s(sensed_s, late_s), FRAME_S)
    procedure = Procedure(listed_beams(signals, STANDARD, [beams], [at_s]), sweep_on_request(signals, STANDARD))
    return played(signals, procedure, trigger, first=first, inputs_s=inputs_s)


def played(
    signals: BeamSignals,
    procedure: Procedure,
    trigger: Trigger,
    measurement: BeamMeasurement = STANDARD,
    first: int = 0,
    inputs_s: NDArray[np.float64] | None = None,
) -> Service:
    first_beam = np.full(signals.n_users, first)
    (service,) = play(signals, measurement, procedure, [trigger], first_beam, inputs_s).services()
    return service


def best(signals: BeamSignals) -> Service:
    return Service.total(signals.on(signals.best))


def test_the_beam_of_yesterday_serves_while_the_user_is_there() -> None:
    signals = moving([3, 3, 4, 3])
    (service,) = signals.on(np.full((1, 4), 3))
    assert service.outage_s == pytest.approx(FRAME_S)
    assert service.bits == pytest.approx(3 * FRAME_S * LINK.rate_bps(GOOD_DB))
    assert service.lost_db == pytest.approx((GOOD_DB - DEAD_DB) / 4)


def test_a_beam_that_stays_the_best_is_swept_for_once() -> None:
    service = swept(moving([5] * 10), ON_LOSS, first=5)
    assert service.outage_s == service.interrupted_s == pytest.approx(SWEEP_S)
    assert service.n_actions == 1
    assert service.bits == pytest.approx((10 * FRAME_S - SWEEP_S) * LINK.rate_bps(GOOD_DB))


def test_what_a_sweep_finds_serves_once_it_is_reported_and_indicated() -> None:
    service = swept(moving([5] * 10), ONCE, first=0)
    assert service.outage_s == pytest.approx(READY_S)
    assert service.interrupted_s == pytest.approx(SWEEP_S)


def test_a_beam_that_is_lost_is_found_again_after_it_is_noticed() -> None:
    service = swept(moving([5] * 5 + [6] * 5), ON_LOSS, first=5)
    assert service.outage_s == pytest.approx(SWEEP_S + STANDARD.notice_s + READY_S)
    assert service.n_actions == 2
    assert swept(moving([5] * 5 + [6] * 5), ONCE, first=5).outage_s == pytest.approx(SWEEP_S + 5 * FRAME_S)


def test_a_small_drop_is_left_alone_and_a_regular_sweep_finds_it() -> None:
    signals = moving([5] * 5 + [6] * 5, others_db=GOOD_DB - 2.0)
    assert swept(signals, ON_LOSS, first=5).n_actions == 1
    assert swept(signals, ON_LOSS, first=5).lost_db == pytest.approx(2.0 * 1.0 / (2.0 - SWEEP_S))
    often = swept(signals, Trigger(0.4, 3.0), first=5)
    assert often.n_actions == 5
    # the sweep at 0.8 s was before the change, the next is at 1.2 s
    assert often.lost_db == pytest.approx(2.0 * (0.2 + READY_S - SWEEP_S) / (2.0 - 5 * SWEEP_S))


def test_a_drop_that_no_other_beam_cures_is_swept_for_once() -> None:
    snr_db = np.full((10, N_BEAMS), GOOD_DB)
    snr_db[5:] = WEAK_DB
    assert swept(BeamSignals.of([snr_db], FRAME_S, LINK), ON_LOSS).n_actions == 2


def test_what_is_found_too_late_serves_from_the_next_frame_on() -> None:
    """The report takes longer than the frame: in every frame the beam in use is the best one of the frame before."""
    slow = BeamMeasurement(report_delay_s=1.1 * FRAME_S)
    service = swept(moving([2, 3, 3, 4, 4]), EVERY_FRAME, slow, first=7)
    assert service.outage_s == pytest.approx(3 * FRAME_S + 2 * SWEEP_S)


def test_every_burst_of_a_frame_costs_and_the_first_finds_the_beam() -> None:
    signals = moving([1, 2])
    bursts = sweep_on_bursts(signals, STANDARD, 0.02)
    service = played(signals, Procedure(bursts, bursts), EVERY_FRAME, first=1)
    airtime_s, ready_s = STANDARD.burst(N_BEAMS)
    assert service.interrupted_s == pytest.approx(2 * 10 * airtime_s)
    # the beam is right in the first frame; in the second it is found by the burst at 10 ms
    assert service.outage_s == pytest.approx(10 * airtime_s + 0.01 + max(ready_s, 10 * airtime_s))


def test_right_answers_cost_their_indication_whenever_the_beam_changes() -> None:
    beams = [1, 2, 2, 7, 0]
    service = answered(moving(beams), [[beam] for beam in beams], first=1)
    assert service.outage_s == pytest.approx(3 * STANDARD.indication_s)
    assert service.interrupted_s == service.n_actions == 0


def test_right_answers_cost_their_latency_as_well() -> None:
    beams, late_s = [1, 2, 2, 7, 0], 0.03
    service = answered(moving(beams), [[beam] for beam in beams], late_s, first=1)
    assert service.outage_s == pytest.approx(3 * (late_s + STANDARD.indication_s))


def test_without_answers_the_first_beam_stays() -> None:
    signals = moving([1, 2, 3])
    service = answered(signals, [[1], [2], [3]], late_s=np.inf, first=2)
    assert service.bits == pytest.approx(signals.on(np.full((1, 3), 2))[0].bits)


def test_the_model_s_first_beams_are_measured_for_the_best_of_them() -> None:
    """The right beam is the third guess: three are measured in every frame, and it is found."""
    beams = [4, 5, 6]
    guesses = [[0, 1, beam] for beam in beams]
    service = answered(moving(beams), guesses)
    airtime_s, ready_s = STANDARD.on_request(3)
    assert service.interrupted_s == pytest.approx(3 * airtime_s)
    assert service.outage_s == pytest.approx(3 * ready_s)
    assert answered(moving(beams), [row[:1] for row in guesses]).outage_s == pytest.approx(3 * FRAME_S)


def test_wrong_answers_are_recovered_from_by_a_sweep_where_losses_are_noticed() -> None:
    signals, guesses = moving([4, 4, 4]), [[4], [1], [4]]
    recovering = answered(signals, guesses, first=4, trigger=Trigger(0.0, 3.0))
    assert recovering.outage_s == pytest.approx(STANDARD.notice_s - STANDARD.indication_s + READY_S)
    assert answered(signals, guesses, first=4).outage_s == pytest.approx(FRAME_S)


def test_sweeps_that_a_model_reads_are_paid_for_in_every_frame() -> None:
    beams = [1, 1, 1]
    service = answered(moving(beams), [[1]] * 3, first=1, inputs_s=np.array([SWEEP_S]))
    assert service.interrupted_s == service.outage_s == pytest.approx(3 * SWEEP_S)


def test_neighbors_follow_a_beam_that_moves_step_by_step() -> None:
    steps = [2, 3, 4, 3, 2, 1]
    service = beside(moving(steps), 3)
    airtime_s, ready_s = STANDARD.on_request(3)
    # one sweep of all beams at first
    assert service.interrupted_s == pytest.approx(SWEEP_S + 5 * airtime_s)
    assert service.outage_s == pytest.approx(READY_S + 5 * ready_s)


def test_neighbors_lose_a_beam_that_jumps_until_a_loss_is_noticed() -> None:
    signals = moving([1, 6, 6])
    airtime_s, _ = STANDARD.on_request(3)
    assert beside(signals, 3).outage_s == pytest.approx(READY_S + 2 * FRAME_S)
    noticing = beside(signals, 3, Trigger(0.0, 3.0))
    assert noticing.outage_s == pytest.approx(READY_S + STANDARD.notice_s + READY_S + airtime_s)


def test_two_neighbors_look_to_one_side_after_the_other() -> None:
    """Up at first, and up again after a step up; down once there was nothing above."""
    up, down = beside(moving([2, 3, 4]), 2), beside(moving([2, 1, 1]), 2)
    ready_s = STANDARD.on_request(2).ready_s
    assert up.outage_s == pytest.approx(READY_S + 2 * ready_s)
    assert down.outage_s == pytest.approx(READY_S + FRAME_S + ready_s)


def test_whoever_has_left_is_not_served() -> None:
    long, short = signals_db([1] * 6), signals_db([2] * 3)
    both = BeamSignals.of([long, short], FRAME_S, LINK)
    search = sweep_on_request(both, STANDARD)
    together = play(both, STANDARD, Procedure(search, search), [EVERY_FRAME], np.array([0, 0]))
    for user, one in enumerate((long, short)):
        alone = swept(BeamSignals.of([one], FRAME_S, LINK), EVERY_FRAME)
        assert together.services(slice(user, user + 1)) == [alone]
    assert together.services()[0].duration_s == pytest.approx(9 * FRAME_S)


def test_triggers_are_played_side_by_side_as_each_alone() -> None:
    signals = moving([0, 3, 3, 5, 6, 1], others_db=GOOD_DB - 4.0)
    triggers = [EVERY_FRAME, ONCE, ON_LOSS, Trigger(0.4, 1.0)]
    search = sweep_on_request(signals, STANDARD)
    together = play(signals, STANDARD, Procedure(search, search), triggers, np.array([0])).services()
    assert together == [swept(signals, trigger) for trigger in triggers]
    assert len({one.bits for one in together}) == len(triggers)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), n=st.integers(1, 10), drop_db=st.sampled_from([1.0, 6.0, np.inf]))
def test_nobody_beats_the_best_beam_found_for_nothing(data: st.DataObject, n: int, drop_db: float) -> None:
    levels = st.sampled_from([-20.0, -3.0, 2.0, 8.0, 16.0, 25.0])
    rows = data.draw(st.lists(st.lists(levels, min_size=N_BEAMS, max_size=N_BEAMS), min_size=n, max_size=n))
    signals = BeamSignals.of([np.array(rows)], FRAME_S, LINK)
    guesses = [data.draw(st.permutations(range(N_BEAMS)))[:3] for _ in range(n)]
    late_s, trigger = data.draw(st.sampled_from([0.0, 0.01, 0.3])), Trigger(0.4, drop_db)
    limit = best(signals)
    wide_first = hierarchical_sweep(signals, BeamMeasurement(wide_split=2))
    tried: list[Service] = [
        swept(signals, trigger),
        beside(signals, 3, trigger),
        answered(signals, guesses, late_s, trigger=trigger),
        played(signals, Procedure(wide_first, wide_first), trigger),
    ]
    for service in tried:
        assert service.duration_s == pytest.approx(n * FRAME_S)
        assert service.bits <= limit.bits * (1 + 1e-9)
        assert limit.outage_s <= service.outage_s + 1e-9
        assert service.interrupted_s <= service.outage_s + 1e-9
        assert service.lost_db >= -1e-9
