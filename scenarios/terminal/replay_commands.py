"""`replay`: streams a recording to a served model. Heavy imports wait until the command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ...emulator.contracts import DataError
from .command_panels import EDGE, examples
from .shared_options import PLUGIN, TRUST, load_wanted


def add_replay_commands(app: typer.Typer) -> None:
    """Registration of `replay` with the command line."""
    app.command(
        "replay",
        rich_help_panel=EDGE,
        epilog=examples(
            "sheafedge replay runs/my_run --to tcp://127.0.0.1:5570 --speed max",
            "sheafedge replay street.h5 --to tcp://127.0.0.1:5570 --drop lidar@15-30",
        ),
    )(replay)


def replay(
    recording: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.h5|RUN", help="A recording, or a run folder, which stands for the recording of that run."
        ),
    ],
    to: Annotated[str, typer.Option(metavar="tcp://HOST:PORT", help="Address of sheafedge serve.")],
    speed: Annotated[
        str, typer.Option(metavar="X|max", help="Recorded seconds per real second; max: as fast as the server answers.")
    ] = "1.0",
    station: Annotated[
        str,
        typer.Option(
            metavar="bs00|all", help="Base station to stream; default: the one that the model was trained on."
        ),
    ] = "",
    part: Annotated[
        Literal["held-out", "all"],
        typer.Option(help="Part of the recording: held out from training, if the bundle knows it, or all."),
    ] = "held-out",
    from_s: Annotated[
        Optional[float],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(
            "--from", metavar="S", help="Start this many seconds into the recording, also in the training part."
        ),
    ] = None,
    seconds: Annotated[Optional[float], typer.Option(metavar="S", help="Seconds to stream; default: all.")] = None,  # noqa: UP045
    drop: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="SENSOR[@S[-S]]", help="Sensor failure, from and to these seconds (lidar@15-30); repeatable."
        ),
    ] = None,
    loss: Annotated[float, typer.Option(metavar="P", help="Share of frames that are dropped at random.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of --loss.")] = 0,
    label: Annotated[
        Literal["", "blocked_geometric", "blocked_labeled", "blocked_power"],
        typer.Option(help="Blockage label that answers are scored against; default: the first one in the recording."),
    ] = "",
    in_flight: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            metavar="N",
            min=1,
            help="With --speed max: open requests per base station; default: the limit of the server.",
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="Give up after this many seconds without a reply.")
    ] = 5.0,
    keys: Annotated[Optional[Path], typer.Option(help="Folder of CURVE keys; needed beyond this host.")] = None,  # noqa: UP045
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Stream a recording to a served model, and score the answers as they arrive."""
    # before the imports, which take a second
    if not recording.exists():
        raise DataError(f"no recording and no run at {recording}; make one with the record, import or run command")

    load_wanted(plugin, trusted=recording if trust_plugins and recording.is_dir() else None)

    from ..replay.replaying import ReplayRequest, run_replay
    from .replay_view import ReplayConsole

    request = ReplayRequest(
        recording=recording,
        address=to,
        speed=speed,
        station=station,
        part=part,
        from_s=from_s,
        seconds=seconds,
        drop=tuple(drop or ()),
        loss=loss,
        seed=seed,
        label=label,
        in_flight=in_flight,
        patience_s=patience,
        keys=keys,
    )
    try:
        finished = run_replay(request, ReplayConsole(as_json=as_json))
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    # stopped by Ctrl-C after the report was printed
    if not finished:
        raise typer.Exit(130)
