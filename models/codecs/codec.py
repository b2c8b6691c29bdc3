"""The one contract of all codecs."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.saved_state import SavedState

#: Codecs that pack numbers use words of 8 bytes, each of use without the others. Packets hold whole words, whatever
#: their size, so that a lost packet loses its own words and nothing else.
WORD = np.dtype("<u8")


class Decoded(NamedTuple):
    """Values of a neighbor's vector at a receiver.

    Attributes:
        values: [n] the neighbor's numbers; anything where they are not known.
        known: [n] bool, or None where all are.
    """

    values: NDArray[np.floating[Any]]
    known: NDArray[np.bool_] | None


class Codec(Protocol):
    """One shared vector's way onto the wire and off it.

    A message holds values, never differences, so that a receiver needs no earlier message and a lost one spoils none
    that follows. The state of a codec is the sender's, for all neighbors at once.
    """

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Payload for the vector [n] as it is now; the state keeps what the payload leaves out."""
        ...

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        """Values of a vector of so many numbers in such a payload; `received` has the payload's shape.

        Raises:
            DataError: it was made by another codec, or for another vector.
        """
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of what the payloads so far have left out, by name."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Take such arrays over.

        Raises:
            ConfigError: they are those of another codec, or of another vector.
        """
        ...


def check_payload(payload: NDArray[Any], dtype: np.dtype[Any], size: int) -> None:
    """Refuse what was not made by the same codec for a vector of the same size.

    Raises:
        DataError: the payload has another type or size.
    """
    if payload.dtype != dtype or payload.shape != (size,):
        raise DataError(
            f"a neighbor sent {payload.size} elements of type {payload.dtype.str} where {size} of type {dtype.str} were"
            " expected; give all clients the same sharing.codec and models of one size"
        )
