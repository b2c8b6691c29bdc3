"""Check of settings whose numbers must lie in ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any, ClassVar, Protocol

from .contracts import ConfigError


class _Settings(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def check_ranges(section: str, settings: _Settings, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Refuse the first field that lies outside its range; fields without a range may hold anything.

    Args:
        section: name of the settings in a scenario, such as "lidar".
        settings: a dataclass.
        ranges: field -> lowest and highest value, both allowed.

    Raises:
        ConfigError: names the field, its range and its value.
    """
    for name in (field.name for field in fields(settings) if field.name in ranges):
        value, (low, high) = getattr(settings, name), ranges[name]
        if not low <= value <= high:  # NaN fails too
            raise ConfigError(f"{section}.{name} must lie in [{low:g}, {high:g}], got {value}")
