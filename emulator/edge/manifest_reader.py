"""Reader of `manifest.json`: from text to a `Manifest`, without trust, because bundles travel.

Needs no library, because devices have few. Whatever is missing, unknown or of the wrong type is refused by name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, get_args

from ..contracts import MODALITIES, InputWindow, Modality
from .input_summaries import summary_names
from .manifest import (
    FORMAT,
    MOST_BYTES,
    MOST_READING,
    MOST_VALUES,
    VERSION,
    BundleError,
    DriftReference,
    FigureBounds,
    FileFacts,
    ForecastSpec,
    Golden,
    InputSpec,
    LabelShares,
    Manifest,
    OutputKind,
    OutputSpec,
    Runtime,
    tree_digest,
)
from .precisions import PRECISIONS

#: Of the text; manifests of the shipped scenarios have 3 to 8 KB.
MOST_MANIFEST_BYTES = 1 << 20
_LONGEST_TEXT, _DEEPEST_METRICS = 4096, 6
#: Of a list; the labels of the largest codebook are far fewer.
_LONGEST_LIST = 1 << 14
#: Dimensions of an input, and frames that a server keeps per sensor: a product of more could not even be computed.
_MOST_DIMENSIONS, _MOST_FRAMES = 8, 1 << 16
#: Names that mean the same on every system and lead nowhere else.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: Of a temperature, which divides logits, and of what is added to them: no training weighs classes by more.
LOWEST_TEMPERATURE, MOST_SHIFT = 1e-3, 1e3
_LARGEST = 1e300  # whole numbers of JSON can be larger than any float

_Made = TypeVar("_Made")
_Reader = Callable[[Any], Any]


def read_manifest(text: str | bytes) -> Manifest:
    """The manifest that a text holds.

    Raises:
        BundleError: it is none of ours, of another version, changed since it was written, or a field is wrong.
    """
    if len(text) > MOST_MANIFEST_BYTES:
        raise BundleError(f"manifest.json has {len(text)} bytes, more than {MOST_MANIFEST_BYTES}, which none has")
    try:
        # Python's JSON takes NaN and Infinity, which are no JSON, and of a name that comes twice the last.
        tree = json.loads(text, parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_no_name_twice)
        found = tree_digest(tree)  # nested too deep, it fails here at the latest
    except (ValueError, RecursionError) as error:
        raise BundleError(f"manifest.json is no JSON ({error}); export the bundle again") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise BundleError(f"manifest.json is not of a bundle: format must be {FORMAT!r}")
    # True == 1 in Python.
    if tree.get("version") != VERSION or tree["version"] is True:
        shown = repr(tree.get("version"))[:80]
        raise BundleError(f"manifest.json has version {shown}, this release reads {VERSION}; export the bundle again")
    if tree.pop("digest", None) != found:
        raise BundleError("manifest.json was changed after it was written: its digest does not fit; export it again")
    del tree["format"], tree["version"]
    manifest = _object(Manifest, _MANIFEST, later=frozenset({"drift"}))(tree)
    if len({*manifest.modalities}) != len(manifest.modalities) or not manifest.inputs:
        raise BundleError("manifest.json: inputs must be different modalities, at least one")
    _check_drift(manifest)
    return manifest


def _check_drift(manifest: Manifest) -> None:
    """Compare the figures of drift with the inputs and labels that they are about.

    Raises:
        BundleError: one is missing, or is about something else.
    """
    if manifest.drift is None:
        return
    found = {modality: {*figures} for modality, figures in manifest.drift.inputs.items()}
    if found != {str(spec.modality): {*summary_names(spec)} for spec in manifest.inputs}:
        raise BundleError("manifest.json: figures of drift are not those of the inputs; export it again")
    if (n := len(manifest.drift.answers.shares)) != len(manifest.output.labels):
        raise BundleError(f"manifest.json: drift has {n} shares for {len(manifest.output.labels)} labels")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


# --- readers: from JSON to a value, or a ValueError that says what was expected --------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"must be a text of at most {_LONGEST_TEXT} characters")
    # These texts are printed; what steers a terminal has no place in them.
    if not all(sign.isprintable() or sign in "\n\t" for sign in value):
        raise ValueError("must hold printable characters only")
    return value


def _whole(low: int, high: int = MOST_VALUES) -> _Reader:
    def read(value: Any) -> int:
        # type, not isinstance: True is an int to Python
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"must be a whole number of at least {low} and at most {high}")
        return value

    return read


def _number(low: float, *, open_end: bool = False) -> _Reader:
    def read(value: Any) -> float:
        fits = type(value) in {int, float} and low <= value <= _LARGEST and not (open_end and value == low)
        if not fits:
            raise ValueError(f"must be a finite number {'above' if open_end else 'of at least'} {low:g}")
        return float(value)

    return read


def _one_of(choices: Sequence[str]) -> _Reader:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return read


def _optional(reader: _Reader) -> _Reader:
    return lambda value: None if value is None else reader(value)


def _list(reader: _Reader, most: int = _LONGEST_LIST) -> _Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            raise ValueError(f"must be a list of at most {most}")
        return tuple(reader(item) for item in value)

    return read


def _named(reader: _Reader, name_reader: Callable[[str], str] = _text) -> _Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("must be an object")
        return {name_reader(name): reader(item) for name, item in value.items()}

    return read


def _plain(value: Any) -> str | int | float:
    if type(value) is str:
        return _text(value)
    if type(value) not in {int, float}:
        raise ValueError("must hold texts and numbers")
    return value  # type: ignore[no-any-return]


def _figures(depth: int) -> _Reader:
    """Numbers and texts by name, so many objects inside one another."""

    def read(value: Any) -> Any:
        if isinstance(value, dict) and depth > 0:
            return {_text(name): _figures(depth - 1)(item) for name, item in value.items()}
        return _plain(value)

    return read


def _file_name(value: str) -> str:
    if not _FILE_NAME.fullmatch(value):
        raise BundleError(f"manifest.json: {value[:80]!r} cannot be the name of a file in a bundle; export it again")
    return value


def _object(
    made: Callable[..., _Made], readers: Mapping[str, _Reader], later: frozenset[str] = frozenset()
) -> Callable[[Any], _Made]:
    """Reads an object with exactly these fields; those of `later` may be missing, as earlier releases wrote none."""

    def read(value: Any) -> _Made:
        if not isinstance(value, dict):
            raise ValueError("must be an object")
        # Unknown fields are refused like missing ones: a later release may have given them a meaning that matters.
        if wrong := (set(value) ^ set(readers)) - (later - set(value)):
            raise BundleError(
                f"manifest.json: field {min(wrong)[:80]!r} is {'missing' if min(wrong) in readers else 'unknown'}"
            )
        content = {}
        for name, reader in readers.items():
            if name not in value:
                continue
            try:
                content[name] = reader(value[name])
            except BundleError:
                raise
            except ValueError as error:
                raise BundleError(f"manifest.json: {name} {error}, got {str(value[name])[:80]!r}") from None
        return made(**content)

    return read


def _input_spec(
    modality: Modality,
    shape: tuple[int, ...],
    frame_shape: tuple[int, ...],
    frames: int,
    frame_axis: int | None,
    lag: int,
    **others: Any,
) -> InputSpec:
    """One input; its file has the shape of a frame as well, which must fit."""
    try:
        window = InputWindow(modality, frames, lag, frame_axis)
        fits = window.input_shape(frame_shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise BundleError(
            f"input {modality}: {frames} frames of shape {list(frame_shape)} along axis {frame_axis} do not make a"
            f" sample of shape {list(shape)}"
        )
    return InputSpec(window, shape, **others)


_INPUT: Mapping[str, _Reader] = {
    "modality": _one_of(MODALITIES),
    "shape": _list(_whole(1), _MOST_DIMENSIONS),
    "frame_shape": _list(_whole(1), _MOST_DIMENSIONS),
    "frames": _whole(1, _MOST_FRAMES),
    "frame_axis": _optional(_whole(0)),
    "lag": _whole(0, _MOST_FRAMES),
    "rate_hz": _number(0.0, open_end=True),
    "unit": _text,
    "meaning": _text,
    "nothing": _optional(_number(-MOST_READING)),
}
_FORECAST: Mapping[str, _Reader] = {
    "series": _list(_text),
    "fades_db": _list(_number(-MOST_READING)),
    "ahead_s": _list(_number(0.0, open_end=True)),
    "warned": _whole(1),
}
_OUTPUT: Mapping[str, _Reader] = {
    "kind": _one_of(get_args(OutputKind)),
    "labels": _list(_text),
    "meaning": _text,
    "threshold": _number(-1e9),
    "horizon_s": _number(0.0),
    "codebook": _list(_whole(0)),
    "temperature": _number(LOWEST_TEMPERATURE),
    "prior_shift": _list(_number(-MOST_SHIFT)),
    "forecast": _object(ForecastSpec, _FORECAST),
}
_BOUNDS: Mapping[str, _Reader] = {one.name: _number(-_LARGEST) for one in fields(FigureBounds)}
_DRIFT: Mapping[str, _Reader] = {
    "stride": _whole(1, _MOST_FRAMES),
    "window": _whole(1, _MOST_FRAMES),
    "false_alarms": _number(0.0),
    "inputs": _named(_named(_object(FigureBounds, _BOUNDS))),
    "answers": _object(
        LabelShares, {"shares": _list(_number(0.0)), "window": _whole(1, _MOST_FRAMES), "distance": _number(0.0)}
    ),
}
_MANIFEST: Mapping[str, _Reader] = {
    "name": _text,
    "created_by": _text,
    "task": _text,
    "question": _text,
    "precision": _one_of(tuple(PRECISIONS)),
    "runtime": _object(Runtime, {"opset": _whole(1), "ir_version": _whole(1), "onnxruntime": _text}),
    "inputs": _list(_object(_input_spec, _INPUT, later=frozenset({"nothing"}))),
    "output": _object(OutputSpec, _OUTPUT, later=frozenset({"temperature", "prior_shift", "forecast"})),
    "flops": _number(0.0),
    "parameters": _whole(0),
    "trained": _named(_plain),
    "metrics": _named(_figures(_DEEPEST_METRICS)),
    "golden": _object(Golden, {"rows": _whole(1), "tolerance": _number(0.0)}),
    "files": _named(_object(FileFacts, {"sha256": _text, "bytes": _whole(0, MOST_BYTES)}), _file_name),
    "drift": _optional(_object(DriftReference, _DRIFT)),
}
# a field that is added to Manifest needs a reader, or no bundle could be read back
assert set(_MANIFEST) == {one.name for one in fields(Manifest)}
