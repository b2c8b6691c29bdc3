"""`calibrate`: commands that compare worlds with published measurements. Heavy imports wait until a command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import is_folder
from .command_panels import WORLD, examples

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


def add_calibration_commands(app: typer.Typer) -> None:
    """Registration of `calibrate street` and `calibrate sky` with the command line."""
    calibrations = typer.Typer(help="Compare emulated worlds with published measurements.", no_args_is_help=True)
    calibrations.command("street", epilog=examples("sheafedge calibrate street --sites 4 --minutes 4"))(street)
    calibrations.command("sky", epilog=examples("sheafedge calibrate sky --sites 1 --minutes 10"))(
        calibrate_sky_command
    )
    app.add_typer(calibrations, name="calibrate", rich_help_panel=WORLD)


def street(
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set a field of the world (world.sweep.floor_db=20); repeatable."
        ),
    ] = None,
    sites: Annotated[int, typer.Option(help="Number of base stations, each on its own street.")] = 10,
    minutes: Annotated[float, typer.Option(help="Recorded time per base station; the last 30 % are held out.")] = 8.0,
    seed: Annotated[int, typer.Option(help="Seed of the world and of the reference models.")] = 0,
    all_windows: Annotated[
        bool, typer.Option("--all-windows", help="Also train and test on windows whose last frame is already blocked.")
    ] = False,
    trees: Annotated[
        bool, typer.Option("--trees", help="Also grow boosted trees on each sensor; needs scikit-learn.")
    ] = False,
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE.png", help="Plot balanced accuracy against prediction horizon."),
    ] = None,
) -> None:
    """Predict blockages from each sensor alone with small models, and compare with measured streets."""
    from ..recording.world_file import load_world
    from ..schema.scenario import parse_assignment

    edits = dict(parse_assignment(text) for text in set_ or [])
    file = load_world("street", {"world.n_sites": sites, "world.duration_s": 60.0 * minutes, "seed": seed, **edits})
    _check_plot(plot)

    from ..calibration.calibration_pictures import draw_street_calibration
    from ..calibration.street_calibration import calibrate_street
    from ..calibration.street_trees import WITHOUT_TREES, TreeSettings, has_trees
    from .calibration_console import print_street_calibration
    from .console_elements import standard_console
    from .recording_console import RecordingProgress

    console = standard_console()
    if trees and not has_trees():
        console.print(WITHOUT_TREES, soft_wrap=True, markup=False)
    with RecordingProgress(console, file.section) as progress:
        calibration = calibrate_street(
            file.section,
            file.seed,
            protocols=("clear now", "all") if all_windows else ("clear now",),
            trees=TreeSettings() if trees and has_trees() else None,
            progress=progress,
            report=lambda text: console.print(text, soft_wrap=True),
        )
    print_street_calibration(console, calibration)
    _save_plot(console, plot, lambda: draw_street_calibration(calibration))


def calibrate_sky_command(
    sites: Annotated[int, typer.Option(min=1, help="Number of base stations, evaluated one by one.")] = 3,
    minutes: Annotated[float, typer.Option(min=10.0, help="Recorded time per base station.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of worlds, splits and models.")] = 0,
    plot: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(metavar="FILE.png", help="Plot the results."),
    ] = None,
) -> None:
    """Predict the best beam of a drone from images and positions, and compare with published measurements."""
    _check_plot(plot)

    import torch

    from ..calibration.calibration_pictures import draw_sky_figures
    from ..calibration.sky_calibration import SkyStudy, calibrate_sky
    from .calibration_console import print_sky_figures
    from .console_elements import standard_console

    study = SkyStudy(n_sites=sites, minutes=minutes, seed=seed)
    console = standard_console()
    torch.set_num_threads(1)  # last digits depend on the number of threads

    def report_site(done: int, of: int) -> None:
        console.print(f"base station {done} of {of} done")

    figures = calibrate_sky(study, progress=report_site)
    print_sky_figures(console, figures)
    _save_plot(console, plot, lambda: draw_sky_figures(figures))


def _check_plot(plot: Path | None) -> None:
    """Refuse a picture that could not be written, before minutes of recording and training.

    Raises:
        ConfigError: it is a folder, is in none, or has the ending of another format.
    """
    if plot is None:
        return
    if not is_folder(plot.parent):
        raise ConfigError(f"--plot {plot} lies in a folder that does not exist; make {plot.parent} first")
    if is_folder(plot):
        raise ConfigError(f"--plot {plot} is a folder; name a file in it, such as {plot / 'calibration.png'}")
    if plot.suffix.lower() not in {"", ".png"}:
        raise ConfigError(f"--plot {plot} must end in .png, because pictures are PNG, got {plot.suffix}")


def _save_plot(console: Console, plot: Path | None, draw: Callable[[], Figure]) -> None:
    """Draw a picture and write it, if one is wanted.

    Raises:
        ConfigError: there is no matplotlib, or the file cannot be written.
    """
    if plot is None:
        return
    from ..recording.pictures import save_picture

    try:
        save_picture(draw(), plot)
    except ModuleNotFoundError as error:
        raise ConfigError(f"plots need {error.name}; install it, or leave out --plot") from None
    except OSError as error:
        raise ConfigError(f"cannot write {plot} ({error}); give --plot another file") from None
    console.print(f"wrote {plot}", soft_wrap=True, markup=False)
