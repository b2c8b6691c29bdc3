"""Requests and answers of the Open Inference Protocol, version 2, for HTTP: tensors as JSON, or raw behind it.

Source: the REST API and the binary tensor data extension of the Open Inference Protocol (KServe, Triton). A request of
the latter has its JSON first, as long as the header `Inference-Header-Content-Length` says, and then the numbers of its
inputs, little-endian, in their order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...contracts import PRESENT_NAME, SheafedgeError
from ..manifest import Manifest
from .tensor_requests import ModelOutputs

#: Samples of a request; more are sent in several.
MOST_ROWS = 8
#: Characters of a number in JSON with its comma, and what is around the numbers.
_NUMBER_BYTES, _AROUND_BYTES = 24, 1 << 16
_LONGEST_ID = 128
#: Name of a kind of numbers -> numpy's, in the byte order of the wire.
DATATYPES: Mapping[str, str] = {
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    "INT8": "|i1",
    "UINT8": "|u1",
    "INT16": "<i2",
    "UINT16": "<u2",
    "INT32": "<i4",
}
BINARY_HEADER = "Inference-Header-Content-Length"
#: What the names of outputs begin with that forecast, before the name of the series.
FORECAST = "forecast_"


class InferenceRefused(SheafedgeError, ValueError):  # noqa: N818 - it is what happened, as the visitor reads it
    """A request is not answered, and why.

    Args:
        status: of HTTP.
        sentence: sentence with field, value, and what would be valid.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True, eq=False)
class InferenceQuery:
    """A request that fits the model.

    Attributes:
        id: the visitor's own name for it; None: it has none.
        inputs: name -> [n, ...] in physical units; `present` [n or 1, n_modalities] may be among them.
        outputs: names of what is wanted, in order.
        binary: those of them that are wanted raw.
    """

    id: str | None
    inputs: Mapping[str, NDArray[np.float32]]
    outputs: Sequence[str]
    binary: frozenset[str]


@dataclass(frozen=True, slots=True)
class Tensor:
    """What the metadata say of an input or output: sizes of one row, behind the number of rows."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Its object in the metadata; -1 is any number of rows."""
        return {"name": self.name, "datatype": self.datatype, "shape": [-1, *self.shape]}


@dataclass(frozen=True, slots=True)
class ModelInterface:
    """A served model as the protocol sees it.

    Attributes:
        name: name of the bundle.
        version: beginning of the digest of its manifest.
        inputs: those that must be given, then `present` where the model knows masks, which may be left out.
        outputs: all that it gives.
    """

    name: str
    version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @classmethod
    def of(cls, manifest: Manifest, *, masks: bool, shares: bool) -> ModelInterface:
        """Interface of a model; `masks`: it knows `present`; `shares`: it gives attention."""
        n = len(manifest.inputs)
        inputs = [Tensor(str(spec.modality), "FP32", spec.shape) for spec in manifest.inputs]
        outputs = [
            Tensor("logits", "FP32", (manifest.output.n_outputs,)),
            Tensor("probabilities", "FP32", (len(manifest.output.labels),)),
            Tensor("label_index", "INT64", ()),
        ]
        if (forecast := manifest.output.forecast) is not None:
            outputs += [Tensor(FORECAST + name, "FP32", (len(forecast.ahead_s),)) for name in forecast.series]
        if masks:
            inputs.append(Tensor(PRESENT_NAME, "FP32", (n,)))
        if shares:
            outputs.append(Tensor("attention", "FP32", (n,)))
        return cls(manifest.name, manifest.digest[:12], tuple(inputs), tuple(outputs))

    @property
    def most_body_bytes(self) -> int:
        """Longest request: `MOST_ROWS` samples in JSON."""
        return _AROUND_BYTES + MOST_ROWS * sum(_NUMBER_BYTES * math.prod(one.shape) for one in self.inputs)

    def metadata(self) -> dict[str, Any]:
        """Answer to a question about the model."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": "onnx_onnxv1",
            "inputs": [one.as_dict() for one in self.inputs],
            "outputs": [one.as_dict() for one in self.outputs],
        }


def read_query(body: bytes, json_bytes: int | None, model: ModelInterface) -> InferenceQuery:
    """Request in the body of a message.

    Args:
        body: the whole of it.
        json_bytes: how much of it is JSON, raw numbers follow; None: all of it.
        model: what the request must fit.

    Raises:
        InferenceRefused: it is no request, or not one for this model.
    """
    if json_bytes is not None and not 0 <= json_bytes <= len(body):
        _refuse(f"{BINARY_HEADER} must lie in 0 to the length of the body, {len(body)}, got {json_bytes}")
    fields = _object(body if json_bytes is None else body[:json_bytes])
    raw = memoryview(b"" if json_bytes is None else body)[json_bytes or 0 :]
    named = fields.get("id")
    if named is not None and (type(named) is not str or len(named) > _LONGEST_ID):
        _refuse(f"id must be a text of at most {_LONGEST_ID} characters")
    known = {one.name: one for one in model.inputs}
    inputs: dict[str, NDArray[np.float32]] = {}
    for given in _objects(fields, "inputs"):
        name = given.get("name")
        if type(name) is not str or name not in known or name in inputs:
            _refuse(f"inputs must be each of {', '.join(known)} once, got {str(name)[:40]!r}")
        inputs[name], raw = _tensor(given, known[name], raw)
    if raw:
        _refuse(f"{len(raw)} bytes follow the last input that has a binary_data_size")
    _check_rows(inputs, model)
    outputs, binary = _outputs(fields, model)
    return InferenceQuery(named, inputs, outputs, binary)


def written_answer(query: InferenceQuery, model: ModelInterface, found: ModelOutputs) -> tuple[bytes, int | None]:
    """Body of an answer, and how much of it is JSON; None: all of it."""
    values: dict[str, NDArray[Any]] = {
        "logits": found.logits.astype("<f4"),
        "probabilities": found.probabilities.astype("<f4"),
        "label_index": found.label_index.astype("<i8"),
    }
    values |= {FORECAST + name: odds.astype("<f4") for name, odds in found.forecast.items()}
    if found.attention is not None:
        values["attention"] = found.attention.astype("<f4")
    tensors: list[dict[str, Any]] = []
    raw: list[bytes] = []
    datatypes = {one.name: one.datatype for one in model.outputs}
    for name in query.outputs:
        tensor = {"name": name, "datatype": datatypes[name], "shape": list(values[name].shape)}
        if name in query.binary:
            raw.append(values[name].tobytes())
            tensors.append(tensor | {"parameters": {"binary_data_size": len(raw[-1])}})
        else:
            tensors.append(tensor | {"data": values[name].ravel().tolist()})
    fields = {"model_name": model.name, "model_version": model.version, "outputs": tensors}
    text = json.dumps(fields if query.id is None else fields | {"id": query.id}).encode()
    return b"".join([text, *raw]), len(text) if raw else None


def _refuse(sentence: str) -> NoReturn:
    raise InferenceRefused(400, sentence)


def _object(text: bytes) -> dict[str, Any]:
    def no_number(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number of JSON")

    try:
        fields = json.loads(text, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        _refuse(f"the request is not JSON ({str(error)[:100]})")
    if type(fields) is not dict:
        _refuse("the request must be a JSON object")
    return fields


def _objects(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = fields.get(name, [])
    if type(found) is not list or any(type(one) is not dict for one in found):
        _refuse(f"{name} must be a list of objects")
    return found


def _parameters(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = fields.get("parameters", {})
    if type(found) is not dict:
        _refuse("parameters must be an object")
    return found


def _tensor(given: Mapping[str, Any], model: Tensor, raw: memoryview) -> tuple[NDArray[np.float32], memoryview]:
    """Numbers of an input, and the raw bytes that are left for the next one."""
    shape, datatype = given.get("shape"), given.get("datatype")
    if type(shape) is not list or any(type(size) is not int for size in shape) or tuple(shape[1:]) != model.shape:
        _refuse(f"shape of {model.name} must be [n, {', '.join(map(str, model.shape))}], got {str(shape)[:60]}")
    if not shape or not 1 <= shape[0] <= MOST_ROWS:
        _refuse(f"{model.name} must have 1 to {MOST_ROWS} samples, got {str(shape)[:60]}")
    if type(datatype) is not str or datatype not in DATATYPES:
        _refuse(f"datatype of {model.name} must be one of {', '.join(DATATYPES)}, got {str(datatype)[:20]!r}")
    dtype = np.dtype(DATATYPES[datatype])
    size = _parameters(given).get("binary_data_size")
    if size is None:
        values = _listed(given.get("data"), model.name, shape, dtype)
    else:
        wanted = math.prod(shape) * dtype.itemsize
        if type(size) is not int or size != wanted or len(raw) < wanted or "data" in given:
            _refuse(f"{model.name} must have {wanted} raw bytes and no data, got {str(size)[:20]} of {len(raw)}")
        values, raw = np.frombuffer(raw[:wanted], dtype), raw[wanted:]
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        numbers = values.astype(np.float32).reshape(shape)
    if not np.isfinite(numbers).all():
        _refuse(f"{model.name} must hold finite numbers")
    return numbers, raw


def _listed(data: object, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers of nested lists, or of a flat one in C order."""
    try:
        values = np.asarray(data) if type(data) is list else None
    except (ValueError, RecursionError, OverflowError):
        values = None
    # texts, null and lists of unequal lengths are numbers of no kind
    if values is None or values.dtype.kind not in "iuf" or values.shape not in {tuple(shape), (math.prod(shape),)}:
        _refuse(f"data of {name} must be {math.prod(shape)} numbers, nested as its shape or flat")
    if dtype.kind in "iu" and (
        values.dtype.kind == "f" or values.min() < np.iinfo(dtype).min or values.max() > np.iinfo(dtype).max
    ):
        _refuse(f"data of {name} must be whole numbers of its datatype")
    return values


def _check_rows(inputs: Mapping[str, NDArray[np.float32]], model: ModelInterface) -> None:
    needed = [one.name for one in model.inputs if one.name != PRESENT_NAME]
    if missing := [name for name in needed if name not in inputs]:
        _refuse(f"inputs lack {', '.join(missing)}; a sensor that is gone has zeros, and 0 in {PRESENT_NAME}")
    n = len(inputs[needed[0]])
    if any(len(inputs[name]) != n for name in needed):
        _refuse("all inputs must have the same number of samples")
    present = inputs.get(PRESENT_NAME)
    if present is None:
        return
    if len(present) not in {1, n} or not np.isin(present, (0.0, 1.0)).all() or not present.any(axis=1).all():
        _refuse(f"{PRESENT_NAME} must be 1 or 0 in 1 or {n} rows, with one sensor at least in each")


def _outputs(fields: Mapping[str, Any], model: ModelInterface) -> tuple[list[str], frozenset[str]]:
    """Names of the outputs that are wanted, all where none is named, and of those wanted raw."""
    known = [one.name for one in model.outputs]
    wanted = _objects(fields, "outputs") or [{"name": name} for name in known]
    is_binary = _parameters(fields).get("binary_data_output", False)
    names: list[str] = []
    binary = set()
    for one in wanted:
        name = one.get("name")
        if type(name) is not str or name not in known or name in names:
            _refuse(f"outputs must be some of {', '.join(known)}, each once, got {str(name)[:40]!r}")
        names.append(name)
        if _parameters(one).get("binary_data", is_binary) is True:
            binary.add(name)
    return names, frozenset(binary)
