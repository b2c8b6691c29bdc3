"""A world and its seed as one TOML file: what decides the bytes of a recording."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import tomli_w
from pydantic import Field

from ...emulator.contracts import ConfigError, ScenarioError
from ...emulator.regular_file import is_regular
from ...emulator.world.trees import NO_TREES
from ...emulator.world.weather import CLEAR
from ..scenario_files.layered_file import LayeredFile, read_layers
from ..schema.section import Section
from ..schema.toml_file import parsed_toml
from ..schema.wording import one_sentence, shown
from ..schema.world_section import ON_REQUEST, SHIPPED, WORLDS, WorldSection


class _Tables(Section):
    """Parts of a scenario file that decide a recording."""

    seed: Annotated[int, Field(ge=0, lt=1 << 63, strict=True)] = 0
    world: WorldSection


@dataclass(frozen=True, slots=True)
class WorldFile:
    """A world and the seed that makes it one of many.

    Attributes:
        section: settings of the world.
        seed: root seed of the world.
    """

    section: WorldSection
    seed: int

    def text(self) -> str:
        """TOML with everything that decides a recording; `parse_world` gives the same value back."""
        # Their settings decide nothing here, and files of worlds without them keep the bytes that they had.
        left_out = {str(modality) for modality in ON_REQUEST.difference(self.section.recorded)}
        if self.section.weather == CLEAR:
            left_out.add("weather")
        left_out |= set() if self.section.tracks.file else {"tracks"}
        if self.section.kind == "sky":
            left_out |= {"blockage", "bounce_pairs"}
        if not self.section.link_rate_hz:
            left_out.add("link_rate_hz")
        if self.section.trees == NO_TREES:
            left_out.add("trees")
        if self.section.radio_engine == "rays":
            left_out.add("radio_engine")
        if not self.section.doppler:
            left_out.add("doppler")
        world = self.section.model_dump(mode="json", exclude=left_out)
        if not self.section.sweep.duration_s:
            del world["sweep"]["duration_s"]
        return tomli_w.dumps({"seed": self.seed, "world": world})


def parse_world(text: str, source: str) -> WorldFile:
    """A world from TOML text; tables of a scenario other than `[world]` are left to others.

    Args:
        text: TOML.
        source: how messages name it.

    Raises:
        ConfigError: no TOML, no `[world]`, or an impossible value.
    """
    return _world(parsed_toml(text, source), source)


def load_world(name_or_path: str, edits: Mapping[str, Any] | None = None) -> WorldFile:
    """A world by name ("street", "sky"), the world of a shipped scenario, or a TOML file by path.

    Args:
        name_or_path: which.
        edits: dotted keys below `world`, and `seed`, such as {"world.n_sites": 3}.

    Raises:
        ConfigError: no such world, not TOML, or a key or value that does not fit.
    """
    if name_or_path in WORLDS:
        layers, tree = None, {"world": dict(WORLDS[name_or_path])}
    else:
        layers = _read(name_or_path)
        tree = copy.deepcopy(dict(layers.tables))
    for key, value in (edits or {}).items():
        _edit(tree, key, value)
    try:
        return _world(tree, name_or_path)
    except ScenarioError as errors:
        if layers is None or edits:  # of an edit, no file is to blame
            raise
        raise layers.located(errors.sentences) from None


def _read(name_or_path: str) -> LayeredFile:
    shipped = SHIPPED / f"{name_or_path}.toml"
    # a plain name first means a shipped scenario; a path with folders never does
    path = shipped if Path(name_or_path).name == name_or_path and is_regular(shipped) else Path(name_or_path)
    if not is_regular(path):
        raise ConfigError(
            f"unknown world {shown(name_or_path)}; give a TOML file, a scenario, or one of: {', '.join(WORLDS)}"
        )
    return read_layers(path, {one.stem: one for one in SHIPPED.glob("*.toml")})


def _edit(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    if key != "seed" and parents[:1] != ["world"]:
        raise ConfigError(f"{key} does not change a recording; set seed or a field of world, such as world.{last}")
    table: Any = tree
    for part in parents:
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f"{key} is not a known field; {'.'.join(parents)} holds no fields")
    table[last] = value


def _world(tree: Mapping[str, Any], source: str) -> WorldFile:
    if not isinstance(tree.get("world"), Mapping):
        raise ConfigError(f'{source} describes no world; add a table [world], such as kind = "street"')
    try:
        tables = _Tables.model_validate({name: tree[name] for name in _Tables.model_fields if name in tree})
    except pydantic.ValidationError as error:
        raise ScenarioError([one_sentence(error, _Tables)]) from None
    return WorldFile(tables.world, tables.seed)
