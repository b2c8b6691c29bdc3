"""Forecasts of both cells that plans are made over: from nothing, the signal's history, the models, or the truth.

A base station answers how likely its own user's signal lies below a fade in each of the next frames; there is a fade
that means outage at the own strength, and one at the neighbor's, where less is left to lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ...emulator.decisions.planner import N_STEPS, STEP_S, STEPS_S, CellForecast
from ...emulator.decisions.two_cells import SAME_S, TwoCells
from ...emulator.radio.waves import Array
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import ForecastTask, SensorTask
from .handed_users import UserStretch
from .served_stations import ServedStation
from .snr_history import fades_ahead, readings_at_frames, snr_history_forecasts

#: Probabilities of one base station: [n, 2, N_STEPS] of its two fades, at its held-out frames.
FadeOdds = Array


def forecasts(
    task: SensorTask,
    decision: DecisionSection,
    stations: Sequence[ServedStation],
    stretches: Sequence[UserStretch],
    seed: int,
) -> dict[str, list[CellForecast]]:
    """Rule -> forecast of every stretch; `planner_model` only where answers forecast outage.

    Every forecast but the truth knows the present reading as well; all arrive when the models' answers do.
    """
    fades_db = decision.outage_fades_db
    now = [_present(decision, station, fades_db, seed) for station in stations]
    n_ahead = max(1, round(N_STEPS * STEP_S / max(station.link.frame_s for station in stations)))
    histories = snr_history_forecasts(decision.measurement, stations, fades_db, n_ahead, seed)
    odds: dict[str, Sequence[FadeOdds]] = {
        "planner_without_forecast": _decaying(stations, now, fades_db),
        "planner_snr_history": [_at_steps(*known) for known in zip(stations, now, histories, strict=True)],
    }
    if isinstance(task, ForecastTask):
        answers = [task.outage_odds(station.logits) for station in stations]
        odds["planner_model"] = [_at_steps(*known) for known in zip(stations, now, answers, strict=True)]
    made = {rule: [_of_cells(decision, one, known) for one in stretches] for rule, known in odds.items()}
    return made | {"planner_truth": [_truth(one.user.cells, stations[one.station].link.frame_s) for one in stretches]}


def _present(decision: DecisionSection, station: ServedStation, fades_db: Sequence[float], seed: int) -> Array:
    """[n, 2] probability that the signal lies below each fade now, given one noisy reading."""
    chain = decision.measurement
    above_db = readings_at_frames(chain, station, seed)[station.link.samples.end][:, None] + np.asarray(fades_db)
    if chain.noise_db == 0.0:
        return np.asarray(above_db < 0.0, dtype=np.float64)
    normal = NormalDist(0.0, chain.noise_db)
    return np.asarray(np.vectorize(normal.cdf, otypes=[np.float64])(-above_db))


def _at_steps(station: ServedStation, now: Array, ahead: Array) -> FadeOdds:
    """Present state [n, 2] and frames ahead [n, 2, n_ahead] -> steps of a plan, linear in between, then constant."""
    known = np.concatenate([now[:, :, None], ahead], axis=2)
    place = np.minimum(STEPS_S / station.link.frame_s, known.shape[2] - 1)
    before = np.minimum(place.astype(np.int64), known.shape[2] - 2)
    share = place - before
    return np.asarray((1.0 - share) * known[:, :, before] + share * known[:, :, before + 1])


def _decaying(stations: Sequence[ServedStation], now: Sequence[Array], fades_db: Sequence[float]) -> list[FadeOdds]:
    """The present state, which decays to the share of training frames below each fade as it did from frame to frame."""
    before = [
        fades_ahead(station.link.gain_db[:, 0], np.arange(station.client.data.train.end[-1]), fades_db, 1)[:, :, 0]
        for station in stations
    ]
    base = np.concatenate(before).mean(axis=0)
    # share of what is known of a frame that is still true of the next: the correlation of neighbors in time
    pairs = np.concatenate([one[:-1].astype(float) - base for one in before]) * np.concatenate(
        [one[1:].astype(float) - base for one in before]
    )
    stays = np.clip(pairs.mean(axis=0) / np.maximum(base * (1.0 - base), SAME_S), 0.0, 1.0)
    found = []
    for station, state in zip(stations, now, strict=True):
        left = stays[:, None] ** (STEPS_S / station.link.frame_s)
        found.append(base[:, None] + (state - base)[:, :, None] * left)
    return found


def _of_cells(decision: DecisionSection, stretch: UserStretch, odds: Sequence[FadeOdds]) -> CellForecast:
    """Forecast of a user's two cells, from what the base station of each says of its own user's signal.

    Rates: that of a clear view above both fades, of their middle between them, and none below.
    """
    own, other = odds[stretch.station][stretch.rows], odds[stretch.neighbor][stretch.theirs, 1]
    deep_db, shallow_db = decision.outage_fades_db
    clear_db = decision.clear_snr_db
    clear, middle, neighbor = decision.link.rate_bps(
        np.array([clear_db, clear_db - 0.5 * (deep_db + shallow_db), clear_db - decision.neighbor_below_db])
    )
    # networks may give the deeper fade the higher probability
    below = np.maximum(own[:, 0], own[:, 1])
    own_bps = (1.0 - below) * clear + (below - own[:, 0]) * middle
    return CellForecast(np.stack([own[:, 0], other]), np.stack([own_bps, (1.0 - other) * neighbor]))


def _truth(cells: TwoCells, frame_s: float) -> CellForecast:
    """What will be, in the middle of every step; after the end what was last."""
    n_frames = round(cells.end_s / frame_s)
    at_s = frame_s * np.arange(n_frames)[:, None] + STEPS_S
    rows = np.minimum((at_s / cells.frame_s + SAME_S).astype(np.int64), cells.n_frames - 1)
    return CellForecast(cells.outage[:, rows].astype(np.float64), cells.rate_bps[:, rows])
