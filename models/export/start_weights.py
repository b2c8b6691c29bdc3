"""Weights of an exported model as the start of another: read from an ONNX file, checked in shape, put into a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import PRESENT_NAME, DataError
from ..client_model import ClientModel

#: First part of the names of what scales inputs, of a weight that only pairs of twins have, and of the head's parts.
_SCALING, _TWINS, _HEAD = "normalizers.", "share", ("head.weight", "head.bias")


@dataclass(frozen=True, slots=True, eq=False)
class StartWeights:
    """Weights of an exported model.

    Attributes:
        source: how messages name the model.
        inputs: names of its inputs, in order.
        values: name, as in a state dict -> weight.
    """

    source: str
    inputs: tuple[str, ...]
    values: Mapping[str, NDArray[np.float32]]

    @classmethod
    def of(cls, source: str, content: bytes) -> StartWeights:
        """Weights of an ONNX file that a run or an export wrote.

        Raises:
            DataError: it is no ONNX model.
        """
        try:
            graph = onnx.load_model_from_string(content).graph
            held = {tensor.name: tensor for tensor in graph.initializer}
            values = {
                name: onnx.numpy_helper.to_array(tensor)
                for name, tensor in held.items()
                if tensor.data_type == onnx.TensorProto.FLOAT
            }
        except Exception as error:  # noqa: BLE001 - protobuf and onnx have classes of their own for every cause
            why = " ".join(str(error).split())[:120]
            raise DataError(f"{source} is no ONNX model ({why}); give a run folder, a bundle or its model") from None
        # present is an input that is an initializer too
        inputs = tuple(one.name for one in graph.input if one.name != PRESENT_NAME and one.name not in held)
        return cls(source, inputs, values)

    def put_into(self, model: ClientModel, *, scaling: bool) -> None:
        """Make these the weights of a model.

        Args:
            model: model of the same inputs.
            scaling: also take the constants that scale inputs; otherwise the model keeps its own.

        Raises:
            DataError: a weight is missing or has another shape; nothing is changed then.
        """
        if _TWINS in self.values:
            raise DataError(
                f"{self.source} holds two models that a client mixes; start from a run of another algorithm"
            )
        taken: list[tuple[Tensor, Tensor]] = []
        for name, mine in model.state_dict().items():
            # counters of batches are no part of an exported graph
            if name == "head" or not mine.is_floating_point() or (name.startswith(_SCALING) and not scaling):
                continue
            taken.append((mine, self._fitting(name, tuple(mine.shape))))
        layout = model.layout
        shapes = ((layout.n_outputs, layout.width), (layout.n_outputs,))
        head = [self._fitting(name, shape).reshape(-1) for name, shape in zip(_HEAD, shapes, strict=True)]
        taken.append((model.head, torch.cat(head)))
        with torch.no_grad():
            for mine, value in taken:
                mine.copy_(value)

    def _fitting(self, name: str, shape: tuple[int, ...]) -> Tensor:
        found = self.values.get(name)
        if found is None:
            raise DataError(
                f"{self.source} has no float32 weight {name!r}, which the model of this scenario has; start from a"
                " float32 model of the same task, sensors and [model]"
            )
        if found.shape != shape:
            raise DataError(
                f"{self.source} has {name!r} of shape {list(found.shape)}, the model of this scenario {list(shape)};"
                " make data.window, data.n_beams and [model] those of the run to start from"
            )
        return torch.from_numpy(found.copy())
