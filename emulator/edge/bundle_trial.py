"""Trial of a bundle in a process with limits, before this process loads it.

An ONNX graph is a program: it can loop for ever, ask for any amount of memory, or be nested so deep that its reader
crashes. Its file does not tell, and the thread that runs it cannot be stopped in all cases. So a process of its own
loads it and lets it answer its own samples first.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .manifest import BundleError, Manifest

_PROCESS = f"{__package__}.trial_process"
#: Longest time until the process ends after the trial was told to stop.
_LOOK_S = 0.2
#: Of a model while it is loaded: the file, what the runtime parses, its weights, and their layout for the processor.
_COPIES = 4


class LoadStoppedError(BundleError):
    """A bundle was not loaded, because the program that loads it ends; nothing is said about the bundle."""


@dataclass(frozen=True, slots=True)
class BundleTrial:
    """Limits of the process that tries a bundle.

    Attributes:
        cpu_s: processor time after the start of the interpreter.
        wall_s: real time; more than `cpu_s`, because a busy machine is slow.
        memory_bytes: address space beyond that of the interpreter, for what the model computes; four times the size of
            the bundle come on top, and at most half of the machine's memory is given.
        is_stopped: whether to give up, asked several times a second.
    """

    cpu_s: int = 10
    wall_s: int = 60
    memory_bytes: int = 1 << 30
    is_stopped: Callable[[], bool] = lambda: False

    def run(self, path: Path, manifest: Manifest) -> None:
        """Load a bundle in a process, and let it answer its own samples there.

        Args:
            path: path of the folder or archive.
            manifest: manifest that was read here. Its digest covers every file, so that what was tried is what was
                read, even if the path leads elsewhere by now.

        Raises:
            BundleError: the bundle was refused there, ended the process, took too long or too much, or changed.
            LoadStoppedError: `is_stopped` said so.
        """
        # -P: a file of the current folder, which may be the bundle itself, must not stand in for a module.
        memory_bytes = self.memory_bytes + _COPIES * sum(facts.bytes for facts in manifest.files.values())
        limits = map(str, (self.cpu_s, self.wall_s, memory_bytes))
        command = [sys.executable, "-P", "-m", _PROCESS, str(path), *limits]
        try:
            with subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                said, complaint = self._output(process, path)
        except OSError as error:
            raise BundleError(f"bundle {path} cannot be tried in a process of its own ({error})") from None
        found = _found(said) if process.returncode == 0 else None
        if found is None:
            raise BundleError(f"bundle {path}: its model {self._ending(process.returncode, complaint)}; do not use it")
        if "refused" in found:
            raise BundleError(found["refused"])
        if found.get("digest") != manifest.digest:
            raise BundleError(f"bundle {path} was changed while it was being loaded; load it again")

    def _output(self, process: subprocess.Popen[str], path: Path) -> tuple[str, str]:
        until_s = time.monotonic() + self.wall_s
        while True:
            try:
                return process.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if self.is_stopped():
                    process.kill()
                    raise LoadStoppedError(f"bundle {path} was not loaded: the program ends") from None
                # The process ends itself at its limits; where a system has none, it is ended here.
                if time.monotonic() >= until_s + _LOOK_S:
                    process.kill()
                    raise BundleError(
                        f"bundle {path}: its model {self._ending(-signal.SIGALRM, '')}; do not use it"
                    ) from None
            except BaseException:  # an interrupt must not leave the process behind
                process.kill()
                raise

    def _ending(self, code: int, complaint: str) -> str:
        """What an end without an answer says about the model."""
        name = signal.Signals(-code).name if code < 0 else ""
        if name == "SIGXCPU":
            return f"gave no answer to its own samples within {self.cpu_s} s of processor time"
        if name == "SIGALRM":
            return f"gave no answer to its own samples within {self.wall_s} s"
        if name:
            return f"ended the process that tried it ({name})"
        last = (complaint.strip().splitlines() or ["nothing was said"])[-1]
        reason = "".join(sign for sign in last[:200] if sign.isprintable())
        return f"ended the process that tried it (exit code {code}: {reason})"


def _found(said: str) -> dict[str, str] | None:
    try:
        # The last line, since libraries may print before it.
        found = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return found if isinstance(found, dict) else None
