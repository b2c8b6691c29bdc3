"""Runs that are there already: a run folder gets its name when it is complete, and holds the scenario that made it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from ... import __version__
from ..schema import Scenario, validated
from ..toml_file import read_toml

#: Fields that cannot change a result.
WITHOUT_EFFECT = ("name", "summary", "export")
WITHOUT_EFFECT_IN_COMPUTE = ("executor", "threads")


def run_name(scenario: Scenario) -> str:
    """Name of the folder of a run; two scenarios that must give the same result have the same one."""
    facts = json.dumps([__version__, deciding_tables(scenario)], sort_keys=True)
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
    """Whether this run folder is complete, of this scenario, and of this version of the program."""
    try:
        stored = deciding_tables(validated(read_toml(folder / "scenario.toml")))
        environment = stored_summary(folder)["environment"]
    except (OSError, ValueError, KeyError):
        return False
    return stored == deciding_tables(scenario) and environment.get("sheafedge") == __version__


def stored_summary(folder: Path) -> dict[str, Any]:
    """`summary.json` of a run folder."""
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def clear(folder: Path) -> None:
    """Make room for a run: remove what an interrupted, a failed or another version's run of this name left."""
    leftovers = [folder] if folder.exists() else []
    for pattern in (f"{folder.name}.partial*", f"{folder.name}.interrupted*", f"{folder.name}.failed*"):
        leftovers += folder.parent.glob(pattern)
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
