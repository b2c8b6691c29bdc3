"""Every field of a scenario: name, type, default, unit, meaning, valid values; read from the schema itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pydantic

from ...datasets.rows.row_datasets import ROW_DATASETS
from ...emulator.contracts import ConfigError
from ...emulator.edge.device_profiles import DEVICE_PROFILES
from ...emulator.network.channels.gilbert_elliott import BurstSettings
from ...emulator.network.channels.packet_channel import LinkSettings
from ...emulator.network.edge_generators import TopologyOptions
from ...models.algorithms.algorithm_table import ALGORITHMS
from ..scenario_files.layered_file import BASE
from ..schema.link_models import LINK_MODELS
from ..schema.link_numbers import LinkSection
from ..schema.scenario import Scenario
from ..tasks.task_table import TASKS
from .attribute_texts import attribute_texts, first_sentence
from .field_values import bare, default_text, is_table, type_text, unit_of, valid_text

#: Classes that describe fields on behalf of others, as "see `NAME`" in their docstrings says.
_DESCRIBED_BY = {one.__name__: one for one in (LinkSettings, LinkSection, TopologyOptions, BurstSettings)}
_REFERENCE = re.compile(r"see `(\w+)`")
#: Likeness of two names from which one is a slip of the pen, and most names that a question lists.
_SLIP, _MEANT = 0.85, 4


@dataclass(frozen=True, slots=True)
class FieldEntry:
    """One field of a scenario.

    Attributes:
        name: dotted; `*` stands for the number of a list item, as in clients.groups.*.name.
        type: of its value in TOML, such as "list of strings"; "table" and "list of tables" hold further fields.
        default: as a file writes it; "required" and "not set" where there is none.
        unit: empty for counts, shares, names and switches.
        meaning: one line.
        valid: which values it takes; empty where the type says it all.
    """

    name: str
    type: str
    default: str
    unit: str
    meaning: str
    valid: str

    @property
    def is_table(self) -> bool:
        """Whether it holds further fields."""
        return self.type in ("table", "list of tables")


#: Of files only: a scenario that was read has no base any more.
BASE_FIELD = FieldEntry(
    BASE,
    "string",
    "not set",
    "",
    "scenario that a file builds on, by name or as a TOML file beside it; the file sets what differs. Not for --set",
    "",
)


def scenario_fields() -> tuple[FieldEntry, ...]:
    """All fields of a scenario file, tables before their fields, in the order of the schema; those of plugins too."""
    return (BASE_FIELD, *_fields_of(Scenario, ""))


def fields_below(prefix: str) -> tuple[FieldEntry, ...]:
    """Fields whose dotted name begins so; list items may be numbered.

    Args:
        prefix: such as "link", "link.rate" or "clients.groups.0"; empty: all.

    Raises:
        ConfigError: there are none.
    """
    wanted = re.sub(r"\.\d+(?=\.|$)", ".*", prefix).removesuffix(".")
    known = scenario_fields()
    inside = [one for one in known if one.name == wanted or one.name.startswith(f"{wanted}.")]
    found = tuple(inside or [one for one in known if one.name.startswith(wanted)])
    if not found:
        hint = _meant(wanted, [one.name for one in known]) or "sheafedge fields lists all tables"
        raise ConfigError(f"no field is called {prefix}; {hint}")
    return found


def _meant(wanted: str, names: Sequence[str]) -> str:
    """Question with the names that somebody may have meant; empty: none is like it.

    The last part counts more than the table: who looks for links.deadline means a deadline.
    """
    last = wanted.rpartition(".")[2]
    tails = [(name, name.rpartition(".")[2]) for name in names]
    meant = [name for name, tail in tails if tail == last]
    meant = meant or difflib.get_close_matches(wanted, names, n=1, cutoff=_SLIP)
    meant = meant or [name for name, tail in tails if last in tail.split("_") or tail.startswith(last)]
    meant = meant or difflib.get_close_matches(wanted, names, n=1)
    return f"did you mean {', '.join(meant[:_MEANT])}?" if meant else ""


def field_choices(name: str) -> tuple[str, ...]:
    """Values that a field can have, if they can be listed: names of a table, a Literal, a switch; empty: they cannot.

    Args:
        name: dotted, list items as `*`.
    """
    if name in _named_by():
        return tuple(_named_by()[name])
    entry = next((one for one in scenario_fields() if one.name == name), None)
    if entry is None or entry.type == "boolean":
        return () if entry is None else ("true", "false")
    return tuple(re.findall(r'"([^"]+)"', entry.valid))


def _named_by() -> Mapping[str, Mapping[str, Any]]:
    """Field -> table whose names it takes."""
    profiles = dict.fromkeys(("compute.profile", "clients.groups.*.profile", "server.profile"), DEVICE_PROFILES)
    models = dict.fromkeys(("links.model", "links.edges.*.model", "server.link.model"), LINK_MODELS)
    return {"algorithm": ALGORITHMS, "task": TASKS, "data.dataset": ROW_DATASETS, **profiles, **models}


def _fields_of(owner: type, parent: str) -> Iterator[FieldEntry]:
    """Fields of a table of the scenario and of the tables in it."""
    texts = attribute_texts(owner)
    for name, annotation, default, field in _declared(owner):
        child, dotted = _child(annotation), f"{parent}{name}"
        kind = (
            "list of tables" if child is not None and get_origin(bare(annotation)) is tuple else type_text(annotation)
        )
        named = _named_by().get(dotted)
        yield FieldEntry(
            dotted,
            kind,
            "-" if child is not None else default_text(default),
            unit_of(name),
            _meaning(name, texts.get(name, ""), child),
            "" if child is not None else ", ".join(named) if named else valid_text(owner, name, field, annotation),
        )
        if child is not None:
            yield from _fields_of(child, f"{dotted}.*." if kind == "list of tables" else f"{dotted}.")


def _declared(owner: type) -> Iterator[tuple[str, Any, Any, pydantic.fields.FieldInfo | None]]:
    """Name, annotation and default of every field; a pydantic model also has what limits it."""
    if issubclass(owner, pydantic.BaseModel):
        for name, field in owner.model_fields.items():
            default = Ellipsis if field.is_required() else field.get_default(call_default_factory=True)
            yield name, field.annotation, default, field
        # tables of plugins' link models, which are found when a scenario is read
        models = owner.models_with_tables() if hasattr(owner, "models_with_tables") else {}
        for name, model in models.items():
            if name not in owner.model_fields:
                yield name, model.settings, None, None
        return
    hints = get_type_hints(owner, include_extras=True)
    assert is_dataclass(owner), "a table is one or the other"
    for one in fields(owner):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        yield one.name, hints[one.name], Ellipsis if default is MISSING else default, None


def _child(annotation: Any) -> type | None:
    """Class of the tables that a field holds; None: it holds no tables."""
    found = bare(annotation)
    if get_origin(found) is tuple:
        items = [bare(item) for item in get_args(found) if item is not Ellipsis]
        found = items[0] if len(items) == 1 else None
    return found if is_table(found) else None


def _meaning(name: str, text: str, child: type | None) -> str:
    """Meaning of a field: that of its table, its own text, or that of the class which its text refers to."""
    if child is not None:
        return first_sentence(child)
    if (match := _REFERENCE.search(text)) and match[1] in _DESCRIBED_BY:
        return _meaning(name, attribute_texts(_DESCRIBED_BY[match[1]]).get(name, ""), None)
    return text
