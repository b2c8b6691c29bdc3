"""The command `sheafedge report`, and the report at the end of `sheafedge run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import is_regular
from .command_panels import COMPARE, examples
from .shared_options import PLUGIN, TRUST, load_wanted

if TYPE_CHECKING:
    from rich.console import Console


def add_report_commands(app: typer.Typer) -> None:
    """Add `report` to the command line."""
    shown = examples("sheafedge report runs/blockage", "sheafedge report --no-figures runs/*")
    app.command(rich_help_panel=COMPARE, epilog=shown)(report)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of complete runs or comparisons.")],
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Also write the figures of runs as SVG and PDF, for papers.")
    ] = True,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Write reports of runs and comparisons: report.html in each folder, and figures for papers."""
    for run in runs:  # all of them before the first is written
        if not run.is_dir():
            raise ConfigError(f"no run folder at {run}; give one under runs/")
    for number, run in enumerate(runs):
        load_wanted(plugin if number == 0 else None, trusted=run if trust_plugins else None)
        typer.echo(_written(run, figures=figures))


def _written(folder: Path, *, figures: bool) -> Path:
    """Report of a run, or of a comparison, which has `results.json`."""
    if is_regular(folder / "results.json"):
        from ..compare.comparison_report import write_comparison_report

        return write_comparison_report(folder)

    from ..report.run_report import write_run_report

    return write_run_report(folder, figures=figures)


def report_ended_run(console: Console, folder: Path) -> None:
    """Write the report of a run that has just ended; a warning where that fails, because the run is complete.

    Args:
        console: where its path or the warning is printed.
        folder: run folder.
    """
    from .console_elements import print_warning

    again = f"sheafedge report {folder} writes it"
    try:
        from ..report.run_report import write_run_report

        path = write_run_report(folder, figures=False)  # PDF takes four times as long as the page
    except KeyboardInterrupt:
        print_warning(console, f"report left out; {again}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not cost the run
        print_warning(console, f"no report ({type(error).__name__}: {' '.join(str(error).split())}); {again}")
    else:
        console.print(f"{'report':8}  {path}", soft_wrap=True, markup=False, highlight=False)
