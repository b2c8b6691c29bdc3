"""`compare` and `tune`. Heavy imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from .command_panels import COMPARE, examples
from .completion import complete_algorithms, complete_assignment, complete_scenario
from .shared_options import CPUS, GPUS, PLACEMENT, PLUGIN, TRUST, load_wanted, wanted_engine

if TYPE_CHECKING:
    from ..compare.comparison import Edits
    from .compare_console import ComparisonLines

_SCENARIO = typer.Argument(
    metavar="SCENARIO",
    help="Name of a shipped scenario, or a scenario file, or a comparison file.",
    autocompletion=complete_scenario,
)
_ALGORITHMS = typer.Option(
    metavar="A,B,...",
    help="One method per algorithm; default: the methods of the file, or all algorithms.",
    autocompletion=complete_algorithms,
)
_SET = typer.Option(
    "--set", metavar="KEY=VALUE", help="Set a field for all methods; repeatable.", autocompletion=complete_assignment
)
_JOBS = typer.Option(help="Number of parallel runs, each in its own process; 1: in this process.")
_ENGINE = typer.Option(
    help="How the processes of --jobs are started: processes (on this host) or ray (also on a cluster)."
)
_KEEP_STALE = typer.Option(
    "--keep-stale", help="Do not repeat stored runs that other code or another torch made; default: make them again."
)
_METHOD = typer.Option(
    "--method", "--arm", metavar="'NAME: KEY=VALUE, ...'", help="A method: edits of the scenario; repeatable."
)


def add_comparison_commands(app: typer.Typer) -> None:
    """Registration of `compare` and `tune` with the command line."""
    app.command(
        "compare",
        rich_help_panel=COMPARE,
        epilog=examples(
            "sheafedge compare blockage --algorithms sheaf_dmfl_att,local --seeds 5 --jobs 4",
            "sheafedge compare blockage --vary link.loss_probability=0,0.1,0.3 --reference local",
            "sheafedge compare my_comparison.toml",
        ),
    )(compare)
    app.command(
        "tune",
        rich_help_panel=COMPARE,
        epilog=examples("sheafedge tune blockage --algorithms local --grid training.head_step_size=0.03,0.1,0.3"),
    )(tune)


def compare(
    scenario: Annotated[str, _SCENARIO],
    algorithms: Annotated[Optional[str], _ALGORITHMS] = None,  # noqa: UP045 - typer reads this annotation at run time
    method: Annotated[Optional[list[str]], _METHOD] = None,  # noqa: UP045
    seeds: Annotated[Optional[int], typer.Option(help="Number of seeds, starting at 0; default: 3.")] = None,  # noqa: UP045
    jobs: Annotated[int, _JOBS] = 1,
    engine: Annotated[str, _ENGINE] = "processes",
    ray_cpus: Annotated[Optional[float], CPUS] = None,  # noqa: UP045
    ray_gpus: Annotated[Optional[float], GPUS] = None,  # noqa: UP045
    ray_placement: Annotated[Optional[str], PLACEMENT] = None,  # noqa: UP045
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    vary: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="KEY=V1,V2,...", help="Run every method with each of these values of a field."),
    ] = None,
    tuned: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE",
            help="Settings chosen by sheafedge tune: its tuned.toml. Without methods, those of the file are compared.",
        ),
    ] = None,
    reference: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="METHOD", help="Method that the others are compared with, seed by seed; default: the first."
        ),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="DIR", help="Folder; default: runs/compare-NAME. Runs that are already there are not repeated."
        ),
    ] = None,
    keep_stale: Annotated[bool, _KEEP_STALE] = False,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Run several methods with several seeds, and write tables of means, standard deviations and differences."""
    from .compare_arguments import requested_comparison

    load_wanted(plugin, trusted=scenario if trust_plugins else None)
    comparison = requested_comparison(
        scenario,
        algorithms=algorithms,
        methods=method or (),
        edits=set_ or (),
        seeds=seeds,
        vary=vary,
        reference=reference,
        otherwise=None if tuned is None else _tuned_methods(tuned),
    )

    from ...emulator.contracts import ConfigError
    from ..compare.comparing import default_folder, run_comparison
    from ..compare.tuning import with_tuned_settings
    from .compare_console import ComparisonLines, print_results
    from .console_elements import standard_console

    started_by, share = wanted_engine(engine, ray_cpus, ray_gpus, ray_placement)
    if tuned is not None:
        comparison = with_tuned_settings(comparison, tuned)
    console = standard_console()
    folder = out or default_folder(comparison)
    with ComparisonLines(console, keep_stale=keep_stale) as progress, _can_be_interrupted(progress):
        results = run_comparison(comparison, folder, jobs, progress, started_by, keep_stale=keep_stale, share=share)
    print_results(console, results, folder)
    # some failures are results; a comparison without any result is an error for scripts
    if not any(entry["n"] for entry in results["entries"]):
        raise ConfigError(f"all runs failed; {results['failures'][0]['sentence']}")


def _tuned_methods(path: Path) -> Mapping[str, Edits]:
    from ..compare.tuning import tuned_comparison

    return tuned_comparison(path).methods


def tune(
    scenario: Annotated[str, _SCENARIO],
    algorithms: Annotated[Optional[str], _ALGORITHMS] = None,  # noqa: UP045
    method: Annotated[Optional[list[str]], _METHOD] = None,  # noqa: UP045
    grid: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Values to try, in all combinations; repeatable. Default: three values of training.encoder_step_size.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, starting at 0.")] = 1,
    jobs: Annotated[int, _JOBS] = 1,
    engine: Annotated[str, _ENGINE] = "processes",
    ray_cpus: Annotated[Optional[float], CPUS] = None,  # noqa: UP045
    ray_gpus: Annotated[Optional[float], GPUS] = None,  # noqa: UP045
    ray_placement: Annotated[Optional[str], PLACEMENT] = None,  # noqa: UP045
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="DIR", help="Folder; default: runs/tune-NAME. Runs that are already there are not repeated."
        ),
    ] = None,
    keep_stale: Annotated[bool, _KEEP_STALE] = False,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Choose settings of every method by grid search on validation samples, never on test samples."""
    from .compare_arguments import first_seeds, parsed_grid, requested_comparison

    load_wanted(plugin, trusted=scenario if trust_plugins else None)
    comparison = requested_comparison(scenario, algorithms=algorithms, methods=method or (), edits=set_ or ())
    tried = parsed_grid(grid or ())

    from ..compare import tuning
    from .compare_console import ComparisonLines, print_table
    from .console_elements import standard_console

    started_by, share = wanted_engine(engine, ray_cpus, ray_gpus, ray_placement)
    wanted = tried or tuning.DEFAULT_GRID
    console = standard_console()
    folder = out or tuning.default_tuning_folder(comparison)
    with ComparisonLines(console, keep_stale=keep_stale) as progress, _can_be_interrupted(progress):
        found = tuning.tune(
            comparison,
            wanted,
            first_seeds(seeds),
            folder,
            jobs,
            progress,
            started_by,
            keep_stale=keep_stale,
            share=share,
        )
    print_table(console, tuning.tuning_table(found))
    console.print(f"tuned    {folder / 'tuned.toml'}", soft_wrap=True, markup=False)


@contextmanager
def _can_be_interrupted(progress: ComparisonLines) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        done = f"{progress.n_done} of {progress.n_runs} runs are done" if progress.n_runs else "no run was started"
        typer.echo(f"interrupted; {done}, and the same command continues", err=True)
        raise typer.Exit(130) from None
