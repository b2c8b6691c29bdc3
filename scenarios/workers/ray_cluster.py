"""Optional Ray: a cluster that is running, or one of this machine that ends with the run.

Ray pickles what it carries. Nothing of ours goes that way but text and numbers: a scenario as TOML, paths, an address,
and sources of plugins.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Literal

from ...emulator.contracts import ConfigError, SheafedgeError

#: What starts processes: this one, or Ray.
Engine = Literal["processes", "ray"]
ENGINES: tuple[Engine, ...] = ("processes", "ray")

#: Environment variable with the address of a cluster, which Ray reads too.
ADDRESS = "RAY_ADDRESS"
#: Ray's smallest is 75 MiB; texts need less, by default it would take a third of the memory.
STORE_BYTES = 80 << 20


def checked_engine(name: str) -> Engine:
    """An engine by name.

    Raises:
        ConfigError: there is none of that name.
    """
    for engine in ENGINES:
        if name == engine:
            return engine
    raise ConfigError(f"unknown --engine {name!r}; known: {', '.join(ENGINES)}")


def is_cluster_given() -> bool:
    """Whether tasks may land on other hosts."""
    return bool(os.environ.get(ADDRESS))


@contextmanager
def ray_running(n_tasks: int) -> Iterator[ModuleType]:
    """Ray, with room for so many tasks at a time; afterwards, nothing of it is left that was not there before.

    Raises:
        ConfigError: it is not installed.
        SheafedgeError: it does not start, or its cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics leave this machine
    ray = _imported()
    here = {"address": "local", "num_cpus": n_tasks, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    where = {"address": os.environ[ADDRESS]} if is_cluster_given() else here
    try:
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise SheafedgeError(f"Ray does not start ({said}); try without --engine ray") from None
        yield ray
    finally:
        ray.shutdown()


def _imported() -> ModuleType:
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs Ray; install it here with: pip install 'ray>=2.50'") from None
    module: ModuleType = ray
    return module
