"""What a run sets of torch is as it was before, once the run is over."""

from __future__ import annotations

import pytest
import torch
from sheafedge.scenarios.wiring.torch_setup import gpu_arithmetic, torch_threads


def arithmetic() -> tuple[bool, bool, bool]:
    cudnn = torch.backends.cudnn
    return torch.backends.cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.deterministic


@pytest.mark.parametrize("tf32", [False, True])
def test_a_gpu_repeats_itself_and_tf32_is_for_who_asks(tf32: bool) -> None:
    before = arithmetic()
    with gpu_arithmetic(tf32=tf32):
        assert arithmetic() == (tf32, tf32, True)
    assert arithmetic() == before


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
