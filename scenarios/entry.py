"""Entry point of `sheafedge`: all commands, or those of an edge device where nothing else is installed."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: What the commands of all of sheafedge cannot be read without.
_ALL_COMMANDS_NEED = "typer"
#: New objects between two searches for garbage.
_ALLOCATIONS_PER_COLLECTION = 50_000
#: Time after which an interrupt that nobody could answer comes again.
_AGAIN_S = 0.01


def main() -> None:
    """Run the command line and end the process."""
    if find_spec(_ALL_COMMANDS_NEED) is None:
        _edge_main(sys.argv[1:])
    # imports make many objects and hardly any garbage; with the 700 of Python they take 0.4 s longer
    gc.set_threshold(_ALLOCATIONS_PER_COLLECTION)
    # like Ctrl-C, so that files and processes are cleared away; commands that handle signals set their own
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.unraisablehook = deliver_again
    try:
        from .terminal.cli import main as whole_main

        whole_main()
    except KeyboardInterrupt:  # commands answer theirs; this one came before there was a command
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    finally:
        gc.freeze()  # else the interpreter frees torch object by object, 0.9 s for memory that goes anyway


def deliver_again(ignored: UnraisableHookArgs) -> None:
    """Deliver an interrupt again that came while a finalizer ran, which can raise nothing; print all else."""
    if ignored.exc_type is KeyboardInterrupt:
        # from another thread: in this one it would come at once, and here nothing can be raised either
        threading.Timer(_AGAIN_S, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)


def _edge_main(arguments: list[str]) -> NoReturn:
    from ..emulator.edge.commands.device_commands import COMMANDS
    from ..emulator.edge.commands.device_commands import main as edge_main
    from ..version import __version__

    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        sys.stderr.write(
            f"error: this installation has the edge set only, which knows {', '.join(COMMANDS)}, not"
            f" {arguments[0]!r}; it needs all dependencies of sheafedge: install the wheel again without --no-deps\n"
        )
        sys.exit(2)
    edge_main(arguments, __version__)
