"""The command that makes bundles for devices. Heavy imports wait until it is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ...emulator.edge.precisions import PRECISIONS, TRAINED, precision_named


def add_export_commands(app: typer.Typer) -> None:
    """Adds `export` to the command line."""
    app.command("export")(export)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a complete run.")],
    clients: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(metavar="0,3", help="Only these clients."),
    ] = None,
    quantize: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="|".join(PRECISIONS),
            help=f"Precision, with evidence beside the trained model; repeatable. [default: {TRAINED}]",
        ),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the bundles; by default RUN/bundles."),
    ] = None,
    zip_: Annotated[bool, typer.Option("--zip/--no-zip", help="Also each bundle as one file.")] = True,
    min_agreement: Annotated[
        float, typer.Option(help="Warn where fewer samples than this share are decided like by the trained model.")
    ] = 0.98,
    max_loss: Annotated[
        float, typer.Option(help="Write nothing if the first score falls by more, on held-out or shifted rows.")
    ] = 0.02,
    calibration: Annotated[
        Literal["minmax", "entropy", "percentile"], typer.Option(help="How int8 ranges follow from training windows.")
    ] = "minmax",
    windows: Annotated[int, typer.Option(help="Training windows that int8 ranges are taken from.")] = 256,
) -> None:
    """Make bundles of a run's models: everything that a device needs, measured and checked."""
    from rich.console import Console

    from ..export.bundles import export_bundles
    from ..export.export_request import ExportRequest
    from ..export.finished_run import finished_run
    from ..wiring.torch_setup import one_torch_thread
    from .export_console import ExportProgress, print_bundles

    # an alias and its name are one precision, which is exported once
    names = dict.fromkeys(precision_named(text).name for text in quantize or [TRAINED])
    common = ExportRequest(
        clients=None if clients is None else _numbers(clients),
        calibration=calibration,
        calibration_windows=windows,
        min_agreement=min_agreement,
        max_loss=max_loss,
        archives=zip_,
    )
    finished = finished_run(run)
    console = Console(emoji=False)
    n_clients = len(finished.summary.exports) if common.clients is None else len(common.clients)
    requests = [replace(common, precision=name) for name in names]
    with ExportProgress(console, n_clients) as progress, one_torch_thread():
        made = export_bundles(finished, requests, out, recording=progress.recording, ready=progress.ready)
    print_bundles(console, finished.scenario.task_spec, made)


def _numbers(text: str) -> tuple[int, ...]:
    from ...emulator.contracts import ConfigError

    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ConfigError(f"--clients takes numbers with commas between them, got {text!r}; for example --clients 0,3")
    return tuple(int(part) for part in parts)
