"""Runs that are there already: a run folder gets its name when it is complete, and holds the scenario that made it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pydantic
from pydantic import ConfigDict

from ...emulator.contracts import ConfigError, DataError
from ...version import __version__
from ..schema.former_names import with_former_names
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml

#: Fields that cannot change a result.
WITHOUT_EFFECT = ("name", "summary", "export")
WITHOUT_EFFECT_IN_COMPUTE = ("executor", "threads")


class _Group(pydantic.BaseModel):
    """A group of a summary; all else that it holds are figures."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None]
    clients: int
    model: str


class _Summary(pydantic.BaseModel):
    """What a comparison reads of a `summary.json`."""

    model_config = ConfigDict(extra="allow")
    task: str
    clients: int
    rounds: int
    virtual_time_s: float
    energy_j: float
    wall_time_s: float
    groups: dict[str, _Group]
    baselines: dict[str, dict[str, dict[str, float | None]]]
    traffic: dict[str, Any]
    warnings: list[str]
    environment: dict[str, Any]


class _Row(pydantic.BaseModel):
    """What a comparison reads of a line of `metrics.jsonl`."""

    model_config = ConfigDict(extra="allow")
    round: int
    group: str
    bytes_sent: int
    time_s: float
    models: dict[str, dict[str, float | None]] = {}


def run_name(scenario: Scenario) -> str:
    """Name of the folder of a run; two scenarios that must give the same result have the same one."""
    facts = json.dumps([__version__, with_former_names(deciding_tables(scenario))], sort_keys=True)
    return f"{scenario.algorithm}-seed{scenario.seed}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def deciding_tables(scenario: Scenario) -> dict[str, Any]:
    """What sets a scenario apart from the defaults of this version, without what cannot change a result.

    A field that a later commit adds leaves the runs valid that did without it.
    """
    tables: dict[str, Any] = scenario.model_dump(mode="json", exclude_defaults=True)
    decides = {key: value for key, value in tables.items() if key not in WITHOUT_EFFECT}
    compute = {key: value for key, value in tables.get("compute", {}).items() if key not in WITHOUT_EFFECT_IN_COMPUTE}
    return {**decides, "compute": compute}


def is_stored(folder: Path, scenario: Scenario) -> bool:
    """Whether this run folder is whole, of this scenario, and of this version of the program."""
    try:
        path = folder / "scenario.toml"
        stored = deciding_tables(stored_scenario(read_toml(path), str(path)))
        summary = stored_summary(folder)
        n_rows = len(stored_rows(folder))
    except (ConfigError, DataError):
        return False
    is_whole = n_rows == summary["rounds"] * summary["clients"]
    return is_whole and stored == deciding_tables(scenario) and summary["environment"].get("sheafedge") == __version__


def stored_summary(folder: Path) -> dict[str, Any]:
    """`summary.json` of a run folder.

    Raises:
        DataError: it is missing, damaged, or not what a run leaves.
    """
    path = folder / "summary.json"
    with _refusing(path):
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _Summary.model_validate(summary)
    return summary


def stored_rows(folder: Path) -> list[dict[str, Any]]:
    """Lines of `metrics.jsonl` of a run folder.

    Raises:
        DataError: it is missing, damaged, or not what a run leaves.
    """
    path = folder / "metrics.jsonl"
    with _refusing(path), path.open(encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for row in rows:
            _Row.model_validate(row)
    return rows


@contextmanager
def replacing_run(folder: Path) -> Iterator[None]:
    """Around a run that is made where one may be already: of another version, or damaged.

    Removes what interrupted and failed runs of this name left. A complete one stays beside as `NAME.earlier`; it goes
    when the new one is there, comes back when the new one fails, and waits beside when that was killed.

    Raises:
        ConfigError: the folders cannot be renamed.
    """
    earlier = folder.with_name(f"{folder.name}.earlier")
    for pattern in (f"{folder.name}.partial*", f"{folder.name}.interrupted*", f"{folder.name}.failed*"):
        for leftover in folder.parent.glob(pattern):
            _remove(leftover)
    if os.path.lexists(folder):
        _remove(earlier)
        _rename(folder, earlier)
    try:
        yield
    except BaseException:
        if os.path.lexists(earlier) and not os.path.lexists(folder):
            with suppress(ConfigError):
                _rename(earlier, folder)
        raise
    _remove(earlier)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turns what is wrong with a stored file into one sentence."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
        raise DataError(
            f"{path} is not what a run leaves there ({reason}); move its folder away, and the same command makes the"
            " run again"
        ) from None


def _rename(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except OSError as error:
        raise ConfigError(f"{path} cannot be renamed to {target.name} ({error.strerror}); move it away") from None


def _remove(path: Path) -> None:
    """A folder or whatever else stands there, as far as the system lets us."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
