"""`Plugin`: what a plugin adds to the tables, as one value. Making it changes nothing; `loading` adds its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pydantic

from ...datasets.rows.federated_rows import RowDataset
from ...datasets.rows.row_datasets import ROW_DATASETS
from ...emulator.contracts import ConfigError, MessageKind
from ...emulator.regular_file import quoted
from ...models.algorithms.algorithm import Algorithm
from ...models.algorithms.algorithm_table import ALGORITHMS
from ..schema.link_models import LINK_MODELS, LinkModel
from ..schema.link_section import EdgeSection, LinksSection
from ..tasks.task_spec import SensorTask, Task
from ..tasks.task_table import TASKS

if TYPE_CHECKING:
    from ...models.objectives import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """Rows for tables, by name; a plugin file defines one under the name `PLUGIN`.

    Names are lower-case words, such as "my_rule". A name that a table has already is refused when the plugin is loaded.

    Attributes:
        algorithms: how clients learn together, for `algorithm`.
        tasks: what they learn, for `task`.
        row_datasets: readers of data, for `data.dataset`.
        link_models: models of links, for `links.model`.
        objectives: losses that tasks may name; see `models.objectives`.

    Raises:
        ConfigError: a row is not what its table holds; the message names it.

    Examples:
        >>> from sheafedge.models.algorithms.algorithm import Algorithm
        >>> from sheafedge.plugins import Plugin
        >>> Plugin(algorithms={"idle": Algorithm(lambda setups: [], frozenset(), "does nothing")}).n_rows
        1
        >>> Plugin(algorithms={"idle": Algorithm})
        Traceback (most recent call last):
        ...
        sheafedge.emulator.contracts.ConfigError: algorithms['idle'] must be an Algorithm, got type
    """

    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    row_datasets: Mapping[str, RowDataset] = field(default_factory=dict)
    link_models: Mapping[str, LinkModel[Any]] = field(default_factory=dict)
    objectives: Mapping[str, Objective] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, check in _CHECKS.items():
            rows = getattr(self, group)
            if not isinstance(rows, Mapping):
                raise ConfigError(f"{group} must be a dict of names and rows, got {type(rows).__name__}")
            for name, row in rows.items():
                if not (isinstance(name, str) and name.isidentifier() and name == name.lower()):
                    raise ConfigError(
                        f"{group} has a row named {quoted(name)}; name it in lower case, such as 'my_rule'"
                    )
                if wrong := check(name, row):
                    raise ConfigError(f"{group}[{name!r}] {wrong}")

    @property
    def n_rows(self) -> int:
        """Number of rows in all tables."""
        return sum(len(getattr(self, group)) for group in _CHECKS)

    def additions(self) -> Iterator[tuple[str, dict[str, Any], Mapping[str, Any]]]:
        """(Kind of rows, the table of the package, rows for it), of every table that gets some."""
        tables: Mapping[str, tuple[str, dict[str, Any]]] = {
            "algorithms": ("algorithm", ALGORITHMS),
            "tasks": ("task", TASKS),
            "row_datasets": ("data set", ROW_DATASETS),
            "link_models": ("link model", LINK_MODELS),
        }
        for group, (kind, table) in tables.items():
            if rows := getattr(self, group):
                yield kind, table, rows
        if self.objectives:
            from ...models.objectives import OBJECTIVES  # imports torch

            yield "objective", OBJECTIVES, self.objectives


# The checks below read rows that no type checker has seen: `given` is the row without a type.


def _is_no_algorithm(_name: str, row: object) -> str:
    given: Any = row
    if not isinstance(row, Algorithm):
        return f"must be an Algorithm, got {type(row).__name__}"
    if not callable(given.learners):
        return "must begin with the function that makes its learners"
    if not (isinstance(given.kinds, frozenset) and all(isinstance(kind, MessageKind) for kind in given.kinds)):
        return "must have kinds = frozenset({MessageKind...}), the kinds of messages that it sends"
    return ""


def _is_no_task(_name: str, row: object) -> str:
    given: Any = row
    wanted: type[Any] = SensorTask if hasattr(row, "needs") or hasattr(row, "decision") else Task
    if isinstance(row, type):
        return f"must be a task, got the class {row.__name__}; call it: {row.__name__}()"
    if not isinstance(row, wanted):
        lacks = sorted(name for name in _members(wanted) if not hasattr(row, name))
        return f"must be a {wanted.__name__}, got {type(row).__name__}, which lacks {', '.join(lacks)}"
    if given.labels not in ("classes", "values"):
        return f"must have labels = 'classes' or 'values', got {quoted(given.labels)}"
    return "" if given.columns else "must have at least one column of scores"


def _members(protocol: type[Any]) -> set[str]:
    """Names of what a protocol asks for, those of its parents included."""
    return {name for one in protocol.__mro__ for name in vars(one) if not name.startswith("_")}


def _is_no_data_set(_name: str, row: object) -> str:
    given: Any = row
    if not isinstance(row, RowDataset):
        return f"must be a RowDataset, got {type(row).__name__}"
    if not callable(given.read):
        return "must begin with the function that reads its rows"
    if given.labels not in ("classes", "values", "any"):
        return f"must have labels 'classes', 'values' or 'any', got {quoted(given.labels)}"
    return "" if isinstance(given.root, str) else "must say what data.root names, or '' where it needs none"


def _is_no_link_model(name: str, row: object) -> str:
    given: Any = row
    if not isinstance(row, LinkModel):
        return f"must be a LinkModel, got {type(row).__name__}"
    if name in LinksSection.model_fields or name in EdgeSection.model_fields:
        return "has the name of a field of [links]; give it another one"
    if not isinstance(given.settings, type):
        return f"must have a class of settings, or NoneType, got {quoted(given.settings)}"
    if not callable(given.channel):
        return "must have a function that makes the channel of one direction"
    try:
        given.settings()
        pydantic.TypeAdapter(given.settings)
    except Exception as error:  # noqa: BLE001 - whatever a class of somebody else's raises
        return f"needs settings whose fields all have types and defaults ({type(error).__name__}: {error})"
    return ""


def _is_no_objective(_name: str, row: object) -> str:
    return "" if callable(row) else f"must be a function of outputs, labels and class weights, got {type(row).__name__}"


#: Field of a plugin -> what is wrong with a row of it, empty where nothing is.
_CHECKS: Mapping[str, Callable[[str, object], str]] = {
    "algorithms": _is_no_algorithm,
    "tasks": _is_no_task,
    "row_datasets": _is_no_data_set,
    "link_models": _is_no_link_model,
    "objectives": _is_no_objective,
}
