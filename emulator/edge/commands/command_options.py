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
#: Of `serve` with a folder of versions: fifteen windows of 128 answers, one every 0.3 s as in shipped scenarios.
DEFAULT_TRIAL_S = 600.0
#: Measuring time of `bench`, all contenders together.
DEFAULT_SECONDS = 10.0
#: Larger values are treated as typing errors.
MOST_THREADS, MOST_BATCH = 256, 4096
#: Help of an option of `serve` and `verify`.
TRUSTED = "public key: refuse bundles that its owner has not signed (needs the extra [signing])"
#: Command -> summary of one line.
SUMMARIES: Mapping[str, str] = {
    "serve": "Serve a bundle: receive sensor frames over ZeroMQ, and answer with predictions.",
    "bench": "Measure latency and memory of a bundle on this machine; compare precisions, torch, and other devices.",
    "verify": "Check the hashes of a bundle, and its outputs on the test samples.",
}


class OneSentenceParser(argparse.ArgumentParser):
    """Argument parser that reports an error in one sentence, as all commands do.

    Args:
        command: a name of `SUMMARIES`.
    """

    def __init__(self, command: str) -> None:
        # No abbreviations: a script with one would break when another option begins alike.
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
        "bundles",
        nargs="+",
        type=Path,
        metavar="BUNDLE",
        help="folder or .zip of a bundle; of a single one, other precisions in its folder are included",
    )
    add("--threads", type=int, default=1, help="threads of the model on a CPU (1)")
    add("--batch", type=int, default=1, help="samples per call (1)")
    add("--seconds", type=float, help=f"total measuring time in seconds ({DEFAULT_SECONDS:g})")
    add("--repeats", type=int, help="smallest number of calls of each, in place of --seconds")
    add("--cuda", action="store_true", help="run on a GPU if possible; the table has the execution provider")
    add("--no-memory", action="store_true", help="do not measure memory and session start, which needs extra processes")
    add("--no-torch", action="store_true", help="do not measure torch")
    add("--devices", default="", help="all, or comma-separated names or profile files: estimate times on these devices")
    add("--save-profile", type=Path, metavar="FILE.toml", help="write a device profile of this machine")
    add("--name", help="name of that device (default: name of the file)")
    add("--power-w", type=float, help="measured power of that device while computing, for energy")
    add(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="plugin that the model was trained with, to rebuild it in torch; its code runs; repeatable",
    )
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
    # Its model of time is that of one core.
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
    add("bundle", type=Path, help="folder or .zip made by sheafedge export, or a folder of such: the newest is served")
    add("--bind", default=DEFAULT_ADDRESS, help="tcp://HOST:PORT or ipc://FILE (default: %(default)s)")
    add("--keys", type=Path, help="folder of CURVE keys, made by sheafedge keys; needed beyond this host")
    add("--trusted", type=Path, metavar="KEY", help=TRUSTED)
    add("--metrics", metavar="[HOST:]PORT", help="serve /metrics (Prometheus) and /healthz at this address over HTTP")
    add(
        "--http",
        metavar="[HOST:]PORT",
        help="answer whole inputs of the model by the Open Inference Protocol at this address over HTTP",
    )
    add(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="interval in seconds to check for a new bundle at the same path; SIGHUP checks at once",
    )
    add(
        "--trial",
        type=float,
        default=DEFAULT_TRIAL_S,
        metavar="SECONDS",
        help="of a folder of versions: a new one that makes streams drift within this time gives way to the one before;"
        " 0: never (%(default)s)",
    )
    add("--threads", type=int, default=1, help="threads of the model on a CPU (default: %(default)s)")
    add("--cuda", action="store_true", help="run the model on a GPU if possible")
    add("--batch", type=int, default=default.batch, help="largest batch of requests (default: %(default)s)")
    add(
        "--hold",
        type=int,
        default=default.hold,
        help="largest number of consecutive lost frames replaced by the last one (%(default)s)",
    )
    add(
        "--waiting",
        type=int,
        default=default.waiting,
        help="largest number of queued requests per stream (%(default)s)",
    )
    add(
        "--waiting-in-all",
        type=int,
        default=default.waiting_in_all,
        help="largest number of queued requests of all streams (%(default)s)",
    )
    add("--streams", type=int, default=default.streams, help="largest number of streams (default: %(default)s)")
    add(
        "--idle",
        type=float,
        default=default.idle_s,
        help="seconds without a packet after which a stream can be replaced (%(default)s)",
    )
    add(
        "--finish",
        type=float,
        default=default.finish_s,
        help="longest time in seconds to answer queued requests at shutdown (default: %(default)s)",
    )
    return parser


def _check_serve(chosen: argparse.Namespace) -> None:
    if not 1 <= chosen.threads <= MOST_THREADS:
        raise ConfigError(f"--threads must be from 1 to {MOST_THREADS}, got {chosen.threads}")
    if chosen.watch is not None and not 0.0 < chosen.watch < threading.TIMEOUT_MAX:
        raise ConfigError(
            f"--watch must be a time in seconds above 0, got {chosen.watch:g}; 5 looks every five seconds"
        )
