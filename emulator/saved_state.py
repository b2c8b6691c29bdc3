"""The state of parts that change while a run is played: copied out as a plain tree, read back checked.

Every class with a state of its own has two methods: `state` copies it out, `restore` reads it from a `SavedState`.
Only where a whole tree enters (`contracts.Learner.restore`, a host of learners) is it still unread.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from .contracts import ConfigError, State

#: Whole numbers of a state stay below it.
LARGEST = 2**63


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """A part of a state that was saved, in a file perhaps: every value is checked when it is read.

    Attributes:
        state: the part, as it was found.
        path: its place in the whole state, for errors.
        owner: of the whole state, for errors.

    >>> SavedState({"maps": {"n_steps": -1}}).part("maps").part("n_steps").count(9)
    Traceback (most recent call last):
        ...
    sheafedge.emulator.contracts.ConfigError: state of a learner: maps.n_steps must be a whole number from 0 to 9, got \
-1; restore a state only into the client and scenario that it was taken from
    """

    state: State
    path: str = ""
    owner: str = "a learner"

    def parts(self, *names: str, added: Collection[str] = ()) -> dict[str, SavedState]:
        """The parts of exactly these names, in this order; then those of `added`, which states of before may lack."""
        found, known = self._table(), {*names, *added}
        if strange := [str(name) for name in found if name not in known]:
            self.refuse(f"have no part {strange[0][:40]!r}", "one")
        return {name: self.part(name) for name in (*names, *(name for name in added if name in found))}

    def part(self, name: str) -> SavedState:
        """The part of this name; others may stand beside it."""
        found = self._table()
        if name not in found:
            self.refuse(f"have a part {name!r}", "none of this name")
        return self._child(found[name], name)

    def prefixed(self, prefix: str) -> SavedState:
        """The parts whose names begin with this and a dot, as a part of their own: some trees are flat."""
        start = f"{prefix}."
        below = {name.removeprefix(start): one.state for name, one in self.named().items() if name.startswith(start)}
        return self._child(below, start.removesuffix("."))

    def named(self) -> dict[str, SavedState]:
        """All parts, under whatever names."""
        return {str(name): self._child(part, str(name)) for name, part in self._table().items()}

    def listed(self, n_parts: int | None = None) -> list[SavedState]:
        """The parts of a list of this length, or of any."""
        if not isinstance(self.state, list) or n_parts not in {None, len(self.state)}:
            found = f"{len(self.state)}" if isinstance(self.state, list) else _kind(self.state)
            self.refuse("be a list" if n_parts is None else f"be a list of {n_parts}", found)
        return [self._child(part, f"[{index}]") for index, part in enumerate(self.state)]

    def number(self) -> float:
        """Any number, those that are not finite included."""
        if isinstance(self.state, bool) or not isinstance(self.state, int | float):
            self.refuse("be a number", _kind(self.state))
        if isinstance(self.state, int) and abs(self.state) >= LARGEST:
            self.refuse("be a number", "a whole one of more than 64 bits")
        return float(self.state)

    def count(self, limit: int = LARGEST - 1) -> int:
        """A whole number from 0 to this limit."""
        wanted = f"be a whole number from 0 to {limit}"
        if isinstance(self.state, bool) or not isinstance(self.state, int):
            self.refuse(wanted, _kind(self.state))
        if not 0 <= self.state <= limit:
            self.refuse(wanted, f"{self.state}" if abs(self.state) < LARGEST else "one of more than 64 bits")
        return self.state

    def flag(self) -> bool:
        """A truth value."""
        if not isinstance(self.state, bool):
            self.refuse("be true or false", _kind(self.state))
        return self.state

    def text(self) -> str:
        """A text."""
        if not isinstance(self.state, str):
            self.refuse("be text", _kind(self.state))
        return self.state

    def array(self, dtype: np.dtype[Any], *shape: int | None) -> NDArray[Any]:
        """A copy of an array of this type and shape; None stands for any length."""
        array = self.state
        if not isinstance(array, np.ndarray):
            self.refuse(_wanted(dtype, shape), _kind(array))
        found = array.shape
        # equal in most cases, of which there are many for every client that wakes
        fits = found == shape or (
            len(found) == len(shape) and all(size in {None, own} for own, size in zip(found, shape, strict=True))
        )
        if array.dtype != dtype or not fits:
            self.refuse(_wanted(dtype, shape), f"{array.dtype} of shape {list(found)}")
        return np.array(array, order="C")

    def refuse(self, wanted: str, found: str) -> NoReturn:
        """Report that this part must be something else.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"state of {self.owner}: {self.path or 'the whole'} must {wanted}, got {found}; restore a state only into"
            " the client and scenario that it was taken from"
        )

    def _table(self) -> dict[Any, State]:
        if not isinstance(self.state, dict):
            self.refuse("be a set of named parts", _kind(self.state))
        return self.state

    def _child(self, part: State, step: str) -> SavedState:
        path = f"{self.path}{step}" if step.startswith("[") else f"{self.path}.{step}".lstrip(".")
        return SavedState(part, path, self.owner)


class Stateful(Protocol):
    """A part that changes from one call to the next."""

    def state(self) -> State:
        """A copy of the state; later changes do not reach it."""
        ...

    def restore(self, saved: SavedState) -> None:
        """Take a state over.

        Raises:
            ConfigError: it does not fit; a part of it may have been taken over by then.
        """
        ...


class Parts:
    """Parts by name as one: a mapping of their states.

    Args:
        parts: by name.
    """

    def __init__(self, **parts: Stateful) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Stateful:
        """The part of this name."""
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the parts."""
        return iter(self._parts)

    def state(self) -> State:
        return {name: part.state() for name, part in self._parts.items()}

    def restore(self, saved: SavedState) -> None:
        for name, one in saved.parts(*self._parts).items():
            self._parts[name].restore(one)


def restore_whole(part: Stateful, state: State) -> None:
    """Restore all of a state, or leave the part as it is where anything does not fit.

    Raises:
        ConfigError: names what does not fit.
    """
    before = part.state()
    try:
        part.restore(SavedState(state))
    except Exception:
        part.restore(SavedState(before))
        raise


def optional_state(part: object) -> State:
    """The state of a part that may have none; then None. Named streams are the clock's to keep, not their users'."""
    return cast("Stateful", part).state() if has_state(part) else None


def restore_optional(part: object, saved: SavedState) -> None:
    """Restore a part that may have no state."""
    if has_state(part):
        cast("Stateful", part).restore(saved)


def has_state(part: object) -> bool:
    """Whether a part is `Stateful`; found once per class, because it takes longer to find out than most states."""
    return _has_state(cast("Hashable", type(part)))


@cache
def _has_state(kind: Hashable) -> bool:
    return callable(getattr(kind, "state", None)) and callable(getattr(kind, "restore", None))


def _wanted(dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> str:
    return f"be {dtype} of shape [{', '.join('any' if size is None else str(size) for size in shape)}]"


def _kind(state: State) -> str:
    return "nothing" if state is None else f"a value of type {type(state).__name__}"
