"""Optional Ray: a cluster that is running, or one of this machine that ends with the run.

Ray pickles what it carries. Nothing of ours goes that way but text, numbers and bytes of files: a scenario as TOML, an
address and its keys, sources of plugins, recordings and run folders.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from ...emulator.contracts import ConfigError, SheafedgeError

#: What starts processes: this one, or Ray.
Engine = Literal["processes", "ray"]
ENGINES: tuple[Engine, ...] = ("processes", "ray")
#: Where Ray places processes: on as few hosts as possible, or on as many.
Placement = Literal["pack", "spread"]
PLACEMENTS: tuple[Placement, ...] = ("pack", "spread")

#: Environment variable with the address of a cluster, which Ray reads too.
ADDRESS = "RAY_ADDRESS"
#: Scheme of the addresses of Ray's client, which works from outside of a cluster.
CLIENT = "ray://"
#: Ray's smallest is 75 MiB; texts need less, by default it would take a third of the memory.
STORE_BYTES = 80 << 20
#: Ray itself tries an address for more than five minutes.
_REACH_S = 5.0
#: Ray counts processors and GPUs in steps of 0.0001; a process of ours on less than a hundredth would stand still.
_LEAST, _MOST_CPUS = 0.01, 1024.0


@dataclass(frozen=True, slots=True)
class RayShare:
    """What every process that Ray starts is given, and where; it changes no results.

    Ray counts what it has given away, and limits nobody to it; of GPUs a process sees only its own.

    Attributes:
        cpus: processors.
        gpus: GPUs, at most one; 0.25 lets four processes share one.
        placement: "pack" on as few hosts as possible, or "spread" over as many.

    Raises:
        ConfigError: a value out of its range.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    placement: Placement = "pack"

    def __post_init__(self) -> None:
        if not _LEAST <= self.cpus <= _MOST_CPUS:
            raise ConfigError(f"--ray-cpus must lie in [{_LEAST:g}, {_MOST_CPUS:g}], got {self.cpus:g}")
        if self.gpus != 0.0 and not _LEAST <= self.gpus <= 1.0:
            raise ConfigError(
                f"--ray-gpus must be 0 or lie in [{_LEAST:g}, 1], got {self.gpus:g}; a process uses one GPU at most,"
                " and 0.25 lets four share one"
            )
        checked_placement(self.placement)

    @property
    def resources(self) -> dict[str, float]:
        """The share in the words of Ray."""
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def fit_into(self, total: Mapping[str, float]) -> int:
        """How many processes with this share a host with these resources has room for."""
        # Ray counts in steps of 0.0001: three thirds, rounded, are a whole
        return int(min(total.get(name, 0.0) / wanted + 1e-3 for name, wanted in self.resources.items()))

    def __str__(self) -> str:
        return f"{self.cpus:g} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")


def checked_engine(name: str) -> Engine:
    """An engine by name.

    Raises:
        ConfigError: there is none of that name.
    """
    for engine in ENGINES:
        if name == engine:
            return engine
    raise ConfigError(f"unknown --engine {name!r}; known: {', '.join(ENGINES)}")


def checked_placement(name: str) -> Placement:
    """A placement by name.

    Raises:
        ConfigError: there is none of that name.
    """
    for placement in PLACEMENTS:
        if name == placement:
            return placement
    raise ConfigError(f"unknown --ray-placement {name!r}; known: {', '.join(PLACEMENTS)}")


def is_cluster_given() -> bool:
    """Whether tasks may land on other hosts."""
    return bool(os.environ.get(ADDRESS))


def own_address(ray: ModuleType) -> str:
    """Address of this host, as the other hosts of the cluster know it.

    Raises:
        ConfigError: this host is none of the cluster's.
    """
    if os.environ.get(ADDRESS, "").startswith(CLIENT):
        raise ConfigError(
            f"{ADDRESS} = {os.environ[ADDRESS]} is reached from outside of the cluster, whose workers need an address"
            " of this host; run the command on a host of the cluster, or give --hub tcp://HOST:PORT"
        )
    return str(ray.util.get_node_ip_address())


@contextmanager
def ray_running(n_processes: int, share: RayShare, n_needed: int | None = None) -> Iterator[ModuleType]:
    """Ray, with room for so many processes at a time; afterwards, nothing of it is left that was not there before.

    Args:
        n_processes: number of processes.
        share: what each of them is given.
        n_needed: number of them for which a cluster must have room, while others wait; None: all.

    Raises:
        ConfigError: it is not installed, or the cluster has less in all.
        SheafedgeError: it does not start, or its cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics leave this machine
    ray = _imported()
    here = {
        "address": "local",
        "num_cpus": math.ceil(n_processes * share.cpus),
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
    }
    where = {"address": _reached(os.environ[ADDRESS])} if is_cluster_given() else here
    try:
        try:
            with _same_end_by_sigterm():
                ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            remedy = f"check {ADDRESS}" if is_cluster_given() else "try without --engine ray"
            raise SheafedgeError(f"Ray does not start ({said}); {remedy}") from None
        _check_room(ray, n_processes if n_needed is None else n_needed, share)
        yield ray
    finally:
        ray.shutdown()


def fetched(reference: Any) -> Any:
    """The value of a reference, in a process of Ray."""
    return _imported().get(reference)


def one_line(error: BaseException) -> str:
    """What Ray says about a process that it lost, without its tables and advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # of an error in a process the last line is its message, of a lost process the line after the table is the reason
    reason = next((line for line in lines if line.startswith("The actor is dead because")), lines[-1] if lines else "")
    return f"{type(error).__name__}: {reason.partition('. Some common causes')[0]}".rstrip(".: ")


@contextmanager
def _same_end_by_sigterm() -> Iterator[None]:
    """Ray would end the process at SIGTERM, where a run is stopped and a comparison interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _reached(address: str) -> str:
    """The address of a cluster, where something listens.

    Raises:
        SheafedgeError: nothing does.
    """
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not host or not port.isdecimal():  # "auto", or what Ray refuses
        return address
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        raise SheafedgeError(
            f"no Ray cluster answers at {ADDRESS} = {address} ({error}); start one there with ray start --head, or"
            f" unset {ADDRESS}"
        ) from None
    return address


def _check_room(ray: ModuleType, n_processes: int, share: RayShare) -> None:
    """Refuse what a cluster could not place if nobody else used it.

    Raises:
        ConfigError: as said.
    """
    hosts: list[dict[str, float]] = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(share.fit_into(host) for host in hosts)
    if room >= n_processes:
        return
    cpus, gpus = (sum(host.get(name, 0.0) for host in hosts) for name in ("CPU", "GPU"))
    raise ConfigError(
        f"Ray has room for {room} of {n_processes} processes with {share} each, on {len(hosts)} hosts with {cpus:g} CPU"
        f" and {gpus:g} GPU together; ask for fewer or smaller ones, or add hosts with ray start"
    )


def _imported() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs Ray; install it here with: pip install 'ray>=2.50'") from None
    module: ModuleType = ray
    return module
