"""Torch device and number of torch threads of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Context in which torch uses one thread: the pool runs jobs in parallel, and nested threads would wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
