"""The simulated clock with its named random streams, and the barrier that rounds are built on.

Nothing here is global: two environments live side by side in one process.
"""

from __future__ import annotations

import hashlib

import numpy as np
import simpy


def named_stream(seed: int, *name: object) -> np.random.Generator:
    """A random stream of its own for everything that has a name.

    Draws of one component never move those of another: adding a sensor leaves the losses where they were.

    Args:
        seed: root seed of the run.
        name: parts of the name, such as ("link", 3, 7).
    """
    label = "/".join(str(part) for part in name).encode()
    entropy = int.from_bytes(hashlib.blake2b(label, digest_size=16).digest(), "little")
    return np.random.default_rng(np.random.SeedSequence([seed, entropy]))


class EmulatorEnvironment(simpy.Environment):
    """SimPy's environment; time is in seconds from `start_s`."""

    def __init__(self, seed: int, start_s: float = 0.0) -> None:
        super().__init__(initial_time=start_s)
        self.seed = seed

    def stream(self, *name: object) -> np.random.Generator:
        """`named_stream` of this run's seed; the caller keeps it."""
        return named_stream(self.seed, *name)


class Barrier:
    """Where processes wait for each other: the synchronous rounds of base stations that share a time reference."""

    def __init__(self, env: simpy.Environment, n_parties: int) -> None:
        self._env, self._n_parties = env, n_parties
        self._n_waiting = 0
        self._gate = env.event()

    def wait(self) -> simpy.Event:
        """Event that fires when all parties wait here; the barrier is then ready for the next time."""
        gate = self._gate
        self._n_waiting += 1
        if self._n_waiting == self._n_parties:
            self._n_waiting, self._gate = 0, self._env.event()
            gate.succeed()
        return gate
