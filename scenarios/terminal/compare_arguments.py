"""From a command line to a comparison: options replace what a file says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...emulator.contracts import ConfigError
from ..compare.comparison import Comparison, Edits, loaded_tables, validated_comparison
from ..schema.scenario import parse_assignment

#: Brackets and quotes, between which a comma separates nothing.
_PIECES = re.compile(r"""\[[^\]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|,|[^,\[{"']+|.""")


def asked_comparison(
    name_or_path: str,
    *,
    algorithms: str | None = None,
    arms: Sequence[str] = (),
    edits: Sequence[str] = (),
    seeds: int | None = None,
    vary: str | None = None,
    reference: str | None = None,
) -> Comparison:
    """The comparison of a command line.

    Args:
        name_or_path: a scenario or a comparison file.
        algorithms: names, with commas between; arms of these names. None, without other arms: those of the file, or all
            algorithms.
        arms: "NAME: key=value, key=value" each.
        edits: "key=value" each, of all arms.
        seeds: how many, from 0 on.
        vary: "key=value,value,...".
        reference: name of an arm.

    Raises:
        ConfigError: whatever does not fit.
    """
    tables = loaded_tables(name_or_path)
    chosen = {**_algorithm_arms(algorithms), **dict(_parsed_arm(text) for text in arms)}
    if chosen:
        tables["arms"] = chosen
        tables.pop("tuning", None)  # it was about arms that are gone
        if tables.get("reference") not in chosen:
            tables.pop("reference", None)
    elif "arms" not in tables:
        from ...models.algorithms.algorithm_table import ALGORITHMS

        tables["arms"] = {name: {"algorithm": name} for name in ALGORITHMS}
    if seeds is not None:
        tables["seeds"] = first_seeds(seeds)
    if vary is not None:
        key, values = parsed_values("--vary", vary)
        tables["vary"] = {key: values}
    if reference is not None:
        tables["reference"] = reference
    comparison = validated_comparison(tables)
    more = dict(parse_assignment(text) for text in edits)
    return comparison.edited({"set": {**comparison.edits, **more}}) if more else comparison


def first_seeds(n_seeds: int) -> list[int]:
    """0 to n - 1.

    Raises:
        ConfigError: none at all.
    """
    if n_seeds < 1:
        raise ConfigError(f"--seeds must be at least 1, got {n_seeds}; 5 runs seeds 0 to 4")
    return list(range(n_seeds))


def parsed_values(option: str, text: str) -> tuple[str, list[Any]]:
    """Key and values of "key=value,value,...".

    Raises:
        ConfigError: no key or no value.
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise ConfigError(
            f"{option} takes key=value,value,..., got {text!r}; for example {option} link.loss_probability=0,0.2"
        )
    return key.strip(), [parse_assignment(f"value={piece}")[1] for piece in _between_commas(values)]


def parsed_grid(texts: Sequence[str]) -> Mapping[str, list[Any]]:
    """Key -> values of several options.

    Raises:
        ConfigError: a key twice, or without values.
    """
    grid: dict[str, list[Any]] = {}
    for key, values in (parsed_values("--grid", text) for text in texts):
        if key in grid:
            raise ConfigError(f"--grid {key} is given twice; list all its values once, with commas between")
        grid[key] = values
    return grid


def _algorithm_arms(names: str | None) -> dict[str, Edits]:
    return {name.strip(): {"algorithm": name.strip()} for name in names.split(",")} if names else {}


def _parsed_arm(text: str) -> tuple[str, Edits]:
    name, colon, edits = text.partition(":")
    pieces = list(_between_commas(edits))
    if not colon or any("=" not in piece for piece in pieces):
        raise ConfigError(
            f"--arm takes 'NAME: key=value, key=value', got {text!r}; for example"
            " --arm 'encoders only: algorithm=sheaf_dmfl_att, sheaf.coupling=0'"
        )
    return name.strip(), dict(parse_assignment(piece) for piece in pieces)


def _between_commas(text: str) -> Iterator[str]:
    """Pieces of a list, where lists, tables and quoted texts in it stay whole."""
    piece = ""
    for part in [*_PIECES.findall(text), ","]:
        if part != ",":
            piece += part
        elif piece.strip():
            yield piece.strip()
            piece = ""
