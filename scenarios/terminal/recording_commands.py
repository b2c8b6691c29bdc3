"""`record`, `import`, `check` and `inspect`. Heavy imports wait until a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ..recording.recording_target import refuse_target
from .command_panels import WORLD, examples
from .completion import complete_assignment, complete_scenario

_OUT = typer.Option("--out", "-o", metavar="FILE.h5", help="Recording file; must not exist yet.")

_SET = typer.Option(
    "--set",
    metavar="KEY=VALUE",
    help="Set a field (world.n_sites=3, seed=7); repeatable.",
    autocompletion=complete_assignment,
)
_THREADS = typer.Option(min=0, help="Sensing threads beside the writing thread; the file does not depend on it.")


def add_recording_commands(app: typer.Typer) -> None:
    """Registration of `record`, `import`, `check` and `inspect` with the command line."""
    imports = typer.Typer(
        help="Make recordings of measured data sets, and of paths of ray tracers.", no_args_is_help=True
    )
    imports.command(
        "deepsense",
        epilog=examples(
            "sheafedge import deepsense data/scenario8 --scenario 8 --out scenario8.h5",
            "sheafedge import deepsense data --scenario 9 --modalities gps,rf --positions raw --strict -o s9.h5",
        ),
    )(import_deepsense)
    imports.command(
        "paths",
        epilog=examples(
            "sheafedge import paths paths.h5 --world street.toml --out traced.h5",
            "sheafedge import paths paths.h5 --world blockage --set world.n_sites=1 --out traced.h5",
        ),
    )(import_paths)
    app.command(
        "record",
        rich_help_panel=WORLD,
        epilog=examples(
            "sheafedge record street --set world.n_sites=2 --set world.duration_s=60 --out street.h5",
            "sheafedge record blockage --out blockage.h5",
        ),
    )(record)
    app.add_typer(imports, name="import", rich_help_panel=WORLD)
    app.command("check", rich_help_panel=WORLD, epilog=examples("sheafedge check mine.h5"))(check)
    app.command(
        "inspect",
        rich_help_panel=WORLD,
        epilog=examples("sheafedge inspect street.h5", "sheafedge inspect street.h5 --plot pictures --station 0"),
    )(inspect)


def record(
    world: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="street, sky, a shipped scenario, or a TOML file.",
            autocompletion=complete_scenario,
        ),
    ],
    out: Annotated[Path, _OUT],
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045 - typer reads this annotation at run time
    threads: Annotated[int, _THREADS] = 1,
) -> None:
    """Record the sensor data of all base stations of an emulated world."""
    _record(world, set_, out, threads, None)


def import_paths(
    paths: Annotated[
        Path, typer.Argument(metavar="FILE.h5", help="Paths that a ray tracer found, in the neutral layout.")
    ],
    world: Annotated[
        str,
        typer.Option(
            metavar="SCENARIO",
            help="World that they were traced in: street, sky, a shipped scenario, or a TOML file.",
            autocompletion=complete_scenario,
        ),
    ],
    out: Annotated[Path, _OUT],
    set_: Annotated[Optional[list[str]], _SET] = None,  # noqa: UP045
    threads: Annotated[int, _THREADS] = 1,
) -> None:
    """Record a world with paths of a ray tracer: sweeps measure these, all other sensors are the emulator's."""
    _record(world, set_, out, threads, paths)


def _record(world: str, assignments: list[str] | None, out: Path, threads: int, paths: Path | None) -> None:
    from ..recording.world_file import load_world
    from ..schema.scenario import parse_assignment

    file = load_world(world, dict(parse_assignment(text) for text in assignments or []))
    refuse_target(out)

    from ..recording.record import record_world
    from .console_elements import standard_console
    from .recording_console import RecordingProgress, print_path_figures, print_record_report

    console = standard_console()
    with RecordingProgress(console, file.section) as progress:
        report = record_world(file.section, file.seed, out, progress, threads=threads, paths=paths)
    print_record_report(console, report)
    print_path_figures(console, report.paths, file.section.attenuating)


def import_deepsense(
    root: Annotated[Path, typer.Argument(help="Folder of the DeepSense scenario, or a folder above it.")],
    scenario: Annotated[int, typer.Option(metavar="N", min=1, help="DeepSense scenario number.")],
    out: Annotated[Path, _OUT],
    n_beams: Annotated[int, typer.Option(help="Keep every (64 / N)-th beam: 64, 32, 16 or 8.")] = 64,
    nan_beams: Annotated[
        Literal["keep", "drop"],
        typer.Option(help="Sweeps with unmeasured (NaN) beams: keep or drop them."),
    ] = "keep",
    blockage_check: Annotated[
        Literal["refuse", "report"],
        typer.Option(help="If blockage labels contradict the beam powers: refuse the import, or only report it."),
    ] = "refuse",
    modalities: Annotated[
        str,
        typer.Option(metavar="LIST", help="Sensors to import, such as gps,rf. Default: all that the table has."),
    ] = "",
    positions: Annotated[
        Literal["auto", "calibrated", "raw"],
        typer.Option(help="Positions to import; auto: the calibrated ones where there are both."),
    ] = "auto",
    heading_deg: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(metavar="DEG", help="Bearing that the array faces, clockwise from north; no file states it."),
    ] = None,
    codebook_order: Annotated[
        Literal["clockwise", "counterclockwise"],
        typer.Option(help="How the beams follow each other, seen from above; beam 0 of a world is the leftmost."),
    ] = "clockwise",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse samples with a missing file, a NaN position or a power of 0; default: drop them.",
        ),
    ] = False,
) -> None:
    """Import a DeepSense 6G scenario folder in its published layout."""
    from ...datasets.deepsense.deepsense_folder import import_deepsense as run_import
    from ...version import __version__

    refuse_target(out)
    report = run_import(
        root,
        scenario,
        out,
        n_beams=n_beams,
        nan_beams=nan_beams,
        blockage_check=blockage_check,
        modalities=tuple(name.strip() for name in modalities.split(",") if name.strip()),
        positions=positions,
        heading_deg=heading_deg,
        codebook_order=codebook_order,
        strict=strict,
        created_by=f"sheafedge {__version__} import",
    )

    from .console_elements import standard_console
    from .recording_console import print_import_report

    print_import_report(standard_console(), report)


def check(recording: Annotated[Path, typer.Argument(metavar="FILE.h5", help="Recording file.")]) -> None:
    """Say what of a recording is right, missing or wrong, and implausible; exit code 2 if it cannot be read."""
    from ...datasets.recordings.recording_plausibility import check_recording
    from ...emulator.contracts import DataError
    from .console_elements import standard_console
    from .recording_console import print_findings

    found = check_recording(recording)
    print_findings(standard_console(), found)
    if n_wrong := sum(one.kind == "wrong" for one in found):
        raise DataError(f"{recording} cannot be used: {n_wrong} thing(s) are missing or wrong, see above")


def inspect(
    recording: Annotated[Path, typer.Argument(metavar="FILE.h5", help="Recording file.")],
    plot: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Draw some moments into this folder, one PNG per base station."),
    ] = None,
    station: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(metavar="N", help="Base station to draw; repeatable. Default: the first three."),
    ] = None,
) -> None:
    """Print the content of a recording, and draw some moments of it."""
    from ...emulator.contracts import ConfigError
    from ..recording.inspection import inspect_recording, plot_recording
    from .console_elements import standard_console
    from .recording_console import print_inspection

    console = standard_console()
    print_inspection(console, inspect_recording(recording))
    if plot is None:
        return
    try:
        pictures = plot_recording(recording, plot, tuple(station) if station else (0, 1, 2))
    except ModuleNotFoundError as error:
        raise ConfigError(f"plots need {error.name}; install it, or leave out --plot") from None
    except OSError as error:
        raise ConfigError(f"cannot write pictures to {plot} ({error}); give --plot another folder") from None
    for picture in pictures:
        console.print(f"wrote {picture}", soft_wrap=True, markup=False)
