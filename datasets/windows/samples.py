"""What all kinds of samples have in common, so that they can be shared out, trained on and scored alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Modality


class Samples(Protocol):
    """Samples of one recording, in time order: `Windows`, `BlockageWindows`, `BeamWindows`.

    Sample i belongs to frame `end[i]`; its inputs and its label come from the frames end - n_before to end + n_after.
    """

    @property
    def label(self) -> NDArray[np.int64]:
        """[n] class."""
        ...

    @property
    def end(self) -> NDArray[np.int64]:
        """[n] row of the recording that is now, ascending."""
        ...

    @property
    def sequence(self) -> NDArray[np.int64]:
        """[n] unbroken stretch that it is part of: a drive-by, a flight."""
        ...

    @property
    def n_before(self) -> int:
        """Frames before now that a sample uses."""
        ...

    @property
    def n_after(self) -> int:
        """Frames after now that a label uses."""
        ...

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Those of the inputs."""
        ...

    @property
    def input_shapes(self) -> Mapping[Modality, tuple[int, ...]]:
        """Of one sample."""
        ...

    def __len__(self) -> int: ...

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = ...) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        ...

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order."""
        ...
