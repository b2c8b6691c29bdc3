"""Limits of drift hold their level where nothing changed, and find what did."""

from __future__ import annotations

import numpy as np
import pytest
from doubles.bundles import tiny_manifest
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.drift_watch import ANSWERS, DriftWatch
from sheafedge.emulator.edge.input_summaries import summary_names
from sheafedge.emulator.edge.manifest import DriftReference
from sheafedge.scenarios.export.drift_fit import FALSE_ALARMS, FEWEST_WINDOWS, drift_counts, drift_reference

INPUTS = tiny_manifest().inputs
N_TRAIN, N_LATER = 800, 5000
#: Of a first-order autoregression: a figure forgets nine tenths of its value in ten samples.
MEMORY = 0.8
#: Times the level that is still no sign of a wrong limit: windows of training are few, and their means are known so-so.
SLACK = 4.0


def drawn(n: int, seed: int, memory: float = MEMORY) -> dict[Modality, NDArray[np.float64]]:
    """Figures of all inputs that follow one another, around 0 with standard deviation 1."""
    draws = np.random.default_rng(seed)
    return {one.modality: _walk(draws, n, len(summary_names(one)), memory) for one in INPUTS}


def _walk(draws: np.random.Generator, n: int, width: int, memory: float) -> NDArray[np.float64]:
    noise = draws.normal(size=(n, width))
    walk = np.empty_like(noise)
    walk[0] = noise[0]
    for row in range(1, n):
        walk[row] = memory * walk[row - 1] + np.sqrt(1.0 - memory**2) * noise[row]
    return walk


def labels_of(n: int, seed: int, share: float = 0.2, memory: float = MEMORY) -> NDArray[np.int64]:
    """Labels that come in bursts, as blockages do."""
    walk = _walk(np.random.default_rng(seed), n, 1, memory)[:, 0]
    return (walk > np.quantile(_walk(np.random.default_rng(99), 20_000, 1, memory), 1.0 - share)).astype(np.int64)


def fitted(seed: int) -> DriftReference:
    found = drift_reference(INPUTS, drawn(N_TRAIN, seed), labels_of(N_TRAIN, seed + 1000), 2, 3)
    assert found is not None
    return found


def shares(
    reference: DriftReference, figures: dict[Modality, NDArray[np.float64]], labels: NDArray[np.int64]
) -> dict[str, float]:
    """Input, or `ANSWERS`, -> share of its windows that drifted."""
    watch = DriftWatch(reference, INPUTS, 1)
    judged: dict[str, list[bool]] = {}
    for row, label in enumerate(labels):
        verdict = watch.judge(
            "s", row * reference.stride, {name: one[row] for name, one in figures.items()}, int(label)
        )
        for name in verdict.judged:
            judged.setdefault(name, []).append(name in verdict.drifted)
    return {name: float(np.mean(one)) for name, one in judged.items()}


def test_windows_like_training_drift_at_the_stated_level() -> None:
    """Mean over trainings, because every one of them knows its own limits only so well."""
    found = [shares(fitted(seed), drawn(N_LATER, seed + 50), labels_of(N_LATER, seed + 60)) for seed in range(12)]
    for name in (*(one.modality for one in INPUTS), ANSWERS):
        assert np.mean([one[name] for one in found]) <= SLACK * FALSE_ALARMS, name


def test_windows_of_independent_samples_would_alarm_far_more_often() -> None:
    """Negative control: limits for independent samples do not hold for samples that follow one another."""
    calm = {name: values[np.random.default_rng(1).permutation(N_TRAIN)] for name, values in drawn(N_TRAIN, 0).items()}
    reference = drift_reference(
        INPUTS, calm, labels_of(N_TRAIN, 1000)[np.random.default_rng(2).permutation(N_TRAIN)], 2, 3
    )
    assert reference is not None
    found = shares(reference, drawn(N_LATER, 50), labels_of(N_LATER, 60))
    assert min(found[one.modality] for one in INPUTS) > 10 * SLACK * FALSE_ALARMS
    assert found[ANSWERS] > SLACK * FALSE_ALARMS


def test_a_shift_of_three_standard_deviations_is_found_in_nearly_every_window() -> None:
    moved = {name: values + 3.0 for name, values in drawn(2000, 7).items()}
    found = shares(fitted(0), moved, labels_of(2000, 8))
    assert all(found[one.modality] > 0.9 for one in INPUTS)


def test_other_shares_of_labels_are_found() -> None:
    found = shares(fitted(0), drawn(4000, 7), labels_of(4000, 8, share=0.8))
    assert found[ANSWERS] > 0.9


def test_counts_are_those_of_a_watch() -> None:
    reference = fitted(0)
    far = {name: values + 100.0 for name, values in drawn(320, 7).items()}
    counts = drift_counts(reference, INPUTS, far, np.zeros(320, np.int64))
    assert counts.answers == counts.outside == 320
    n_inputs = len(INPUTS) * (320 // reference.window)
    assert counts.windows == n_inputs + 320 // reference.answers.window
    assert counts.drifted >= n_inputs


@pytest.mark.parametrize("n", [0, 1, 2 * FEWEST_WINDOWS - 1])
def test_too_few_samples_are_no_reference(n: int) -> None:
    assert drift_reference(INPUTS, drawn(max(n, 1), 0), np.zeros(n, np.int64), 2, 1) is None


def test_figures_that_never_moved_have_bounds_around_them() -> None:
    still = {one.modality: np.full((N_TRAIN, len(summary_names(one))), 5.0) for one in INPUTS}
    reference = drift_reference(INPUTS, still, np.zeros(N_TRAIN, np.int64), 2, 1)
    assert reference is not None
    for one in (bound for figures in reference.inputs.values() for bound in figures.values()):
        assert one.low < 5.0 < one.high < 5.1
        assert one.window_low < 5.0 < one.window_high < 5.1
    assert reference.answers.shares == (1.0, 0.0)
    assert reference.answers.distance < 0.1
