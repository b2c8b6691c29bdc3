"""Users under plans: every forecast with every price, and the ones that are chosen at the other half of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.decisions.handover import A3Event, PlannedMoves
from ...emulator.decisions.planner import CellForecast, PlanPrice, PlansInForce, moves_at_readings, planned_moves
from ...emulator.decisions.service import Service
from ..schema.decision_section import DecisionSection
from .handed_users import Users, UserStretch
from .handover_ladder import figures_of, paired
from .served_stations import ServedStation

#: Prices of a second of outage in Mbit, about what 0.3, 1 and 3 seconds carry, and of a handover in Mbit.
_OUTAGE_MBIT_S, _HANDOVER_MBIT = (100.0, 300.0, 1000.0), (0.0, 8.0, 20.0)
PRICES = tuple(PlanPrice(*prices) for prices in product(_OUTAGE_MBIT_S, _HANDOVER_MBIT))
_ROUNDING, _MBIT = 1e-9, 1e6


class PlannedUsers(NamedTuple):
    """Users under the plans of one forecast.

    Attributes:
        settings: event and price of each setting; no price ignores the forecast.
        services: [n_stations][n_settings] service.
    """

    settings: Sequence[tuple[A3Event, PlanPrice | None]]
    services: Sequence[Sequence[Service]]

    def tuned(self, events: Sequence[A3Event], floor: Sequence[Service], halves: NDArray[np.bool_]) -> list[int]:
        """Of every base station the setting with the least outage at the other half, among those with enough bits.

        Args:
            events: [n_stations] event that each has; only settings with it are tried.
            floor: [n_stations] service whose bits must be reached there; of none that does, the one with the most.
            halves: [n_stations] half of each.
        """
        outage_s, bits = (
            np.array([[getattr(one, name) for one in of_station] for of_station in self.services])
            for name in ("outage_s", "bits")
        )
        wanted = np.array([one.bits for one in floor])
        best = {}
        for event, half in dict.fromkeys(zip(events, halves.tolist(), strict=True)):
            others = halves != half
            # one service summed in two orders differs by rounding
            theirs, least = bits[others].sum(axis=0), wanted[others].sum() * (1.0 - _ROUNDING)
            possible = np.array([own == event for own, _ in self.settings])
            enough = possible & (theirs >= least)
            outage = np.where(enough, outage_s[others].sum(axis=0), np.inf)
            best[event, half] = int(outage.argmin() if enough.any() else np.where(possible, theirs, -1.0).argmax())
        return [best[event, half] for event, half in zip(events, halves.tolist(), strict=True)]

    def chosen(self, settings: Sequence[int]) -> list[Service]:
        """[n_stations] service under the setting of each."""
        return [of_station[best] for of_station, best in zip(self.services, settings, strict=True)]

    def front(self) -> list[dict[str, float]]:
        """Points over all base stations that no other setting is better than on both counts; most bits first."""
        totals = [Service.total(of_setting) for of_setting in zip(*self.services, strict=True)]
        points: list[dict[str, float]] = []
        for one in sorted(totals, key=lambda total: (-total.rate_bps, total.outage_s)):
            point = {"outage_ms_per_minute": one.outage_ms_per_min, "throughput_mbit_s": one.rate_bps / _MBIT}
            if not points or point["outage_ms_per_minute"] < points[-1]["outage_ms_per_minute"]:
                points.append(point)
        return points


def at_equal_throughput(
    planned: Mapping[str, PlannedUsers],
    services: Mapping[str, Sequence[Service]],
    events: Sequence[A3Event],
    halves: NDArray[np.bool_],
) -> dict[str, Any]:
    """Plans over the models' forecasts, tuned for as many bits as those over the signal's history; if there are any.

    Returns:
        `planner_model_at_equal_throughput`: figures, and differences to `planner_snr_history`.
    """
    if "planner_model" not in planned:
        return {}
    history, model = services["planner_snr_history"], planned["planner_model"]
    found = model.chosen(model.tuned(events, history, halves))
    outage, throughput = figures_of(found, "outage"), figures_of(found, "throughput")
    return {
        "planner_model_at_equal_throughput": {
            "outage_ms_per_minute": float(outage.mean()),
            "throughput_mbit_s": float(throughput.mean()),
            **paired("outage", outage - figures_of(history, "outage")),
            **paired("throughput", throughput - figures_of(history, "throughput")),
        }
    }


def planned_users(
    users: Users,
    decision: DecisionSection,
    stations: Sequence[ServedStation],
    forecasts: Mapping[str, Sequence[CellForecast]],
    events: Sequence[A3Event],
) -> dict[str, PlannedUsers]:
    """Rule -> users under all prices of plans and all events, and under these events alone.

    Args:
        users: users of all base stations.
        decision: rules of handover.
        stations: base stations, with the delays of their answers.
        forecasts: rule -> forecast of every stretch.
        events: events that decide where no plan is in force, or it was surprised.
    """
    settings = [(event, price) for event in dict.fromkeys(events) for price in (None, *PRICES)]
    in_force = [_in_force(decision, stations[one.station], one) for one in users.stretches]
    moves = [
        [_moves(decision, forecast[index], settings, in_force[index], one) for forecast in forecasts.values()]
        for index, one in enumerate(users.stretches)
    ]
    # all rules at once: what a reading costs hardly depends on the number of settings
    together = [PlannedMoves(*(np.concatenate(parts, axis=1) for parts in zip(*one, strict=True))) for one in moves]
    played = users.planned([event for event, _ in settings] * len(forecasts), together)
    n = len(settings)
    return {
        rule: PlannedUsers(settings, [of_station[index * n : (index + 1) * n] for of_station in played])
        for index, rule in enumerate(forecasts)
    }


def _in_force(decision: DecisionSection, station: ServedStation, stretch: UserStretch) -> PlansInForce:
    sensed_s = station.link.instants_s(stretch.rows)
    arrival_s = sensed_s + station.delay_s[stretch.rows]
    return PlansInForce.of(sensed_s, arrival_s, stretch.user.known_s, decision.measurement.delay_s)


def _moves(
    decision: DecisionSection,
    forecast: CellForecast,
    settings: Sequence[tuple[A3Event, PlanPrice | None]],
    in_force: PlansInForce,
    stretch: UserStretch,
) -> PlannedMoves:
    plans = {price: planned_moves(forecast, decision.handover, price) for price in PRICES}
    of_settings = [None if price is None else plans[price] for _, price in settings]
    return moves_at_readings(forecast, of_settings, in_force, stretch.user.readings_db)
