"""How many workers a run has, and where, as the command line says it; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..emulator.contracts import ConfigError
from ..emulator.network.curve_keys import CurveKeys, check_address, read_keys
from ..emulator.nodes.worker_limits import WorkerLimits


@dataclass(frozen=True, slots=True)
class Workers:
    """Where the clients of a run are to live; changes no result of it.

    Attributes:
        n_workers: processes that share the clients.
        hub: address at which as many workers are waited for; None starts them here.
        keys: folder of keys for the hub; needed beyond loopback.
        limits: of all waits.

    Raises:
        ConfigError: too few workers, an address that strangers could reach, or keys without one.
    """

    n_workers: int
    hub: str | None = None
    keys: Path | None = None
    limits: WorkerLimits = field(default_factory=WorkerLimits)

    def __post_init__(self) -> None:
        if self.n_workers < 1:
            raise ConfigError(
                f"--workers must be at least 1, got {self.n_workers}; leave it out to work in one process"
            )
        if self.hub is None and self.keys is not None:
            raise ConfigError("--keys protects workers on other hosts; give --hub tcp://HOST:PORT, or leave it out")
        if self.hub is not None:
            check_address(self.hub, self.curve_keys)

    @property
    def curve_keys(self) -> CurveKeys | None:
        """Of the engine."""
        return None if self.keys is None else read_keys(self.keys, "engine")


def workers_wanted(n_workers: int | None, hub: str | None, keys: Path | None, silence_s: float) -> Workers:
    """What the command line asks for.

    Raises:
        ConfigError: it asks for half of it, or for what `Workers` refuses.
    """
    if n_workers is None:
        raise ConfigError("--hub and --keys are for workers, and --workers says how many; add --workers 2")
    return Workers(n_workers, hub, keys, WorkerLimits(silence_s=silence_s))
