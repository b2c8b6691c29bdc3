"""Options of the commands of an edge device, read by Python's own parser; no heavy imports.

Where all of sheafedge is installed, the same parsers are behind its command line.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ...contracts import ConfigError
from ..serving.serving_settings import ServingSettings

DEFAULT_ADDRESS = "tcp://127.0.0.1:5570"
_SETTINGS = ServingSettings()
#: Measuring time of `bench`, all contenders together.
DEFAULT_SECONDS = 10.0
#: More than any device has; beyond them lies a slip of the finger.
MOST_THREADS, MOST_BATCH = 256, 4096
#: Command -> what it does, in one line.
SUMMARIES: Mapping[str, str] = {
    "serve": "Serve a bundle: sensor frames in, answers out.",
    "bench": "Measure how fast a bundle answers here, beside its other precisions, torch, and other devices.",
    "verify": "Check that a bundle is whole and answers here as it should.",
}


class OneSentenceParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, as all commands here do.

    Args:
        command: a name of `SUMMARIES`.
    """

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"sheafedge {command}", description=SUMMARIES[command], allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def bench_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Options of `bench`.

    Raises:
        ConfigError: an argument is missing, unknown or impossible, or does not go with another.
    """
    wanted = _bench_parser().parse_args(arguments)
    _check_bench(wanted)
    return wanted


def _bench_parser() -> argparse.ArgumentParser:
    parser = OneSentenceParser("bench")
    add = parser.add_argument
    add(
        "bundles", nargs="+", type=Path, metavar="BUNDLE", help="folder or .zip; of one, other precisions beside it too"
    )
    add("--threads", type=int, default=1, help="inside one answer, on a CPU (1)")
    add("--batch", type=int, default=1, help="samples per call (1)")
    add("--seconds", type=float, help=f"measure for so long, all together ({DEFAULT_SECONDS:g})")
    add("--repeats", type=int, help="or: so many calls of each at least")
    add("--cuda", action="store_true", help="on a GPU if that can be; the table says what really ran")
    add("--no-memory", action="store_true", help="start no extra processes that measure memory and session start")
    add("--no-torch", action="store_true", help="leave torch out")
    add("--devices", default="", help="all, or names or profile files with commas: what it would take there, modelled")
    add("--save-profile", type=Path, metavar="FILE.toml", help="write a device profile of this machine")
    add("--name", help="of that device (the file's)")
    add("--power-w", type=float, help="what that device draws while computing, for energy; a meter tells")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def _check_bench(wanted: argparse.Namespace) -> None:
    for field, most in (("threads", MOST_THREADS), ("batch", MOST_BATCH)):
        if not 1 <= getattr(wanted, field) <= most:
            raise ConfigError(f"--{field} must be from 1 to {most}, got {getattr(wanted, field)}")
    if wanted.seconds is not None and wanted.repeats is not None:
        raise ConfigError("give --seconds or --repeats, not both")
    for field in ("seconds", "repeats", "power_w"):
        found = getattr(wanted, field)
        if found is not None and not 0 < found < 1e6:
            raise ConfigError(f"--{field.replace('_', '-')} must be above 0 and below 1e6, got {found:g}")
    _check_profile(wanted)


def _check_profile(wanted: argparse.Namespace) -> None:
    if wanted.save_profile is None:
        if wanted.name is not None or wanted.power_w is not None:
            raise ConfigError("--name and --power-w are about the device of --save-profile FILE.toml; add that")
        return
    if wanted.power_w is None:
        raise ConfigError("--save-profile needs --power-w, what the device draws while computing; a meter tells")
    if wanted.save_profile.suffix != ".toml":
        raise ConfigError(f"--save-profile must end in .toml, got {wanted.save_profile}; scenarios know files by that")
    if wanted.save_profile.exists():
        raise ConfigError(f"device profile {wanted.save_profile} is there already; give another name, or remove it")
    if wanted.cuda:
        raise ConfigError("--save-profile describes CPUs; leave --cuda out")


def serve_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Options of `serve`.

    Raises:
        ConfigError: an argument is missing, unknown or impossible.
    """
    chosen = _serve_parser().parse_args(arguments)
    _check_serve(chosen)
    return chosen


def _serve_parser() -> OneSentenceParser:
    parser = OneSentenceParser("serve")
    add, default = parser.add_argument, _SETTINGS
    add("bundle", type=Path, help="folder or .zip that sheafedge export made")
    add("--bind", default=DEFAULT_ADDRESS, help="tcp://HOST:PORT or ipc://FILE (default: %(default)s)")
    add("--keys", type=Path, help="folder of keys, as made by sheafedge keys; needed beyond this host")
    add("--metrics", metavar="[HOST:]PORT", help="show /metrics (Prometheus) and /healthz there, over HTTP")
    add(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="look so often for a new bundle at the same path; SIGHUP asks, too",
    )
    add("--threads", type=int, default=1, help="of the model, on a CPU (default: %(default)s)")
    add("--cuda", action="store_true", help="run the model on a GPU if that can be")
    add("--batch", type=int, default=default.batch, help="most answers of one run of the model (default: %(default)s)")
    add(
        "--hold",
        type=int,
        default=default.hold,
        help="frames lost in a row that the one before stands in for (%(default)s)",
    )
    add("--waiting", type=int, default=default.waiting, help="questions of one stream that may wait (%(default)s)")
    add("--waiting-in-all", type=int, default=default.waiting_in_all, help="of all streams (%(default)s)")
    add("--streams", type=int, default=default.streams, help="most streams at once (default: %(default)s)")
    add(
        "--idle",
        type=float,
        default=default.idle_s,
        help="seconds of silence after which a stream gives way (%(default)s)",
    )
    add("--finish", type=float, default=default.finish_s, help="longest end, in seconds (default: %(default)s)")
    return parser


def _check_serve(chosen: argparse.Namespace) -> None:
    if not 1 <= chosen.threads <= 1024:
        raise ConfigError(f"--threads must be 1 to 1024, got {chosen.threads}")
    if chosen.watch is not None and not 0.0 < chosen.watch < threading.TIMEOUT_MAX:
        raise ConfigError(
            f"--watch must be a time in seconds above 0, got {chosen.watch:g}; 5 looks every five seconds"
        )
