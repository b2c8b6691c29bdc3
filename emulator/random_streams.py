"""Named random streams: every component of a run draws from a stream of its own."""

from __future__ import annotations

import hashlib

import numpy as np

from .contracts import State
from .saved_state import SavedState

#: Two numbers of 128 bits, half a draw, and whether there is one.
PACKED_BYTES = 37


def named_stream(seed: int, *name: object) -> np.random.Generator:
    """Random stream of a component, derived from its name.

    Draws of one component do not shift those of another: adding a sensor leaves the losses of links as they were.

    Args:
        seed: root seed of the run.
        name: parts of the name, such as ("link", 3, 7).
    """
    label = "/".join(str(part) for part in name).encode()
    entropy = int.from_bytes(hashlib.blake2b(label, digest_size=16).digest(), "little")
    return np.random.default_rng(np.random.SeedSequence([seed, entropy]))


def stream_state(draws: np.random.Generator) -> State:
    """Position of a stream; its integers have 128 bits, and are kept as texts."""
    state = draws.bit_generator.state
    numbers = {name: hex(number) for name, number in state["state"].items()}
    return {**state, "state": numbers}


def packed_stream(draws: np.random.Generator) -> bytes:
    """Position of a stream in 37 bytes, for many that rest."""
    whole = draws.bit_generator.state
    numbers = (whole["state"]["state"], whole["state"]["inc"])
    half = int(whole["uinteger"]).to_bytes(4, "little") + bytes([whole["has_uint32"]])
    return b"".join(int(number).to_bytes(16, "little") for number in numbers) + half


def unpack_stream(draws: np.random.Generator, packed: bytes) -> None:
    """Move a stream to such a position.

    Raises:
        ValueError: these are not the bytes of one.
    """
    if len(packed) != PACKED_BYTES or packed[-1] > 1:
        raise ValueError(f"{len(packed)} bytes are no position of a stream")
    draws.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int.from_bytes(packed[:16], "little"), "inc": int.from_bytes(packed[16:32], "little")},
        "uinteger": int.from_bytes(packed[32:36], "little"),
        "has_uint32": packed[36],
    }


def restore_stream(draws: np.random.Generator, saved: SavedState) -> None:
    """Move a stream to a saved position.

    Raises:
        ConfigError, ValueError: no stream of this kind has it.
    """
    numbers = {name: int(number.text(), 16) for name, number in saved.part("state").named().items()}
    draws.bit_generator.state = {**saved.state, "state": numbers}
