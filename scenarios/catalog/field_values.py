"""Type, default, unit and valid values of a field, from its annotation and from the check that would refuse others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

from ...emulator.contracts import ConfigError

#: Ending of a name -> unit of its value; the first that fits counts.
UNITS = {
    "m_per_s": "m/s",
    "per_s": "1/s",
    "bps": "bit/s",
    "dbm": "dBm",
    "db": "dB",
    "hz": "Hz",
    "deg": "deg",
    "ppm": "ppm",
    "bytes": "bytes",
    "gb": "GB",
    "km": "km",
    "ms": "ms",
    "s": "s",
    "m": "m",
    "w": "W",
    "j": "J",
}
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "table"}
#: Limits of pydantic and the words for them.
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "at least"}
#: Powers of two from here on are written as such.
_LARGE = 40
#: Values that a check refuses, if it refuses any number: one below, one above what devices and streets have.
_PROBES = (-1, -1e9, 1e30)


def unit_of(field: str) -> str:
    """Unit of a field that is called so; empty for counts, shares, names and switches."""
    return next((unit for ending, unit in UNITS.items() if field.endswith(f"_{ending}")), "")


def is_table(annotation: Any) -> bool:
    """Whether values are tables whose fields have names of their own."""
    return isinstance(annotation, type) and (issubclass(annotation, pydantic.BaseModel) or is_dataclass(annotation))


def bare(annotation: Any) -> Any:
    """An annotation without what `Annotated` adds, and without None."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        choices = [choice for choice in get_args(annotation) if choice is not NoneType]
        return bare(choices[0]) if len(choices) == 1 else Union[tuple(map(bare, choices))]  # noqa: UP007 - made here
    return annotation


def type_text(annotation: Any) -> str:
    """Type of a value in TOML: "integer", "list of strings", "table"."""
    return " or ".join(dict.fromkeys(_type_words(annotation)))


def _type_words(annotation: Any) -> Iterator[str]:
    found = bare(annotation)
    if is_table(found):
        yield "table"
    elif get_origin(found) is Literal:
        yield from (_TYPES[type(choice)] for choice in get_args(found))
    elif get_origin(found) in (Union, UnionType):
        for choice in get_args(found):
            yield from _type_words(choice)
    elif get_origin(found) is tuple:
        words = [word for item in get_args(found) if item is not Ellipsis for word in _type_words(item)]
        plural = (word.replace("list ", "lists ") if word.startswith("list ") else f"{word}s" for word in words)
        yield f"list of {' or '.join(dict.fromkeys(plural))}"
    else:
        yield _TYPES.get(get_origin(found) or found, "string")


def default_text(default: Any) -> str:
    """A default as a scenario file writes it; "required" or "not set" where there is none."""
    if default is Ellipsis:
        return "required"
    if default is None:
        return "not set"
    if isinstance(default, tuple | list):
        return f"[{', '.join(map(default_text, default))}]"
    if isinstance(default, float):
        return f"{default:g}" if default == float(f"{default:g}") else repr(default)
    return json.dumps(str(default) if isinstance(default, str) else default)


def valid_text(owner: type, name: str, field: FieldInfo | None, annotation: Any) -> str:
    """Which values a field takes; empty where its type says it all.

    Args:
        owner: class of the table that holds the field.
        name: of the field.
        field: of a pydantic model; None for a dataclass.
        annotation: of the field.
    """
    found = bare(annotation)
    if choices := literal_choices(annotation):
        return ", ".join(default_text(choice) for choice in choices)
    limits = [*_limits(annotation), *([] if field is None else field.metadata)]
    if text := _limits_text(limits, is_list=get_origin(found) is tuple):
        return text
    if not {int, float} & {found, *get_args(found)} or get_origin(found) is tuple:
        return ""
    return " or ".join([_refusal(owner, name), *map(default_text, _alternatives(found))])


def literal_choices(annotation: Any) -> tuple[Any, ...]:
    """Values of a Literal, or of the items of a list; empty where other values are valid too."""
    found = bare(annotation)
    if get_origin(found) is tuple:
        items = [item for item in get_args(found) if item is not Ellipsis]
        return literal_choices(items[0]) if len(items) == 1 else ()
    if get_origin(found) in (Union, UnionType):
        parts = [literal_choices(choice) for choice in get_args(found)]
        return tuple(choice for part in parts for choice in part) if all(parts) else ()
    return get_args(found) if get_origin(found) is Literal else ()


def _alternatives(found: Any) -> list[Any]:
    """Words that a field takes beside numbers."""
    return [word for choice in get_args(found) if get_origin(choice) is Literal for word in get_args(choice)]


def _limits(annotation: Any) -> Iterator[Any]:
    """Limits that `Annotated` adds, also in a field that need not be set."""
    if get_origin(annotation) is Annotated:
        first, *added = get_args(annotation)
        for one in added:
            yield from one.metadata if isinstance(one, FieldInfo) else [one]
        yield from _limits(first)
    elif get_origin(annotation) in (Union, UnionType):
        for choice in get_args(annotation):
            yield from _limits(choice)


def _limits_text(limits: Sequence[Any], *, is_list: bool) -> str:
    """Limits as an interval, or as words where there is one of them."""
    said = {name: found for one in limits for name in _LIMITS if (found := getattr(one, name, None)) is not None}
    low = next((name for name in ("ge", "gt") if name in said), None)
    high = next((name for name in ("le", "lt") if name in said), None)
    if low and high:
        opened, closed = "[("[low == "gt"], "])"[high == "lt"]
        return f"in {opened}{_number(said[low])}, {_number(said[high])}{closed}"
    words = [f"{_LIMITS[name]} {_number(said[name])}" for name in (low, high) if name]
    if least := said.get("min_length"):
        words.append(f"at least {least} of them" if is_list else "not empty")
    return ", ".join(words)


def _number(limit: float) -> str:
    """A limit as people write it; seeds end at a power of two."""
    power = int(limit).bit_length() - 1
    return f"2^{power}" if power > _LARGE and limit == 1 << power else f"{limit:g}"


def _refusal(owner: type, name: str) -> str:
    """What the check of the table says is valid, asked with numbers that it may refuse."""
    for probe in _PROBES:
        for sentence in _complaints(owner, name, probe):
            if match := re.search(rf"\b{name} must (?:be |lie )?(?P<valid>.*?), got ", sentence):
                return match["valid"]
    return ""


def _complaints(owner: type, name: str, value: float) -> list[str]:
    try:
        if issubclass(owner, pydantic.BaseModel):
            owner.model_validate({name: value})
        else:
            owner(**{name: value})
    except pydantic.ValidationError as error:
        return [str(one.get("ctx", {}).get("error", "")) for one in error.errors()]
    except (ConfigError, TypeError, OverflowError, ZeroDivisionError) as error:
        return [str(error)]
    return []
