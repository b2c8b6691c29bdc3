"""Commands that compare ways to learn. Heavy imports wait until a command needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from .compare_console import ComparisonLines

_WHAT = typer.Argument(metavar="SCENARIO", help="A shipped scenario, a scenario file, or a comparison file.")
_ALGORITHMS = typer.Option(metavar="A,B,...", help="An arm per algorithm; all of them if no arms are given.")
_SET = typer.Option("--set", metavar="KEY=VALUE", help="Change a field for every arm; repeatable.")
_JOBS = typer.Option(help="Runs made at a time, each in a process of its own; 1 makes them here.")
_ENGINE = typer.Option(help="Who starts the processes of --jobs: processes (this one), or ray.")
_ARM = typer.Option("--arm", metavar="'NAME: KEY=VALUE, ...'", help="An arm of any edits; repeatable.")


def add_comparison_commands(app: typer.Typer) -> None:
    """Adds `compare` and `tune` to the command line."""
    app.command("compare")(compare)
    app.command("tune")(tune)


def compare(
    scenario: Annotated[str, _WHAT],
    algorithms: Annotated[Optional[str], _ALGORITHMS] = None,  # noqa: UP045 - typer reads this annotation at run time
    arm: Annotated[Optional[list[str]], _ARM] = None,  # noqa: UP045
    seeds: Annotated[Optional[int], typer.Option(help="How many, from 0 on; 3 by default.")] = None,  # noqa: UP045
    jobs: Annotated[int, _JOBS] = 1,
    engine: Annotated[str, _ENGINE] = "processes",
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    vary: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="KEY=V1,V2,...", help="Run every arm with each of these values."),
    ] = None,
    tuned: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Settings that sheafedge tune has chosen for these arms: its tuned.toml."),
    ] = None,
    reference: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="ARM", help="Also tell how far the others are above this arm, seed by seed."),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Folder; runs/compare-NAME by default. What is there is not run again."),
    ] = None,
) -> None:
    """Run several ways to learn over several seeds, and put them into one table."""
    from .compare_arguments import asked_comparison

    comparison = asked_comparison(
        scenario,
        algorithms=algorithms,
        arms=arm or (),
        edits=set_ or (),
        seeds=seeds,
        vary=vary,
        reference=reference,
    )

    from rich.console import Console

    from ...emulator.contracts import ConfigError
    from ..compare.comparing import default_folder, run_comparison
    from ..compare.tuning import with_tuned_settings
    from ..workers.ray_cluster import checked_engine
    from .compare_console import ComparisonLines, print_results

    started_by = checked_engine(engine)
    if tuned is not None:
        comparison = with_tuned_settings(comparison, tuned)
    console = Console(emoji=False)
    folder = out or default_folder(comparison)
    with ComparisonLines(console) as progress, _can_be_interrupted(progress):
        results = run_comparison(comparison, folder, jobs, progress, started_by)
    print_results(console, results, folder)
    if not any(entry["n"] for entry in results["entries"]):
        raise ConfigError(f"not one run could be made; {results['failures'][0]['sentence']}")


def tune(
    scenario: Annotated[str, _WHAT],
    algorithms: Annotated[Optional[str], _ALGORITHMS] = None,  # noqa: UP045
    arm: Annotated[Optional[list[str]], _ARM] = None,  # noqa: UP045
    grid: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Values to try, in all combinations; repeatable. By default three training.encoder_step_size.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many, from 0 on.")] = 1,
    jobs: Annotated[int, _JOBS] = 1,
    engine: Annotated[str, _ENGINE] = "processes",
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Folder; runs/tune-NAME by default. What is there is not run again."),
    ] = None,
) -> None:
    """Choose settings of every arm on validation rows, never on those that compare scores."""
    from .compare_arguments import asked_comparison, first_seeds, parsed_grid

    comparison = asked_comparison(scenario, algorithms=algorithms, arms=arm or (), edits=set_ or ())
    tried = parsed_grid(grid or ())

    from rich.console import Console

    from ..compare import tuning
    from ..workers.ray_cluster import checked_engine
    from .compare_console import ComparisonLines, print_table

    started_by, wanted = checked_engine(engine), tried or tuning.DEFAULT_GRID
    console = Console(emoji=False)
    folder = out or tuning.default_tuning_folder(comparison)
    with ComparisonLines(console) as progress, _can_be_interrupted(progress):
        found = tuning.tune(comparison, wanted, first_seeds(seeds), folder, jobs, progress, started_by)
    print_table(console, tuning.tuning_table(found))
    console.print(f"tuned    {folder / 'tuned.toml'}", soft_wrap=True, highlight=False, markup=False)


@contextmanager
def _can_be_interrupted(progress: ComparisonLines) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        done = f"{progress.n_done} of {progress.n_runs} runs are done" if progress.n_runs else "nothing was run"
        typer.echo(f"interrupted; {done}, and the same command continues", err=True)
        raise typer.Exit(130) from None
