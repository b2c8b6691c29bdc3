"""`calibrate`: commands that compare worlds with published measurements. Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .sky_commands import calibrate_sky_command


def add_calibration_commands(app: typer.Typer) -> None:
    """Registration of `calibrate street` and `calibrate sky` with the command line."""
    calibrations = typer.Typer(help="Compare emulated worlds with published measurements.", no_args_is_help=True)
    calibrations.command("street")(street)
    calibrations.command("sky")(calibrate_sky_command)
    app.add_typer(calibrations, name="calibrate")


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
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE.png", help="Plot balanced accuracy against prediction horizon."),
    ] = None,
) -> None:
    """Predict blockages from each sensor alone with small models, and compare with measured streets."""
    from ...emulator.contracts import ConfigError
    from ..schema.scenario import parse_assignment
    from ..schema.world_section import load_world

    edits = dict(parse_assignment(text) for text in set_ or [])
    file = load_world("street", {"world.n_sites": sites, "world.duration_s": 60.0 * minutes, "seed": seed, **edits})
    if plot is not None and (plot.is_dir() or not plot.parent.is_dir()):
        raise ConfigError(f"--plot {plot} cannot be written; name a file in an existing folder, such as street.png")

    from rich.console import Console

    from ..calibration.street_calibration import calibrate_street
    from .recording_console import RecordingProgress
    from .street_console import print_street_calibration

    console = Console()
    with RecordingProgress(console, file.section) as progress:
        calibration = calibrate_street(
            file.section,
            file.seed,
            protocols=("clear now", "all") if all_windows else ("clear now",),
            progress=progress,
            report=lambda text: console.print(text, soft_wrap=True, highlight=False),
        )
    print_street_calibration(console, calibration)
    if plot is None:
        return
    try:
        from ..calibration.street_pictures import draw_street_calibration
        from ..recording.pictures import save_picture

        save_picture(draw_street_calibration(calibration), plot)
    except ModuleNotFoundError as error:
        raise ConfigError(f"plots need {error.name}; install it, or leave out --plot") from None
    except OSError as error:
        raise ConfigError(f"cannot write {plot} ({error}); give --plot another file") from None
    console.print(f"wrote {plot}", soft_wrap=True, highlight=False, markup=False)
