"""Options that several commands share: plugins, and what Ray gives to the processes that it starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import is_regular

if TYPE_CHECKING:
    from ..workers.ray_cluster import Engine, RayShare

PLUGIN = typer.Option(
    "--plugin",
    metavar="FILE",
    help="Python file that adds an algorithm, a task, a data set or a link model; its code runs. Repeatable.",
)
TRUST = typer.Option(
    "--trust-plugins", help="Load the plugins that the scenario or the run folder lists; their code runs."
)
CPUS = typer.Option("--ray-cpus", help="With --engine ray: processors for each process; default: 1.")
GPUS = typer.Option("--ray-gpus", help="With --engine ray: GPU for each process; 0.25 lets four share one. Default: 0.")
PLACEMENT = typer.Option(
    "--ray-placement", help="With --engine ray: pack processes on few hosts, or spread them over many; default: pack."
)


def load_wanted(named: Sequence[str] | None, *, trusted: str | Path | None = None) -> None:
    """Load installed plugins, those of --plugin, and those that a trusted file lists.

    Args:
        named: files, or names of installed plugins.
        trusted: scenario, comparison, or folder of a run or a comparison whose list is loaded too; None: no list is.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    from ..plugins.loading import load_plugins

    load_plugins(named or (), [] if trusted is None else _listed(Path(trusted)))


def wanted_engine(
    name: str, cpus: float | None, gpus: float | None, placement: str | None
) -> tuple[Engine, RayShare | None]:
    """What starts processes, and what Ray gives to each; None: nothing was said about it.

    Raises:
        ConfigError: an unknown name, a value out of its range, or a share without Ray.
    """
    from ..workers.ray_cluster import RayShare, checked_engine, checked_placement

    engine = checked_engine(name)
    if (cpus, gpus, placement) == (None, None, None):
        return engine, None
    if engine != "ray":
        raise ConfigError(
            "--ray-cpus, --ray-gpus and --ray-placement say what Ray gives to a process; add --engine ray, or leave"
            " them out"
        )
    usual = RayShare()
    share = RayShare(
        usual.cpus if cpus is None else cpus,
        usual.gpus if gpus is None else gpus,
        usual.placement if placement is None else checked_placement(placement),
    )
    return engine, share


def _listed(path: Path) -> list[str]:
    """Plugins that a scenario, the scenario of a comparison, or that of the folder of either lists."""
    from ..schema.scenario import listed_plugins, shipped_scenarios
    from ..schema.toml_file import read_toml

    file = path
    if path.is_dir():  # of a run, or of a comparison, which names its scenario
        file = path / ("scenario.toml" if is_regular(path / "scenario.toml") else "comparison.toml")
    if str(path) in shipped_scenarios() or not is_regular(file):
        return []  # a shipped scenario lists none, and who reads the path reports what is wrong with it
    base = read_toml(file).get("scenario")
    of_base = isinstance(base, str) and is_regular(file.parent / base)
    return listed_plugins(file) + (listed_plugins(file.parent / str(base)) if of_base else [])
