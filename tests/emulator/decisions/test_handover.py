"""Users between two cells: what each way of deciding costs for blockages that can be counted by hand."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.decisions.handover import (
    NO_WARNINGS,
    HandoverRule,
    Spans,
    TwoCells,
    Warnings,
    least_outage_s,
    most_bits,
    serve,
    stay,
    warned_times,
)
from sheafedge.emulator.decisions.service import arrivals_s

FRAME_S = 0.1
CLEAR_DB, NEIGHBOR_DB, BLOCKED_DB = 15.0, 9.0, -10.0
RULE = HandoverRule()
LINK = AccessLink()
ROUNDING = 1e-9


def cells(own_db: Any, other_db: Any) -> TwoCells:
    return TwoCells.of(np.stack([np.asarray(own_db, float), np.asarray(other_db, float)]), FRAME_S, LINK)


def square(n_blocked: int = 10, n_before: int = 20, n_after: int = 20) -> TwoCells:
    """One blockage of the own cell, beside a neighbor that is always clear."""
    own_db = [CLEAR_DB] * n_before + [BLOCKED_DB] * n_blocked + [CLEAR_DB] * n_after
    return cells(own_db, np.full(len(own_db), NEIGHBOR_DB))


def own(from_s: float, until_s: float) -> Warnings:
    return Warnings(Spans(np.array([from_s]), np.array([until_s])), NO_WARNINGS.other)


def test_whoever_does_nothing_is_out_for_as_long_as_the_blockage() -> None:
    service = stay(square(n_blocked=10))
    assert service.outage_s == pytest.approx(1.0)
    assert service.duration_s == pytest.approx(5.0)
    assert service.bits == pytest.approx(4.0 * LINK.rate_bps(CLEAR_DB) + 1.0 * LINK.rate_bps(BLOCKED_DB))


def test_whoever_reacts_is_out_for_the_time_to_trigger_and_two_interruptions_on_the_way() -> None:
    """Out until the handover begins, and during it; the way back costs one more interruption."""
    service = serve(square(), RULE)
    waited_s = RULE.time_to_trigger_s + RULE.preparation_s
    assert service.outage_s == pytest.approx(waited_s + 2 * RULE.interruption_s)
    assert service.interrupted_s == pytest.approx(2 * RULE.interruption_s)
    assert service.n_actions == 2


def test_whoever_is_warned_in_time_is_out_for_two_interruptions_alone() -> None:
    service = serve(square(), RULE, own(2.0 - RULE.lead_s, 3.0))
    assert service.outage_s == pytest.approx(2 * RULE.interruption_s)
    assert service.n_actions == 2


def test_a_warning_that_comes_a_little_late_costs_that_little() -> None:
    """The interruption may as well lie inside the blockage: only what is served of that is lost."""
    late_s = 0.03
    service = serve(square(), RULE, own(2.0 - RULE.preparation_s + late_s, 3.0))
    assert service.outage_s == pytest.approx(2 * RULE.interruption_s + late_s)


def test_a_warning_after_the_reaction_changes_nothing() -> None:
    """It arrives when the user is on its way already, and ends before it would come back."""
    reactive = serve(square(), RULE)
    predictive = serve(square(), RULE, own(2.0 + RULE.time_to_trigger_s + 0.001, 2.9))
    assert astuple(predictive) == pytest.approx(astuple(reactive))
    assert astuple(serve(square(), RULE, own(2.0, 2.9))) != pytest.approx(astuple(reactive))


def test_a_device_that_never_answers_in_time_leaves_the_reaction() -> None:
    signals = square()
    sensed_s = FRAME_S * np.arange(signals.n_frames)
    spans = warned_times(arrivals_s(sensed_s, 100.0), np.ones(signals.n_frames, dtype=np.bool_))
    assert serve(signals, RULE, Warnings(spans, spans)) == serve(signals, RULE)


def test_a_false_warning_costs_two_interruptions_and_the_better_cell_meanwhile() -> None:
    clear = square(n_blocked=0)
    service = serve(clear, RULE, own(1.0, 1.5))
    assert service.outage_s == pytest.approx(2 * RULE.interruption_s)
    assert service.bits < stay(clear).bits
    assert serve(clear, RULE).n_actions == 0


def test_a_warning_must_last_as_long_as_the_rule_says() -> None:
    patient = HandoverRule(warned_for_s=0.2)
    clear = square(n_blocked=0)
    assert serve(clear, patient, own(1.0, 1.2)).n_actions == 0
    assert serve(clear, patient, own(1.0, 1.21)).n_actions == 2
    assert serve(square(), patient, own(2.0 - patient.lead_s, 3.0)).outage_s == pytest.approx(2 * RULE.interruption_s)


def test_nobody_goes_to_a_cell_that_is_warned_too_or_cannot_serve() -> None:
    both = Warnings(own(1.0, 1.5).own, own(1.0, 1.5).own)
    assert serve(square(n_blocked=0), RULE, both).n_actions == 0
    dead = cells(np.full(50, CLEAR_DB), np.full(50, BLOCKED_DB))
    assert serve(dead, RULE, own(1.0, 1.5)).n_actions == 0


def test_a_warning_keeps_a_user_away_only_while_the_other_cell_serves_it() -> None:
    """The other cell fails while a false warning still holds for the own one: the user reacts, and comes back."""
    other_db = np.full(50, NEIGHBOR_DB)
    other_db[20:] = BLOCKED_DB
    service = serve(cells(np.full(50, CLEAR_DB), other_db), RULE, own(1.0, 10.0))
    waited_s = RULE.time_to_trigger_s + RULE.preparation_s
    assert service.outage_s == pytest.approx(2 * RULE.interruption_s + waited_s)
    assert service.n_actions == 2


def test_a_short_dip_triggers_nothing() -> None:
    quick = HandoverRule(time_to_trigger_s=0.15)
    assert serve(square(n_blocked=1), quick).n_actions == 0
    assert serve(square(n_blocked=2), quick).n_actions == 2


def test_handovers_that_take_no_time_cost_nothing() -> None:
    at_once = HandoverRule(time_to_trigger_s=0.0, preparation_s=0.0, interruption_s=0.0)
    service = serve(square(), at_once)
    assert service.outage_s == 0.0
    assert service.n_actions == 2
    assert service.bits == pytest.approx(4.0 * LINK.rate_bps(CLEAR_DB) + 1.0 * LINK.rate_bps(NEIGHBOR_DB))


def test_foresight_pays_for_the_way_there_and_back_or_sits_it_out() -> None:
    """Whoever only wants no outage stays with the neighbor; after a second blockage, there, it must come back."""
    assert least_outage_s(square(n_blocked=10), RULE.interruption_s) == pytest.approx(RULE.interruption_s)
    other_db = np.full(50, NEIGHBOR_DB)
    other_db[40:] = BLOCKED_DB
    own_db = square(n_blocked=10).snr_db[0]
    assert least_outage_s(cells(own_db, other_db), RULE.interruption_s) == pytest.approx(2 * RULE.interruption_s)
    assert least_outage_s(square(n_blocked=10), 0.0) == 0.0
    assert least_outage_s(square(n_blocked=1), 0.15) == pytest.approx(0.1)


def test_foresight_of_bits_comes_back_to_the_better_cell() -> None:
    own_bps, other_bps = LINK.rate_bps(CLEAR_DB), LINK.rate_bps(NEIGHBOR_DB)
    expected = 4.0 * own_bps + (1.0 - 2 * RULE.interruption_s) * other_bps
    assert most_bits(square(n_blocked=10), RULE.interruption_s) == pytest.approx(expected)


def on_a_fine_grid(signals: TwoCells, cost: NDArray[np.float64], steps: int, of_interruption: float) -> float:
    """Least cost over all plans on a grid of a fiftieth of a frame, by plain dynamic programming from the end."""
    fine = 50
    per_step = np.repeat(cost, fine, axis=1) * FRAME_S / fine
    n = per_step.shape[1]
    ahead = np.zeros((2, n + 1))
    for step in range(n - 1, -1, -1):
        ahead[:, step] = per_step[:, step] + ahead[:, step + 1]
        if step + steps <= n:
            moved = of_interruption * steps * FRAME_S / fine + ahead[::-1, step + steps]
            ahead[:, step] = np.minimum(ahead[:, step], moved)
    return float(ahead[0, 0])


levels = st.sampled_from([-20.0, -4.0, 0.0, 5.0, 9.0, 15.0, 25.0])


@st.composite
def two_cells(draw: st.DrawFn) -> TwoCells:
    n = draw(st.integers(1, 12))
    return cells(*(draw(st.lists(levels, min_size=n, max_size=n)) for _ in range(2)))


@settings(deadline=None)
@given(signals=two_cells(), steps=st.sampled_from([1, 7, 25, 31, 50, 60, 110]))
def test_foresight_finds_what_a_search_of_all_plans_finds(signals: TwoCells, steps: int) -> None:
    interruption_s = steps * FRAME_S / 50
    outage = on_a_fine_grid(signals, signals.outage.astype(float), steps, 1.0)
    assert_allclose(least_outage_s(signals, interruption_s), outage, atol=ROUNDING)
    bits = -on_a_fine_grid(signals, -signals.rate_bps, steps, 0.0)
    assert_allclose(most_bits(signals, interruption_s), bits, rtol=1e-9, atol=1e-3)


rules = st.builds(
    HandoverRule,
    offset_db=st.sampled_from([0.0, 3.0]),
    time_to_trigger_s=st.sampled_from([0.0, 0.04, 0.1, 0.32]),
    warned_for_s=st.sampled_from([0.0, 0.1]),
    preparation_s=st.sampled_from([0.0, 0.02]),
    interruption_s=st.sampled_from([0.0, 0.062, 0.1, 0.15]),
)


@settings(deadline=None)
@given(data=st.data(), signals=two_cells(), rule=rules, latency_s=st.sampled_from([0.0, 0.013, 0.1, 0.25]))
def test_nobody_beats_foresight_and_time_is_accounted_for(
    data: st.DataObject, signals: TwoCells, rule: HandoverRule, latency_s: float
) -> None:
    n, sensed_s = signals.n_frames, FRAME_S * np.arange(signals.n_frames)
    says = [np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n))) for _ in range(2)]
    told = Warnings(*(warned_times(arrivals_s(sensed_s, latency_s), warned) for warned in says))
    for service in (stay(signals), serve(signals, rule), serve(signals, rule, told)):
        assert service.duration_s == pytest.approx(signals.end_s)
        assert service.interrupted_s <= service.outage_s + ROUNDING
        assert service.outage_s <= service.duration_s + ROUNDING
        assert service.bits <= signals.rate_bps.max() * service.duration_s + 1e-3
        assert service.bits <= most_bits(signals, rule.interruption_s) * (1 + 1e-9) + 1e-3
        assert service.outage_s >= least_outage_s(signals, rule.interruption_s) - ROUNDING


@settings(deadline=None)
@given(signals=two_cells(), rule=rules)
def test_a_model_that_never_warns_and_one_that_always_does_are_reactions(signals: TwoCells, rule: HandoverRule) -> None:
    always = Spans(np.zeros(1), np.full(1, np.inf))
    assert serve(signals, rule, NO_WARNINGS) == serve(signals, rule)
    assert serve(signals, rule, Warnings(always, always)) == serve(signals, rule)


def test_a_warning_holds_until_an_answer_takes_it_back() -> None:
    arrival_s = np.array([0.05, 0.15, np.inf, 0.35, 0.45])
    spans = warned_times(arrival_s, np.array([False, True, False, True, False]))
    assert spans.from_s.tolist() == [0.15]
    assert spans.until_s.tolist() == [0.45]
    unending = warned_times(arrival_s, np.array([True, False, True, True, True]))
    assert unending.from_s.tolist() == [0.05, 0.35]
    assert unending.until_s.tolist() == [0.15, np.inf]


@pytest.mark.parametrize(
    ("field", "value"), [("offset_db", -1.0), ("time_to_trigger_s", 6.0), ("interruption_s", float("nan"))]
)
def test_an_impossible_rule_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"decision\.handover\.{field} must lie in"):
        HandoverRule(**{field: value})
