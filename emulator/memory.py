"""Things with a memory of their own, and those without: both can be asked what to keep."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .contracts import State


@runtime_checkable
class Remembers(Protocol):
    """What its past has made of it; random streams are the clock's to keep, see `EmulatorEnvironment.state`."""

    def state(self) -> State:
        """What it remembers, as a copy."""
        ...

    def restore(self, state: State) -> None:
        """Remember that."""
        ...


def state_of(thing: object) -> State:
    """What something remembers; None where it has no memory."""
    return thing.state() if isinstance(thing, Remembers) else None


def restore_to(thing: object, state: State) -> None:
    """Have something remember what it once said."""
    if isinstance(thing, Remembers):
        thing.restore(state)
