"""Options of the command line for workers; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import zmq

from ...emulator.contracts import ConfigError
from ...emulator.network.transport.curve_keys import CurveKeys, check_address, read_keys
from ...emulator.nodes.worker_seat import WorkerLimits
from .ray_cluster import Engine, RayShare


@dataclass(frozen=True, slots=True)
class Workers:
    """Worker processes of a run; they change none of its results.

    Attributes:
        n_workers: number of processes that share the clients.
        hub: address at which workers from other hosts join; None: they are started here.
        keys: folder of keys for the hub; needed beyond loopback.
        limits: limits of all waits.
        engine: starter of the workers: this process, or Ray, in a cluster also on other hosts.
        share: what Ray gives to every worker.

    Raises:
        ConfigError: too few workers, an address that other hosts can reach without keys, or keys without an address.
    """

    n_workers: int
    hub: str | None = None
    keys: Path | None = None
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    engine: Engine = "processes"
    share: RayShare = field(default_factory=RayShare)

    def __post_init__(self) -> None:
        if self.n_workers < 1:
            raise ConfigError(
                f"--workers must be at least 1, got {self.n_workers}; leave it out to work in one process"
            )
        if self.hub is None and self.keys is not None:
            raise ConfigError("--keys protects workers on other hosts; give --hub tcp://HOST:PORT, or leave it out")
        if self.hub is not None:
            check_address(self.hub, self.key_pairs[0])

    @property
    def key_pairs(self) -> tuple[CurveKeys | None, CurveKeys | None]:
        """Keys of the engine and of its workers; None: no messages are encrypted, or workers have keys of their own.

        Ray hands keys to the workers that it starts: those of the folder, or else new ones, which are in no file.
        """
        if self.engine == "ray":
            return (
                _new_keys() if self.keys is None else (read_keys(self.keys, "engine"), read_keys(self.keys, "worker"))
            )
        return (None if self.keys is None else read_keys(self.keys, "engine")), None


def _new_keys() -> tuple[CurveKeys, CurveKeys]:
    (engine, engine_secret), (worker, worker_secret) = zmq.curve_keypair(), zmq.curve_keypair()
    return CurveKeys(engine, engine_secret, worker), CurveKeys(worker, worker_secret, engine)


def workers_wanted(
    n_workers: int | None,
    hub: str | None,
    keys: Path | None,
    silence_s: float,
    engine: Engine = "processes",
    share: RayShare | None = None,
) -> Workers:
    """Options of the command line as a value.

    Raises:
        ConfigError: options that need each other, or what `Workers` refuses.
    """
    if n_workers is None:
        if engine == "ray":
            raise ConfigError("--engine ray starts workers, so it needs to know how many; add --workers 2")
        raise ConfigError("--hub and --keys are for workers, and --workers says how many; add --workers 2")
    return Workers(n_workers, hub, keys, WorkerLimits(silence_s=silence_s), engine, share or RayShare())
