"""Commands that compare ways to learn. Heavy imports wait until a command needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from .console import ComparisonLines

_WHAT = typer.Argument(metavar="SCENARIO", help="A shipped scenario, a scenario file, or a comparison file.")
_ALGORITHMS = typer.Option(metavar="A,B,...", help="An arm per algorithm; all of them if no arms are given.")
_SET = typer.Option("--set", metavar="KEY=VALUE", help="Change a field for every arm; repeatable.")
_JOBS = typer.Option(help="Runs made at a time, each in a process of its own; 1 makes them here.")
_ARM = typer.Option("--arm", metavar="'NAME: KEY=VALUE, ...'", help="An arm of any edits; repeatable.")


def add_comparison_commands(app: typer.Typer) -> None:
    """Adds `compare` and `tune` to the command line."""
    app.command("compare")(compare)


def compare(
    scenario: Annotated[str, _WHAT],
    algorithms: Annotated[Optional[str], _ALGORITHMS] = None,  # noqa: UP045 - typer reads this annotation at run time
    arm: Annotated[Optional[list[str]], _ARM] = None,  # noqa: UP045
    seeds: Annotated[Optional[int], typer.Option(help="How many, from 0 on.")] = None,  # noqa: UP045
    jobs: Annotated[int, _JOBS] = 1,
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    vary: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="KEY=V1,V2,...", help="Run every arm with each of these values."),
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
    from .arguments import asked_comparison

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
    from .comparing import default_folder, run_comparison
    from .console import ComparisonLines, print_results

    console = Console(emoji=False)
    folder = out or default_folder(comparison)
    with ComparisonLines(console) as progress:
        try:
            results = run_comparison(comparison, folder, jobs, progress)
        except KeyboardInterrupt:
            raise _interrupted(progress) from None
    print_results(console, results, folder)
    if not any(entry["n"] for entry in results["entries"]):
        raise ConfigError(f"not one run could be made; {results['failures'][0]['sentence']}")


def _interrupted(progress: ComparisonLines) -> typer.Exit:
    done = f"{progress.n_done} of {progress.n_runs} runs are done" if progress.n_runs else "nothing was run"
    typer.echo(f"interrupted; {done}, and the same command continues", err=True)
    return typer.Exit(130)
