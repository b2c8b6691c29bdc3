"""`sheafedge bench`: how fast a bundle answers on this machine, beside its other precisions and other devices.

Needs no more than a device has; where torch is installed, the caller hands in a way to rebuild the model with it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from ...contracts import ConfigError
from ..bench import QUIET, ClockName, Contender, Times, latency, ratio, take_turns
from ..bench_bundles import Entry, open_entries
from ..bench_report import Measured, Report, Row, calibrated, device_rows, machine_facts
from ..bundle_files import MODEL_FILE
from ..device_profiles import BOARDS, DeviceProfile
from ..footprint import footprint_of
from ..profile_file import read_profile, write_profile
from .command_options import DEFAULT_SECONDS, bench_options


@dataclass(frozen=True, slots=True)
class TorchModel:
    """The same model in the library that trained it.

    Attributes:
        runtime: library and release.
        provider: where it computes, as text.
        answer: one batch.
    """

    runtime: str
    provider: str
    answer: Callable[[], object]


#: Rebuilds the model of an entry, given the number of threads; or returns the reason why that cannot be.
Rebuild = Callable[[Entry, int], "TorchModel | str"]

TORCH = "torch"


def without_torch(_entry: Entry, _threads: int) -> TorchModel | str:
    """Answer of an installation without torch."""
    return "not installed"


#: Even processor time is longer while others use the caches and the other half of a core.
_CONTENDED = ", but of a machine that other programs used meanwhile; its source says so; measure again when it is idle"


def bench(arguments: Sequence[str], rebuild: Rebuild = without_torch) -> str:
    """The command.

    Args:
        arguments: arguments of the command line, without the name of the command.
        rebuild: function that rebuilds the float32 model in torch.

    Returns:
        what is to be printed.

    Raises:
        SheafedgeError: an argument is wrong, a bundle is damaged, or a profile cannot be written.
    """
    wanted = bench_options(arguments)
    devices = _devices(wanted.devices)
    entries = open_entries(wanted.bundles, batch=wanted.batch, threads=wanted.threads, cuda=wanted.cuda)
    machine = machine_facts()
    torch = _torch(entries, wanted, rebuild)
    times = _times(entries, torch, wanted)
    # Profiles are of the same clock as the ratios of the table.
    by = _clock(entries, wanted.threads)
    seconds = {label: float(np.median(found.cpu_s if by == "cpu" else found.wall_s)) for label, found in times.items()}
    report = Report(
        name=entries[0].bundle.manifest.name,
        machine=machine,
        threads=wanted.threads,
        batch=wanted.batch,
        flops=entries[0].workload.flops,
        input_bytes=entries[0].workload.input_bytes,
        rows=_rows(entries, torch, times, wanted, by),
        not_measured={TORCH: torch} if isinstance(torch, str) else {},
        devices=device_rows(entries, devices, seconds),
    )
    busy = report.taken_by_others
    if wanted.save_profile is not None:
        said = f"{machine['cpu']}, onnxruntime {onnxruntime.__version__}, {wanted.threads} threads, {by} time"
        said += f"; CONTENDED: other programs had up to {busy:.0%} of the time" * (busy > QUIET)
        name = wanted.name or wanted.save_profile.stem
        calls = [Measured(entry.precision, entry.workload, seconds[entry.label]) for entry in entries]
        write_profile(wanted.save_profile, calibrated(name, wanted.power_w, calls, said))
    text = report.as_json() if wanted.json else report.as_text()
    if wanted.save_profile is None or wanted.json:
        return text
    return f"{text}\n\nwrote {wanted.save_profile}{_CONTENDED * (busy > QUIET)}"


def _devices(asked: str) -> list[DeviceProfile]:
    if asked == "all":
        return list(BOARDS.values())
    found = []
    for name in filter(None, asked.split(",")):
        if name.endswith(".toml"):
            found.append(read_profile(Path(name)))
        elif name in BOARDS:
            found.append(BOARDS[name])
        else:
            raise ConfigError(
                f"unknown device {name[:80]!r} in --devices; choose among all, {', '.join(BOARDS)}, or a .toml file"
            )
    return found


def _times(entries: Sequence[Entry], torch: TorchModel | str, wanted: Namespace) -> dict[str, Times]:
    contenders = [entry.contender for entry in entries]
    if isinstance(torch, TorchModel):
        contenders.append(Contender(TORCH, torch.answer))
    seconds = None if wanted.repeats is not None else wanted.seconds or DEFAULT_SECONDS
    return take_turns(contenders, seconds=seconds, answers=wanted.repeats)


def _rows(
    entries: Sequence[Entry], torch: TorchModel | str, times: dict[str, Times], wanted: Namespace, by: ClockName
) -> list[Row]:
    first = times[entries[0].label]

    def figures(label: str) -> dict[str, Any]:
        return {"latency": latency(times[label], wanted.batch), "against_first": ratio(times[label], first, by)}

    rows = [_row(entry, wanted, figures(entry.label)) for entry in entries]
    if isinstance(torch, TorchModel):
        rows.append(Row(TORCH, "float32", torch.runtime, torch.provider, **figures(TORCH)))
    return rows


def _torch(entries: Sequence[Entry], wanted: Namespace, rebuild: Rebuild) -> TorchModel | str:
    if wanted.no_torch:
        return "left out"
    whole = next((entry for entry in entries if entry.precision == "float32"), None)
    return "no float32 bundle to rebuild" if whole is None else rebuild(whole, wanted.threads)


def _row(entry: Entry, wanted: Namespace, figures: dict[str, Any]) -> Row:
    model = entry.bundle.content[MODEL_FILE]
    found = None if wanted.no_memory else footprint_of(model, entry.inputs, threads=wanted.threads, cuda=wanted.cuda)
    runtime = f"onnxruntime {onnxruntime.__version__}"
    return Row(
        entry.label,
        entry.precision,
        runtime,
        entry.bundle.session.provider,
        **figures,
        model_bytes=len(model),
        footprint=found,
    )


def _clock(entries: Sequence[Entry], threads: int) -> ClockName:
    """Whose time ratios are of: the processor's is that of one answer only where one thread computes."""
    on_cpu = all(entry.bundle.session.provider == "CPUExecutionProvider" for entry in entries)
    return "cpu" if threads == 1 and on_cpu else "wall"
