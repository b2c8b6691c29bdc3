"""Commands of sheafedge as processes that can be killed, forked from one that has imported everything.

A process of its own per command would take seconds of imports before there is anything to attack. What is forked here
has run nothing yet: no thread, no socket, no open file but its pipes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

#: What the commands import on their way; the others are small.
_HEAVY = (
    "matplotlib.pyplot",
    "onnxruntime",
    "sheafedge.scenarios.compare.tuning",
    "sheafedge.scenarios.export.bundles",
    "sheafedge.scenarios.terminal.cli",
    "sheafedge.scenarios.terminal.compare_console",
    "sheafedge.scenarios.terminal.export_console",
    "sheafedge.scenarios.terminal.run_console",
)
#: A command that takes longer hangs.
PATIENCE_S = 300.0


class Command:
    """A running command.

    Attributes:
        pid: its process.
    """

    def __init__(self, source: Source, pid: int, said: Path) -> None:
        self._source, self.pid, self._said = source, pid, said
        self._code: int | None = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has been waited for."""
        if self._code is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None: it goes on."""
        if self._code is None:
            self._code = self._source.ask({"wait": self.pid})
        return self._code

    def wait(self) -> int:
        """Exit code once it has ended; a command that hangs is killed, and its code is that of SIGKILL."""
        until_s = time.monotonic() + PATIENCE_S
        while (code := self.poll()) is None:
            time.sleep(0.005)
            if time.monotonic() > until_s:
                self.send(signal.SIGKILL)
        return code

    @property
    def said(self) -> str:
        """Output and errors so far."""
        return self._said.read_text(encoding="utf-8")


class Source:
    """The process that commands are forked from."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder, self._n_started = process, folder, 0

    def ask(self, order: Mapping[str, Any]) -> Any:
        """Answer of the process to one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *arguments: str | Path, cwd: Path, cache: Path | None = None, **limits: int) -> Command:
        """Start a command.

        Args:
            arguments: of the command line.
            cwd: its working directory.
            cache: its cache of recordings; None: that of the tests.
            limits: soft limits by their names in `resource`, such as NOFILE.
        """
        self._n_started += 1
        said = self._folder / f"said-{self._n_started}.txt"
        said.touch()  # a signal may come before the process has opened it
        environment = {} if cache is None else {"SHEAFEDGE_CACHE": str(cache)}
        words = [str(word) for word in arguments]
        order = {"arguments": words, "cwd": str(cwd), "said": str(said), "env": environment, "limits": limits}
        return Command(self, self.ask(order), said)


@contextmanager
def command_source(folder: Path) -> Iterator[Source]:
    """The process that commands are forked from; its folder takes what they say."""
    command = [
        sys.executable,
        "-P",
        "-c",
        "import sys; sys.path.insert(0, sys.argv[1]); import commands; commands.serve()",
    ]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, str(Path(__file__).parent)], text=True, **ends) as process:  # type: ignore[call-overload]
        assert process.stdin is not None
        try:
            yield Source(process, folder)
        finally:
            process.stdin.close()


def serve() -> None:
    """Fork a command for every line that asks for one, and tell how others have ended."""
    for name in _HEAVY:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            pid, status = os.waitpid(order["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                _become(order)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _become(order: Mapping[str, Any]) -> NoReturn:
    os.chdir(order["cwd"])
    os.environ.update(order["env"])
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for handle, number in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(handle, number)
    os.closerange(3, 1024)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, limit in order["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
    sys.argv = ["sheafedge", *order["arguments"]]
    entry: Any = importlib.import_module("sheafedge.scenarios.entry")
    code: Any = 1
    try:
        entry.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)  # libraries that were imported before the fork would wait for threads of the other process


def children(pid: int) -> Sequence[int]:
    """Processes that a process has started and that are still there."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []
