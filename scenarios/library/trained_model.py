"""A client's trained model as Python callers hold it: answers in the ONNX runtime, and a torch module on request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...emulator.contracts import ConfigError, DataError, Modality, NodeId
from ...emulator.edge.onnx_session import OnnxSession
from ..schema.scenario import Scenario

if TYPE_CHECKING:
    from ..export.rebuilt_model import NamedInputs

#: Rows on which a rebuilt torch module is compared with the ONNX file.
_COMPARED = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainedModel:
    """Trained model of one client, as the run exported and checked it: `RunResult.model` makes it.

    Its inputs are in physical units, as the sensors or the file of rows have them; normalization is inside.

    Attributes:
        client: number of the client.
        path: path of its ONNX file.
        scenario: scenario of the run.
        inputs: name of every input, in order -> its shape without the batch, unit, meaning and frames.
        labels: names of the classes; empty where the answer is a value.
        meaning: what the outputs mean, in words.

    Examples:
        >>> import numpy as np
        >>> from sheafedge import load_run
        >>> model = load_run("runs/digits").model(3)  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> model
        TrainedModel(client 3: table [n, 64] -> logits [n, 10])
        >>> image = np.zeros((1, 64))
        >>> model.logits({"table": image}).shape
        (1, 10)
        >>> model.predict({"table": image})[0] in model.labels
        True
        >>> sum(parameter.numel() for parameter in model.module().parameters())
        6570
    """

    client: NodeId
    path: Path
    scenario: Scenario
    inputs: Mapping[str, Mapping[str, Any]]
    labels: tuple[str, ...]
    meaning: str
    _group: str
    _session: OnnxSession

    @classmethod
    def of(cls, client: NodeId, path: Path, scenario: Scenario) -> TrainedModel:
        """Model of an ONNX file of a run.

        Raises:
            DataError: the file is no ONNX model of a run.
            ConfigError: it takes a whole graph, not samples.
        """
        try:
            session = OnnxSession(path)
            said = session.metadata
            described = json.loads(said["inputs"])
            inputs = {name: described[name] for name in session.input_names}
            labels = tuple(json.loads(said["labels"]))
            made = cls(client, path, scenario, inputs, labels, said["output"], said["group"], session)
        except Exception as error:  # noqa: BLE001 - onnxruntime has a class of its own for every cause
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"{path} is no model of a run ({reason}); run the scenario again") from None
        if any(isinstance(size, str) for one in inputs.values() for size in one["shape"]):
            raise ConfigError(
                f"the model of client {client} takes a whole graph, not samples; load {path} with onnxruntime and give"
                f" it {' and '.join(inputs)}"
            )
        return made

    def __repr__(self) -> str:
        given = ", ".join(f"{name} {_shape(said)}" for name, said in self.inputs.items())
        return f"TrainedModel(client {self.client}: {given} -> logits [n, {self._n_outputs}])"

    @property
    def _n_outputs(self) -> int:
        blank = {name: np.zeros((1, *said["shape"]), np.float32) for name, said in self.inputs.items()}
        return int(self._session.run(blank).shape[1])

    def logits(self, inputs: Mapping[Modality | str, ArrayLike]) -> NDArray[np.float32]:
        """Outputs [n, n_outputs] of samples, computed by onnxruntime on the CPU.

        Args:
            inputs: name -> [n, ...] samples in physical units, one entry per name of `inputs`.

        Raises:
            DataError: an input is missing, unknown, or not of its shape.
        """
        if unknown := [str(name) for name in inputs if name not in self.inputs]:
            raise DataError(f"unknown input {unknown[0]!r}; client {self.client} takes {', '.join(self.inputs)}")
        given: dict[str, NDArray[np.float32]] = {}
        for name, said in self.inputs.items():
            if name not in inputs:
                raise DataError(f"input {name!r} is missing; client {self.client} takes {', '.join(self.inputs)}")
            given[name] = rows = np.asarray(inputs[name], dtype=np.float32)
            if rows.shape[1:] != tuple(said["shape"]) or rows.ndim == 0:
                raise DataError(f"input {name!r} must have shape {_shape(said)}, got {list(rows.shape)}")
        if len({len(rows) for rows in given.values()}) > 1:
            sizes = ", ".join(f"{name} {len(rows)}" for name, rows in given.items())
            raise DataError(f"all inputs need the same number of samples, got {sizes}")
        return self._session.run(given)

    def predict(self, inputs: Mapping[Modality | str, ArrayLike]) -> list[str]:
        """Label of every sample: the class with the largest logit; of one logit, the second label where it is above 0.

        Args:
            inputs: as for `logits`.

        Raises:
            ConfigError: the answers of this model are values.
            DataError: see `logits`.
        """
        if not self.labels:
            raise ConfigError(f"the model of client {self.client} answers no classes; take logits(): {self.meaning}")
        logits = self.logits(inputs)
        chosen = (logits[:, 0] > 0.0).astype(int) if logits.shape[1] == 1 else logits.argmax(axis=1)
        return [self.labels[index] for index in chosen]

    def module(self) -> NamedInputs:
        """The same network in torch, float32, on the CPU, in evaluation mode; a new copy with each call.

        It is called with a mapping of input name -> tensor [n, ...] in physical units, and returns logits
        [n, n_outputs]. Its parameters can be trained on. The weights are those of the ONNX file.

        Raises:
            DataError: the scenario of the run builds another network now, because another version made the run.
        """
        import onnx
        import torch

        from ..export.rebuilt_model import NOT_REBUILT, NamedInputs, rebuilt_model

        again = "load it with onnxruntime, or run the scenario again"
        draws = np.random.default_rng(0)
        shapes = {name: tuple(said["shape"]) for name, said in self.inputs.items()}
        samples = {name: draws.normal(size=(_COMPARED, *shape)).astype(np.float32) for name, shape in shapes.items()}
        names = cast("tuple[Modality, ...]", tuple(samples))
        try:
            made = NamedInputs(rebuilt_model(self.scenario, self._group, names, samples, onnx.load(self.path)))
            with torch.inference_mode():
                found = made({name: torch.from_numpy(rows) for name, rows in samples.items()}).numpy()
        except NOT_REBUILT as error:
            raise DataError(f"{self.path} cannot be rebuilt in torch ({error}); {again}") from None
        expected = self._session.run(samples)
        # inputs that are no real ones can give large logits
        limit = self.scenario.export.max_abs_error * max(1.0, float(np.abs(expected).max()))
        if not np.abs(found - expected).max() <= limit:
            raise DataError(f"{self.path} answers otherwise than what this version builds from its scenario; {again}")
        return made


def _shape(described: Mapping[str, Any]) -> str:
    return f"[{', '.join(map(str, ['n', *described['shape']]))}]"
