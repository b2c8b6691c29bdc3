"""Stored runs: run folders that are complete and were made from the same scenario by the same software."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from ...emulator.contracts import ConfigError, DataError
from ...emulator.ownership import owned
from ...emulator.regular_file import read_regular
from ...version import __version__
from ..running.metric_rows import METRICS, metric_rounds
from ..running.run_environment import run_code, run_plugins
from ..running.stored_run import MAX_SUMMARY_BYTES, StoredMetrics, StoredSummary
from ..schema.former_names import with_former_names
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml
from ..wiring.taking_part import n_observed

#: Fields that cannot change a result, of the scenario and of its section `compute`; plugins count by their sources.
WITHOUT_EFFECT = ("name", "summary", "plugins", "export")
WITHOUT_EFFECT_IN_COMPUTE = ("executor", "threads", "awake_clients")
#: Executors that compute every client by itself, and give the same result to the bit.
ONE_BY_ONE = ("serial", "threads")


def run_name(scenario: Scenario) -> str:
    """Name of a run folder; scenarios that must give the same result get the same name."""
    # fields under their former names: a renamed field leaves the folder names of stored runs as they were
    facts = json.dumps([__version__, with_former_names(deciding_tables(scenario))], sort_keys=True)
    return f"{scenario.algorithm}-seed{scenario.seed}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def deciding_tables(scenario: Scenario) -> dict[str, Any]:
    """Fields that differ from the defaults of this version, without those that cannot change a result.

    Defaults are left out so that a field added later does not invalidate stored runs.
    """
    tables: dict[str, Any] = scenario.model_dump(mode="json", exclude_defaults=True)
    decides = {key: value for key, value in tables.items() if key not in WITHOUT_EFFECT}
    compute = {key: value for key, value in tables.get("compute", {}).items() if key not in WITHOUT_EFFECT_IN_COMPUTE}
    # batches round differently, and "auto" may choose them
    alone = {"executor": "one_by_one"} if scenario.compute.executor in ONE_BY_ONE else {}
    return {**decides, "compute": {**compute, **alone}}


class StoredState(NamedTuple):
    """What a comparison finds in the place of a run.

    Attributes:
        kind: "absent"; "unusable": damaged, incomplete or of another scenario; "stale": complete, but made by other
            software; "stored": complete and made by this software.
        reason: what is different about a stale run.
    """

    kind: Literal["absent", "unusable", "stale", "stored"]
    reason: str = ""


def stored_state(folder: Path, scenario: Scenario) -> StoredState:
    """Whether this folder holds the run of this scenario, made by the code and the torch that would make it now."""
    if not folder.exists():
        return StoredState("absent")
    try:
        path = folder / "scenario.toml"
        tables = read_toml(path)
        tables.pop("plugins", None)  # another source of one makes a run stale below, and not unusable
        stored = deciding_tables(stored_scenario(tables, str(path)))
        summary = stored_summary(folder)
        n_rows = sum(len(rows) for _, rows in stored_rounds(folder))
    except (ConfigError, DataError):
        return StoredState("unusable")
    # one per round and node that took part in it, scored or not
    if n_rows != n_observed(scenario) or stored != deciding_tables(scenario):
        return StoredState("unusable")
    then = summary["environment"]
    for name, value in run_software().items():
        if then.get(name) != value:
            return StoredState("stale", "other code" if name == "code" else f"{name} {then.get(name)}")
    plugins, plugins_then = run_plugins(scenario), then.get("plugins", {})
    if other := next((name for name in plugins if plugins_then.get(name) != plugins[name]), None):
        return StoredState("stale", f"another {other}")
    return StoredState("stored")


def run_software() -> dict[str, str]:
    """What else than its scenario and its plugins decides the figures of a run: releases, and the code of this one."""
    return {"sheafedge": __version__, "torch": str(torch.__version__), "code": run_code()}


def stored_summary(folder: Path) -> dict[str, Any]:
    """`summary.json` of a run folder.

    Raises:
        DataError: the file is missing, damaged, or not written by a run.
    """
    path = folder / "summary.json"
    with _refusing(path):
        summary: dict[str, Any] = json.loads(read_regular(path, MAX_SUMMARY_BYTES))
        StoredSummary.model_validate(summary)
    return summary


def stored_rounds(folder: Path) -> Iterator[tuple[int, Sequence[dict[str, Any]]]]:
    """Rounds of a run in order, each with the rows of the nodes that took part in it.

    Raises:
        DataError: a file is missing, damaged, or not written by a run.
    """
    with _refusing(folder / METRICS):
        for round_index, rows in metric_rounds(folder):
            for row in rows:
                StoredMetrics.model_validate(row)
            yield round_index, rows


@contextmanager
def replacing_run(folder: Path) -> Iterator[None]:
    """Context in which a run replaces a stored one of another version, or a damaged one.

    Leftovers of interrupted and failed runs of this name are removed. A complete run is kept as `NAME.earlier`: it is
    removed when the new run is complete, and restored if the new run fails.

    Raises:
        OwnedError: another process writes this run.
        ConfigError: the folders cannot be renamed.
    """
    earlier = folder.with_name(f"{folder.name}.earlier")
    # nothing of a run that goes on is removed; in the block the run itself is the owner
    with owned(folder):
        for pattern in (f"{folder.name}.partial*", f"{folder.name}.interrupted*", f"{folder.name}.failed*"):
            for leftover in folder.parent.glob(pattern):
                _remove(leftover)
        # lexists: a link to a folder that is gone would be in the way as well
        if os.path.lexists(folder):
            _remove(earlier)
            _rename(folder, earlier)
    try:
        yield
    finally:  # also after KeyboardInterrupt: an interrupted run must not cost the earlier one
        if os.path.lexists(folder):
            _remove(earlier)
        elif os.path.lexists(earlier):
            # the error of the run itself is the one to report
            with suppress(ConfigError):
                _rename(earlier, folder)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Context that reports any error in a stored file as one sentence."""
    try:
        yield
    # KeyError: a row without its round; RuntimeError: JSON of a damaged file that is nested too deeply
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
        raise DataError(
            f"{path} is damaged or not written by a run ({reason}); move its folder away, and the same "
            "command repeats the"
            " run"
        ) from None


def _rename(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except OSError as error:
        raise ConfigError(f"{path} cannot be renamed to {target.name} ({error.strerror}); move it away") from None


def _remove(path: Path) -> None:
    """Remove a folder, file or link, as far as permissions allow."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
