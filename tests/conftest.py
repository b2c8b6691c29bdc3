"""What all tests share: repeatable property tests, one torch thread, a cache of worlds, and where data lies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# busy machines are slow, not wrong
settings.register_profile("sheafedge", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sheafedge")

_BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "datasets"


#: Files that start processes or make whole runs come first, so that no worker is left alone with one at the end.
_LONG = (
    "scenarios/compare/",
    "scenarios/workers/",
    "scenarios/running/",
    "scenarios/terminal/",
    "project/",
    "integration/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(part in item.path.as_posix() for part in _LONG))  # stable


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> None:
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _the_keyboard_interrupts() -> None:
    """Also where the tests were started in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _worlds_are_recorded_once_and_not_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every run finds the worlds that another test has recorded; programs that tests start find them too."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    ground = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent  # of all processes
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHEAFEDGE_CACHE", str(ground / "worlds"))
        yield


@pytest.fixture(scope="session")
def deepsense_root() -> Path:
    """Folder with the gathered DeepSense rows; skips where this machine has none."""
    return _data_folder("deepsense")


@pytest.fixture(scope="session")
def link_traces_root() -> Path:
    """Folder with traces of real links; skips where this machine has none."""
    return _data_folder("link_traces")


@pytest.fixture(scope="session")
def data_folder() -> Callable[[str], Path]:
    """Name of a folder of public data -> its path; skips where this machine has none."""
    return _data_folder


def _data_folder(name: str) -> Path:
    root = Path(os.environ.get("SHEAFEDGE_DATA") or _BESIDE_THE_CHECKOUT) / name
    if not root.is_dir():
        pytest.skip(f"no data at {root}; set SHEAFEDGE_DATA to the folder that holds {name}/")
    return root
