"""Options `--plugin` and `--trust-plugins` of the commands that read a scenario or a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ...emulator.regular_file import is_regular

PLUGIN = typer.Option(
    "--plugin",
    metavar="FILE",
    help="Python file that adds an algorithm, a task, a data set or a link model; its code runs. Repeatable.",
)
TRUST = typer.Option(
    "--trust-plugins", help="Load the plugins that the scenario or the run folder lists; their code runs."
)


def load_wanted(named: Sequence[str] | None, *, trusted: str | Path | None = None) -> None:
    """Load installed plugins, those of --plugin, and those that a trusted file lists.

    Args:
        named: files, or names of installed plugins.
        trusted: scenario, comparison, or run folder whose list is loaded too; None: no list is.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    from ..plugins.loading import load_plugins

    load_plugins(named or (), [] if trusted is None else _listed(Path(trusted)))


def _listed(path: Path) -> list[str]:
    """Plugins that a scenario, the scenario of a comparison, or that of a run lists."""
    from ..schema.scenario import listed_plugins, shipped_scenarios
    from ..schema.toml_file import read_toml

    file = path / "scenario.toml" if path.is_dir() else path
    if str(path) in shipped_scenarios() or not is_regular(file):
        return []  # a shipped scenario lists none, and who reads the path reports what is wrong with it
    base = read_toml(file).get("scenario")
    of_base = isinstance(base, str) and is_regular(file.parent / base)
    return listed_plugins(file) + (listed_plugins(file.parent / str(base)) if of_base else [])
