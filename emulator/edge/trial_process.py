"""Process that tries a bundle; `bundle_trial` starts it and reads what it prints.

`python -m sheafedge.emulator.edge.trial_process PATH CPU_S WALL_S MEMORY_BYTES` prints one JSON object: the digest of
the manifest if the bundle is sound, or the sentence that refuses it. What ends it otherwise is the model's doing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from .bundle import load_bundle
from .footprint import virtual_bytes
from .manifest import BundleError

#: Of the thread that loads; half of what threads mostly have, so that a graph nested too deep fails here first.
_STACK_BYTES = 1 << 22


def _limit_this_process(cpu_s: int, wall_s: int, memory_bytes: int) -> None:
    """Let the system end this process at its limits, whatever it does then; and before any other when memory ends."""
    if sys.platform == "win32":  # it has no such limits: the program that waits ends this one
        return
    import resource  # noqa: PLC0415 - not on Windows

    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    signal.alarm(wall_s)  # also where nobody is left who waits
    spent_s = int(time.process_time()) + 1
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    space = (virtual_bytes() or 0) + min(memory_bytes, physical // 2)
    limits = (
        (resource.RLIMIT_CPU, spent_s + cpu_s),
        (resource.RLIMIT_AS, space),
        (resource.RLIMIT_FSIZE, 0),  # an ONNX graph writes nothing
        (resource.RLIMIT_CORE, 0),
    )
    for kind, most in limits:
        _, hard = resource.getrlimit(kind)
        # A limit that is stricter already stays.
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # macOS knows limits that it does not let anybody set.
        with suppress(ValueError, OSError):
            # SIGXCPU, which says why, comes at the first of the two; SIGKILL would come at the second.
            resource.setrlimit(kind, (wanted, hard if kind == resource.RLIMIT_CPU else wanted))


def _try(path: Path, found: dict[str, str]) -> None:
    try:
        found["digest"] = load_bundle(path, trial=None).manifest.digest
    except BundleError as error:
        found["refused"] = str(error)
    except MemoryError:
        found["refused"] = f"bundle {path}: it takes more memory than any honest one; do not use it"


def _main(path: str, cpu_s: str, wall_s: str, memory_bytes: str) -> None:
    _limit_this_process(int(cpu_s), int(wall_s), int(memory_bytes))
    found: dict[str, str] = {}
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_try, args=(Path(path), found))
    thread.start()
    thread.join()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
