"""`PageFeed`: the pipe from a run to the process that draws its page; writing to it never waits."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from ...emulator.contracts import ConfigError

PAGE_MODULE = f"{__package__}.page_process"
#: Bytes that may wait for the other process; it gets nothing more when it takes so little.
MOST_PENDING = 64 << 20
#: For how long the end of the other process is waited for in s, before it is killed.
END_S = 8.0


class PageFeed:
    """Starts the process of a page, and tells it what happens, in a thread of its own.

    Args:
        listening: socket of the page; it belongs to the other process from now on.
        first: first thing to tell.

    Attributes:
        failure: why the process gets nothing more; empty while it does.

    Raises:
        ConfigError: this system cannot hand it the socket.
        OSError: it cannot be started.
    """

    def __init__(self, listening: socket.socket, first: Mapping[str, Any]) -> None:
        self.failure = ""
        if os.name != "posix":
            listening.close()
            raise ConfigError("--live needs Linux or macOS; leave it out")
        with listening:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", PAGE_MODULE, str(listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[listening.fileno()],
                start_new_session=True,  # Ctrl-C reaches the run alone
            )
        assert self._process.stdin is not None, "a pipe was asked for"
        self._pipe: IO[bytes] = self._process.stdin
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._pending, self._lock = 0, threading.Lock()
        self._thread = threading.Thread(target=self._write, name="live page", daemon=True)
        self._thread.start()
        self.tell(first)

    def tell(self, what: Mapping[str, Any]) -> None:
        """Put something into the pipe; nothing happens once it has failed."""
        if self.failure:
            return
        line = json.dumps(what).encode() + b"\n"
        with self._lock:
            self._pending += len(line)
            if self._pending > MOST_PENDING:
                self.failure = "it takes nothing any more"
                return
        self._lines.put(line)

    def close(self) -> None:
        """Let the process finish, and end it where it does not."""
        self._lines.put(None)
        self._thread.join(END_S)
        try:
            self._process.wait(END_S if not self._thread.is_alive() else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._pipe.write(line)
                self._pipe.flush()
                with self._lock:
                    self._pending -= len(line)
        except OSError:
            self.failure = self._last_words()
        with suppress(OSError):
            self._pipe.close()

    def _last_words(self) -> str:
        """What the process said before it ended."""
        assert self._process.stdout is not None, "a pipe was asked for"
        said = self._process.stdout.read().decode(errors="replace").strip()
        return said or f"its process ended with exit code {self._process.wait()}"
