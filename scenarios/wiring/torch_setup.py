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


def set_float32_products(*, tf32: bool) -> None:
    """Have products of float32 matrices, convolutions included, rounded as float32, or as TF32 on devices that have it.

    Torch takes TF32 for convolutions on a GPU unless it is told otherwise, which costs three decimal digits.
    """
    # not `fp32_precision`, the newer switch: torch's own exporter asks for this one, and refuses a mixture
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


@contextmanager
def float32_products(*, tf32: bool) -> Iterator[None]:
    """Context of `set_float32_products`."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    set_float32_products(tf32=tf32)
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
