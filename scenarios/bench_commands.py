"""`sheafedge bench` where torch may be there too; the command itself is that of the edge."""

from __future__ import annotations

import typer

from ..emulator.edge.bench_options import NAME, SUMMARY


def add_bench_commands(app: typer.Typer) -> None:
    """Adds `bench` to the command line."""
    passed_on = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(NAME, help=SUMMARY, add_help_option=False, context_settings=passed_on)(_bench)


def _bench(context: typer.Context) -> None:
    from ..emulator.edge.bench_commands import bench, without_torch

    arguments = context.args
    try:
        from .torch_answers import rebuild
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "onnx"}:
            raise
        typer.echo(bench(arguments, without_torch))
    else:
        typer.echo(bench(arguments, rebuild))
