"""What a run sets of torch is as it was before, once the run is over."""

from __future__ import annotations

import pytest
import torch
from sheafedge.scenarios.wiring.torch_setup import float32_products, torch_threads


def precisions() -> tuple[str, str, str]:
    backends = torch.backends
    return backends.fp32_precision, backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision


@pytest.mark.parametrize(("tf32", "expected"), [(False, "ieee"), (True, "tf32")])
def test_tf32_is_for_who_asks(tf32: bool, expected: str) -> None:
    before = precisions()
    with float32_products(tf32=tf32):
        assert precisions() == (expected,) * 3
    assert precisions() == before


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
