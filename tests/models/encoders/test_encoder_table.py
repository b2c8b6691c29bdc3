"""Encoders of the table: one that another client used before is as a new one, streams included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sheafedge.models.encoders.dropout import SeededDropout
from sheafedge.models.encoders.encoder_table import ENCODERS, EncoderRequest, TrainingInputs
from sheafedge.models.settings import ModelSettings
from sheafedge.models.state.module_state import module_state
from torch import nn

#: Encoder -> shape of one input; the others need files, or know the samples of their client.
SHAPES: dict[str, tuple[int, ...]] = {
    "position_window": (2, 2),
    "relative_sweeps": (2, 8),
    "signal_window": (2, 8),
    "position_report": (4,),
    "sweep_window": (32, 32),
    "camera_window": (4, 48, 64),
    "mlp": (5,),
    "mlp_tdp": (28, 28),
    "cnn_fmtl_small": (28, 28),
}


def request_of(name: str, client: int, used: nn.Module | None = None) -> EncoderRequest:
    """What client asks for: samples and a dropout stream of its own, and the first values that all have."""
    draws = np.random.default_rng(client)

    def inputs(indices: NDArray[np.int64]) -> dict[Any, NDArray[np.float32]]:
        return {"gps": draws.normal(size=(len(indices), *SHAPES[name])).astype(np.float32)}

    settings = ModelSettings(width=0.25, dropout=0.5)
    samples = TrainingInputs(inputs, 12)
    return EncoderRequest("gps", settings, SHAPES[name], samples, seed=5, dropout_seed=lambda: client, used=used)


def same(one: Any, other: Any) -> bool:
    """Whether two trees of state are equal to the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)


@pytest.mark.parametrize("name", SHAPES)
def test_a_used_encoder_is_as_a_new_one(name: str) -> None:
    _, used = ENCODERS[name](request_of(name, client=1))
    normalizer, new = ENCODERS[name](request_of(name, client=2))
    scaled, again = ENCODERS[name](request_of(name, client=2, used=used))
    assert again is used
    assert same(module_state(again), module_state(new))
    assert all(map(torch.equal, scaled.buffers(), normalizer.buffers()))


@pytest.mark.parametrize("name", ["sweep_window", "camera_window"])
def test_dropouts_of_a_used_encoder_draw_from_the_stream_of_its_client(name: str) -> None:
    _, used = ENCODERS[name](request_of(name, client=1))
    of_first = module_state(used)
    assert any(isinstance(part, SeededDropout) for part in used.modules())
    ENCODERS[name](request_of(name, client=2, used=used))
    assert not same(of_first, module_state(used))


def test_layers_that_are_drawn_leave_the_global_stream_alone() -> None:
    torch.default_generator.manual_seed(1)
    before = torch.get_rng_state()
    ENCODERS["mlp"](request_of("mlp", client=1))
    assert torch.equal(torch.get_rng_state(), before)
