"""Positions of random streams, numpy's and torch's.

The clock keeps streams of its own in another form (`emulator.engine`); checkpoints hold both.
"""

from __future__ import annotations

import numpy as np
import torch

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from .tensors import to_array

#: PCG64 counts in 128 bits, more than most files can hold as a number: they are written as hexadecimal text.
N_STATES = 2**128


def numpy_stream_state(draws: np.random.Generator) -> State:
    """Position of a stream of numpy's default kind."""
    whole = draws.bit_generator.state
    assert whole["bit_generator"] == "PCG64", "all named streams are of numpy's default kind"
    return {
        "state": hex(whole["state"]["state"]),
        "increment": hex(whole["state"]["inc"]),
        "has_half": bool(whole["has_uint32"]),  # of a 64-bit draw, the second half is kept for the next 32-bit draw
        "half": int(whole["uinteger"]),
    }


def restore_numpy_stream(draws: np.random.Generator, saved: SavedState) -> None:
    """Move a stream, which others may hold too, to a saved position.

    Raises:
        ConfigError: no such stream has this position.
    """
    parts = saved.parts("state", "increment", "has_half", "half")
    draws.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": _long_number(parts["state"]), "inc": _long_number(parts["increment"])},
        "has_uint32": int(parts["has_half"].flag()),
        "uinteger": parts["half"].count(2**32 - 1),
    }


def torch_stream_state(draws: torch.Generator) -> State:
    """Position and device of a generator of torch."""
    return {"device": str(draws.device), "state": to_array(draws.get_state())}


def restored_torch_stream(draws: torch.Generator, saved: SavedState) -> torch.Generator:
    """The generator at a saved position, or a new one where that was on another device.

    Raises:
        ConfigError: no such generator has this position, or this machine lacks its device.
    """
    parts = saved.parts("device", "state")
    device = parts["device"].text()
    state = torch.from_numpy(parts["state"].array(np.dtype(np.uint8), None))
    try:
        there = draws if str(draws.device) == device else torch.Generator(device=device)
        there.set_state(state)
    except (RuntimeError, TypeError):  # torch says "CUDA error", "size is wrong", "invalid state": as the case may be
        saved.refuse(f"be a state of torch's generator on {str(draws.device)!r}", f"{len(state)} bytes of {device!r}")
    return there


def _long_number(saved: SavedState) -> int:
    text = saved.text()
    try:
        number = int(text, 16) if len(text) <= len(hex(N_STATES)) else -1
    except ValueError:
        number = -1
    if not 0 <= number < N_STATES:
        saved.refuse("be a hexadecimal number of at most 128 bits", repr(text[:40]))
    return number
