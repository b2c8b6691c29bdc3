"""`serve` and `verify` among all other commands; their options are read where an edge device reads them."""

from __future__ import annotations

import typer

_AS_THEY_ARE = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_serving_commands(app: typer.Typer) -> None:
    """`serve` and `verify`."""
    app.command(context_settings=_AS_THEY_ARE, add_help_option=False)(serve)
    app.command(context_settings=_AS_THEY_ARE, add_help_option=False)(verify)


def serve(context: typer.Context) -> None:
    """Serve a bundle: sensor frames in, answers out."""
    _run("serve", context)


def verify(context: typer.Context) -> None:
    """Check that a bundle is whole and answers here as it should."""
    _run("verify", context)


def _run(name: str, context: typer.Context) -> None:
    from .. import __version__
    from ..emulator.edge.commands import run_command

    try:
        run_command([name, *context.args], __version__)
    except KeyboardInterrupt:  # the second one, which does not wait
        raise typer.Exit(130) from None
