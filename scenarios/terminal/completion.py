"""Completion in the shell: names of scenarios, algorithms and fields, and values of fields.

The shell starts the program for every press of the key, so nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..catalog.field_catalog import FieldEntry

#: Endings of files that stand for a scenario.
_SCENARIO_FILES = "*.toml"


def complete_scenario(incomplete: str) -> list[tuple[str, str]]:
    """Shipped scenarios with their summaries, and TOML files below the typed folder."""
    from ..schema.scenario import load_scenario, shipped_scenarios

    shipped = [(name, load_scenario(name).summary) for name in shipped_scenarios() if name.startswith(incomplete)]
    return [*shipped, *((path, "") for path in _files(incomplete))]


def complete_algorithm(incomplete: str) -> list[tuple[str, str]]:
    """Algorithms with their summaries."""
    from ...models.algorithms.algorithm_table import ALGORITHMS

    return [(name, row.summary) for name, row in ALGORITHMS.items() if name.startswith(incomplete)]


def complete_algorithms(incomplete: str) -> list[str]:
    """The last of several algorithms with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name, _ in complete_algorithm(last) if name not in chosen]


def complete_field(incomplete: str) -> list[tuple[str, str]]:
    """Dotted names of fields and tables with their meanings."""
    return [(one.name, one.meaning) for one in _entries(incomplete)]


def complete_assignment(incomplete: str) -> list[tuple[str, str]]:
    """Fields for --set, with "=" behind them; behind "=" the values, where they can be listed."""
    from ..catalog.field_catalog import BASE_FIELD, field_choices

    key, equals, value = incomplete.partition("=")
    if equals:
        return [(f"{key}={choice}", "") for choice in field_choices(key) if choice.startswith(value)]
    settable = (one for one in _entries(incomplete) if not one.is_table and "*" not in one.name and one != BASE_FIELD)
    return [(f"{one.name}=", one.meaning) for one in settable]


def _entries(incomplete: str) -> Iterator[FieldEntry]:
    from ..catalog.field_catalog import scenario_fields

    return (one for one in scenario_fields() if one.name.startswith(incomplete))


def _files(incomplete: str) -> list[str]:
    """TOML files and folders whose path begins so."""
    from pathlib import Path

    folder, slash, start = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder + slash or ".").glob(f"{start}*"))
    except (OSError, ValueError):
        return []
    shown = [path for path in found if start.startswith(".") or not path.name.startswith(".")]
    listed = [path for path in shown if path.is_dir() or path.match(_SCENARIO_FILES)]
    return [f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}" for path in listed]
