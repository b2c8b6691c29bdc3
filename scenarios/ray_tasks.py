"""What Ray runs in its own processes. Arguments and results are text and numbers, because Ray pickles them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path


def work_for(address: str, seat: int, keys: str) -> int:
    """A worker of a run, the same as without Ray, in a process that ends with this one; returns its exit code.

    Args:
        address: of the engine's hub.
        seat: to take there.
        keys: folder of keys on this host; empty: none.
    """
    module = f"{__package__}.worker_run"
    command = [sys.executable, "-m", module, address, str(seat), *([keys] if keys else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()  # not before: at its end a worker takes this process for dead


def make_run(scenario: str, folder: str, world: str) -> tuple[float, str, str]:
    """A piece of work of a comparison; returns the fields of `Done`.

    Args:
        scenario: as TOML.
        folder: of the run; empty: only record the world.
        world: which recording it needs or makes; empty: none.
    """
    from .compare.work import Task, do
    from .schema import validated

    done = do(Task(validated(tomllib.loads(scenario)), Path(folder) if folder else None, world))
    return done.seconds, done.error, done.sentence
