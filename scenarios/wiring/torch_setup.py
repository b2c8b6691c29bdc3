"""Torch device and number of torch threads of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

from ...emulator.contracts import ConfigError


def choose_device(wanted: str) -> torch.device:
    """Torch device of a run.

    Raises:
        ConfigError: a GPU is required and there is none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("compute.device = 'cuda', but torch sees no GPU here; use 'auto' or 'cpu'")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def one_torch_thread() -> AbstractContextManager[None]:
    """Context in which torch uses one thread: the pool runs jobs in parallel, and nested threads would wait."""
    return torch_threads(1)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Context in which torch computes an operation on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def set_gpu_arithmetic(*, tf32: bool) -> None:
    """Have a GPU compute the same figures every time, and round products of float32 matrices as asked.

    Left alone, torch takes TF32 for convolutions on a GPU, which costs three decimal digits, and cuDNN sums gradients
    of convolutions in an order that changes from call to call, so that no run with convolutions repeats itself.

    Args:
        tf32: round products, those of convolutions included, as TF32 on devices that have it, instead of as float32.
    """
    # not `fp32_precision`, the newer switch: torch's own exporter asks for this one, and refuses a mixture
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.deterministic = True


@contextmanager
def gpu_arithmetic(*, tf32: bool) -> Iterator[None]:
    """Context of `set_gpu_arithmetic`."""
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = cuda.allow_tf32, cudnn.allow_tf32, cudnn.deterministic
    set_gpu_arithmetic(tf32=tf32)
    try:
        yield
    finally:
        cuda.allow_tf32, cudnn.allow_tf32, cudnn.deterministic = before
