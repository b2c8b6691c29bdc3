"""The samples of one client: which recording they come from, which it trains on, and which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["sequence", "time", "random"]


@dataclass(frozen=True, slots=True, eq=False)
class ClientRows:
    """What one client owns.

    Attributes:
        recording_index: which recording its samples come from.
        train: [n_train] int64, ascending indices into that recording's samples.
        test: [n_test] int64, ascending; disjoint from `train`.
    """

    recording_index: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]
