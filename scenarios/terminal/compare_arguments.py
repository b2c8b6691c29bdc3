"""Comparison from a command line: options replace fields of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...emulator.contracts import ConfigError
from ..compare.comparison import Comparison, Edits, combined_comparison
from ..schema.data_section import first_repeated
from ..schema.scenario import parse_assignment

#: Quoted texts, whole because what is inside means nothing here, and all other characters one by one.
_PIECES = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|.""", re.DOTALL)


def requested_comparison(
    name_or_path: str,
    *,
    algorithms: str | None = None,
    methods: Sequence[str] = (),
    edits: Sequence[str] = (),
    seeds: int | None = None,
    vary: str | None = None,
    reference: str | None = None,
    otherwise: Mapping[str, Edits] | None = None,
) -> Comparison:
    """Comparison of a command line.

    Args:
        name_or_path: name of a scenario, or path of a scenario or comparison file.
        algorithms: comma-separated names; one method each. None, and no `methods`: the methods of the file, or
            `otherwise`.
        methods: "NAME: key=value, key=value" each.
        edits: "key=value" each, for all methods.
        seeds: number of seeds, starting at 0.
        vary: "key=value,value,...".
        reference: name of a method.
        otherwise: methods where nothing else names any; None: all algorithms.

    Raises:
        ConfigError: an invalid option or file.
    """
    replaced: dict[str, Any] = {}
    if chosen := [*_algorithm_methods(algorithms), *(_parsed_method(text) for text in methods)]:
        if (again := first_repeated([name for name, _ in chosen])) is not None:
            raise ConfigError(f"--algorithms and --method name {again!r} twice; give every method a name of its own")
        replaced["methods"] = dict(chosen)
    if seeds is not None:
        replaced["seeds"] = first_seeds(seeds)
    if vary is not None:
        key, values = parsed_values("--vary", vary)
        replaced["vary"] = {key: values}
    if reference is not None:
        replaced["reference"] = reference
    return combined_comparison(name_or_path, replaced, dict(parse_assignment(text) for text in edits), otherwise)


def first_seeds(n_seeds: int) -> list[int]:
    """Seeds 0 to n - 1.

    Raises:
        ConfigError: n below 1.
    """
    if n_seeds < 1:
        raise ConfigError(f"--seeds must be at least 1, got {n_seeds}; 5 runs seeds 0 to 4")
    return list(range(n_seeds))


def parsed_values(option: str, text: str) -> tuple[str, list[Any]]:
    """Key and values of a text "key=value,value,...".

    Raises:
        ConfigError: no key or no value.
    """
    key, _, values = text.partition("=")
    pieces = _between_commas(values)
    if not key.strip() or not pieces:
        raise ConfigError(
            f"{option} takes key=value,value,..., got {text!r}; for example {option} link.loss_probability=0,0.2"
        )
    return key.strip(), [parse_assignment(f"value={piece}")[1] for piece in pieces]


def parsed_grid(texts: Sequence[str]) -> Mapping[str, list[Any]]:
    """Key -> values of all --grid options.

    Raises:
        ConfigError: a key twice, or without values.
    """
    grid: dict[str, list[Any]] = {}
    for key, values in (parsed_values("--grid", text) for text in texts):
        if key in grid:
            raise ConfigError(f"--grid {key} is given twice; list all its values once, with commas between")
        grid[key] = values
    return grid


def _algorithm_methods(names: str | None) -> list[tuple[str, Edits]]:
    return [(name.strip(), {"algorithm": name.strip()}) for name in names.split(",")] if names else []


def _parsed_method(text: str) -> tuple[str, Edits]:
    name, colon, edits = text.partition(":")
    pieces = _between_commas(edits)
    if not colon or any("=" not in piece for piece in pieces):
        raise ConfigError(
            f"--method takes 'NAME: key=value, key=value', got {text!r}; for example"
            " --method 'encoders only: algorithm=sheaf_dmfl_att, sheaf.coupling=0'"
        )
    return name.strip(), dict(parse_assignment(piece) for piece in pieces)


def _between_commas(text: str) -> list[str]:
    """Comma-separated pieces; lists, tables and quoted texts inside stay whole."""
    pieces, depth = [""], 0
    for part in _PIECES.findall(text):
        depth = max(0, depth + (part in "[{") - (part in "]}"))
        if part == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += part
    return [piece.strip() for piece in pieces if piece.strip()]
