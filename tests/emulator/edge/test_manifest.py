"""What a bundle says of itself: it comes back as it was, and nothing else is believed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
from doubles.bundles import tiny_manifest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import InputWindow
from sheafedge.emulator.edge.manifest import BundleError, InputSpec, Manifest, OutputKind, OutputSpec
from sheafedge.emulator.edge.manifest_reader import MOST_MANIFEST_BYTES, read_manifest

FILES = {"model.onnx": b"a graph", "samples.npz": b"arrays", "README.md": b"words"}


@pytest.fixture(params=["binary", "classes", "forecast"])
def manifest(request: pytest.FixtureRequest) -> Manifest:
    return tiny_manifest(kind=request.param).with_files(FILES)


def signed(tree: dict[str, Any]) -> str:
    """A manifest that somebody wrote on purpose: its digest fits."""
    content = {name: value for name, value in tree.items() if name != "digest"}
    packed = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return json.dumps({**content, "digest": hashlib.sha256(packed.encode()).hexdigest()})


def tree_of(manifest: Manifest) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(manifest.as_json())
    return tree


def tables(tree: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every object of a tree whose fields are fixed, and where it is."""
    if isinstance(tree, dict):
        by_name = where == ("files",) or (where[:2] == ("drift", "inputs") and len(where) < 4)
        if where[:1] not in {("trained",), ("metrics",)} and not by_name:
            yield where, tree
        for name, value in tree.items():
            yield from tables(value, (*where, name))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from tables(value, (*where, index))


def changed(manifest: Manifest, where: tuple[Any, ...], change: Callable[[dict[str, Any]], None]) -> str:
    tree: Any = tree_of(manifest)
    inner = tree
    for key in where:
        inner = inner[key]
    change(inner)
    return signed(tree)


def places() -> list[tuple[tuple[Any, ...], str]]:
    tree = tree_of(tiny_manifest().with_files(FILES))
    return [(where, name) for where, table in tables(tree) for name in table if name != "digest"]


def test_a_manifest_comes_back_as_it_was(manifest: Manifest) -> None:
    assert read_manifest(manifest.as_json()) == manifest
    assert read_manifest(manifest.as_json().encode()) == manifest


def test_only_a_forecast_has_the_field_of_forecasts() -> None:
    """So that releases that know none read all other bundles."""
    for kind in get_args(OutputKind):
        assert ("forecast" in tree_of(tiny_manifest(kind=kind))["output"]) == (kind == "forecast")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"series": ["own", "own"]}, "different names"),
        ({"series": [], "fades_db": []}, "at least one"),
        ({"fades_db": [14.0]}, "a fade for each"),
        ({"ahead_s": [0.1, 0.3, 0.2]}, "ascend"),
        ({"ahead_s": []}, "ascend"),
        ({"ahead_s": [0.0, 0.1, 0.2]}, "ahead_s"),
        ({"warned": 4}, "warned must lie in 1 to 3"),
        ({"warned": 0}, "warned"),
        ({"ahead_s": [0.1 * (k + 1) for k in range(5000)]}, "more than 4096"),
    ],
    ids=str,
)
def test_a_forecast_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    manifest = tiny_manifest(kind="forecast").with_files(FILES)
    with pytest.raises(BundleError, match=said):
        read_manifest(changed(manifest, ("output", "forecast"), lambda table: table.update(changes)))


def test_a_kind_without_its_forecast_and_a_forecast_with_another_kind_are_refused() -> None:
    forecast = tiny_manifest(kind="forecast").with_files(FILES)
    for change in (
        {"kind": "binary"},
        {"prior_shift": [0.0, 1.0]},
    ):
        with pytest.raises(BundleError, match="does not go with"):
            read_manifest(changed(forecast, ("output",), partial(dict.update, **change)))
    with pytest.raises(BundleError, match="does not go with"):
        read_manifest(changed(forecast, ("output",), lambda table: table.pop("forecast")))


def test_the_span_reaches_from_the_oldest_frame_to_now() -> None:
    assert tiny_manifest(kind="binary", frames=4).span_s == pytest.approx(0.3)
    assert tiny_manifest(kind="classes", frames=4).span_s == pytest.approx(0.4)  # sweeps end one frame before now


@pytest.mark.parametrize(("where", "name"), places(), ids=str)
def test_no_field_may_be_missing(where: tuple[Any, ...], name: str) -> None:
    text = changed(tiny_manifest().with_files(FILES), where, lambda table: table.pop(name))
    if name == "nothing":  # earlier releases wrote neither it nor figures of drift
        text = changed(replace(tiny_manifest(), drift=None).with_files(FILES), where, lambda table: table.pop(name))
        assert read_manifest(text).inputs[where[1]].nothing is None
        return
    if name in ("temperature", "prior_shift"):  # likewise
        assert read_manifest(text).output == tiny_manifest().output
        return
    if name == "drift":  # likewise
        assert read_manifest(text).drift is None
        return
    with pytest.raises(BundleError, match=r"format|version|missing"):
        read_manifest(text)


@pytest.mark.parametrize("where", dict.fromkeys(where for where, _ in places()), ids=str)
def test_no_field_may_be_unknown(where: tuple[Any, ...]) -> None:
    text = changed(tiny_manifest().with_files(FILES), where, lambda table: table.update(suprise=1))
    with pytest.raises(BundleError, match="'suprise' is unknown"):
        read_manifest(text)


@pytest.mark.parametrize(("where", "name"), places(), ids=str)
def test_a_field_of_the_wrong_kind_is_refused(where: tuple[Any, ...], name: str) -> None:
    manifest = tiny_manifest().with_files(FILES)
    found: Any = tree_of(manifest)
    for key in where:
        found = found[key]
    kinds = [None, [1], {"a": 1}, "wrong", 2.5, True]
    optional = {"frame_axis": {type(None)}, "nothing": {type(None), float}, "drift": {type(None)}}.get(name, set())
    for value in kinds:
        if type(value) not in {type(found[name]), *optional}:
            with pytest.raises(BundleError):
                read_manifest(changed(manifest, where, partial(dict.update, **{name: value})))


def test_a_lost_sensor_is_one_that_sees_nothing() -> None:
    lidar, rf = tiny_manifest(frames=3).inputs
    assert lidar.blank.dtype == np.float32
    assert_array_equal(
        lidar.blank, [np.full((3, 6), 16.0), np.zeros((3, 6))]
    )  # ranges at the reach, angles say nothing
    assert_array_equal(rf.blank, np.zeros((3, 8)))  # no power stands for nothing
    assert_array_equal(replace(lidar, nothing=None).blank, np.zeros((2, 3, 6)))  # a bundle of an earlier release


BOUNDS = {"low": 0.0, "high": 1.0, "window_low": 0.0, "window_high": 1.0}
WRONG = {
    "a reading that no number of the model can be": (("inputs", 0), "nothing", 1e10, "cannot stand for nothing seen"),
    "an unknown sensor": (("inputs", 0), "modality", "sonar", "modality must be one of"),
    "the same sensor twice": (("inputs", 0), "modality", "rf", "different modalities"),
    "a rate of zero": (("inputs", 0), "rate_hz", 0.0, "rate_hz must be a finite number above 0"),
    "a rate of more digits than a float has": (("inputs", 0), "rate_hz", 10**400, "rate_hz must be a finite number"),
    "a rate without end": (("inputs", 0), "rate_hz", 1e999, "no JSON"),
    "frames that do not fit": (("inputs", 0), "frames", 5, "do not make a sample"),
    "an axis that is not there": (("inputs", 0), "frame_axis", 4, "do not make a sample"),
    "many frames without an axis": (("inputs", 0), "frame_axis", None, "do not make a sample"),
    "a sample that fills memory": (("inputs", 0), "shape", [1 << 20, 1 << 20], "do not make|too large"),
    "dimensions without end": (("inputs", 0), "shape", [1] * 9, "shape must be a list of at most 8"),
    "a frame of long ago": (("inputs", 0), "lag", 1 << 17, "lag must be a whole number"),
    "labels without end": (("output",), "labels", ["a"] * 20_000, "labels must be a list of at most"),
    "a name that clears the screen": ((), "name", "\x1b[2Jtiny", "name must hold printable characters"),
    "a version that clears the screen": ((), "version", "\x1b[2J", r"has version '\\x1b\[2J', this release"),
    "a size beyond counting": (("inputs", 0), "frames", 1 << 62, "frames must be a whole number"),
    "one label": (("output",), "labels", ["clear"], "does not go with 1 labels"),
    "three labels of a binary answer": (("output",), "labels", ["a", "b", "c"], "does not go with 3 labels"),
    "beams for other labels": (("output",), "codebook", [0, 1, 2], "3 beams of the codebook for 2 labels"),
    "a precision that nobody knows": ((), "precision", "int4", "precision must be one of"),
    "no inputs": ((), "inputs", [], "at least one"),
    "a text without end": ((), "question", "?" * 5000, "question must be a text"),
    "a tolerance below zero": (("golden",), "tolerance", -1.0, "tolerance must be a finite number"),
    "no golden row": (("golden",), "rows", 0, "rows must be a whole number of at least 1"),
    "a table where trained has plain values": (("trained",), "seed", [1], "texts and numbers"),
    "figures of no input": (("drift", "inputs"), "sonar", {}, "figures of drift are not those of the inputs"),
    "a figure that nobody computes": (("drift", "inputs", "rf"), "tone", BOUNDS, "figures of drift are not those"),
    "bounds in the wrong order": (("drift", "inputs", "rf", "mean"), "low", 1e10, "in the wrong order"),
    "shares of other labels": (("drift", "answers"), "shares", [1.0], "drift has 1 shares for 2 labels"),
    "a window of no answer": (("drift",), "window", 0, "window must be a whole number of at least 1"),
    "a file of negative size": (("files", "model.onnx"), "bytes", -1, "bytes must be a whole number"),
}


@pytest.mark.parametrize(("where", "name", "value", "said"), WRONG.values(), ids=WRONG.keys())
def test_an_impossible_value_is_refused_by_name(where: tuple[Any, ...], name: str, value: Any, said: str) -> None:
    with pytest.raises(BundleError, match=said):
        read_manifest(changed(tiny_manifest().with_files(FILES), where, lambda table: table.update({name: value})))


def test_an_input_whose_frames_would_fill_a_server_is_refused() -> None:
    """A sample of them is small, but all frames back to the oldest are kept."""
    InputSpec(InputWindow("rf", 1, lag=1 << 10), (1 << 14,), 10.0, "dB", "")
    with pytest.raises(BundleError, match="and lag 65536 is too large"):
        InputSpec(InputWindow("rf", 1, lag=1 << 16), (1 << 14,), 10.0, "dB", "")


def test_a_name_that_comes_twice_is_refused(manifest: Manifest) -> None:
    """Readers differ in which of two they take; the digest is that of the last one."""
    text = manifest.as_json().replace('"seed": 0', '"seed": 1, "seed": 0')
    with pytest.raises(BundleError, match="a name comes twice"):
        read_manifest(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" + "0," * MOST_MANIFEST_BYTES + "0]"])
def test_a_text_that_fills_stack_or_memory_is_refused(text: str) -> None:
    with pytest.raises(BundleError, match=r"no JSON|bytes, more than"):
        read_manifest(text)


def test_a_change_of_any_character_is_noticed(manifest: Manifest) -> None:
    text = manifest.as_json()
    with pytest.raises(BundleError, match="changed after it was written"):
        read_manifest(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(BundleError, match="changed after it was written"):
        read_manifest(text.replace('"balanced_accuracy": 0.5', '"balanced_accuracy": 0.9'))


def test_another_version_is_named(manifest: Manifest) -> None:
    with pytest.raises(BundleError, match="version 2, this release reads 1"):
        read_manifest(signed({**tree_of(manifest), "version": 2}))


NO_MANIFEST = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[1]",
    "another format": b'{"format": "onnx"}',
    "not a number": b'{"format": NaN}',
    "bytes that are no text": b"\xff\xfe\x00",
    "nested without end": b"[" * 100_000,
    "nested as deep as can be read": b"[" * 900 + b"]" * 900,
    "a number that no float holds": b'{"format": 1e999}',
    "a whole number of very many digits": b'{"format": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("text", NO_MANIFEST.values(), ids=NO_MANIFEST.keys())
def test_what_is_no_manifest_is_refused_in_one_sentence(text: bytes) -> None:
    with pytest.raises(BundleError) as refused:
        read_manifest(text)
    assert "\n" not in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(place=st.sampled_from(places()), value=JSON)
def test_whatever_is_in_a_field_it_is_read_or_refused(place: tuple[tuple[Any, ...], str], value: Any) -> None:
    """A manifest that somebody signed with any value anywhere raises nothing but our error."""
    where, name = place
    text = changed(tiny_manifest().with_files(FILES), where, lambda table: table.update({name: value}))
    try:
        found = read_manifest(text)
    except BundleError:
        return
    assert read_manifest(found.as_json()) == found


@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BundleError):
        read_manifest(data)


def test_a_sample_must_be_made_of_its_frames() -> None:
    with pytest.raises(BundleError, match="do not make a sample"):
        InputSpec(InputWindow("rf", 3, axis=0), (4, 8), 10.0, "dB", "")
    with pytest.raises(BundleError, match="too large"):
        InputSpec(InputWindow("rf", 1 << 14, axis=0), (1 << 14, 1 << 13), 10.0, "dB", "")


def test_logits_are_one_for_two_labels_or_one_each() -> None:
    assert OutputSpec("binary", ("clear", "blocked"), "").n_outputs == 1
    assert OutputSpec("classes", ("clear", "blocked"), "").n_outputs == 2


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("temperature", 0.0, "temperature must be a finite number"),
        ("temperature", "warm", "temperature must be a finite number"),
        ("prior_shift", [0.0], "1 shifts for"),
        ("prior_shift", [-1e9, 0.0], "prior_shift must be a finite number"),
    ],
)
def test_an_impossible_correction_of_probabilities_is_refused(
    manifest: Manifest, name: str, value: object, said: str
) -> None:
    with pytest.raises(BundleError, match=said):
        read_manifest(changed(manifest, ("output",), lambda output: output.__setitem__(name, value)))
