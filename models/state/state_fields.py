"""What a learner carries from one call to the next as a plain tree, and back: copies out, checked copies in.

Every class with a memory of its own has two methods. `state` copies it out, `resume` takes it in from a `Saved` part.
Tensors that others look at are written in place. All copies in lie in memory that torch has allocated: the last bit of
a sum may depend on how its terms are aligned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import ConfigError, State

#: Whole numbers of a state stay below it.
LARGEST = 2**63


class Stateful(Protocol):
    """Whatever remembers something between two calls."""

    def state(self) -> State:
        """A copy of what it remembers; later changes do not reach it."""
        ...

    def resume(self, saved: Saved) -> None:
        """Remember that instead.

        Raises:
            ConfigError: it does not fit; a part of it may have been taken in by then.
        """
        ...


def restore_or_leave(learner: Stateful, state: State) -> None:
    """Give a learner a state, or leave it as it is where anything in that state does not fit.

    Raises:
        ConfigError: naming the part that does not fit.
    """
    before = learner.state()
    try:
        learner.resume(Saved(state))
    except Exception:
        learner.resume(Saved(before))
        raise


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """A part of a state that comes back, from a file perhaps: nothing in it is believed before it was looked at.

    Attributes:
        state: the part.
        path: where in the whole state it stands, for errors.
    """

    state: State
    path: str = ""

    def parts(self, *names: str) -> dict[str, Saved]:
        """The parts of exactly these names."""
        found = self.named()
        for name in names:
            if name not in found:
                self.refuse(f"have a part {name!r}", "none of this name")
        for name in found:
            if name not in names:
                self.refuse(f"have no part {name[:40]!r}", "one")
        return found

    def named(self) -> dict[str, Saved]:
        """All parts, under whatever names."""
        if not isinstance(self.state, dict):
            self.refuse("be a set of named parts", _kind(self.state))
        return {str(name): Saved(part, f"{self.path}.{name}".lstrip(".")) for name, part in self.state.items()}

    def listed(self, n_parts: int) -> list[Saved]:
        """The parts of a list of this length."""
        if not isinstance(self.state, list) or len(self.state) != n_parts:
            found = f"{len(self.state)}" if isinstance(self.state, list) else _kind(self.state)
            self.refuse(f"be a list of {n_parts}", found)
        return [Saved(part, f"{self.path}[{index}]") for index, part in enumerate(self.state)]

    def number(self) -> float:
        """Any number, those that are not finite included."""
        if isinstance(self.state, bool) or not isinstance(self.state, int | float):
            self.refuse("be a number", _kind(self.state))
        if isinstance(self.state, int) and abs(self.state) >= LARGEST:
            self.refuse("be a number", "a whole one of more than 64 bits")
        return float(self.state)

    def count(self, limit: int) -> int:
        """A whole number from 0 to this limit."""
        wanted = f"be a whole number from 0 to {limit}"
        if isinstance(self.state, bool) or not isinstance(self.state, int):
            self.refuse(wanted, _kind(self.state))
        if not 0 <= self.state <= limit:
            self.refuse(wanted, "one outside")
        return self.state

    def flag(self) -> bool:
        """Yes or no."""
        if not isinstance(self.state, bool):
            self.refuse("be true or false", _kind(self.state))
        return self.state

    def text(self) -> str:
        """Some text."""
        if not isinstance(self.state, str):
            self.refuse("be text", _kind(self.state))
        return self.state

    def array(self, dtype: np.dtype[Any], *shape: int | None) -> NDArray[Any]:
        """A copy of an array of this type and shape; None stands for any length."""
        wanted = f"be {dtype} of shape [{', '.join('any' if size is None else str(size) for size in shape)}]"
        if not isinstance(self.state, np.ndarray):
            self.refuse(wanted, _kind(self.state))
        found = self.state.shape
        fits = len(found) == len(shape) and all(size in {None, own} for own, size in zip(found, shape, strict=True))
        if self.state.dtype != dtype or not fits:
            self.refuse(wanted, f"{self.state.dtype} of shape {list(found)}")
        return np.array(self.state, order="C")

    def tensor(self, like: Tensor, *shape: int | None) -> Tensor:
        """A new tensor of the type and on the device of this one, and of its shape where no other is given."""
        array = self.array(numpy_type(like), *(shape or like.shape))
        return torch.empty(array.shape, dtype=like.dtype, device=like.device).copy_(torch.from_numpy(array))

    def into(self, tensor: Tensor) -> None:
        """Overwrite this tensor, which others may look at."""
        tensor.detach().copy_(self.tensor(tensor))

    def refuse(self, wanted: str, found: str) -> NoReturn:
        """Say that this part must do something else.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"state of a learner: {self.path or 'the whole'} must {wanted}, got {found}; restore a state only into the"
            " client and scenario that it was taken from"
        )


def to_array(tensor: Tensor) -> NDArray[Any]:
    """Copy of a tensor on any device, in row order."""
    return np.array(tensor.detach().cpu().numpy(), order="C")


def numpy_type(tensor: Tensor) -> np.dtype[Any]:
    """What numpy calls the type of its elements."""
    dtype: np.dtype[Any] = torch.empty(0, dtype=tensor.dtype).numpy().dtype
    return dtype


def _kind(state: State) -> str:
    return "nothing" if state is None else f"a value of type {type(state).__name__}"
