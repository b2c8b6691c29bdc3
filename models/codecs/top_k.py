"""Only the coordinates that changed most: four bytes for where, four for what."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.saved_state import SavedState
from .codec import WORD, Decoded, check_payload

_ENTRY = np.dtype([("index", "<u4"), ("value", "<f4")])


class TopK:
    """Sends the k coordinates that differ most from the values last sent.

    The differences are its error feedback: what is not sent now stays in them, grows if the coordinate goes on
    changing, and is at last among the largest. A receiver averages the coordinates that arrived; all others keep their
    own value. Values are sent whole and not as differences, because differences would have to be added to a copy of the
    neighbor's vector, which the first lost packet makes wrong for good.

    Under loss a coordinate is missing until its sender sends it again, which is when it has changed again. Clients
    receive different coordinates, so their mean moves a little, as it does when whole packets are lost.

    Source: to choose by the change since the last time, and to average only what arrived, is JWINS (Dhasade et al.
    2023) without its wavelets and drawn fractions. Differences to public copies are CHOCO-SGD (Koloskova et al. 2019).

    >>> codec = TopK(np.zeros(4, dtype=np.float32), fraction=0.25)
    >>> codec.decode(codec.encode(np.array([0.1, -3.0, 0.2, 0.0], dtype=np.float32)), None, 4)
    Decoded(values=array([ 0., -3.,  0.,  0.], dtype=float32), known=array([False,  True, False, False]))

    Args:
        start: [n] what neighbors hold before the first message, as clients that start alike do.
        fraction: k as a share of n, in (0, 0.5].
    """

    def __init__(self, start: NDArray[np.floating[Any]], fraction: float) -> None:
        self._sent = start.copy()
        self._fraction = fraction

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        n_sent = n_chosen(len(values), self._fraction)
        changes = np.abs(values - self._sent)
        # ascending, so that receivers can check that no coordinate comes twice
        chosen = np.sort(np.argpartition(-changes, max(0, n_sent - 1))[:n_sent])
        entries = np.empty(n_sent, dtype=_ENTRY)
        entries["index"], entries["value"] = chosen, values[chosen]
        self._sent[chosen] = entries["value"]
        return entries.view(WORD)

    def decode(self, payload: NDArray[Any], received: NDArray[np.bool_] | None, n_values: int) -> Decoded:
        check_payload(payload, WORD, n_chosen(n_values, self._fraction))
        entries = np.ascontiguousarray(payload if received is None else payload[received]).view(_ENTRY)
        index = entries["index"].astype(np.int64)
        if index.size and (index[-1] >= n_values or (np.diff(index) <= 0).any()):
            raise DataError(
                f"a neighbor names coordinates that are not in ascending order within the {n_values} of a shared"
                " vector; give all clients models of one size"
            )
        # coordinates that were not sent are unknown, not 0
        values, known = np.zeros(n_values, dtype=np.float32), np.zeros(n_values, dtype=np.bool_)
        values[index], known[index] = entries["value"], True
        return Decoded(values, known)

    def state(self) -> dict[str, NDArray[Any]]:
        return {"told": self._sent.copy()}

    def restore(self, saved: SavedState) -> None:
        self._sent = saved.parts("told")["told"].array(self._sent.dtype, len(self._sent))


def n_chosen(n_values: int, fraction: float) -> int:
    """k: this share of the coordinates, and at least one of those that there are."""
    return min(n_values, max(1, round(fraction * n_values)))
