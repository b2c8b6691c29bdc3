"""A scenario: one frozen value that a person can read, diff and edit.

A scenario is a TOML file. Loading turns it into a tree of frozen values, each checking itself, and then consults the
table of rules about what does not go together; a variant is an edit of that value. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pydantic

from ...emulator.contracts import ConfigError, ScenarioError
from ...emulator.plugin_sources import check_listed, placed
from ...emulator.regular_file import is_regular
from ..scenario_files.layered_file import LayeredFile, read_layers
from .compatibility import IncompatibleError, complaints
from .former_names import with_present_names
from .scenario_fields import ScenarioFields
from .toml_file import MAX_DEPTH, refuse_absurd
from .wording import no_table, sentences, shown

SHIPPED = Path(__file__).parents[1] / "shipped"


class Scenario(ScenarioFields):
    """Everything that decides a run; see `ScenarioFields`.

    Examples:
        >>> from sheafedge import load_scenario
        >>> lossy = load_scenario("blockage").edited({"link.loss_probability": 0.2})
        >>> lossy.link.loss_probability, lossy.rounds
        (0.2, 20)
    """

    @pydantic.model_validator(mode="after")
    def _goes_together(self) -> Self:
        if found := complaints(self):
            raise IncompatibleError(found)
        return self

    def tables(self) -> dict[str, Any]:
        """Plain tables, lists and values, as a file holds them; what is not set is not there."""
        return self.model_dump(mode="json", exclude_none=True)

    def pinned_tables(self, folder: str = "") -> dict[str, Any]:
        """The same, with a list of the plugins that it uses, each with the hash of its source.

        Args:
            folder: before the names of files, such as "plugins/".
        """
        plugins = self.used_plugins
        return {**self.tables(), "plugins": [f"{folder if one.text else ''}{one.pinned}" for one in plugins]}

    def edited(self, edits: Mapping[str, Any]) -> Scenario:
        """A variant: the same scenario with some dotted keys set, such as {"link.loss_probability": 0.05}.

        Raises:
            ConfigError: a key or value that does not fit.
        """
        return validated(self._tree(edits))

    def unchecked(self, edits: Mapping[str, Any]) -> Scenario:
        """A variant that may break rules about what goes together, for reports on what cannot run.

        Raises:
            ScenarioError: a key or value that does not fit.
        """
        tree = self._tree(edits)
        try:
            fields = ScenarioFields.model_validate(tree)
        except pydantic.ValidationError as error:
            raise ScenarioError(sentences(error, Scenario)) from None
        return Scenario.model_construct(**{name: getattr(fields, name) for name in ScenarioFields.model_fields})

    def _tree(self, edits: Mapping[str, Any]) -> dict[str, Any]:
        """Tables with some dotted keys set."""
        tree = self.tables()
        for key, value in edits.items():
            *parents, last = key.split(".")
            table: Any = tree
            for depth, parent in enumerate(parents, start=1):
                table = table.setdefault(parent, {})
                if not isinstance(table, dict):
                    raise ConfigError(no_table(key, ".".join(parents[:depth]), table))
            table[last] = value
        return tree


def validated(tree: Mapping[str, Any]) -> Scenario:
    """A scenario from plain tables.

    Raises:
        ConfigError: a plugin that it lists is not loaded.
        ScenarioError: everything that is wrong with single fields, one sentence each.
        IncompatibleError: every field is possible in itself; everything that does not go together, one sentence each.
    """
    check_listed(_listed(tree))  # first: without it names of the scenario are unknown
    try:
        return Scenario.model_validate(tree)
    except pydantic.ValidationError as error:
        broken = error.errors()[0].get("ctx", {}).get("error")
        if isinstance(broken, IncompatibleError):
            raise broken from None
        raise ScenarioError(sentences(error, Scenario)) from None


def _listed(tables: Mapping[str, Any]) -> list[str]:
    """Plugins that these tables list; none where the field is something else, which its own check refuses."""
    listed = tables.get("plugins", [])
    is_list = isinstance(listed, list | tuple) and all(isinstance(one, str) for one in listed)
    return list(listed) if is_list else []


def listed_plugins(path: Path) -> list[str]:
    """Plugins that a scenario file or its bases list, paths relative to the file that lists them made absolute.

    Raises:
        ConfigError: it is no TOML file.
    """
    return _listed(read_layers(path, shipped_scenarios()).tables)


def shipped_scenarios() -> dict[str, Path]:
    """Name -> file of every scenario that comes with the package.

    Examples:
        >>> from sheafedge import load_scenario, shipped_scenarios
        >>> load_scenario("digits").name in shipped_scenarios()
        True
    """
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def load_scenario(name_or_path: str | os.PathLike[str]) -> Scenario:
    """A shipped scenario by name, or a TOML file by path; that of a run folder may use former names of fields.

    Args:
        name_or_path: a name of `shipped_scenarios`, or a path.

    Raises:
        ConfigError: no such scenario, not TOML, or an impossible value, with the file and the line that set it.

    Examples:
        >>> from sheafedge import load_scenario
        >>> load_scenario("blockage").algorithm
        'sheaf_dmfl_att'
    """
    return scenario_of(scenario_layers(os.fspath(name_or_path)))


def scenario_layers(name_or_path: str) -> LayeredFile:
    """File of a scenario and of the scenarios that it builds on, as they are written.

    Raises:
        ConfigError: no such scenario, or not TOML.
    """
    shipped = shipped_scenarios()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not is_regular(path):
        close = difflib.get_close_matches(name_or_path, shipped, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        unknown = f"{name_or_path} is not a file here" if path.suffix else f"unknown scenario {shown(name_or_path)}"
        raise ConfigError(f"{unknown}; give a TOML file or one of: {', '.join(shipped)}{hint}")
    return read_layers(path, shipped)


def scenario_of(layers: LayeredFile) -> Scenario:
    """The scenario that a file and its bases describe.

    Raises:
        ConfigError: an impossible value, with the file and the line that set it.
    """
    path, tables = layers.paths[0], dict(layers.tables)
    if path.with_name("metrics.jsonl").is_file():  # of a run folder, which repeats its run in every later version
        tables = with_present_names(tables)
    try:
        return validated({"name": path.stem, **tables})
    except ScenarioError as errors:
        raise layers.located(errors.sentences) from None


def stored_scenario(tables: Mapping[str, Any], source: str) -> Scenario:
    """The scenario that a run of this or of an earlier version wrote down, such as a run folder's `scenario.toml`.

    Args:
        tables: of the file.
        source: how messages name it.

    Raises:
        ConfigError: an impossible value.
    """
    present = with_present_names(tables)
    listed = {"plugins": placed(_listed(present), Path(source).parent)} if _listed(present) else {}
    try:
        return validated({**present, **listed})
    except ScenarioError as errors:
        raise ScenarioError(errors.sentences, f"{source}: ") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Key and value of `--set key=value`; values are TOML, and what is not TOML is a string.

    Raises:
        ConfigError: no '=' in it, or what no field is called or takes.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or key.count(".") > MAX_DEPTH:
        raise ConfigError(f"--set takes key=value, got {shown(text)}; for example --set link.loss_probability=0.05")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()
    except ValueError:  # what Python says about thousands of digits
        raise ConfigError(f"--set {key.strip()}: a number of thousands of digits; no field takes one") from None
    refuse_absurd(parsed, f"--set {key.strip()}")
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()  # a line break would open another field
