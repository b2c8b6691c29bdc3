"""Errors of a scenario as sentences that name the field, the value and the remedy."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any

import pydantic

from ...emulator.contracts import ConfigError, ScenarioError
from .former_names import answer_to_former_name

#: Characters of a field's name that a message repeats; a file may hold any.
LONGEST_NAME = 100

#: pydantic's word for a complaint -> ours, after the field's name.
_COMPLAINTS = {
    "missing": "is missing; add it to the scenario",
    "model_type": "is a table, got {got}; set its fields, such as {name}.{child}",
    "dataclass_type": "is a table, got {got}; set its fields, such as {name}.{child}",
    "tuple_type": "must be a list, got {got}; write it as [...]",
    "too_short": "must not be empty, got {got}; give at least one",
    "string_too_short": "must not be empty, got {got}",
    "string_type": "must be a string, got {got}; quote it: --set '{name}=\"...\"'",
}
_SHOWN_LENGTH = 60
#: Largest number of wrong fields in one answer.
MOST_FIELDS = 20


def sentences(error: pydantic.ValidationError, scenario: type[pydantic.BaseModel]) -> tuple[str, ...]:
    """All errors that pydantic found in a scenario, one sentence per field."""
    errors = error.errors()
    # pydantic counts a list without its wrong items, and then also finds it too short
    around = {one["loc"][:depth] for one in errors for depth in range(len(one["loc"]))}
    errors = [one for one in errors if one["loc"] not in around or isinstance(_cause(one), ScenarioError)]
    said = [sentence for one in errors[:MOST_FIELDS] for sentence in _sentences(one, scenario)]
    if len(errors) > MOST_FIELDS:
        said.append(f"and {len(errors) - MOST_FIELDS} more fields are wrong; correct these first")
    # two fields can fail the same check of ours: its sentence is given once
    return tuple(dict.fromkeys(said))


def one_sentence(error: pydantic.ValidationError, scenario: type[pydantic.BaseModel]) -> str:
    """Sentence about the first error that pydantic found."""
    return sentences(error, scenario)[0]


def _cause(one: Any) -> object:
    """The exception of a check of ours; None where pydantic itself found the error."""
    return one.get("ctx", {}).get("error")


def _sentences(one: Any, scenario: type[pydantic.BaseModel]) -> tuple[str, ...]:
    """Sentences about one error of pydantic, or of a check of ours."""
    cause = _cause(one)
    if isinstance(cause, ScenarioError):
        return cause.sentences
    where = [str(part)[:LONGEST_NAME] for part in one["loc"]]
    return (_with_parents(str(cause), where) if isinstance(cause, ConfigError) else _sentence(one, where, scenario),)


def _sentence(one: Any, where: Sequence[str], scenario: type[pydantic.BaseModel]) -> str:
    """Sentence about one error of pydantic."""
    if one["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return _unknown(where, scenario)
    name, got = ".".join(where), shown(one["input"])
    complaint = _COMPLAINTS.get(one["type"])
    if complaint is None:
        return f"{name} {_requirement(one['msg'])}, got {got}"
    child = next(iter(_fields_at(where, scenario)), "")
    return f"{name} {complaint.format(name=name, got=got, child=child)}"


def known_name(what: str, name: str, known: Collection[str]) -> str:
    """The name of a row of a table, such as an algorithm.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "load one of your own with --plugin FILE"
        raise ConfigError(f"unknown {what} {shown(name)}; known: {', '.join(known)}; {hint}")
    return name


def no_table(key: str, parent: str, found: object) -> str:
    """Sentence about an edit of a field inside a value that is no table."""
    if isinstance(found, list):
        return f"{key} cannot be set alone because {parent} is a list; set all of it: --set '{parent}=[...]'"
    return f"{key} is not a known field; {parent} holds no fields, set {parent} itself"


def shown(value: object) -> str:
    """Text of a value in one line, cut where long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = _SHOWN_LENGTH
    return short.repr(value)


def _requirement(message: str) -> str:
    """Requirement in a message of pydantic, without its reason."""
    asked = re.split(", (?:unable|got) ", message)[0]
    for theirs, ours in (
        ("Input should be", "must be"),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
        ("greater than", "above"),
        ("less than", "below"),
    ):
        asked = asked.replace(theirs, ours)
    return asked


def _with_parents(sentence: str, where: Sequence[str]) -> str:
    """A sentence of a nested table that does not know what it is nested in: "road.min_rows" inside "data"."""
    return ".".join([*where[:-1], sentence]) if len(where) > 1 and sentence.startswith(f"{where[-1]}.") else sentence


def _unknown(where: Sequence[str], scenario: type[pydantic.BaseModel]) -> str:
    """A field that does not exist, and the one that was meant."""
    if answer := answer_to_former_name(where):
        return answer
    *parents, last = where
    known = _fields_at(parents, scenario)
    close = [".".join([*parents, match]) for match in difflib.get_close_matches(last, known, n=1)]
    elsewhere = [key for key in _all_keys((), scenario) if key.endswith(f".{last}")]
    meant = elsewhere[:1] or close
    hint = f"did you mean {meant[0]}?" if meant else f"known: {', '.join(known)}"
    return f"{'.'.join(where) or repr('')} is not a known field; {hint}"


def _all_keys(parents: Sequence[str], scenario: type[pydantic.BaseModel]) -> Iterator[str]:
    """Dotted names of all fields that an edit can set."""
    for name in _fields_at(parents, scenario):
        where = [*parents, name]
        yield ".".join(where)
        if isinstance(_type_at(where, scenario), type):  # no list: its items have no names
            yield from _all_keys(where, scenario)


def _type_at(where: Sequence[str], scenario: type[pydantic.BaseModel]) -> Any:
    """Annotation of a field, None where no tables lead to one.

    A number stands for an item of a list, no name at all for the scenario.
    """
    found: Any = scenario
    for part in where:
        if part.isdigit():
            found = found.__args__[0]
        else:
            field = getattr(found, "model_fields", {}).get(part)
            # links know more tables than they have fields: those of plugins' models
            models: Mapping[str, Any] = found.models_with_tables() if hasattr(found, "models_with_tables") else {}
            found = _without_none(field.annotation) if field else part in models and models[part].settings
    return found


def _without_none(annotation: Any) -> Any:
    """The table of a field that need not be there; other annotations as they are."""
    choices = [choice for choice in getattr(annotation, "__args__", ()) if choice is not NoneType]
    return choices[0] if isinstance(annotation, UnionType) and len(choices) == 1 else annotation


def _fields_at(where: Sequence[str], scenario: type[pydantic.BaseModel]) -> list[str]:
    """Names that a table of the scenario knows; none for a field that is no table."""
    table = _type_at(where, scenario)
    if is_dataclass(table):
        return [field.name for field in fields(table)]
    return list(getattr(table, "model_fields", {}))
