"""Intervals cover what they promise, and small numbers of seeds are not made to say more than they can."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import brentq
from sheafedge.scenarios.compare.statistics import (
    CONFIDENCE,
    POWER,
    half_width,
    holm,
    paired_estimate,
    small_sample_factor,
    smallest_rank_p,
    smallest_visible_effect,
)

#: Five differences of another scale than 1, of both signs.
DIFFERENCES = (0.031, 0.012, 0.044, -0.006, 0.020)
#: Draws for coverage, and four standard errors of a share near 0.95 of them.
N_DRAWS = 20_000
COVERAGE_TOLERANCE = 4 * math.sqrt(0.95 * 0.05 / N_DRAWS)


def test_without_a_common_data_set_it_is_the_paired_t_test() -> None:
    found, expected = paired_estimate(DIFFERENCES), stats.ttest_1samp(DIFFERENCES, 0.0)
    assert found.p == pytest.approx(expected.pvalue)
    assert_allclose(found.interval, expected.confidence_interval(CONFIDENCE))


def test_a_split_dealt_anew_widens_the_interval_by_the_correction_of_nadeau_and_bengio() -> None:
    """By hand: variance s^2 (1 / n + n_test / n_train), n - 1 degrees of freedom."""
    mean, sd = np.mean(DIFFERENCES), np.std(DIFFERENCES, ddof=1)
    error = sd * math.sqrt(1 / 5 + 0.3 / 0.7)
    found = paired_estimate(DIFFERENCES, 0.3 / 0.7)
    assert_allclose(found.interval, mean + error * np.array([-2.7764451, 2.7764451]), rtol=1e-7)
    assert found.p == pytest.approx(2 * stats.t.sf(mean / error, 4))
    assert found.effect == paired_estimate(DIFFERENCES).effect  # it describes the differences, and no data to come


@pytest.mark.physics
@pytest.mark.parametrize("test_per_train", [0.0, 1 / 3])
def test_intervals_cover_the_truth_as_often_as_they_promise(test_per_train: float) -> None:
    """Seeds that share data have differences with correlation r / (1 + r), the assumption of the correction."""
    rng, n = np.random.default_rng(3), 5
    shared = test_per_train / (1.0 + test_per_train)
    drawn = math.sqrt(shared) * rng.normal(size=(N_DRAWS, 1)) + math.sqrt(1 - shared) * rng.normal(size=(N_DRAWS, n))
    mean, sd = drawn.mean(axis=1), drawn.std(axis=1, ddof=1)
    covered = float((np.abs(mean) <= half_width(n, test_per_train) * sd).mean())
    assert covered == pytest.approx(CONFIDENCE, abs=COVERAGE_TOLERANCE)
    if shared:
        plain = float((np.abs(mean) <= half_width(n) * sd).mean())
        assert plain < 0.85, "uncorrected intervals are too narrow"


@pytest.mark.physics
@pytest.mark.parametrize("test_per_train", [0.0, 1 / 3])
def test_the_visible_effect_is_found_as_often_as_it_says(test_per_train: float) -> None:
    rng, n = np.random.default_rng(4), 5
    shared = test_per_train / (1.0 + test_per_train)
    own = math.sqrt(1 - shared)  # the standard deviation of differences as seeds show it
    drawn = math.sqrt(shared) * rng.normal(size=(N_DRAWS, 1)) + own * rng.normal(size=(N_DRAWS, n))
    drawn += own * smallest_visible_effect(n, test_per_train)
    mean, sd = drawn.mean(axis=1), drawn.std(axis=1, ddof=1)
    found = float((mean > half_width(n, test_per_train) * sd).mean())
    assert found == pytest.approx(POWER, abs=4 * math.sqrt(POWER * (1 - POWER) / N_DRAWS))


@pytest.mark.physics
def test_the_effect_size_has_no_small_sample_bias() -> None:
    rng, truth, n = np.random.default_rng(5), 0.8, 5
    drawn = rng.normal(truth, size=(N_DRAWS, n))
    raw = drawn.mean(axis=1) / drawn.std(axis=1, ddof=1)
    error = 4 * float(raw.std()) / math.sqrt(N_DRAWS)
    assert float(raw.mean()) * small_sample_factor(n - 1) == pytest.approx(truth, abs=error)
    assert float(raw.mean()) > truth + error, "without the factor it is biased"
    # Hedges 1981: 1 - 3 / (4 df - 1) is near
    assert small_sample_factor(20) == pytest.approx(1 - 3 / 79, abs=1e-3)


def test_the_interval_of_the_effect_inverts_the_noncentral_t() -> None:
    t = stats.ttest_1samp(DIFFERENCES, 0.0).statistic
    bounds = [brentq(lambda nc, share=share: stats.nct.cdf(t, 4, nc) - share, -20, 40) for share in (0.975, 0.025)]
    expected = np.array(bounds) / math.sqrt(5) * small_sample_factor(4)
    assert_allclose(paired_estimate(DIFFERENCES).effect_interval, expected, rtol=1e-6)
    mirrored = paired_estimate([-one for one in DIFFERENCES])
    assert_allclose(mirrored.effect_interval, -expected[::-1], rtol=1e-6)


@pytest.mark.parametrize(
    ("differences", "interval", "effect", "p"),
    [
        ([], None, None, None),
        ([0.2], None, None, None),
        ([0.0, 0.0, 0.0], (0.0, 0.0), 0.0, 1.0),
        ([1e-17, 3e-17, 2e-17], (0.0, 0.0), 0.0, 1.0),
        ([0.3 - 0.1, 0.4 - 0.2, 0.5 - 0.3], (0.2, 0.2), None, None),
    ],
)
def test_differences_without_a_spread_are_no_certainty(
    differences: list[float], interval: tuple[float, float] | None, effect: float | None, p: float | None
) -> None:
    found = paired_estimate(differences)
    assert (found.effect, found.p) == (effect, p)
    assert found.interval == (interval and pytest.approx(interval))


def test_two_seeds_have_an_interval_and_no_effect_size() -> None:
    """With one degree of freedom the small-sample factor is 0."""
    found = paired_estimate([1.0, 2.0])
    assert_allclose(found.interval, 1.5 + 12.7062047 * 0.5 * np.array([-1, 1]), rtol=1e-6)
    assert found.effect is None
    assert found.effect_interval is None
    with pytest.raises(ValueError, match="2 degrees"):
        small_sample_factor(1)


def test_an_effect_beyond_computation_has_no_interval_instead_of_a_wrong_one() -> None:
    assert paired_estimate([1.0, 1.0 + 1e-7, 1.0 - 1e-7]).effect_interval is None


def test_holm_multiplies_the_smallest_by_all_and_never_lets_a_larger_one_pass_it() -> None:
    # of Holm's paper: .01 * 4, .02 * 3, .03 * 2 below the one before, .04 below that
    assert_allclose(holm([0.02, 0.04, 0.01, 0.03]), [0.06, 0.06, 0.04, 0.06])
    assert holm([0.6, None, 0.7]) == [1.0, None, 1.0]
    assert holm([]) == []


def test_five_signs_cannot_reach_one_in_twenty() -> None:
    assert smallest_rank_p(5) == stats.wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0]).pvalue == 0.0625
    assert smallest_rank_p(6) < 0.05
