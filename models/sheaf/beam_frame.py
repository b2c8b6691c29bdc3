"""Where a client's beams lie along its codebook, and which end of the codebook it calls the first.

Orders that clients find alone agree up to a mirror. A client whose codebook is turned reads its sweeps from the other
end, and exchanges the row of its head for place p as that for place n - 1 - p; neighbors need not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ...emulator.contracts import State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..encoders.ordered_beams import OrderedBeams


class BeamFrame:
    """Places of a client's beams, and the direction in which they are counted.

    Args:
        places: [n_outputs] place of each own beam along the codebook, each once.
        model: whose head has a row per beam; the sweeps that it reads are turned with the codebook.
        is_trusted: whether the sweeps were clear enough to tell the order; else the places are the own numbers.

    Attributes:
        places, is_trusted: as given.
        turned: whether places are counted from the other end than `places` counts them.
    """

    def __init__(self, places: Sequence[int], model: ClientModel, *, is_trusted: bool) -> None:
        self.places, self.is_trusted, self.turned = tuple(places), is_trusted, False
        self._sweeps = [one for one in model.normalizers.values() if isinstance(one, OrderedBeams)]
        self._mirror = _mirrored_coordinates(model, self.places)

    @property
    def reads_sweeps(self) -> bool:
        """Whether sweeps are among the inputs of the model."""
        return bool(self._sweeps)

    def place(self, labels: Tensor) -> Tensor:
        """[n] place of beams [n], in the present direction."""
        places = torch.tensor(self.places, device=labels.device)[labels]
        return len(self.places) - 1 - places if self.turned else places

    def upright(self, head: Tensor) -> Tensor:
        """A head [d_i] as if the codebook was not turned; and back again, since two mirrors cancel."""
        return head[self._mirror] if self.turned else head

    def turn(self, head: Tensor) -> None:
        """Count places from the other end from now on.

        Args:
            head: [d_i] changed in place, so that what neighbors are sent of it stays as it was.
        """
        self.turned = not self.turned
        head.copy_(head[self._mirror])
        self._turn_sweeps()

    @contextmanager
    def other_way(self) -> Iterator[None]:
        """Context in which sweeps and places are those of the other direction; the head is left alone."""
        self._flip()
        try:
            yield
        finally:
            self._flip()

    def state(self) -> State:
        """Whether the codebook is turned; the head belongs to the model, and places follow from the rows."""
        return self.turned

    def restore(self, saved: SavedState) -> None:
        if saved.flag() != self.turned:
            self._flip()

    def _flip(self) -> None:
        self.turned = not self.turned
        self._turn_sweeps()

    def _turn_sweeps(self) -> None:
        for one in self._sweeps:
            one.turn()


def _mirrored_coordinates(model: ClientModel, places: Sequence[int]) -> Tensor:
    """[d_i] coordinate of a head that means at the mirrored place what each coordinate means at its own."""
    beams = torch.argsort(torch.tensor(places))  # at every place
    other = beams.flip(0)[torch.tensor(places)]  # of every beam, the one at the mirrored place
    layout, mirror = model.layout, torch.empty(model.layout.dim, dtype=torch.int64)
    for block in layout.coordinates().values():
        at = torch.from_numpy(block)
        mirror[at] = at[other]
    return mirror.to(model.head.device)
