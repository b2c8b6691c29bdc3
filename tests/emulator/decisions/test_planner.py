"""Plans over forecasts: the best of all sequences, and what a user gets who follows them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.emulator.decisions import planner
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.decisions.handover import A3Event, HandoverRule, MeasuredUser, PlannedMoves, hand_over
from sheafedge.emulator.decisions.planner import (
    N_STEPS,
    STEP_S,
    STEPS_S,
    CellForecast,
    PlanPrice,
    PlansInForce,
    moves_at_readings,
    planned_moves,
)
from sheafedge.emulator.decisions.service import Service
from sheafedge.emulator.decisions.two_cells import TwoCells

FRAME_S, FINE_S = 0.1, 0.01
LINK, RULE = AccessLink(), HandoverRule()
AT_ONCE = A3Event(1.0, 0.0, 0.0)
PRICE = PlanPrice(300.0, 0.0)
N_SHORT = 7


def whole_steps(preparation: int, interruption: int) -> HandoverRule:
    return HandoverRule(preparation_s=preparation * STEP_S, interruption_s=interruption * STEP_S)


def cost_of(going: tuple[bool, ...], cell: int, forecast: CellForecast, rule: HandoverRule, price: PlanPrice) -> float:
    """Cost of going at these steps, as far as there is a free user to go; infinite where it would end too late."""
    preparation, interruption = round(rule.preparation_s / STEP_S), round(rule.interruption_s / STEP_S)
    per_step = STEP_S * (price.outage_mbit_s * forecast.outage[:, 0] - forecast.rate_bps[:, 0] / 1e6)
    total, step = 0.0, 0
    while step < len(going):
        if not going[step]:
            total, step = total + per_step[cell, step], step + 1
            continue
        if step + preparation + interruption > len(going):
            return np.inf
        total += per_step[cell, step : step + preparation].sum()
        total += price.outage_mbit_s * rule.interruption_s + price.handover_mbit
        step, cell = step + preparation + interruption, 1 - cell
    return float(total)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    preparation=st.integers(0, 2),
    interruption=st.integers(1, 2),
    handover_mbit=st.sampled_from([0.0, 2.0]),
)
def test_the_plan_begins_as_the_best_of_all_sequences_does(
    seed: int, preparation: int, interruption: int, handover_mbit: float
) -> None:
    draws = np.random.default_rng(seed)
    forecast = CellForecast(draws.random((2, 1, N_SHORT)), 3e8 * draws.random((2, 1, N_SHORT)))
    rule, price = whole_steps(preparation, interruption), PlanPrice(300.0, handover_mbit)
    go = planned_moves(forecast, rule, price)
    for cell in (0, 1):
        costs = {going: cost_of(going, cell, forecast, rule, price) for going in product((False, True), repeat=N_SHORT)}
        best_if = [min(cost for going, cost in costs.items() if going[0] is first) for first in (False, True)]
        assert go[cell, 0, 0] == (best_if[1] < best_if[0] - 1e-9)


def test_durations_between_steps_cost_what_lies_between() -> None:
    """A blockage shorter than a handover of 82 ms is sat out, a longer one is left; the cells are equal otherwise."""
    for seconds, leaves in ((0.08, False), (0.1, True)):
        outage = np.stack([seconds > STEPS_S, np.zeros(N_STEPS, dtype=bool)]).astype(float)[:, None]
        go = planned_moves(CellForecast(outage, 1e8 * (1.0 - outage)), RULE, PRICE)
        assert go[0, 0, 0] == leaves


def test_a_price_of_handovers_keeps_the_user_where_it_is() -> None:
    outage = np.stack([STEPS_S > 0.2, np.zeros(N_STEPS, dtype=bool)]).astype(float)[:, None]
    forecast = CellForecast(outage, 1e8 * (1.0 - outage))
    assert planned_moves(forecast, RULE, PRICE)[0].any()
    assert not planned_moves(forecast, RULE, PlanPrice(300.0, 1e6)).any()


def walk(seed: int, n_frames: int = 400) -> TwoCells:
    """Two cells that are blocked now and then, with ramps, at 100 Hz."""
    draws, n = np.random.default_rng(seed), n_frames * 10
    snr_db = np.empty((2, n))
    for cell, clear_db in enumerate((15.0, 9.0)):
        loss_db = np.zeros(n)
        for begin in np.cumsum(draws.integers(100, 500, size=n // 100)):
            if begin < n:
                length = int(draws.integers(20, 120))
                shape = np.minimum(np.minimum(np.arange(length), np.arange(length)[::-1]) * 8.0, 25.0)
                loss_db[begin : begin + length] = shape[: n - begin]
        snr_db[cell] = clear_db - loss_db
    return TwoCells.of(snr_db, FINE_S, LINK)


def measured(cells: TwoCells) -> MeasuredUser:
    """Exact readings every 20 ms, known at once."""
    known_s = np.round(np.arange(0.0, cells.end_s - 1e-9, 0.02), 9)
    rows = np.minimum(((known_s + 1e-9) / FINE_S).astype(int), cells.n_frames - 1)
    return MeasuredUser(cells, known_s, cells.snr_db[:, rows], np.zeros(len(known_s), dtype=bool))


def truth(cells: TwoCells) -> CellForecast:
    frames = np.arange(round(cells.end_s / FRAME_S))
    rows = np.minimum(((frames[:, None] * FRAME_S + STEPS_S + 1e-9) / FINE_S).astype(int), cells.n_frames - 1)
    return CellForecast(cells.outage[:, rows].astype(float), cells.rate_bps[:, rows])


def followed(
    user: MeasuredUser, forecast: CellForecast, price: PlanPrice | None, delay_s: float = 0.0, event: A3Event = AT_ONCE
) -> Service:
    sensed_s = FRAME_S * np.arange(round(user.cells.end_s / FRAME_S))
    in_force = PlansInForce.of(sensed_s, sensed_s + delay_s, user.known_s, 0.0)
    plans = [None if price is None else planned_moves(forecast, RULE, price)]
    moves = moves_at_readings(forecast, plans, in_force, user.readings_db)
    return hand_over([replace(user, planned=moves)], RULE, [event], way_back_prepared=False)[0][0]


def reacted(user: MeasuredUser) -> Service:
    return hand_over([user], RULE, [AT_ONCE], way_back_prepared=False)[0][0]


@pytest.mark.parametrize("seed", range(4))
def test_plans_over_the_truth_are_no_worse_than_reaction_on_both_counts(seed: int) -> None:
    user = measured(walk(seed))
    planned, reactive = followed(user, truth(user.cells), PlanPrice(1000.0, 0.0)), reacted(user)
    assert planned.outage_s < reactive.outage_s
    assert planned.bits > reactive.bits


def test_plans_over_a_forecast_that_is_ignored_are_the_event() -> None:
    user = measured(walk(7))
    assert followed(user, truth(user.cells), None) == reacted(user)


def test_answers_that_never_arrive_leave_the_event() -> None:
    user = measured(walk(7))
    assert followed(user, truth(user.cells), PRICE, delay_s=np.inf) == reacted(user)


def test_late_answers_are_read_at_the_step_of_now() -> None:
    """An exact forecast loses nothing when its answer is late by less than a frame: the plan has been made further."""
    user = measured(walk(3))
    at_once, late = (followed(user, truth(user.cells), PlanPrice(1000.0, 0.0), delay_s) for delay_s in (0.0, 0.05))
    assert late.outage_s == pytest.approx(at_once.outage_s, rel=0.15)


def test_a_fall_that_nobody_foresaw_gives_the_event_its_way() -> None:
    """The plan says stay; a blockage comes all the same. A fall that was foreseen is the plan's business."""
    snr_db = np.full((2, 1000), [[15.0], [9.0]])
    snr_db[0, 503:700] = -10.0  # between two frames: at a frame an answer knows the present
    user = measured(TwoCells.of(snr_db, FINE_S, LINK))
    n = round(user.cells.end_s / FRAME_S)
    blind = CellForecast(np.zeros((2, n, N_STEPS)), np.broadcast_to([[[3e8]], [[1e8]]], (2, n, N_STEPS)))
    assert followed(user, blind, PRICE).n_actions >= 1
    held: NDArray[Any] = np.ones((2, 1, len(user.known_s)), dtype=bool)
    stubborn = replace(user, planned=PlannedMoves(~held, held))
    assert hand_over([stubborn], RULE, [AT_ONCE], way_back_prepared=False)[0][0].n_actions == 0


def test_the_newest_answer_that_has_arrived_is_in_force() -> None:
    sensed_s, arrival_s = np.array([0.0, 0.1, 0.2]), np.array([0.05, np.inf, 0.25])
    known_s = np.array([0.0, 0.06, 0.2, 0.26])
    found = PlansInForce.of(sensed_s, arrival_s, known_s, 0.0)
    assert found.holds.tolist() == [False, True, True, True]
    assert found.answer.tolist()[1:] == [0, 0, 2]
    assert found.step.tolist()[1:] == [3, 10, 3]
    assert planner.SURPRISE_DB > 0.0
