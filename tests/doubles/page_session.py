"""A user at a terminal: types commands one after the other, on shipped scenarios from another folder.

Run as a program: `python page_session.py SCENARIOS < commands.json`; prints a line of JSON per command. Every command
is a forked process, so that all together load torch once.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

#: Address at which `serve` listens where no option says another.
SERVED = ("127.0.0.1", 5570)
PATIENCE_S = 120.0


def main() -> None:
    import torch  # noqa: F401 - loaded before the commands fork
    from sheafedge.scenarios.running import run  # noqa: F401 - the same
    from sheafedge.scenarios.schema import scenario, world_section

    scenario.SHIPPED = world_section.SHIPPED = Path(sys.argv[1])
    background: list[tuple[int, list[str]]] = []
    for number, (program, words) in enumerate(json.load(sys.stdin)):
        if words[0] == "serve":
            _leave(background)
        log = Path(f"{number}.log")
        child = _typed(program, words, log)
        if words[0] == "serve" or "--outside" in words:  # the next command is for another terminal
            background.append((child, words))
            if words[0] == "serve":
                _wait_for_server(child)
            continue
        _say(words, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), log)
        if program == "python" and background:  # an outside client: its run ends, too
            engine, command = background.pop()
            _say(command, os.waitstatus_to_exitcode(os.waitpid(engine, 0)[1]), log)
    _leave(background)


def _typed(program: str, words: list[str], log: Path) -> int:
    """Process that runs a command."""
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    status = 0
    try:
        if program == "python":
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
        else:
            from sheafedge.scenarios.entry import main as sheafedge

            sys.argv = ["sheafedge", *words]
            sheafedge()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - whatever a command raises is what came of it
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _wait_for_server(child: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and os.waitpid(child, os.WNOHANG) == (0, 0):
        with socket.socket() as probe:
            if probe.connect_ex(SERVED) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("nothing was served")


def _leave(background: list[tuple[int, list[str]]]) -> None:
    """End servers as Ctrl-C does."""
    while background:
        child, words = background.pop()
        os.kill(child, signal.SIGINT)
        _say(words, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), None)


def _say(words: list[str], status: int, log: Path | None) -> None:
    said = log.read_text(errors="replace")[-1500:] if log and status else ""
    sys.stdout.write(json.dumps([" ".join(words), status, said]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
