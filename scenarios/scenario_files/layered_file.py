"""A file and what it builds on: `base = "blockage"` takes from there what the file does not set itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ...emulator.contracts import ConfigError, ScenarioError
from ...emulator.plugin_sources import placed
from ...emulator.regular_file import is_regular, quoted, shown
from ..schema.toml_file import read_toml
from .key_places import key_lines

#: Field of a file that names the scenario it builds on.
BASE = "base"
_MOST_LAYERS = 16
_KEY = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")


class Place(NamedTuple):
    """Where a value is written: file, and line from 1 on."""

    path: Path
    line: int


def _with_placed_plugins(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Tables whose plugins have paths that hold from anywhere: they are relative to the file that lists them."""
    listed = tables.get("plugins")
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return tables
    return {**tables, "plugins": placed(listed, path.parent)}


@dataclass(frozen=True)
class Layering:
    """How files of one kind build on each other; the default is that of scenarios.

    Attributes:
        placed: (tables of a file, its path) -> the same, with paths in them that hold from anywhere.
        not_inherited: what a file does not take from its base; every file has a name of its own.
        replaced: tables that come whole from one file, the uppermost that has them; all others are merged.
    """

    placed: Callable[[dict[str, Any], Path], dict[str, Any]] = _with_placed_plugins
    not_inherited: frozenset[str] = frozenset({"name"})
    replaced: frozenset[str] = frozenset()


SCENARIO_LAYERING = Layering()


@dataclass(frozen=True)
class LayeredFile:
    """Tables of a file, with those of its bases where it does not set them.

    Attributes:
        tables: all of them, without `base`.
        paths: the file, its base, the base of that.
        layering: how they build on each other.
    """

    tables: Mapping[str, Any]
    paths: tuple[Path, ...]
    layering: Layering = SCENARIO_LAYERING

    @cached_property
    def _places(self) -> dict[str, Place]:
        """Dotted key -> where it is written, in the file that decides it."""
        found: dict[str, Place] = {}
        for path in self.paths:
            lines = _lines_of(path)
            # the items of a list are one value: all of them come from one file, as do tables that are replaced
            above = [key for key, place in found.items() if place.path != path]
            whole = {key for key in above if f"{key}.0" in found}
            whole |= {table for table in self.layering.replaced if any(_is_in(key, table) for key in above)}
            for key, line in lines.items():
                if path != self.paths[0] and key in {BASE, *self.layering.not_inherited}:
                    continue
                if not any(_is_in(key, one) for one in whole):
                    found.setdefault(key, Place(path, line))
        return found

    def place_of(self, key: str) -> Place | None:
        """Where a dotted key is written, or the innermost table around it; None: nowhere."""
        while key:
            if key in self._places:
                return self._places[key]
            key = key.rpartition(".")[0]
        return None

    def sets(self, key: str) -> bool:
        """Whether a dotted key is written in one of the files."""
        return key in self._places

    def located(self, sentences: Iterable[str]) -> ScenarioError:
        """Complaints with file and line of the first field that each of them names."""
        return ScenarioError([f"{self._place_named(sentence)}: {sentence}" for sentence in sentences])

    def _place_named(self, sentence: str) -> str:
        for match in _KEY.finditer(sentence):
            key = match[0]
            # single words of a sentence are fields only where it begins: "rounds must be ..", "unknown task .."
            is_named = "." in key or sentence[: match.start()] in ("", "unknown ")
            if is_named and (place := self.place_of(key)):
                return self.told(place)
        return shown(self.paths[0])

    def told(self, place: Place) -> str:
        """A place as complaints begin with it: file and line, behind the file that builds on it."""
        if place.path == self.paths[0]:
            return f"{shown(place.path)}:{place.line}"
        return f"{shown(self.paths[0])}, {BASE} {shown(place.path.name)}:{place.line}"


def _is_in(key: str, table: str) -> bool:
    """Whether a dotted key is a table, or lies in it."""
    return key == table or key.startswith(f"{table}.")


def _lines_of(path: Path) -> dict[str, int]:
    """Dotted key -> line, of a file that has been read as TOML before."""
    return key_lines(path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n"))


def read_layers(path: Path, shipped: Mapping[str, Path], layering: Layering = SCENARIO_LAYERING) -> LayeredFile:
    """A file with all that it builds on.

    Args:
        path: of the file.
        shipped: name -> file that a base may name, besides those beside it.
        layering: how files of this kind build on each other.

    Raises:
        ConfigError: a file that cannot be read, or bases that lead back to a file.
    """
    layers: list[dict[str, Any]] = []
    paths: list[Path] = []
    following: Path | None = path
    while following is not None:
        paths.append(following)
        is_circle = following.resolve() in [one.resolve() for one in paths[:-1]]
        if is_circle or len(paths) > _MOST_LAYERS:
            how = "in a circle" if is_circle else f"through more than {_MOST_LAYERS} files"
            chain = " -> ".join(shown(one) for one in paths)
            raise ConfigError(f"{BASE} leads {how}: {chain}; the last file of a chain must name no {BASE}")
        tables = read_toml(following)
        layers.append(layering.placed(tables, following))
        following = _base_of(tables, following, shipped)
    merged: dict[str, Any] = {}
    for depth, tables in reversed(list(enumerate(layers))):
        left_out = {BASE, *(layering.not_inherited if depth else ())}
        below = {key: value for key, value in merged.items() if key not in layering.replaced & tables.keys()}
        merged = _merged(below, {key: value for key, value in tables.items() if key not in left_out})
    return LayeredFile(merged, tuple(paths), layering)


def _base_of(tables: Mapping[str, Any], path: Path, shipped: Mapping[str, Path]) -> Path | None:
    """File of the base; None: the file builds on nothing."""
    if BASE not in tables:
        return None
    name = tables[BASE]
    if isinstance(name, str) and name in shipped:
        return shipped[name]
    if isinstance(name, str) and name and is_regular(path.parent / name):
        return path.parent / name
    or_shipped = f" or one of {', '.join(shipped)}" if shipped else ""
    raise ConfigError(
        f"{shown(path)}:{_lines_of(path).get(BASE, 1)}: {BASE} must name a TOML file beside this one{or_shipped},"
        f" got {quoted(name)}"
    )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of two files: tables are merged, all other values of the upper one replace those of the lower."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = _merged(below[key], above[key])
    return both
