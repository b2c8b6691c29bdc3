"""Users on beams: what each way of finding the beam costs for powers that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.decisions.beam_rules import BeamRule, BeamSignals, best, follow_answers, keep, react
from sheafedge.emulator.decisions.service import Service, arrivals_s

FRAME_S = 0.2
LINK = AccessLink()
GOOD_DB, WEAK_DB, DEAD_DB = 15.0, 10.0, -30.0
RULE = BeamRule(resweep_s=100.0)
N_BEAMS = 8
SWEEP_S = N_BEAMS * RULE.beam_s


def moving(best_beam: list[int], others_db: float = DEAD_DB) -> BeamSignals:
    """One good beam per frame."""
    snr_db = np.full((len(best_beam), N_BEAMS), others_db)
    snr_db[np.arange(len(best_beam)), best_beam] = GOOD_DB
    return BeamSignals.of(snr_db, FRAME_S, LINK)


def ranked(best_beam: list[int]) -> NDArray[np.int64]:
    """[n, n_beams] rankings of a model that is right."""
    return np.array([[beam, *(b for b in range(N_BEAMS) if b != beam)] for beam in best_beam])


def sensed_s(signals: BeamSignals) -> NDArray[np.float64]:
    return FRAME_S * np.arange(signals.n_frames, dtype=np.float64)


def test_the_beam_of_yesterday_serves_while_the_user_is_there() -> None:
    service = keep(moving([3, 3, 4, 3]), 3)
    assert service.outage_s == pytest.approx(FRAME_S)
    assert service.bits == pytest.approx(3 * FRAME_S * LINK.rate_bps(GOOD_DB))
    assert service.lost_db == pytest.approx((GOOD_DB - DEAD_DB) / 4)


def test_a_beam_that_stays_the_best_is_swept_for_once() -> None:
    service = react(moving([5] * 10), RULE)
    assert service.outage_s == service.interrupted_s == pytest.approx(SWEEP_S)
    assert service.n_actions == 1
    assert service.lost_db == pytest.approx(0.0)


def test_a_beam_that_is_lost_is_found_again_after_a_report_and_a_sweep() -> None:
    service = react(moving([5] * 5 + [6] * 5), RULE)
    assert service.outage_s == pytest.approx(2 * SWEEP_S + RULE.report_s)
    assert service.n_actions == 2


def test_a_small_drop_is_left_alone_and_a_regular_sweep_finds_it() -> None:
    signals = moving([5] * 5 + [6] * 5, others_db=GOOD_DB - 2.0)
    assert react(signals, RULE).n_actions == 1
    assert react(signals, RULE).lost_db == pytest.approx(2.0 * 1.0 / (2.0 - SWEEP_S))
    often = react(signals, BeamRule(resweep_s=0.5))
    assert often.n_actions == 4
    assert often.lost_db < react(signals, RULE).lost_db


def test_a_drop_that_no_other_beam_cures_is_swept_for_once() -> None:
    snr_db = np.full((10, N_BEAMS), GOOD_DB)
    snr_db[5:] = WEAK_DB
    assert react(BeamSignals.of(snr_db, FRAME_S, LINK), RULE).n_actions == 2


def test_what_a_sweep_finds_is_as_old_as_its_beginning() -> None:
    """A sweep that outlasts the frame in which it began points at where the user was."""
    slow = BeamRule(beam_s=FRAME_S / N_BEAMS * 1.5, resweep_s=100.0)
    service = react(moving([2, 3, 3, 3, 3]), slow)
    assert service.bits == pytest.approx((5 * FRAME_S - service.outage_s) * LINK.rate_bps(GOOD_DB))
    assert service.n_actions == 2  # the first pointed at beam 2, which was gone


def test_right_answers_at_once_are_the_limit() -> None:
    beams = [1, 2, 2, 7, 0]
    signals = moving(beams)
    assert follow_answers(signals, RULE, ranked(beams), sensed_s(signals), 4) == best(signals)


def test_right_answers_cost_their_latency_whenever_the_beam_changes() -> None:
    beams, late_s = [1, 2, 2, 7, 0], 0.03
    signals = moving(beams)
    service = follow_answers(signals, RULE, ranked(beams), arrivals_s(sensed_s(signals), late_s), 1)
    assert service.outage_s == pytest.approx(3 * late_s)


def test_without_answers_the_first_beam_stays() -> None:
    signals = moving([1, 2, 3])
    nothing = np.full(3, np.inf)
    assert follow_answers(signals, RULE, ranked([1, 2, 3]), nothing, 2).bits == pytest.approx(keep(signals, 2).bits)


def test_candidates_are_swept_for_the_best_of_them() -> None:
    """The right beam is the model's third guess: three are tried in every frame, and it is found."""
    three = BeamRule(candidates=3)
    beams = [4, 5, 6]
    signals = moving(beams)
    guesses = np.array([[0, 1, beam] for beam in beams])
    service = follow_answers(signals, three, guesses, sensed_s(signals), 0)
    assert service.outage_s == service.interrupted_s == pytest.approx(3 * 3 * RULE.beam_s)
    assert follow_answers(signals, RULE, guesses, sensed_s(signals), 0).outage_s == pytest.approx(3 * FRAME_S)


@settings(deadline=None)
@given(data=st.data(), n=st.integers(1, 10), rule=st.builds(BeamRule, candidates=st.integers(1, 4)))
def test_nobody_beats_the_best_beam_found_for_nothing(data: st.DataObject, n: int, rule: BeamRule) -> None:
    levels = st.sampled_from([-20.0, -3.0, 2.0, 8.0, 16.0, 25.0])
    rows = data.draw(st.lists(st.lists(levels, min_size=N_BEAMS, max_size=N_BEAMS), min_size=n, max_size=n))
    signals = BeamSignals.of(np.array(rows), FRAME_S, LINK)
    guesses = np.array([data.draw(st.permutations(range(N_BEAMS))) for _ in range(n)])
    late_s = data.draw(st.sampled_from([0.0, 0.01, 0.3]))
    limit = best(signals)
    tried: list[Service] = [
        keep(signals, 0),
        react(signals, rule),
        follow_answers(signals, rule, guesses, arrivals_s(sensed_s(signals), late_s), 0),
    ]
    for service in tried:
        assert service.duration_s == pytest.approx(n * FRAME_S)
        assert service.bits <= limit.bits * (1 + 1e-9)
        assert limit.outage_s <= service.outage_s + 1e-9
        assert service.interrupted_s <= service.outage_s + 1e-9
        assert service.lost_db >= -1e-9


@pytest.mark.parametrize(("field", "value"), [("candidates", 0), ("resweep_s", 0.0), ("drop_db", -3.0)])
def test_an_impossible_rule_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"decision\.beams\.{field} must lie in"):
        BeamRule(**{field: value})
