"""Drift: as wide and as long as its parameters say, for any steps and in pieces of any size."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal
from sheafedge.emulator.world.gauss_markov import gauss_markov

TAU_S = 2.0
N_TRACKS = 20_000
STANDARD_ERRORS = 4.0  # 36 comparisons: at 3, one in ten sets of draws would fail


def test_drift_correlates_exponentially_over_uneven_steps() -> None:
    draws = np.random.default_rng(3)
    steps_s = np.array([0.0, 0.1, 1.0, 0.0, 2.5, 0.4, 7.0, 0.05])
    values = gauss_markov(steps_s, TAU_S, draws.standard_normal(N_TRACKS), draws)
    time_s = np.cumsum(steps_s)
    expected = np.exp(-np.abs(time_s[:, None] - time_s) / TAU_S)
    standard_error = np.sqrt((1.0 + expected**2) / N_TRACKS)
    assert (np.abs(values @ values.T / N_TRACKS - expected) < STANDARD_ERRORS * standard_error).all()


def test_pieces_give_the_numbers_of_the_whole() -> None:
    steps_s = np.random.default_rng(0).uniform(0.0, 1.0, size=50)
    whole = gauss_markov(steps_s, TAU_S, np.zeros(3), np.random.default_rng(1))
    draws, last, pieces = np.random.default_rng(1), np.zeros(3), []
    for part in np.split(steps_s, [1, 7, 30]):
        pieces.append(gauss_markov(part, TAU_S, last, draws))
        last = pieces[-1][-1]
    assert_array_equal(np.concatenate(pieces), whole)


def test_no_time_leaves_the_drift_where_it_was() -> None:
    start = np.array([1.0, -2.0])
    assert_array_equal(gauss_markov(np.zeros(3), TAU_S, start, np.random.default_rng(0)), np.tile(start, (3, 1)))
