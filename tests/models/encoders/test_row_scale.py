"""Scaling of rows: statistics, dead columns, rare ones, and the encoder without parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sheafedge.models.encoders.row_scale import CLIP, AsColumns, ScaledColumns, column_scale, pixel_scale

ROUNDING = 1e-5  # float32 statistics of values of order 100


def test_columns_are_scaled_each_by_its_own_spread_and_dead_ones_only_shifted() -> None:
    draws = np.random.default_rng(0)
    rows = np.column_stack([draws.normal(100.0, 5.0, 400), draws.normal(-1.0, 0.01, 400), np.full(400, 7.0)])
    scaled = ScaledColumns(*column_scale(rows), limit=None)(torch.tensor(rows, dtype=torch.float32)).numpy()
    assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-3)
    assert_allclose(scaled.std(axis=0), [1.0, 1.0, 0.0], atol=1e-3)


def test_a_rare_one_is_clipped() -> None:
    """One of 1,000 rows has a spread of 0.03: its scaled value would be 31."""
    rows = np.zeros((1000, 1), dtype=np.float32)
    rows[17] = 1.0
    scale = column_scale(rows)
    assert float(ScaledColumns(*scale)(torch.from_numpy(rows)).max()) == CLIP
    assert float(ScaledColumns(*scale, limit=None)(torch.from_numpy(rows)).max()) > 30.0


def test_pixels_share_one_scale() -> None:
    images = np.random.default_rng(1).uniform(0.0, 255.0, (20, 4, 4)).astype(np.float32)
    mean, std = pixel_scale(images)
    assert mean.shape == std.shape == ()
    scaled = ScaledColumns(mean, std, limit=None)(torch.from_numpy(images))
    assert float(scaled.mean()) == pytest.approx(0.0, abs=ROUNDING)
    assert pixel_scale(np.zeros((3, 2, 2)))[1] == 1.0


def test_the_encoder_without_parameters_lists_the_columns() -> None:
    encoder, rows = AsColumns((2, 3)), torch.arange(12.0).reshape(2, 2, 3)
    assert list(encoder.parameters()) == []
    assert encoder.embedding_dim == 6
    assert encoder(rows).tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
