"""Paired statistics over seeds: confidence intervals, effect sizes and p values, with their limits in plain numbers.

One letter each, as in the sources: `n` pairs with mean difference m and sample standard deviation s; the standard error
of m is k s with k = sqrt(1 / n + r), where r = n_test / n_train if every seed deals the split anew, and 0 otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Confidence of all intervals.
CONFIDENCE = 0.95
#: Probability with which `smallest_visible_effect` is found.
POWER = 0.8
#: Differences below this are 0 but for rounding, and equal where their spread is below this share of the largest.
ROUNDING = 1e-12
#: The noncentral t is not computed beyond: its inversion loses all digits, and takes seconds.
LARGEST_T = 300.0


@dataclass(frozen=True, slots=True)
class PairedEstimate:
    """What n paired differences say about the mean difference.

    Attributes:
        interval: confidence interval of the mean difference; None for one pair.
        effect: Hedges' g_z, the mean difference in standard deviations of the differences, without small-sample bias;
            None below three pairs, and where all differences are equal and not 0.
        effect_interval: its confidence interval; None where `effect` is, or beyond what can be computed.
        p: two-sided p value of no difference; None for one pair, and where all differences are equal and not 0, so that
            nothing is known of their spread.
    """

    interval: tuple[float, float] | None
    effect: float | None
    effect_interval: tuple[float, float] | None
    p: float | None


def paired_estimate(differences: Sequence[float], test_per_train: float = 0.0) -> PairedEstimate:
    """Confidence interval, effect size and p value of the mean of paired differences.

    Args:
        differences: one per seed, in the unit of the score.
        test_per_train: r, number of held-out samples per training sample if every seed deals the split of one data set
            anew; 0 if seeds have data of their own, or all one split.

    Source: Student's t; for r > 0 the corrected resampled t of Nadeau and Bengio, Inference for the generalization
        error, Machine Learning 52 (2003), section 3; interval of the effect size by inversion of the noncentral t.
    """
    from scipy.special import stdtr

    n = len(differences)
    if n < 2:
        return PairedEstimate(None, None, None, None)
    mean, sd = float(np.mean(differences)), float(np.std(differences, ddof=1))
    largest = float(np.max(np.abs(differences)))
    if largest <= ROUNDING:  # runs that differ by nothing
        return PairedEstimate((0.0, 0.0), 0.0 if n > 2 else None, None, 1.0)
    if sd <= ROUNDING * largest:
        return PairedEstimate((mean, mean), None, None, None)
    half = half_width(n, test_per_train) * sd
    t = mean / (sd * standard_error(n, test_per_train))
    effect = small_sample_factor(n - 1) * mean / sd if n > 2 else None
    effect_interval = None if effect is None else _effect_interval(t, n, test_per_train)
    return PairedEstimate((mean - half, mean + half), effect, effect_interval, 2.0 * float(stdtr(n - 1, -abs(t))))


def standard_error(n: int, test_per_train: float = 0.0) -> float:
    """Standard error k of a mean of n differences, in their standard deviations."""
    return math.sqrt(1.0 / n + test_per_train)


def half_width(n: int, test_per_train: float = 0.0) -> float:
    """Half of the confidence interval of a mean difference, in standard deviations of the n >= 2 differences."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * standard_error(n, test_per_train)


def small_sample_factor(freedom: int) -> float:
    """Factor that removes the bias of a standardized mean difference.

    Source: Hedges, Distribution theory for Glass's estimator of effect size, J. Educ. Stat. 6 (1981), the exact form.
    """
    if freedom < 2:
        raise ValueError(f"an effect size needs at least 2 degrees of freedom, got {freedom}")
    return math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2)) / math.sqrt(freedom / 2)


def smallest_visible_effect(n: int, test_per_train: float = 0.0) -> float:
    """True difference, in standard deviations of differences, that n seeds tell from 0 with probability `POWER`."""
    from scipy.special import nctdtrinc, stdtrit

    critical = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    # the other tail is negligible where the power is this large
    return float(nctdtrinc(n - 1, 1.0 - POWER, critical)) * standard_error(n, test_per_train)


def smallest_rank_p(n: int) -> float:
    """Smallest two-sided p value of a sign or signed-rank test of n pairs: all differences have one sign."""
    return 2.0 ** (1 - n)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """P values of one family, adjusted so that any false rejection among them stays as rare as one test allows.

    Args:
        p_values: in any order; None where there is none, which counts as no test.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Stat. 6 (1979).
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    so_far = 0.0
    for rank, (p, place) in enumerate(known):
        so_far = max(so_far, min(1.0, (len(known) - rank) * p))
        adjusted[place] = so_far
    return adjusted


def _effect_interval(t: float, n: int, test_per_train: float) -> tuple[float, float] | None:
    """Effect sizes under which a t as far out as this one is exactly as rare as the confidence allows."""
    from scipy.special import nctdtr, nctdtrinc

    if abs(t) > LARGEST_T:
        return None
    tail = (1.0 - CONFIDENCE) / 2
    # the positive side: the computation of the lower tail loses digits far below 0
    far, near = (float(nctdtrinc(n - 1, share, abs(t))) for share in (tail, 1.0 - tail))
    found = [float(nctdtr(n - 1, noncentrality, abs(t))) for noncentrality in (far, near)]
    if not np.allclose(found, [tail, 1.0 - tail], atol=1e-4):
        return None
    scale = small_sample_factor(n - 1) * standard_error(n, test_per_train)
    low, high = near * scale, far * scale
    return (low, high) if t >= 0 else (-high, -low)
