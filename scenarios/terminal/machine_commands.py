"""Commands for other machines: `serve`, `bench` and `verify` of edge devices, `worker` and `keys` of other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ...emulator.edge.commands.command_options import SUMMARIES
from ...version import __version__
from .command_panels import EDGE, RUN, examples
from .shared_options import PLUGIN, load_wanted

if TYPE_CHECKING:
    from ...emulator.edge.bench_bundles import Entry
    from ...emulator.edge.commands.bench_commands import TorchModel

# also --help: the parser of devices, which have no typer, prints the help of these commands
_AS_THEY_ARE = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_edge_commands(app: typer.Typer) -> None:
    """Registration of these commands with the command line."""
    for name, summary in SUMMARIES.items():
        run = _bench if name == "bench" else _run
        app.command(name, help=summary, context_settings=_AS_THEY_ARE, add_help_option=False, rich_help_panel=EDGE)(run)


def _run(context: typer.Context) -> None:
    from ...emulator.edge.commands.device_commands import run_command
    from ...version import __version__

    try:
        run_command([str(context.info_name), *context.args], __version__)
    except KeyboardInterrupt:  # the second Ctrl-C: stop without waiting
        raise typer.Exit(130) from None


def _bench(context: typer.Context) -> None:
    """Run `bench`, with torch as one more runtime if it is installed."""
    from ...emulator.edge.commands.bench_commands import bench
    from ...emulator.edge.commands.command_options import bench_options

    typer.echo(bench(context.args, partial(_rebuild, bench_options(context.args).plugin)))


def _rebuild(plugins: Sequence[str], entry: Entry, threads: int) -> TorchModel | str:
    """The model of an entry in torch, which is imported only when its bundle has been opened, as are its plugins."""
    from ...emulator.edge.commands.bench_commands import without_torch

    try:
        from ..export.torch_answers import rebuild
    except ModuleNotFoundError as error:
        # any other missing module is a defect, not an installation without the training part
        if error.name not in {"torch", "onnx"}:
            raise
        return without_torch(entry, threads)
    load_wanted(plugins)
    return rebuild(entry, threads)


def add_worker_commands(app: typer.Typer) -> None:
    """Registration of `worker` and `keys` with the command line."""
    app.command(rich_help_panel=RUN, epilog=examples("sheafedge worker --hub tcp://engine.example:5555 --keys keys"))(
        worker
    )
    app.command(rich_help_panel=RUN, epilog=examples("sheafedge keys keys"))(keys)


def worker(
    hub: Annotated[str, typer.Option(help="Address of the engine: tcp://HOST:PORT, as given to sheafedge run --hub.")],
    keys: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads this annotation at run time
        typer.Option(help="Folder of CURVE keys, made by sheafedge keys; needed beyond this host."),
    ] = None,
    join_s: Annotated[float, typer.Option(help="Seconds to wait for the engine.")] = 120.0,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
) -> None:
    """Join a run on another host as a worker: train some of its clients on this host."""
    from ...emulator.network.transport.curve_keys import check_address, read_keys
    from ...emulator.nodes.worker_client import EngineAddress, process_name
    from ...emulator.nodes.worker_seat import WorkerLimits

    curve_keys = None if keys is None else read_keys(keys, "worker")
    # before torch is imported, which takes seconds
    check_address(hub, curve_keys)
    engine = EngineAddress(hub, __version__, process_name(), keys=curve_keys, limits=WorkerLimits(join_s=join_s))

    load_wanted(plugin)  # no code comes from the engine: what the run needs is named here, or installed

    typer.echo(f"connecting to the engine at {hub}")

    from ..workers.worker_run import live  # imports torch

    live(engine)


def keys(
    folder: Annotated[Path, typer.Argument(help="Folder to create.")],
    signing: Annotated[bool, typer.Option("--signing", help="Create a key pair that signs bundles instead.")] = False,
) -> None:
    """Create CURVE keys for an engine and its workers on other hosts, or keys that sign bundles."""
    if signing:
        from ...emulator.edge.signatures import make_signing_keys

        for path in make_signing_keys(folder):
            typer.echo(path)
        typer.echo("sign with export --sign signing.secret, and copy signing.public to devices for serve --trusted")
        return
    from ...emulator.network.transport.curve_keys import make_keys

    for path in make_keys(folder):
        typer.echo(path)
    typer.echo("copy the folder without engine.secret to every worker host, and use --keys on all hosts")
