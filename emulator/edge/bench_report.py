"""What `sheafedge bench` found: as text for people, as JSON for programs, and as a device profile of this machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from ..contracts import ConfigError
from .bench import QUIET, Latency, Ratio
from .bench_bundles import Entry, Workload
from .device_profiles import REFERENCE, AnswerCost, DeviceProfile
from .footprint import Footprint

#: How this machine is called among devices.
HERE = "here"

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One contender.

    Attributes:
        label: label of the row.
        precision: precision of its numbers.
        runtime: library and release.
        provider: execution provider that really ran it.
        latency: latency of a batch.
        against_first: its time as a multiple of the first row's.
        model_bytes: size of the model's file; None where there is none.
        footprint: None where it was not measured.
    """

    label: str
    precision: str
    runtime: str
    provider: str
    latency: Latency
    against_first: Ratio
    model_bytes: int | None = None
    footprint: Footprint | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything of one run of `sheafedge bench`.

    Attributes:
        name: name of the first bundle.
        machine: see `machine_facts`.
        threads, batch: threads inside an answer, and samples per call.
        flops, input_bytes: work and inputs of one batch of the first bundle.
        rows: contenders.
        not_measured: name -> why a contender is not among them.
        devices: modelled times and energies, see `device_rows`.
    """

    name: str
    machine: Mapping[str, Any]
    threads: int
    batch: int
    flops: float
    input_bytes: float
    rows: Sequence[Row]
    not_measured: Mapping[str, str] = field(default_factory=dict)
    devices: Sequence[Mapping[str, Any]] = ()

    @property
    def taken_by_others(self) -> float:
        """Largest share of the wall time of a contender in which this process was not served."""
        return max(row.latency.taken_by_others for row in self.rows)

    def as_json(self) -> str:
        """One JSON object."""
        # NaN is no JSON, and programs read this.
        return json.dumps(asdict(self), indent=1, allow_nan=False)

    def as_text(self) -> str:
        """Tables, with a word about whatever must be known to read them."""
        counted = f"{self.flops / 1e6:.3g} MFLOP, {self.input_bytes / 1e3:.3g} kB of inputs per call"
        asked = f"{self.threads} thread{'s' * (self.threads > 1)}, batch {self.batch}"
        parts = [f"{self.name}: {counted}; {asked}; {self.machine['cpu']}", "", *_latency_table(self.rows)]
        if any(row.footprint for row in self.rows):
            parts += ["", *_memory_table(self.rows)]
        parts += [f"{name}: {reason}" for name, reason in self.not_measured.items()]
        if self.taken_by_others > QUIET:
            said = f"While this ran, other programs had up to {self.taken_by_others:.0%} of the time:"
            parts += ["", f"{said} that is in the percentiles and answers/s, not in CPU ms."]
        if self.devices:
            parts += ["", *_device_table(self.devices)]
        return "\n".join(parts)


def machine_facts() -> dict[str, Any]:
    """Facts about this machine that decide its speed, and its present load."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        # `os.getloadavg` is missing on Windows.
        "load_average_1_min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": onnxruntime.__version__,
    }


def device_rows(
    entries: Sequence[Entry], devices: Sequence[DeviceProfile], measured: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Modelled times of a batch on other devices, below the measured ones.

    Args:
        entries: entries that were measured.
        devices: others.
        measured: label -> seconds here.

    Returns:
        one row per device and entry: device, kind, label, seconds, joules at most (the whole board's power; None where
        that is not known), source.
    """
    if not devices:
        return []
    here = {"device": HERE, "kind": "measured", "joules": None, "source": "this run"}
    rows: list[dict[str, Any]] = [{**here, "label": one.label, "seconds": measured[one.label]} for one in entries]
    for device in devices:
        for entry in entries:
            seconds = entry.workload.seconds_on(device, entry.precision)
            rows.append(
                {
                    "device": device.name,
                    "kind": device.kind,
                    "label": entry.label,
                    "seconds": seconds,
                    "joules": seconds * device.power_w,
                    "source": device.source,
                }
            )
    return rows


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _latency_table(rows: Sequence[Row]) -> list[str]:
    first = rows[0].label
    heading = ["", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "answers/s", f"x {first}", "10-90 %", "calls", "provider"]
    return aligned([heading, *(_latency_cells(row) for row in rows)])


def _latency_cells(row: Row) -> list[str]:
    found, against = row.latency, row.against_first
    return [
        row.label,
        f"{found.p50_ms:.3f}",
        f"{found.p95_ms:.3f}",
        "-" if found.p99_ms is None else f"{found.p99_ms:.3f}",
        f"{found.cpu_ms:.3f}",
        f"{found.answers_per_s:.0f}",
        f"{against.median:.2f}",
        f"{against.low:.2f}-{against.high:.2f}",
        str(found.n),
        row.provider,
    ]


def _memory_table(rows: Sequence[Row]) -> list[str]:
    heading = ["", "model kB", "start ms", "first answer ms", "MiB for the session", "MiB at most", "runtime"]
    return aligned([heading, *(_memory_cells(row) for row in rows)])


def _memory_cells(row: Row) -> list[str]:
    found = row.footprint
    return [
        row.label,
        "-" if row.model_bytes is None else f"{row.model_bytes / 1e3:.0f}",
        "-" if found is None else f"{found.start_s * 1e3:.1f}",
        "-" if found is None else f"{found.first_answer_s * 1e3:.1f}",
        _mebibytes(None if found is None else found.load_bytes),
        _mebibytes(None if found is None else found.peak_bytes),
        row.runtime,
    ]


def _mebibytes(found: int | None) -> str:
    return "-" if found is None else f"{found / _MEBIBYTE:.1f}"


def _device_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    labels = list(dict.fromkeys(row["label"] for row in rows))
    table = [["one core of", "", *(text for label in labels for text in (f"{label} ms", "mJ at most"))]]
    for device in dict.fromkeys(row["device"] for row in rows):
        own = [row for row in rows if row["device"] == device]
        cells = [text for row in own for text in (f"{row['seconds'] * 1e3:.3g}", _millijoules(row["joules"]))]
        table.append([device, own[0]["kind"], *cells])
    return [*aligned(table), "Energy counts the power of the whole board with all cores busy."]


def _millijoules(found: float | None) -> str:
    return "-" if found is None else f"{found * 1e3:.3g}"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(named, "") or platform.processor() or platform.machine()


class Measured(NamedTuple):
    """Time of one call that was measured.

    Attributes:
        precision: precision of the model.
        workload: work of the call.
        seconds: measured time of the call.
    """

    precision: str
    workload: Workload
    seconds: float


def calibrated(name: str, power_w: float, calls: Sequence[Measured], measured_on: str) -> DeviceProfile:
    """The reference machine, slowed by what was measured here; one factor per precision.

    With bundles of several sizes the factor is the geometric mean of theirs, and `source` states their spread.

    Args:
        name: name of the device.
        power_w: power that the device draws.
        calls: measured calls, one per bundle; one of them float32.
        measured_on: machine and software, for people.

    Raises:
        ConfigError: no float32 bundle is among them.
    """
    factors = _factors(calls)
    if "float32" not in factors:
        raise ConfigError("--save-profile needs a float32 bundle, against which the others count; name one too")
    known = {cost.precision: cost for cost in REFERENCE.answers}
    # Geometric, because factors multiply: twice as fast and half as fast cancel out.
    means = {precision: float(np.exp(np.mean(np.log(found)))) for precision, found in factors.items()}
    whole = REFERENCE.slowed(means["float32"])
    answers = tuple(_scaled(known[precision], means[precision]) for precision in known if precision in means)
    spread = ", ".join(f"{one} {min(found):.2f}-{max(found):.2f}" for one, found in sorted(factors.items()))
    source = f"measured: {measured_on}; times of {REFERENCE.name}: {spread} ({len(calls)} bundles); training by float32"
    return replace(whole, name=name, power_w=power_w, source=source, kind="measured", answers=answers)


def _factors(calls: Sequence[Measured]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for call in calls:
        expected_s = call.workload.seconds_on(REFERENCE, call.precision)
        found.setdefault(call.precision, []).append(call.seconds / expected_s)
    return found


def _scaled(cost: AnswerCost, factor: float) -> AnswerCost:
    (slower,) = replace(REFERENCE, answers=(cost,)).slowed(factor).answers
    return slower
