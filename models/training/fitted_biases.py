"""Biases of a head fitted to a client's own rows after the last exchange.

Encoders that were averaged last are not those that the head was trained with. What is lost first is how often each
output comes true at this client: one number per output, for which its rows are many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...emulator.contracts import Labels
from ..client_model import ClientModel

#: A row that nobody has seen and that is half true: without it an output that never came true had no finite bias.
_UNSEEN = 1.0
#: The bias lies between the negative logits, this much farther out; halvings until the interval is finer than float64.
_FARTHER, _HALVINGS = 50.0, 64


def bias_shifts(logits: NDArray[np.floating[Any]], labels: Labels) -> NDArray[np.float64]:
    """What to add to every output so that its mean probability is the share of rows in which it came true.

    Args:
        logits: [n, n_outputs] of yes-or-no outputs about a client's own rows.
        labels: [n, n_outputs] 0 or 1.

    Returns:
        [n_outputs], where the likelihood of the rows, and of one that is half true, is largest over biases alone.
    """
    known = torch.from_numpy(logits.astype(np.float64))
    wanted = (torch.from_numpy(labels.sum(axis=0).astype(np.float64)) + 0.5 * _UNSEEN) / (len(labels) + _UNSEEN)
    low, high = -known.amax(dim=0) - _FARTHER, -known.amin(dim=0) + _FARTHER
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        too_likely = torch.sigmoid(known + middle).mean(dim=0) > wanted
        low, high = torch.where(too_likely, low, middle), torch.where(too_likely, middle, high)
    return np.asarray((0.5 * (low + high)).numpy())


def shift_biases(model: ClientModel, shifts: NDArray[np.float64]) -> None:
    """Add shifts [n_outputs] to the biases of a model's head, in place: shared vectors hold views of it."""
    with torch.no_grad():
        model.head[-model.layout.n_outputs :] += torch.from_numpy(shifts).to(model.head)
