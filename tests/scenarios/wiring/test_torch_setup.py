"""What a run sets of torch is as it was before, once the run is over."""

from __future__ import annotations

import pytest
import torch
from sheafedge.scenarios.wiring.torch_setup import float32_products, torch_threads


def allowed() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_is_for_who_asks(tf32: bool) -> None:
    before = allowed()
    with float32_products(tf32=tf32):
        assert allowed() == (tf32, tf32)
    assert allowed() == before


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
