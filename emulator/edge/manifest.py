"""What a bundle says about its model: inputs, outputs, where it comes from, how good it is, and every file's hash.

Read without any library, because devices have few, and without trust, because bundles travel: whatever is missing,
unknown or of the wrong type is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self, TypeVar, get_args

from ..contracts import MODALITIES, Modality, SheafedgeError

FORMAT = "sheafedge-bundle"
VERSION = 1

Precision = Literal["float32", "float16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
OutputKind = Literal["binary", "classes"]

#: Far above every model here, far below what hurts a device.
MOST_VALUES = 1 << 26
#: Of all files of a bundle together: a device must not be filled by a file that says it is small.
MOST_BYTES = 1 << 30
_LONGEST_TEXT, _DEEPEST_METRICS = 4096, 6
#: Names that mean the same on every system and lead nowhere else.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LARGEST = 1e300  # whole numbers of JSON can be larger than any float

_Made = TypeVar("_Made")
_Reader = Callable[[Any], Any]


class BundleError(SheafedgeError, ValueError):
    """A bundle is damaged, incomplete, changed, or none; the message names the file or field."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of the model, and how a device makes it of what a sensor gives.

    Attributes:
        modality: also the name of the graph's input.
        shape: of one sample, without the batch.
        frame_shape: of what the sensor gives at one instant.
        frames: in a sample.
        frame_axis: of `shape` along which frames lie, oldest first; None: one frame is the sample.
        lag: how many frames the newest of the sample is before now; 1 where the answer is about the frame of now.
        rate_hz: at which the sensor gave frames when the model was trained.
        unit: of the values.
        meaning: for people.
    """

    modality: Modality
    shape: tuple[int, ...]
    frame_shape: tuple[int, ...]
    frames: int
    frame_axis: int | None
    lag: int
    rate_hz: float
    unit: str
    meaning: str

    def __post_init__(self) -> None:
        made = list(self.frame_shape)
        if self.frame_axis is None:
            fits = self.frames == 1
        else:
            fits = 0 <= self.frame_axis <= len(made)
            made.insert(self.frame_axis, self.frames)
        if not fits or tuple(made) != self.shape:
            raise BundleError(
                f"input {self.modality}: {self.frames} frames of shape {list(self.frame_shape)} along axis"
                f" {self.frame_axis} do not make a sample of shape {list(self.shape)}"
            )
        if math.prod(self.shape) > MOST_VALUES:
            raise BundleError(f"input {self.modality}: a sample of shape {list(self.shape)} is too large")


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """What the logits mean.

    Attributes:
        kind: binary: one logit, above `threshold` stands for the second label; classes: one logit per label.
        labels: of the answers.
        meaning: for people.
        threshold: of a binary logit.
        horizon_s: how far ahead the answer looks; 0: it is about now.
        codebook: beam of the whole codebook that each label stands for; empty where labels are no beams.
    """

    kind: OutputKind
    labels: tuple[str, ...]
    meaning: str
    threshold: float = 0.0
    horizon_s: float = 0.0
    codebook: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.labels) < 2 or (self.kind == "binary" and len(self.labels) != 2):
            raise BundleError(f"output: kind {self.kind} does not go with {len(self.labels)} labels")
        if self.codebook and len(self.codebook) != len(self.labels):
            raise BundleError(f"output: {len(self.codebook)} beams of the codebook for {len(self.labels)} labels")

    @property
    def n_outputs(self) -> int:
        """Logits per sample."""
        return 1 if self.kind == "binary" else len(self.labels)


@dataclass(frozen=True, slots=True)
class Runtime:
    """What must be there to run the model.

    Attributes:
        opset: of ONNX.
        ir_version: of the file.
        onnxruntime: oldest release that was told to run it, such as "1.20".
    """

    opset: int
    ir_version: int
    onnxruntime: str


@dataclass(frozen=True, slots=True)
class Golden:
    """Samples with the answers that they must get.

    Attributes:
        rows: in the file.
        tolerance: largest difference of a logit.
    """

    rows: int
    tolerance: float


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a bundle."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a bundle says about its model.

    Attributes:
        name: of the bundle, such as "blockage-client-00".
        created_by: release that wrote it.
        task: name of the question.
        question: for people.
        precision: of the numbers inside the model; inputs and outputs are float32 always.
        runtime: what it needs.
        inputs: in the order of the graph.
        output: what comes out.
        flops: of one answer, matrix work only.
        parameters: numbers in the model.
        trained: where it comes from: scenario, algorithm, seed, client and so on.
        metrics: how good it is, as nested objects of numbers; `docs/edge.md` names them.
        golden: of `samples.npz`.
        files: name -> facts, of everything but the manifest.
    """

    name: str
    created_by: str
    task: str
    question: str
    precision: Precision
    runtime: Runtime
    inputs: tuple[InputSpec, ...]
    output: OutputSpec
    flops: float
    parameters: int
    trained: Mapping[str, str | int | float]
    metrics: Mapping[str, Any]
    golden: Golden
    files: Mapping[str, FileFacts] = field(default_factory=dict)

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Of the inputs, in their order."""
        return tuple(one.modality for one in self.inputs)

    @property
    def span_s(self) -> float:
        """From the oldest frame of a sample to now."""
        return max((one.frames - 1 + one.lag) / one.rate_hz for one in self.inputs)

    def with_files(self, content: Mapping[str, bytes]) -> Self:
        """The same about these files."""
        facts = {name: FileFacts(hashlib.sha256(data).hexdigest(), len(data)) for name, data in sorted(content.items())}
        return replace(self, files=facts)

    @property
    def digest(self) -> str:
        """Hash of all that it says."""
        return _digest(self._tree())

    def as_json(self) -> str:
        """Text of `manifest.json`; its last field is the digest."""
        tree = self._tree()
        return json.dumps({**tree, "digest": _digest(tree)}, indent=1, allow_nan=False) + "\n"

    def _tree(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def read_manifest(text: str | bytes) -> Manifest:
    """The manifest that a text holds.

    Raises:
        BundleError: it is none of ours, of another version, changed since it was written, or a field is wrong.
    """
    try:
        tree = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        found = _digest(tree)  # nested too deep, it fails here at the latest
    except (ValueError, RecursionError) as error:
        raise BundleError(f"manifest.json is no JSON ({error}); export the bundle again") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise BundleError(f"manifest.json is not of a bundle: format must be {FORMAT!r}")
    if tree.get("version") != VERSION or tree["version"] is True:
        raise BundleError(
            f"manifest.json has version {tree.get('version')!r}, this release reads {VERSION}; export the bundle again"
        )
    if tree.pop("digest", None) != found:
        raise BundleError("manifest.json was changed after it was written: its digest does not fit; export it again")
    del tree["format"], tree["version"]
    manifest = _object(Manifest, _MANIFEST)(tree)
    if len({*manifest.modalities}) != len(manifest.modalities) or not manifest.inputs:
        raise BundleError("manifest.json: inputs must be different modalities, at least one")
    return manifest


def _digest(tree: Any) -> str:
    """Of everything but the digest itself."""
    if isinstance(tree, dict):
        tree = {name: value for name, value in tree.items() if name != "digest"}
    return hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


# --- readers: from JSON to a value, or a ValueError that says what was expected --------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError("must be a text")
    return value


def _whole(low: int, high: int = MOST_VALUES) -> _Reader:
    def read(value: Any) -> int:
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


def _list(reader: _Reader) -> _Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(reader(item) for item in value)

    return read


def _named(reader: _Reader, name_reader: Callable[[str], str] = str) -> _Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("must be an object")
        return {name_reader(name): reader(item) for name, item in value.items()}

    return read


def _plain(value: Any) -> str | int | float:
    if type(value) not in {str, int, float}:
        raise ValueError("must hold texts and numbers")
    return value  # type: ignore[no-any-return]


def _figures(depth: int) -> _Reader:
    """Numbers and texts by name, so many objects inside one another."""

    def read(value: Any) -> Any:
        if isinstance(value, dict) and depth > 0:
            return {name: _figures(depth - 1)(item) for name, item in value.items()}
        return _plain(value)

    return read


def _file_name(value: str) -> str:
    if not _FILE_NAME.fullmatch(value):
        raise BundleError(f"manifest.json: {value[:80]!r} cannot be the name of a file in a bundle; export it again")
    return value


def _object(made: Callable[..., _Made], readers: Mapping[str, _Reader]) -> Callable[[Any], _Made]:
    """Reads an object with exactly these fields."""

    def read(value: Any) -> _Made:
        if not isinstance(value, dict):
            raise ValueError("must be an object")
        if wrong := set(value) ^ set(readers):
            raise BundleError(
                f"manifest.json: field {min(wrong)!r} is {'missing' if min(wrong) in readers else 'unknown'}"
            )
        content = {}
        for name, reader in readers.items():
            try:
                content[name] = reader(value[name])
            except BundleError:
                raise
            except ValueError as error:
                raise BundleError(f"manifest.json: {name} {error}, got {str(value[name])[:80]!r}") from None
        return made(**content)

    return read


_INPUT: Mapping[str, _Reader] = {
    "modality": _one_of(MODALITIES),
    "shape": _list(_whole(1)),
    "frame_shape": _list(_whole(1)),
    "frames": _whole(1),
    "frame_axis": _optional(_whole(0)),
    "lag": _whole(0),
    "rate_hz": _number(0.0, open_end=True),
    "unit": _text,
    "meaning": _text,
}
_OUTPUT: Mapping[str, _Reader] = {
    "kind": _one_of(get_args(OutputKind)),
    "labels": _list(_text),
    "meaning": _text,
    "threshold": _number(-1e9),
    "horizon_s": _number(0.0),
    "codebook": _list(_whole(0)),
}
_MANIFEST: Mapping[str, _Reader] = {
    "name": _text,
    "created_by": _text,
    "task": _text,
    "question": _text,
    "precision": _one_of(PRECISIONS),
    "runtime": _object(Runtime, {"opset": _whole(1), "ir_version": _whole(1), "onnxruntime": _text}),
    "inputs": _list(_object(InputSpec, _INPUT)),
    "output": _object(OutputSpec, _OUTPUT),
    "flops": _number(0.0),
    "parameters": _whole(0),
    "trained": _named(_plain),
    "metrics": _named(_figures(_DEEPEST_METRICS)),
    "golden": _object(Golden, {"rows": _whole(1), "tolerance": _number(0.0)}),
    "files": _named(_object(FileFacts, {"sha256": _text, "bytes": _whole(0, MOST_BYTES)}), _file_name),
}
assert set(_MANIFEST) == {one.name for one in fields(Manifest)}
