"""`serve`, `bench` and `verify`; their options are parsed by the code that an edge device uses."""

from __future__ import annotations

import typer

from ...emulator.edge.commands.command_options import SUMMARIES

# also --help: the parser of devices, which have no typer, prints the help of these commands
_AS_THEY_ARE = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_edge_commands(app: typer.Typer) -> None:
    """Registration of these commands with the command line."""
    for name, summary in SUMMARIES.items():
        run = _bench if name == "bench" else _run
        app.command(name, help=summary, context_settings=_AS_THEY_ARE, add_help_option=False)(run)


def _run(context: typer.Context) -> None:
    from ...emulator.edge.commands.device_commands import run_command
    from ...version import __version__

    try:
        run_command([str(context.info_name), *context.args], __version__)
    except KeyboardInterrupt:  # the second Ctrl-C: stop without waiting
        raise typer.Exit(130) from None


def _bench(context: typer.Context) -> None:
    """Run `bench`, with torch as one more runtime if it is installed."""
    from ...emulator.edge.commands.bench_commands import bench, without_torch

    try:
        from ..export.torch_answers import rebuild
    except ModuleNotFoundError as error:
        # any other missing module is a defect, not an installation without the training part
        if error.name not in {"torch", "onnx"}:
            raise
        typer.echo(bench(context.args, without_torch))
    else:
        typer.echo(bench(context.args, rebuild))
