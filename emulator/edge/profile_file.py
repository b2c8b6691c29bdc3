"""Device profiles as tables of a scenario, and as files: what `sheafedge bench --save-profile` writes.

Read without trust, because files travel: whatever is missing, unknown or of the wrong type is refused by name.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contracts import ConfigError
from ..whole_file import write_whole
from .device_profiles import DEVICE_PROFILES, AnswerCost, DeviceProfile
from .precisions import PRECISIONS

_MOST_BYTES = 1 << 16
_LONGEST_SOURCE = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
#: Field -> smallest and largest value; far below and far above every device that there is.
_NUMBERS = {"flops_per_s": (1e3, 1e18), "overhead_s": (0.0, 1e3), "power_w": (1e-3, 1e5)}
_COSTS = {
    "flops_per_s": (1e3, 1e18),
    "input_bytes_per_s": (1e3, 1e18),
    "weight_bytes_per_s": (1e3, 1e18),
    "overhead_s": (0.0, 1e3),
}


def profile_of(name: str, table: Mapping[str, Any]) -> DeviceProfile:
    """The device that a table describes.

    Args:
        name: name of the device in scenarios.
        table: flops_per_s, overhead_s, power_w, and optionally name, kind, source, answers.

    Raises:
        ConfigError: the first thing that is wrong with it.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"compute.profiles: {name[:80]!r} is no name of a device; use up to 64 letters, digits, '-', '_'"
        )
    # A file must not change the meaning of a scenario that names one of our devices.
    if name in DEVICE_PROFILES:
        raise ConfigError(
            f"compute.profiles: {name!r} is the name of a device that comes with sheafedge; choose another"
        )
    where = f"compute.profiles.{name}"
    _refuse_unknown(where, table, {*_NUMBERS, "name", "kind", "source", "answers"})
    if table.get("name", name) != name:
        raise ConfigError(f"{where}: its own name is {str(table['name'])[:80]!r}; call it so in both places")
    kind, source, answers = table.get("kind", "modelled"), table.get("source", "the scenario"), table.get("answers", {})
    if kind not in ("measured", "modelled"):
        raise ConfigError(f"{where}.kind must be 'measured' or 'modelled', got {str(kind)[:80]!r}")
    if not isinstance(source, str) or len(source) > _LONGEST_SOURCE:
        raise ConfigError(
            f"{where}.source must be a text of at most {_LONGEST_SOURCE} characters; say where figures are from"
        )
    if not isinstance(answers, Mapping):
        raise ConfigError(f"{where}.answers must hold tables such as answers.float32, got {str(answers)[:80]!r}")
    _refuse_unknown(f"{where}.answers", answers, set(PRECISIONS))
    numbers = {field: _number(where, table, field, limits) for field, limits in _NUMBERS.items()}
    costs = tuple(_cost(f"{where}.answers.{one}", one, answers[one]) for one in PRECISIONS if one in answers)
    return DeviceProfile(name, **numbers, source=source, kind=kind, answers=costs)


def read_profile(path: Path) -> DeviceProfile:
    """The device that a file describes; the file must name it.

    Raises:
        ConfigError: it cannot be read, or describes none.
    """
    table = read_table(path)
    name = table.get("name")
    if not isinstance(name, str):
        raise ConfigError(f'device profile {path} has no name; write name = "..." at its top')
    try:
        return profile_of(name, table)
    except ConfigError as error:
        raise ConfigError(f"device profile {path}: {error}") from None


def read_table(path: Path) -> dict[str, Any]:
    """Tables of a profile file, not checked further.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        with path.open("rb") as stream:
            # One byte more than allowed shows that there is more, without reading all of it.
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it is longer than {_MOST_BYTES} bytes")
        return tomllib.loads(content.decode())
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).splitlines())[:200] or type(error).__name__
        raise ConfigError(
            f"device profile {path} cannot be read ({reason}); give a file that sheafedge bench --save-profile wrote"
        ) from None


def profile_table(profile: DeviceProfile) -> dict[str, Any]:
    """The table of a device, as files and scenarios hold it."""
    table: dict[str, Any] = {
        "name": profile.name,
        "kind": profile.kind,
        "source": profile.source,
        **{field: getattr(profile, field) for field in _NUMBERS},
    }
    if profile.answers:
        costs = {cost.precision: {field: getattr(cost, field) for field in _COSTS} for cost in profile.answers}
        table["answers"] = costs
    return table


def write_profile(path: Path, profile: DeviceProfile) -> None:
    """Write a device's file, all or nothing; one that is there is left alone.

    Raises:
        ConfigError: there is a file already, it cannot be written, or it could not be read back.
    """
    if path.exists():
        raise ConfigError(f"device profile {path} is there already; give another name, or remove it")
    table = profile_table(profile)
    # Read back before writing, so that no file is made that no scenario could use.
    profile_of(profile.name, table)
    answers = table.pop("answers", {})
    lines = [
        *_lines(table),
        *(line for one, cost in answers.items() for line in ("", f"[answers.{one}]", *_lines(cost))),
    ]
    try:
        write_whole(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise ConfigError(f"device profile {path} cannot be written ({error}); give another place") from None


def _lines(table: Mapping[str, Any]) -> list[str]:
    """TOML of plain values: a string of JSON is one of TOML too, once it holds no control characters."""
    return [
        f"{key} = {json.dumps(''.join(filter(str.isprintable, value)), ensure_ascii=False)}"
        if isinstance(value, str)
        else f"{key} = {float(value)!r}"
        for key, value in table.items()
    ]


def _cost(where: str, precision: str, table: Any) -> AnswerCost:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, got {str(table)[:80]!r}")
    _refuse_unknown(where, table, set(_COSTS))
    return AnswerCost(precision, **{field: _number(where, table, field, limits) for field, limits in _COSTS.items()})


def _refuse_unknown(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(str(key) for key in table if key not in known):
        raise ConfigError(f"{where}.{unknown[0][:80]} is not a known field; known: {', '.join(sorted(known))}")


def _number(where: str, table: Mapping[str, Any], field: str, limits: tuple[float, float]) -> float:
    low, high = limits
    if field not in table:
        raise ConfigError(f"{where}.{field} is missing; give a number from {low:g} to {high:g}")
    value = table[field]
    if type(value) not in {int, float} or not low <= value <= high:  # not a number is on neither side
        raise ConfigError(f"{where}.{field} must be a number from {low:g} to {high:g}, got {str(value)[:80]!r}")
    return float(value)
