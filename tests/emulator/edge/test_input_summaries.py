"""Figures about the newest frame of an input equal what plain numpy says of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import InputWindow, Modality
from sheafedge.emulator.edge.input_summaries import LEAST, MOST_COLUMNS, input_summaries, summary_names
from sheafedge.emulator.edge.manifest import InputSpec

#: Sums of float32 in another order.
ROUNDING = 1e-4

LIDAR = InputSpec(InputWindow("lidar", 3, axis=1), (2, 3, 6), 10.0, "m, rad", "", 16.0)
CAMERA = InputSpec(InputWindow("camera", 3, axis=0), (3, 4, 5), 10.0, "1", "", 0.0)
SWEEPS = InputSpec(InputWindow("rf", 3, axis=0), (3, 8), 10.0, "dB", "")
FIXES = InputSpec(InputWindow("gps", 3, axis=0), (3, 2), 10.0, "m", "")
ROW = InputSpec(InputWindow("table"), (4,), 10.0, "1", "")


def windows(spec: InputSpec, n: int = 5) -> np.ndarray:
    return np.random.default_rng(3).uniform(1.0, 90.0, (n, *spec.shape)).astype(np.float32)


def figures(spec: InputSpec, values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(summary_names(spec), input_summaries(values, spec).T, strict=True))


@pytest.mark.parametrize("spec", [CAMERA, SWEEPS], ids=["camera", "sweeps"])
def test_levels_are_told_by_mean_spread_and_change(spec: InputSpec) -> None:
    values = windows(spec)
    found, now, before = figures(spec, values), values[:, -1].reshape(5, -1), values[:, -2].reshape(5, -1)
    assert_allclose(found["mean"], now.mean(axis=1), rtol=ROUNDING)
    assert_allclose(found["spread"], np.log(now.std(axis=1)), rtol=ROUNDING)
    assert_allclose(found["change"], np.log(np.abs(now - before).mean(axis=1)), rtol=ROUNDING)


def test_only_ranges_of_a_lidar_count_and_rays_without_an_echo_are_a_share() -> None:
    values = windows(LIDAR)
    values[:, 0, -1, :3] = 16.0
    turned = values.copy()
    turned[:, 1] += 1.0  # angles
    assert_allclose(input_summaries(values, LIDAR), input_summaries(turned, LIDAR))
    assert_allclose(figures(LIDAR, values)["nothing"], 0.5)


@pytest.mark.parametrize("spec", [FIXES, ROW], ids=["fixes", "row"])
def test_columns_that_mean_different_things_stay_apart(spec: InputSpec) -> None:
    values = windows(spec)
    now = values[:, -1] if spec.window.axis is not None else values
    found = figures(spec, values)
    for column in range(now.shape[1]):
        assert_allclose(found[f"column {column}"], now[:, column])


def test_a_wide_table_is_summarized_like_levels() -> None:
    wide = InputSpec(InputWindow("table"), (MOST_COLUMNS + 1,), 10.0, "1", "")
    assert summary_names(wide) == ("mean", "spread")


@pytest.mark.parametrize("spec", [CAMERA, SWEEPS, FIXES], ids=["camera", "sweeps", "fixes"])
def test_a_sensor_that_repeats_itself_changes_by_the_least(spec: InputSpec) -> None:
    values = windows(spec)
    values[:] = values[:, :1]
    assert_allclose(figures(spec, values)["change"], np.log(LEAST), atol=1e-9)


@pytest.mark.parametrize("spec", [LIDAR, CAMERA, SWEEPS, FIXES, ROW], ids=lambda spec: spec.modality)
def test_older_frames_and_other_samples_do_not_matter(spec: InputSpec) -> None:
    values = windows(spec)
    whole = input_summaries(values, spec)
    assert_allclose(input_summaries(values[2:3], spec), whole[2:3])
    if spec.window.axis is not None:
        older: list[slice | int] = [slice(None)] * values.ndim
        older[1 + spec.window.axis] = 0
        values[tuple(older)] = -7.0
        assert_allclose(input_summaries(values, spec), whole)


@pytest.mark.parametrize("modality", ["lidar", "camera", "rf", "gps", "radar", "table", "image"])
def test_every_input_has_as_many_figures_as_names(modality: Modality) -> None:
    shape = {"lidar": (2, 6), "camera": (4, 5), "radar": (4, 5), "image": (3, 4, 5)}.get(modality, (6,))
    spec = InputSpec(InputWindow(modality), shape, 10.0, "", "")
    assert input_summaries(windows(spec), spec).shape == (5, len(summary_names(spec)))
