"""The command that streams a recording to a served model. Heavy imports wait until it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer


def add_replay_commands(app: typer.Typer) -> None:
    """Adds `replay` to the command line."""
    app.command("replay")(replay)


def replay(
    recording: Annotated[Path, typer.Argument(metavar="FILE.h5|RUN", help="A recording, or the run that has one.")],
    to: Annotated[str, typer.Option(metavar="tcp://HOST:PORT", help="Where sheafedge serve waits.")],
    speed: Annotated[
        str, typer.Option(metavar="X|max", help="Recorded seconds per real second; max: as fast as answers come.")
    ] = "1.0",
    station: Annotated[
        str, typer.Option(metavar="bs00|all", help="Base station to stream; by default the one that was trained on.")
    ] = "",
    part: Annotated[
        Literal["held-out", "all"], typer.Option(help="What the model was not trained on, where that is known, or all.")
    ] = "held-out",
    from_s: Annotated[
        Optional[float],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option("--from", metavar="S", help="Begin so long after the recording does; whatever was trained on."),
    ] = None,
    seconds: Annotated[Optional[float], typer.Option(metavar="S", help="Stream so much of it.")] = None,  # noqa: UP045
    drop: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="SENSOR[@S[-S]]", help="This sensor is broken, from then, to then; repeatable."),
    ] = None,
    loss: Annotated[float, typer.Option(metavar="P", help="Share of frames that are lost at random.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the losses.")] = 0,
    label: Annotated[
        Literal["", "blocked_geometric", "blocked_labeled", "blocked_power"],
        typer.Option(help="Which definition of blocked is the truth; by default the first that there is."),
    ] = "",
    in_flight: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(metavar="N", min=1, help="With --speed max, open questions per base station; else as served."),
    ] = None,
    patience: Annotated[float, typer.Option(metavar="S", min=0.1, help="A server silent for so long is gone.")] = 5.0,
    keys: Annotated[Optional[Path], typer.Option(help="Folder of keys; needed beyond this host.")] = None,  # noqa: UP045
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Stream a recording to a served model, and score its answers while they come."""
    from ..replay.replaying import Wishes, run_replay

    wishes = Wishes(
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
        as_json=as_json,
    )
    try:
        finished = run_replay(wishes)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(130) from None
    if not finished:
        raise typer.Exit(130)
