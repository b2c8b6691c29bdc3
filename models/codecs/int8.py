"""Eight bits per number: seven of them share a scale and fill one word, and what rounding took away is sent later.

A word is [scale, code 1, ..., code 7], one byte each; a number is code * 2^(scale - 127), with codes from -127 to 127.
Source: blocks of small integers under one power of two are the MXINT8 of the OCP microscaling formats (2023), where a
block has 32 of them; ours has 7, so that it fills the 8 bytes that no packet cuts in two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.saved_state import SavedState
from .codec import WORD, Decoded, check_payload

PER_WORD = 7
_LARGEST_CODE = 127
_BIAS, _NOT_A_NUMBER = 127, 255


class Int8:
    """Rounds to 8 bits with error feedback: what was rounded away is added to the vector before it is sent again.

    The sum of all that was sent and of what is still unsent is the sum of all vectors, so a number far below the
    step of its word arrives on average. Where nothing is lost, averaging therefore moves the mean of all clients by
    half a step at most, over all rounds together.

    Under loss the words of a lost packet are missing for one round; the next message does not depend on them.

    No number changes its sign on the wire: what was unsent might otherwise make a small running variance negative.

    Args:
        start: [n] any vector of this size.
    """

    def __init__(self, start: NDArray[np.floating[Any]]) -> None:
        self._unsent = np.zeros_like(start)

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        wanted = values + self._unsent
        words = to_words(np.where(np.sign(values) * wanted <= 0.0, 0.0, wanted))
        # error feedback: added to the next vector before it is rounded
        self._unsent = wanted - from_words(words, len(values))
        return words

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        check_payload(payload, WORD, -(-n_values // PER_WORD))
        known = None if received is None else np.repeat(received, PER_WORD)[:n_values]
        return Decoded(from_words(payload, n_values), known)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"unsent": self._unsent.copy()}

    def restore(self, saved: SavedState) -> None:
        self._unsent = saved.parts("unsent")["unsent"].array(self._unsent.dtype, len(self._unsent))


def to_words(values: NDArray[np.floating[Any]]) -> NDArray[Any]:
    """[ceil(n / 7)] words for [n] numbers; the largest of a word decides its scale.

    The step of a word is the smallest power of two of which its largest number is at most 127, and numbers are
    rounded to the nearest step. A word with a number that is not finite comes out as NaN.

    >>> from_words(to_words(np.array([1.0, 0.5, 0.001])), 3)
    array([1. , 0.5, 0. ], dtype=float32)
    """
    rows = np.zeros((-(-len(values) // PER_WORD), PER_WORD), dtype=values.dtype)
    rows.reshape(-1)[: len(values)] = values
    largest = np.abs(rows).max(axis=1, initial=0.0)  # [n_words]
    finite = np.isfinite(largest)
    rows, largest = np.where(finite[:, None], rows, 0.0), np.where(finite, largest, 0.0)
    mantissa, exponent = np.frexp(largest / _LARGEST_CODE)
    exponent = np.clip(exponent - (mantissa == 0.5), -_BIAS, _NOT_A_NUMBER - 1 - _BIAS)
    codes = np.clip(np.rint(np.ldexp(rows, -exponent[:, None])), -_LARGEST_CODE, _LARGEST_CODE)
    packed = np.empty((len(rows), WORD.itemsize), dtype=np.uint8)
    packed[:, 0] = np.where(finite, exponent + _BIAS, _NOT_A_NUMBER)
    packed[:, 1:] = codes.astype(np.int8).view(np.uint8)
    return packed.view(WORD).reshape(-1)


def from_words(words: NDArray[Any], n_values: int) -> NDArray[np.float32]:
    """[n] numbers of such words; exact, because a small integer times a power of two has no digits to round."""
    packed = np.ascontiguousarray(words).view(np.uint8).reshape(-1, WORD.itemsize)
    codes = packed[:, 1:].astype(np.int8).astype(np.float32)  # [n_words, 7]
    with np.errstate(over="ignore"):  # no sender of ours makes a scale that large
        rows = np.ldexp(codes, packed[:, :1].astype(np.int32) - _BIAS)
    rows[packed[:, 0] == _NOT_A_NUMBER] = np.nan
    return rows.reshape(-1)[:n_values]
