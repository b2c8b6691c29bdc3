"""What a comparison is: one frozen value that names a scenario, arms, seeds, and perhaps one field that varies.

An arm is a way to learn: edits of the scenario. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
import tomli_w
from pydantic import Field

from ...emulator.contracts import ConfigError
from ..schema.data_section import first_repeated
from ..schema.scenario import Scenario, load_scenario, shipped_scenarios
from ..schema.section import Section
from ..schema.toml_file import is_file, read_toml
from ..schema.wording import one_sentence, shown

#: Dotted key -> value, as `Scenario.edited` takes them.
Edits = dict[str, Any]


def _flat(tables: object) -> object:
    """Tables inside tables as dotted keys: [set.data] images = "views" means the same as "data.images" = "views"."""
    return dict(_flat_items(tables)) if isinstance(tables, Mapping) else tables


def _flat_items(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", nested) for inner, nested in _flat_items(value))
        else:
            yield key, value


FlatEdits = Annotated[Edits, pydantic.BeforeValidator(_flat)]
#: Dotted key -> values to try.
FlatValues = Annotated[dict[str, tuple[Any, ...]], pydantic.BeforeValidator(_flat)]


class Tuning(Section):
    """How settings of arms were searched for; a record, not an order.

    Attributes:
        grid: key -> values, every combination of which was tried for every arm.
        seeds: of the search.
        scored: what the choice was made on; never test rows.
    """

    grid: FlatValues
    seeds: tuple[int, ...]
    scored: str = "validation"


class Comparison(Section):
    """Everything that decides a comparison.

    Attributes:
        name: of its folder.
        scenario: name of a shipped one, or a TOML file.
        seeds: every arm is run with each.
        reference: arm that the others are compared with, seed by seed; empty: none.
        edits: of every arm; the table `[set]` of a file.
        arms: name -> edits that make it what it is; they come after those of every arm.
        vary: one key -> its values; every arm is run with each. Empty: nothing varies.
        tuning: how the arms' settings were chosen, where they were.
    """

    name: Annotated[str, Field(min_length=1)]
    scenario: str
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=1 << 63)], ...], Field(min_length=1)] = (0, 1, 2)
    reference: str = ""
    edits: FlatEdits = Field(default_factory=dict, alias="set")
    arms: Annotated[dict[str, FlatEdits], Field(min_length=1)]
    vary: FlatValues = Field(default_factory=dict)
    tuning: Tuning | None = None

    @pydantic.model_validator(mode="after")
    def _seeds_differ(self) -> Self:
        if (again := first_repeated(self.seeds)) is not None:
            raise ConfigError(f"seeds lists {again} twice; list each seed once")
        if any("seed" in edits for edits in [self.edits, self.vary, *self.arms.values()]):
            raise ConfigError("seed cannot be edited in a comparison; list seeds = [...] or use --seeds")
        return self

    @pydantic.model_validator(mode="after")
    def _varies_one_thing(self) -> Self:
        if len(self.vary) > 1:
            raise ConfigError(f"vary takes one key, got {', '.join(self.vary)}; make a comparison of each")
        for key, values in self.vary.items():
            if not values or first_repeated(values) is not None:
                raise ConfigError(f"vary: {key} needs different values, got {shown(list(values))}")
            if arm := next((arm for arm, edits in self.arms.items() if key in edits), None):
                raise ConfigError(f"arm {arm!r} sets {key}, which vary is to change; leave it out of one of them")
        return self

    @pydantic.model_validator(mode="after")
    def _arms_have_names(self) -> Self:
        for arm in self.arms:
            if not arm.strip() or not arm.isprintable():
                raise ConfigError(f"an arm needs a name of one line, got {shown(arm)}")
        if self.reference and self.reference not in self.arms:
            raise ConfigError(f"reference must be one of the arms {', '.join(self.arms)}, got {shown(self.reference)}")
        return self

    @property
    def varied_key(self) -> str:
        """What varies; empty where nothing does."""
        return next(iter(self.vary), "")

    @property
    def varied_values(self) -> tuple[Any, ...]:
        """Values that every arm is run with; one None where nothing varies."""
        return next(iter(self.vary.values()), (None,))

    def base(self) -> Scenario:
        """The scenario with the edits of every arm."""
        return load_scenario(self.scenario).edited(self.edits)

    def edited(self, changes: Mapping[str, Any]) -> Comparison:
        """A variant with some fields set, named as in a file.

        Raises:
            ConfigError: a field that does not fit.
        """
        return validated_comparison({**self.tables(), **changes})

    def tables(self) -> dict[str, Any]:
        """Plain tables, lists and values, as a file holds them; what is not set is not there."""
        tables: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {key: value for key, value in tables.items() if value not in ({}, "")}

    def text(self) -> str:
        """Of a TOML file."""
        return tomli_w.dumps(self.tables())


def validated_comparison(tree: Mapping[str, Any]) -> Comparison:
    """A comparison from plain tables.

    Raises:
        ConfigError: in one sentence, the first thing that is wrong.
    """
    try:
        return Comparison.model_validate(tree)
    except pydantic.ValidationError as error:
        raise ConfigError(one_sentence(error, Comparison)) from None


def loaded_tables(name_or_path: str) -> dict[str, Any]:
    """What a comparison file says, or, for a scenario, a comparison of it that has no arms yet.

    Raises:
        ConfigError: neither a scenario nor a readable file.
    """
    path = Path(name_or_path)
    tables = {} if name_or_path in shipped_scenarios() else _toml(path)
    if "scenario" not in tables and not {"arms", "vary", "seeds"} & tables.keys():
        scenario = load_scenario(name_or_path)  # says what is wrong with it
        named = name_or_path if name_or_path in shipped_scenarios() else str(path.absolute())
        return {"name": scenario.name, "scenario": named}
    said = tables.get("scenario")
    if not isinstance(said, str):
        raise ConfigError(f"{path}: scenario must name a shipped scenario or a TOML file, got {shown(said)}")
    if said not in shipped_scenarios() and is_file(path.parent / said):  # as seen from the comparison file
        tables["scenario"] = str((path.parent / said).absolute())
    return {"name": path.stem, **tables}


def _toml(path: Path) -> dict[str, Any]:
    """A file's tables; nothing where there is no file that can be read, which `load_scenario` explains."""
    try:
        return read_toml(path)
    except ConfigError:
        return {}
