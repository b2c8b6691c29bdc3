"""`Comparison`: one frozen value with a scenario, methods, seeds, and optionally one field that varies.

A method is a set of edits of the scenario. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
import tomli_w
from pydantic import Field

from ...emulator.contracts import ConfigError, ScenarioError
from ...emulator.regular_file import is_regular
from ..scenario_files.layered_file import LayeredFile, Layering, read_layers
from ..schema.data_section import first_repeated
from ..schema.scenario import Scenario, load_scenario, shipped_scenarios
from ..schema.section import FolderName, Section
from ..schema.toml_file import read_toml
from ..schema.wording import one_sentence, shown

#: Former name of the field `methods`; files, scripts and results.json may still use it.
FORMER_METHODS = "arms"
#: Dotted key -> value, as for `Scenario.edited`.
Edits = dict[str, Any]


def _flat(tables: object) -> object:
    """Nested tables as one table with dotted keys: [set.data] images = "views" equals "data.images" = "views"."""
    return dict(_flat_items(tables)) if isinstance(tables, Mapping) else tables


def _flat_items(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", nested) for inner, nested in _flat_items(value))
        else:
            yield key, _with_lists(value)


def _with_lists(value: Any) -> Any:
    """The value with lists in place of tuples, so that it equals what is read back from TOML and JSON."""
    if isinstance(value, Mapping):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value


FlatEdits = Annotated[Edits, pydantic.BeforeValidator(_flat)]
#: Dotted key -> values to try.
FlatValues = Annotated[dict[str, tuple[Any, ...]], pydantic.BeforeValidator(_flat)]


class Tuning(Section):
    """Record of a finished search for settings; it starts no search.

    Attributes:
        grid: dotted key -> values; every combination was tried for every method.
        seeds: seeds of the search.
        scored: samples that the choice was made on; never test samples.
    """

    grid: FlatValues
    seeds: tuple[int, ...]
    scored: str = "validation"


class Comparison(Section):
    """Complete description of a comparison.

    Attributes:
        name: name of its folder.
        scenario: name of a shipped scenario, or path of a TOML file.
        seeds: seeds; every method is run with each.
        reference: method that the others are compared with, seed by seed; empty: the first that has runs.
        edits: edits for all methods; the table `[set]` of a file.
        methods: name -> edits of this method, applied after `edits`; formerly called `arms`, which files may still say.
        vary: at most one dotted key -> its values; every method is run with each value.
        tuning: record of the search that chose settings of the methods; None: not tuned.
    """

    name: FolderName
    scenario: str
    # below 2^63: integers of TOML are signed and have 64 bits
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=1 << 63)], ...], Field(min_length=1)] = (0, 1, 2)
    reference: str = ""
    edits: FlatEdits = Field(default_factory=dict, alias="set")
    methods: Annotated[dict[str, FlatEdits], Field(min_length=1)]
    vary: FlatValues = Field(default_factory=dict)
    tuning: Tuning | None = None

    @pydantic.model_validator(mode="after")
    def _seeds_differ(self) -> Self:
        if (again := first_repeated(self.seeds)) is not None:
            raise ConfigError(f"seeds lists {again} twice; list each seed once")
        if any("seed" in edits for edits in [self.edits, self.vary, *self.methods.values()]):
            raise ConfigError("seed cannot be edited in a comparison; list seeds = [...] or use --seeds")
        return self

    @pydantic.model_validator(mode="after")
    def _varies_one_thing(self) -> Self:
        if len(self.vary) > 1:
            raise ConfigError(f"vary takes one key, got {', '.join(self.vary)}; make a comparison of each")
        for key, values in self.vary.items():
            if not values or first_repeated(values) is not None:
                raise ConfigError(f"vary: {key} needs different values, got {shown(list(values))}")
            # edits of a method are applied before the varied value, which would silently replace them
            if method := next((method for method, edits in self.methods.items() if key in edits), None):
                raise ConfigError(f"method {method!r} sets {key}, which vary changes too; leave it out of one of them")
        return self

    @pydantic.model_validator(mode="after")
    def _methods_have_names(self) -> Self:
        for method in self.methods:
            if not method.strip() or not method.isprintable():
                raise ConfigError(f"a method needs a name of one line, got {shown(method)}")
        if self.reference and self.reference not in self.methods:
            raise ConfigError(
                f"reference must be one of the methods {', '.join(self.methods)}, got {shown(self.reference)}"
            )
        return self

    @property
    def varied_key(self) -> str:
        """Dotted key of the varied field; empty if nothing varies."""
        return next(iter(self.vary), "")

    @property
    def varied_values(self) -> tuple[Any, ...]:
        """Values of the varied field; (None,) if nothing varies."""
        return next(iter(self.vary.values()), (None,))

    def base(self) -> Scenario:
        """Scenario with the edits that all methods share."""
        return load_scenario(self.scenario).edited(self.edits)

    def edited(self, changes: Mapping[str, Any]) -> Comparison:
        """Copy with some fields replaced, named as in a file.

        Raises:
            ConfigError: an invalid field.
        """
        # validated again as a whole: `model_copy` would check nothing
        return validated_comparison({**self.tables(), **_with_current_names(changes)})

    def tables(self) -> dict[str, Any]:
        """Plain tables, lists and values as in a TOML file, without empty fields."""
        tables: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {key: value for key, value in tables.items() if value not in ({}, "")}

    def text(self) -> str:
        """Content of a TOML file."""
        return tomli_w.dumps(self.tables())


def _with_current_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Tables with `methods` in place of its former name `arms`."""
    if FORMER_METHODS not in tables:
        return dict(tables)
    if "methods" in tables:
        raise ConfigError(f"methods and {FORMER_METHODS}, its former name, are both given; keep methods only")
    return {("methods" if key == FORMER_METHODS else key): value for key, value in tables.items()}


def validated_comparison(tree: Mapping[str, Any]) -> Comparison:
    """Comparison from plain tables.

    Raises:
        ConfigError: one sentence about the first invalid field.
    """
    try:
        return Comparison.model_validate(_with_current_names(tree))
    except pydantic.ValidationError as error:
        raise ConfigError(one_sentence(error, Comparison)) from None


def loaded_tables(name_or_path: str) -> dict[str, Any]:
    """Tables of a comparison file and of those that it builds on; for a scenario, tables of one without methods.

    Raises:
        ConfigError: neither a scenario nor a readable comparison file.
    """
    return _loaded(name_or_path)[0]


def _loaded(name_or_path: str) -> tuple[dict[str, Any], LayeredFile | None]:
    """Tables as `loaded_tables` has them, and the file that they are of; None: it is a scenario's."""
    path = Path(name_or_path)
    if name_or_path in shipped_scenarios() or not _is_comparison(path):
        scenario = load_scenario(name_or_path)  # raises with a sentence about a file that is neither
        # absolute: the path is stored in comparison.toml, which lies in another folder
        named = name_or_path if name_or_path in shipped_scenarios() else str(path.absolute())
        return {"name": scenario.name, "scenario": named}, None
    file = read_layers(path, {}, _LAYERING)
    scenario_name = file.tables.get("scenario")
    if not isinstance(scenario_name, str):
        raise ConfigError(f"{path}: scenario must name a shipped scenario or a TOML file, got {shown(scenario_name)}")
    return {"name": path.stem, **file.tables}, file


def _is_comparison(path: Path) -> bool:
    """Whether a file has a field that no scenario has; what has none is a scenario, or neither of the two."""
    try:
        tables = read_toml(path)
    except ConfigError:
        return False  # `load_scenario` reports it
    return not _FIELDS_OF_COMPARISONS.isdisjoint(tables)


def _placed(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Tables with current names, flat edits, and the path of a scenario, relative to the file, as one from anywhere."""
    named = _with_current_names(tables)
    if "set" in named:
        named["set"] = _flat(named["set"])  # so that a file changes one field of its base, however either writes it
    scenario = named.get("scenario")
    if isinstance(scenario, str) and scenario not in shipped_scenarios() and is_regular(path.parent / scenario):
        named["scenario"] = str((path.parent / scenario).absolute())
    return named


#: A file that names methods, or a field that varies, has those and no others; a search chose settings of other methods.
_LAYERING = Layering(_placed, frozenset({"name", "tuning"}), frozenset({"methods", "vary"}))
_FIELDS_OF_COMPARISONS = frozenset({"scenario", "methods", FORMER_METHODS, "vary", "seeds", "set", "reference"})


def combined_comparison(
    name_or_path: str, replaced: Mapping[str, Any], edits: Edits, otherwise: Mapping[str, Edits] | None = None
) -> Comparison:
    """Comparison of a scenario or of a file, parts of which are replaced by what a user asked for.

    Args:
        name_or_path: name of a scenario, or path of a scenario or comparison file.
        replaced: `methods`, `seeds`, `vary` and `reference`, as far as they were given.
        edits: dotted key -> value, for all methods, after those of the file.
        otherwise: methods where neither the file nor `replaced` has any; None: all algorithms.

    Raises:
        ConfigError: an invalid comparison, or edits for all methods that do not fit the scenario; with the line of the
            comparison file that is wrong.
    """
    tables, file = _loaded(name_or_path)
    try:
        comparison = _combined(tables, replaced, edits, otherwise)
        comparison.base()
    except ConfigError as error:
        if file is None:
            raise  # there is no comparison file
        raise _located(error, file, {*replaced, *edits}) from None
    return comparison


def _located(error: ConfigError, file: LayeredFile, asked: Set[str]) -> ScenarioError:
    """Complaints with file and line, where they are about what the file says and not about what was asked for."""

    def placed(sentence: str) -> str:
        key = sentence.split(maxsplit=1)[0].rstrip(":,")
        place = file.place_of(f"set.{key}") if file.sets(f"set.{key}") else file.place_of(key)
        return sentence if key in asked or place is None else f"{file.told(place)}: {sentence}"

    return ScenarioError([placed(one) for one in getattr(error, "sentences", (str(error),))])


def _combined(
    tables: dict[str, Any], replaced: Mapping[str, Any], edits: Edits, otherwise: Mapping[str, Edits] | None
) -> Comparison:
    """Comparison from the tables of a file, some of them replaced."""
    merged = {**tables, **replaced}
    if "methods" in replaced:
        merged.pop("tuning", None)  # it describes the replaced methods
        # the reference of the file would be refused if it is none of the new methods
        if "reference" not in replaced and merged.get("reference") not in replaced["methods"]:
            merged.pop("reference", None)
    elif "methods" not in merged:
        if otherwise is None:
            from ...models.algorithms.algorithm_table import ALGORITHMS

            otherwise = {name: {"algorithm": name} for name in ALGORITHMS}
        merged["methods"] = dict(otherwise)
    comparison = validated_comparison(merged)
    # after validation, which makes one flat table of the edits in the file
    return comparison.edited({"set": {**comparison.edits, **edits}}) if edits else comparison
