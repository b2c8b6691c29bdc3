"""Options of the command line for workers; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...emulator.contracts import ConfigError
from ...emulator.network.transport.curve_keys import CurveKeys, check_address, read_keys
from ...emulator.nodes.worker_seat import WorkerLimits
from .ray_cluster import Engine, is_cluster_given


@dataclass(frozen=True, slots=True)
class Workers:
    """Worker processes of a run; they change none of its results.

    Attributes:
        n_workers: number of processes that share the clients.
        hub: address at which workers from other hosts join; None: they are started here.
        keys: folder of keys for the hub; needed beyond loopback.
        limits: limits of all waits.
        engine: starter of the workers: this process, or Ray, with a hub also on other hosts.

    Raises:
        ConfigError: too few workers, an address that other hosts can reach without keys, keys without an address, or a
            cluster without a hub.
    """

    n_workers: int
    hub: str | None = None
    keys: Path | None = None
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    engine: Engine = "processes"

    def __post_init__(self) -> None:
        if self.n_workers < 1:
            raise ConfigError(
                f"--workers must be at least 1, got {self.n_workers}; leave it out to work in one process"
            )
        if self.hub is None and self.keys is not None:
            raise ConfigError("--keys protects workers on other hosts; give --hub tcp://HOST:PORT, or leave it out")
        if self.hub is not None:
            check_address(self.hub, self.curve_keys)
        elif self.engine == "ray" and is_cluster_given():
            raise ConfigError(
                "--engine ray with a cluster in RAY_ADDRESS starts workers on other hosts; give --hub tcp://HOST:PORT,"
                " an address of this host that they can reach, and --keys FOLDER"
            )

    @property
    def curve_keys(self) -> CurveKeys | None:
        """Keys of the engine; None: messages are not encrypted."""
        return None if self.keys is None else read_keys(self.keys, "engine")


def workers_wanted(
    n_workers: int | None, hub: str | None, keys: Path | None, silence_s: float, engine: Engine = "processes"
) -> Workers:
    """Options of the command line as a value.

    Raises:
        ConfigError: options that need each other, or what `Workers` refuses.
    """
    if n_workers is None:
        if engine == "ray":
            raise ConfigError("--engine ray starts workers, so it needs to know how many; add --workers 2")
        raise ConfigError("--hub and --keys are for workers, and --workers says how many; add --workers 2")
    return Workers(n_workers, hub, keys, WorkerLimits(silence_s=silence_s), engine)
