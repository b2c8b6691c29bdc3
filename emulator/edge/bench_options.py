"""The command line of `sheafedge bench`, the same with and without the libraries of training; no heavy imports."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..contracts import ConfigError
from .parser import OneSentenceParser

DEFAULT_SECONDS = 10.0

#: More than any device has; beyond them lies a slip of the finger.
MOST_THREADS, MOST_BATCH = 256, 4096


def bench_options(arguments: Sequence[str]) -> argparse.Namespace:
    """What is asked for.

    Raises:
        ConfigError: an argument is missing, unknown or impossible, or does not go with another.
    """
    wanted = _parser().parse_args(arguments)
    _check(wanted)
    return wanted


def _parser() -> argparse.ArgumentParser:
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


def _check(wanted: argparse.Namespace) -> None:
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
