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
    """What a receiver knows of a neighbor's vector.

    Attributes:
        values: [n] the neighbor's numbers; anything where they are not known.
        known: [n] bool, or None where all are.
    """

    values: NDArray[np.floating[Any]]
    known: NDArray[np.bool_] | None


class Codec(Protocol):
    """One shared vector's way onto the wire and off it.

    A message says what numbers *are*, never how they changed, so that a receiver needs nothing that came before and a
    lost message spoils none that follows. What a codec remembers is on the sender's side, for all neighbors at once.
    """

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Payload for the vector [n] as it is now; remembers what the payload does not say."""
        ...

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        """What such a payload, with the same shape of `received`, says of a vector of so many numbers.

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
        DataError: as said.
    """
    if payload.dtype != dtype or payload.shape != (size,):
        raise DataError(
            f"a neighbor sent {payload.size} elements of type {payload.dtype.str} where {size} of type {dtype.str} were"
            " expected; give all clients the same sharing.codec and models of one size"
        )
