"""Users between two cells: what each rule costs for blockages that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.decisions.handover import HANDOVER_KINDS, A3Event, HandoverRule, MeasuredUser, hand_over
from sheafedge.emulator.decisions.handover_limits import least_outage_s, most_bits
from sheafedge.emulator.decisions.service import Service
from sheafedge.emulator.decisions.two_cells import Spans, TwoCells, stay, warned_times

FRAME_S, READING_S = 0.1, 0.02
CLEAR_DB, NEIGHBOR_DB, BLOCKED_DB = 15.0, 9.0, -10.0
RULE = HandoverRule()
A3 = A3Event(3.0, 3.0, 0.1)
AT_ONCE = A3Event(3.0, 3.0, 0.0)
LINK = AccessLink()
ROUNDING = 1e-9


def cells(own_db: Any, other_db: Any) -> TwoCells:
    return TwoCells.of(np.stack([np.asarray(own_db, float), np.asarray(other_db, float)]), FRAME_S, LINK)


def square(n_blocked: int = 10, n_before: int = 20, n_after: int = 20) -> TwoCells:
    """One blockage of the own cell, beside a neighbor that is always clear."""
    own_db = [CLEAR_DB] * n_before + [BLOCKED_DB] * n_blocked + [CLEAR_DB] * n_after
    return cells(own_db, np.full(len(own_db), NEIGHBOR_DB))


def measured(signals: TwoCells, prepared: Spans | bool = False) -> MeasuredUser:
    """Exact readings every 20 ms, known at once."""
    known_s = np.round(np.arange(0.0, signals.end_s - ROUNDING, READING_S), 9)
    frame = ((known_s + ROUNDING) / FRAME_S).astype(int)
    ready = prepared.holds(known_s) if isinstance(prepared, Spans) else np.full(len(known_s), prepared)
    return MeasuredUser(signals, known_s, signals.snr_db[:, frame], ready)


def served(
    signals: TwoCells,
    rule: HandoverRule = RULE,
    event: A3Event = A3,
    prepared: Spans | bool = False,
    *,
    back: bool = False,
) -> Service:
    return hand_over([measured(signals, prepared)], rule, [event], way_back_prepared=back)[0][0]


def span(from_s: float, until_s: float) -> Spans:
    return Spans(np.array([from_s]), np.array([until_s]))


def test_whoever_does_nothing_is_out_for_as_long_as_the_blockage() -> None:
    service = stay(square(n_blocked=10))
    assert service.outage_s == pytest.approx(1.0)
    assert service.duration_s == pytest.approx(5.0)
    assert service.bits == pytest.approx(4.0 * LINK.rate_bps(CLEAR_DB) + 1.0 * LINK.rate_bps(BLOCKED_DB))


def test_whoever_reacts_is_out_for_the_time_to_trigger_and_two_interruptions_on_the_way() -> None:
    """Out until the handover begins, and during it; the way back costs one more interruption."""
    service = served(square())
    waited_s = A3.time_to_trigger_s + RULE.preparation_s
    assert service.outage_s == pytest.approx(waited_s + 2 * RULE.interruption_s)
    assert service.interrupted_s == pytest.approx(2 * RULE.interruption_s)
    assert service.n_actions == 2


def test_a_cell_that_was_prepared_takes_the_user_sooner() -> None:
    """Prepared on the warning, executed on the measurement; the way back is prepared as well, or is not."""
    ready = span(1.9, 3.0)
    there = served(square(), event=AT_ONCE, prepared=ready)
    both = served(square(), event=AT_ONCE, prepared=ready, back=True)
    assert there.outage_s == pytest.approx(
        RULE.prepared_preparation_s + RULE.prepared_interruption_s + RULE.interruption_s
    )
    assert both.outage_s == pytest.approx(RULE.prepared_preparation_s + 2 * RULE.prepared_interruption_s)
    late = served(square(), event=AT_ONCE, prepared=span(2.01, 3.0))
    assert late == replace(served(square(), event=AT_ONCE), n_prepared_readings=late.n_prepared_readings)


def test_a_false_warning_prepares_and_hands_nobody_over() -> None:
    clear = square(n_blocked=0)
    service = served(clear, prepared=span(1.0, 1.5))
    assert service.n_actions == 0
    assert service.bits == pytest.approx(stay(clear).bits)
    assert service.prepared_share == pytest.approx(0.5 / clear.end_s)


def test_the_prepared_share_is_of_the_time_in_the_own_cell() -> None:
    assert served(square(), prepared=True).prepared_share == 1.0
    assert served(square()).prepared_share == 0.0


def test_each_way_has_an_offset_of_its_own() -> None:
    """The own cell is 6 dB better when it is clear: an offset of 8 dB never lets the user come back."""
    assert served(square(), event=A3Event(3.0, 8.0, 0.0)).n_actions == 1
    assert served(square(), event=A3Event(8.0, 3.0, 0.0)).n_actions == 2
    assert served(square(), event=A3Event(20.0, 3.0, 0.0)).n_actions == 0


def test_a_short_dip_triggers_nothing() -> None:
    assert served(square(n_blocked=1), event=A3Event(3.0, 3.0, 0.1)).n_actions == 0
    assert served(square(n_blocked=2), event=A3Event(3.0, 3.0, 0.1)).n_actions == 2


def test_handovers_that_take_no_time_cost_nothing() -> None:
    free = HandoverRule(preparation_s=0.0, interruption_s=0.0)
    service = served(square(), free, AT_ONCE)
    assert service.outage_s == 0.0
    assert service.n_actions == 2
    assert service.bits == pytest.approx(4.0 * LINK.rate_bps(CLEAR_DB) + 1.0 * LINK.rate_bps(NEIGHBOR_DB))


def test_a_command_that_is_lost_leaves_the_user_where_it_is() -> None:
    deaf = HandoverRule(command_lost_below_db=-5.0)
    assert served(square(), deaf, AT_ONCE).n_actions == 0
    assert served(square(), deaf, AT_ONCE, prepared=True).n_actions == 0
    conditional = replace(deaf, **HANDOVER_KINDS["conditional"])
    assert served(square(), conditional, AT_ONCE).n_actions == 0, "it was not prepared"
    assert served(square(), conditional, AT_ONCE, prepared=True).n_actions == 2
    assert served(square(), HandoverRule(command_lost_below_db=-11.0), AT_ONCE).n_actions == 2


@pytest.mark.parametrize("kind", HANDOVER_KINDS)
def test_every_kind_of_handover_costs_what_the_table_says(kind: str) -> None:
    rule = replace(RULE, **HANDOVER_KINDS[kind])
    service = served(square(), rule, AT_ONCE, prepared=True, back=True)
    assert service.outage_s == pytest.approx(rule.prepared_preparation_s + 2 * rule.prepared_interruption_s)


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
    preparation_s=st.sampled_from([0.0, 0.02]),
    interruption_s=st.sampled_from([0.0, 0.062, 0.1, 0.15]),
)
events = st.builds(
    A3Event,
    offset_db=st.sampled_from([0.0, 3.0]),
    back_offset_db=st.sampled_from([0.0, 3.0]),
    time_to_trigger_s=st.sampled_from([0.0, 0.04, 0.1, 0.32]),
)


@st.composite
def warned_signals(draw: st.DrawFn) -> tuple[TwoCells, Spans]:
    signals = draw(two_cells())
    n = signals.n_frames
    warned = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return signals, warned_times(FRAME_S * np.arange(n) + draw(st.sampled_from([0.0, 0.013, 0.25])), warned)


@settings(deadline=None)
@given(warned=warned_signals(), rule=rules, event=events, back=st.booleans())
def test_nobody_beats_foresight_and_time_is_accounted_for(
    warned: tuple[TwoCells, Spans], rule: HandoverRule, event: A3Event, back: bool
) -> None:
    signals, spans = warned
    shortest_s = min(rule.interruption_s, rule.prepared_interruption_s)
    for service in (stay(signals), served(signals, rule, event, spans, back=back)):
        assert service.duration_s == pytest.approx(signals.end_s)
        assert service.interrupted_s <= service.outage_s + ROUNDING
        assert service.outage_s <= service.duration_s + ROUNDING
        assert service.bits <= signals.rate_bps.max() * service.duration_s + 1e-3
        assert service.bits <= most_bits(signals, shortest_s) * (1 + 1e-9) + 1e-3
        assert service.outage_s >= least_outage_s(signals, shortest_s) - ROUNDING


@settings(deadline=None)
@given(warned=warned_signals(), rule=rules, event=events)
def test_preparing_what_takes_as_long_anyway_gains_exactly_nothing(
    warned: tuple[TwoCells, Spans], rule: HandoverRule, event: A3Event
) -> None:
    signals, spans = warned
    as_long = replace(rule, prepared_preparation_s=rule.preparation_s, prepared_interruption_s=rule.interruption_s)
    never = served(signals, as_long, event)
    for prepared, back in ((spans, False), (spans, True), (True, True)):
        service = served(signals, as_long, event, prepared, back=back)
        assert replace(service, n_prepared_readings=0) == never


def reference(
    signals: TwoCells, event: A3Event, rule: HandoverRule, ready: NDArray[np.bool_]
) -> tuple[float, float, int]:
    """Outage in s, bits and handovers of one user, millisecond after millisecond."""
    cell, since, leaves, arrives, lasts, n = 0, -1, -1, -1, 0, 0
    outage = bits = 0.0
    for ms in range(round(signals.end_s * 1000)):
        frame = ms // round(FRAME_S * 1000)
        if ms == arrives:
            cell, since, leaves, arrives = 1 - cell, -1, -1, -1
        if arrives < 0 and ms % round(READING_S * 1000) == 0:
            offset = event.offset_db if cell == 0 else event.back_offset_db
            if signals.snr_db[1 - cell, frame] > signals.snr_db[cell, frame] + offset:
                since = ms if since < 0 else since
                if ms - since >= round(event.time_to_trigger_s * 1000):
                    is_ready = cell == 0 and ready[ms // round(READING_S * 1000)]
                    leaves = ms + round(1000 * (rule.prepared_preparation_s if is_ready else rule.preparation_s))
                    lasts = round(1000 * (rule.prepared_interruption_s if is_ready else rule.interruption_s))
                    arrives, n = leaves + lasts, n + 1
            else:
                since = -1
        if 0 <= leaves <= ms:
            outage += 1e-3
        else:
            outage += 1e-3 * signals.outage[cell, frame]
            bits += 1e-3 * signals.rate_bps[cell, frame]
    return outage, bits, n


@settings(deadline=None, max_examples=40)
@given(parts=st.lists(warned_signals(), min_size=1, max_size=3), tried=st.lists(events, min_size=1, max_size=3))
def test_many_users_and_events_at_once_are_each_of_them_played_in_steps(
    parts: list[tuple[TwoCells, Spans]], tried: list[A3Event]
) -> None:
    users = [measured(signals, spans) for signals, spans in parts]
    found = hand_over(users, RULE, tried, way_back_prepared=False)
    for user, services in zip(users, found, strict=True):
        for event, service in zip(tried, services, strict=True):
            outage_s, bits, n = reference(user.cells, event, RULE, user.prepared)
            assert service.outage_s == pytest.approx(outage_s, abs=1e-6)
            assert service.bits == pytest.approx(bits, abs=1.0)
            assert service.n_actions == n


def test_a_warning_holds_until_an_answer_takes_it_back() -> None:
    arrival_s = np.array([0.05, 0.15, np.inf, 0.35, 0.45])
    spans = warned_times(arrival_s, np.array([False, True, False, True, False]))
    assert spans.from_s.tolist() == [0.15]
    assert spans.until_s.tolist() == [0.45]
    unending = warned_times(arrival_s, np.array([True, False, True, True, True]))
    assert unending.from_s.tolist() == [0.05, 0.35]
    assert unending.until_s.tolist() == [0.15, np.inf]


@pytest.mark.parametrize(("field", "value"), [("offset_db", -1.0), ("interruption_s", float("nan"))])
def test_an_impossible_rule_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"decision\.handover\.{field} must lie in"):
        HandoverRule(**{field: value})


def test_a_time_to_trigger_that_no_cell_can_set_is_refused() -> None:
    assert HandoverRule(time_to_trigger_s=0.064).time_to_trigger_s == 0.064
    with pytest.raises(ConfigError, match=r"time_to_trigger_s must be one of 0, 0\.04, 0\.064, .*5\.12 .*got 0\.05"):
        HandoverRule(time_to_trigger_s=0.05)
