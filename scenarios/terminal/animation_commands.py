"""`animate`: a GIF or MP4 of a finished run. Heavy imports wait until the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ...emulator.contracts import ConfigError
from .command_panels import RUN, examples
from .shared_options import PLUGIN, TRUST, load_wanted


def add_animation_commands(app: typer.Typer) -> None:
    """Registration of `animate` with the command line."""
    app.command(
        "animate",
        rich_help_panel=RUN,
        epilog=examples(
            "sheafedge animate runs/my_run",
            "sheafedge animate runs/my_run --client 0 --client 5 --out street.mp4",
        ),
    )(animate)


def animate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a complete run.")],
    out: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option("--out", "-o", metavar="FILE", help="A .gif, or with ffmpeg an .mp4; default: RUN/street.gif."),
    ] = None,
    client: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(
            metavar="CLIENT", help="Client whose base station is shown; repeatable; default: two base stations."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Longest duration of the animation in seconds.")] = 12.0,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Animate held-out seconds of a run: the street with beams and warnings, and messages between clients."""
    # before the imports, which take seconds
    if not run.is_dir():
        raise ConfigError(f"no run folder at {run}; give one under runs/")
    load_wanted(plugin, trusted=run if trust_plugins else None)

    from ..animation.animate import animate_run
    from .console_elements import standard_console
    from .progress_display import ProgressDisplay

    console = standard_console()
    with ProgressDisplay(console) as progress:
        progress.phase("loading")

        def drawn(done: int, total: int) -> None:
            if progress.is_new("drawing"):
                progress.phase("drawing", "pictures", total)
            progress.advanced(done)

        made = animate_run(run, run / "street.gif" if out is None else out, client or (), seconds, drawn)
    console.print(str(made), soft_wrap=True, markup=False)
