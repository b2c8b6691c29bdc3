"""Samples that are rows: inputs as a table or an image, turned or not, and values in their unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.rows.row_samples import RowSamples, TargetScale
from sheafedge.datasets.windows.samples import Samples

FLOAT32 = 1e-6
IMAGES = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
Y = np.array([0, 1, 1, 0, 2])


def samples(**changes: object) -> RowSamples:
    plain = RowSamples(IMAGES, Y, np.array([4, 1, 2]), "image", ("a", "b", "c"))
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields by name


def test_rows_are_samples_of_one_input_without_time() -> None:
    found: Samples = samples()
    assert len(found) == 3
    assert found.modalities == ("image",)
    assert dict(found.input_shapes) == {"image": (2, 3)}
    assert_array_equal(found.label, [2, 1, 1])
    assert_array_equal(found.inputs(slice(1, 3))["image"], IMAGES[[1, 2]])
    assert found.inputs(np.array([0]))["image"].dtype == np.float32
    assert_array_equal(found.take(np.array([2, 0])).frame_rows, [2, 4])
    assert (found.n_before, found.n_after) == (0, 0)


def test_images_taken_as_a_table_are_flattened() -> None:
    found = samples(modality="table")
    assert dict(found.input_shapes) == {"table": (6,)}
    assert_array_equal(found.inputs()["table"], IMAGES[[4, 1, 2]].reshape(3, 6))


def test_turned_images_are_turned_in_every_way_of_taking_them() -> None:
    found = samples(turns=1)
    assert dict(found.input_shapes) == {"image": (3, 2)}
    for row, image in zip([4, 1, 2], found.inputs()["image"], strict=True):
        assert_array_equal(image, np.rot90(IMAGES[row]))
    assert_array_equal(samples(turns=1, modality="table").inputs()["table"], found.inputs()["image"].reshape(3, 6))


def test_values_are_learned_scaled_and_scored_in_their_unit() -> None:
    values = np.array([10.0, 30.0, 50.0, 0.0, 70.0], dtype=np.float32)
    found = samples(y=values, class_names=(), target=TargetScale(40.0, 20.0))
    assert found.label.dtype == np.float32
    assert_allclose(found.label, [1.5, -0.5, 0.5], rtol=FLOAT32)
    assert_allclose(found.values(found.label), [70.0, 30.0, 50.0], rtol=FLOAT32)
    assert_allclose(found.truth, [70.0, 30.0, 50.0], rtol=FLOAT32)
