"""`export`: makes bundles for devices. Heavy imports wait until the command runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ...emulator.contracts import ConfigError
from ...emulator.edge.precisions import PRECISIONS, TRAINED, precision_named
from ...emulator.edge.signatures import SigningKey
from .command_panels import EDGE, examples
from .shared_options import PLUGIN, TRUST, load_wanted


def add_export_commands(app: typer.Typer) -> None:
    """Registration of `export` with the command line."""
    app.command(
        "export",
        rich_help_panel=EDGE,
        epilog=examples(
            "sheafedge export runs/my_run",
            "sheafedge export runs/my_run --clients 0,3 --quantize int8 --out bundles",
            "sheafedge export runs/my_run --quantize auto --device raspberry_pi_5",
        ),
    )(export)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a complete run.")],
    clients: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(metavar="0,3", help="Clients to export; default: all."),
    ] = None,
    quantize: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="|".join((*PRECISIONS, "auto")),
            help="Precision, checked against the trained float32 model; repeatable; auto: the fastest that loses at"
            f" most --max-loss; default: {TRAINED}.",
        ),
    ] = None,
    device: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="Device whose profile says what is fast; default: measured here."),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the bundles; default: RUN/bundles."),
    ] = None,
    zip_: Annotated[bool, typer.Option("--zip/--no-zip", help="Also write each bundle as one .zip file.")] = True,
    min_agreement: Annotated[
        float,
        typer.Option(
            help="Warn if a smaller share of samples than this gets the same decision as from the trained model."
        ),
    ] = 0.98,
    max_loss: Annotated[
        float,
        typer.Option(help="Export nothing if the first score drops by more than this on held-out or shifted samples."),
    ] = 0.02,
    calibration: Annotated[
        Literal["minmax", "entropy", "percentile"],
        typer.Option(help="Method that finds int8 activation ranges from training windows."),
    ] = "minmax",
    windows: Annotated[int, typer.Option(help="Number of training windows for int8 calibration.")] = 256,
    sign: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="KEY", help="Sign the bundles with this secret key, made by sheafedge keys --signing."),
    ] = None,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Export the models of a run as bundles for edge devices: model, manifest, test samples and model card."""
    # before the imports: those of the run take a second, those of torch several
    if not run.is_dir():
        raise ConfigError(f"no run folder at {run}; give one under runs/")

    from ..export.finished_run import finished_run

    signing = None if sign is None else SigningKey(sign)
    load_wanted(plugin, trusted=run if trust_plugins else None)
    finished = finished_run(run)

    from ..export.bundles import export_bundles
    from ..export.export_source import ExportRequest
    from ..export.precision_choice import AUTO
    from ..wiring.torch_setup import one_torch_thread
    from .console_elements import standard_console
    from .export_console import ExportProgress, print_bundles

    # an alias and its name are one precision, which is exported once
    names = dict.fromkeys(text if text == AUTO else precision_named(text).name for text in quantize or [TRAINED])
    common = ExportRequest(
        clients=None if clients is None else _numbers(clients),
        calibration=calibration,
        calibration_windows=windows,
        min_agreement=min_agreement,
        max_loss=max_loss,
        archives=zip_,
        device=device,
    )
    console = standard_console()
    n_clients = len(finished.summary.exports) if common.clients is None else len(common.clients)
    requests = [replace(common, precision=name) for name in names]
    # as in the run, whose scores are compared: sums of another number of threads round differently
    with ExportProgress(console, n_clients) as progress, one_torch_thread():
        made = export_bundles(
            finished,
            requests,
            out,
            recording=progress.recording,
            note=progress.noted,
            ready=progress.ready,
            signing=signing,
        )
    print_bundles(console, finished.scenario.task_spec, made)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ConfigError(f"--clients takes numbers with commas between them, got {text!r}; for example --clients 0,3")
    return tuple(int(part) for part in parts)
