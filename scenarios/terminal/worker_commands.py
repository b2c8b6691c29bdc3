"""Commands for workers on other hosts, and their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from ...version import __version__


def add_worker_commands(app: typer.Typer) -> None:
    """`worker` and `keys`."""
    app.command()(worker)
    app.command()(keys)


def worker(
    hub: Annotated[str, typer.Option(help="Where the engine waits: tcp://HOST:PORT, as in sheafedge run --hub.")],
    keys: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(help="Folder of keys, as made by sheafedge keys; needed beyond this host."),
    ] = None,
    join_s: Annotated[float, typer.Option(help="How long to look for the engine, in seconds.")] = 120.0,
) -> None:
    """Join a run on another host: train some of its clients here, and end with it."""
    from ...emulator.network.transport.curve_keys import check_address, read_keys
    from ...emulator.nodes.worker_client import EngineAddress, process_name
    from ...emulator.nodes.worker_seat import WorkerLimits

    curve_keys = None if keys is None else read_keys(keys, "worker")
    check_address(hub, curve_keys)
    engine = EngineAddress(hub, __version__, process_name(), keys=curve_keys, limits=WorkerLimits(join_s=join_s))

    typer.echo(f"looking for an engine at {hub}")

    from ..workers.worker_run import live  # with torch and all

    live(engine)


def keys(folder: Annotated[Path, typer.Argument(help="A new folder for them.")]) -> None:
    """Make keys for an engine and its workers on other hosts."""
    from ...emulator.network.transport.curve_keys import make_keys

    for path in make_keys(folder):
        typer.echo(path)
    typer.echo("copy the folder to every host of a worker, engine.secret apart, and give --keys there and here")
