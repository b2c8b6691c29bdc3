"""Plans of handovers over a forecast: dynamic programming over the next 1.5 s, made anew with every answer.

A plan weighs outage against bits. While it is in force, the event of the rule is held back where the plan stays, unless
the serving cell falls in a way that the answer did not foresee.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .handover import HandoverRule, PlannedMoves
from .two_cells import SAME_S

#: Length of a step of a plan, and number of steps: as far as street sensors see a vehicle coming, 1.5 s.
STEP_S, N_STEPS = 0.02, 75
#: Middle of every step in s from the instant of the forecast.
STEPS_S: Array = np.asarray(STEP_S * (np.arange(N_STEPS) + 0.5), dtype=np.float64)
#: Fall of the serving cell's reading since the answer's instant, dB, by which the answer was wrong: four standard
#: deviations of a reading's noise by default.
SURPRISE_DB = 4.0
#: An answer foresaw an outage at an instant to which it gave this probability.
FORESEEN = 0.5
_MBIT = 1e6


class CellForecast(NamedTuple):
    """What answers say of both cells; cell 0 is the user's own.

    Attributes:
        outage: [2, n, N_STEPS] probability of outage, of every answer at every step.
        rate_bps: [2, n, N_STEPS] expected rate.
    """

    outage: Array
    rate_bps: Array


class PlanPrice(NamedTuple):
    """What plans weigh.

    Attributes:
        outage_mbit_s: cost of a second of outage, in Mbit.
        handover_mbit: cost of a handover beyond its preparation and interruption, in Mbit.
    """

    outage_mbit_s: float
    handover_mbit: float


def planned_moves(forecast: CellForecast, rule: HandoverRule, price: PlanPrice) -> NDArray[np.bool_]:
    """[2, n, N_STEPS] bool, whether the best plan hands a user that is in a cell at a step over at that step.

    Least expected cost until the end of the forecast. What an unprepared handover costs: its preparation in the old
    cell, its interruption as outage without bits, and its price. One that would end after the forecast is not begun.

    Args:
        forecast: of n answers.
        rule: durations of an unprepared handover.
        price: weights of outage and of handovers.
    """
    cost = STEP_S * (price.outage_mbit_s * forecast.outage - forecast.rate_bps / _MBIT)
    n_steps = cost.shape[2]
    # [n_steps + 1, 2, n] sums until the beginning of each step, and least costs from there on
    until = np.zeros((n_steps + 1, *cost.shape[:2]))
    np.cumsum(np.moveaxis(cost, 2, 0), axis=0, out=until[1:])
    ahead = np.zeros_like(until)
    leaves, arrives = rule.preparation_s / STEP_S, (rule.preparation_s + rule.interruption_s) / STEP_S
    of_handover = price.outage_mbit_s * rule.interruption_s + price.handover_mbit
    go = np.zeros(cost.shape, dtype=np.bool_)
    for step in range(n_steps - 1, -1, -1):
        stays = cost[:, :, step] + ahead[step + 1]
        ahead[step] = stays
        if step + arrives > n_steps + SAME_S:
            continue
        prepared = _between(until, step + leaves) - until[step]
        # without any duration a handover ends at once, and what is known of the other cell is the cost of staying
        onwards = (stays if arrives == 0.0 else _between(ahead, step + arrives))[::-1]
        moves = prepared + of_handover + onwards
        go[:, :, step] = moves < stays - SAME_S
        ahead[step] = np.minimum(stays, moves)
    return go


def _between(values: Array, step: float) -> Array:
    """Values [n_steps + 1, ...] at any step, linear between whole ones."""
    whole = min(int(step + SAME_S), len(values) - 2)
    share = step - whole
    return np.asarray((1.0 - share) * values[whole] + share * values[whole + 1])


class PlansInForce(NamedTuple):
    """Which answer holds at every reading, and how old it is.

    Attributes:
        answer: [m] number of the newest answer that has arrived; 0 before the first.
        step: [m] step of its plan.
        holds: [m] bool, whether there is one, and its plan goes on.
        reading: [m] last reading at or before the answer's instant.
    """

    answer: NDArray[np.int64]
    step: NDArray[np.int64]
    holds: NDArray[np.bool_]
    reading: NDArray[np.int64]

    @classmethod
    def of(cls, sensed_s: Array, arrival_s: Array, known_s: Array, reading_delay_s: float) -> PlansInForce:
        """Answers about frames [n] that arrive at instants [n], infinite where there is none, at readings [m]."""
        # stable: of answers that arrive at one instant the one about the later frame holds
        order = np.argsort(arrival_s, kind="stable")
        arrived = np.searchsorted(arrival_s[order], known_s + SAME_S, side="right")
        answer = np.asarray(order[np.maximum(arrived - 1, 0)], dtype=np.int64)
        step = np.floor((known_s - sensed_s[answer]) / STEP_S + SAME_S).astype(np.int64)
        taken_s = known_s - reading_delay_s
        reading = np.searchsorted(taken_s, sensed_s[answer] + SAME_S, side="right") - 1
        return cls(answer, np.minimum(step, N_STEPS - 1), (arrived > 0) & (step < N_STEPS), np.maximum(reading, 0))


def moves_at_readings(
    forecast: CellForecast,
    plans: Sequence[NDArray[np.bool_] | None],
    in_force: PlansInForce,
    readings_db: Array,
) -> PlannedMoves:
    """What plans say at readings.

    An event is held back where a plan is in force, unless the reading of the serving cell has fallen by `SURPRISE_DB`
    since the answer's instant, and the answer gave this instant a probability of outage below `FORESEEN`.

    Args:
        forecast: of n answers.
        plans: moves [2, n, N_STEPS] under every price; None: the forecast is ignored, and the event alone decides.
        in_force: answers that hold at readings.
        readings_db: [2, m] of both cells.
    """
    answer, step = in_force.answer, in_force.step
    fell = readings_db < readings_db[:, in_force.reading] - SURPRISE_DB
    surprised = fell & (forecast.outage[:, answer, step] < FORESEEN)
    held = np.zeros((2, len(plans), len(answer)), dtype=np.bool_)
    go = np.zeros_like(held)
    for index, moves in enumerate(plans):
        if moves is not None:
            go[:, index] = moves[:, answer, step] & in_force.holds
            held[:, index] = in_force.holds & ~surprised
    return PlannedMoves(go, held)
