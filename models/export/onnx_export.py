"""From a trained client to ONNX: physical units in, logits out, normalisation inside the graph.

A client with several sensors can lose one. Its graph has an input `present` [batch or 1, n_modalities] for that, with a
default of ones, so that a caller with all sensors can leave it out (an initializer that is also an input: ONNX IR 4).
Its second output, where the fusion weighs modalities, is the share of each [batch, n_modalities].
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from ...emulator.contracts import PRESENT_NAME, Modality
from ..client_model import ClientModel
from ..twin_model import TwinModel, blended

#: Names of the graph's outputs.
OUTPUT_NAME = "logits"
ATTENTION_NAME = "attention"


class DeployedModel(nn.Module):
    """A client's model as a device runs it: positional inputs in canonical order, the head an ordinary linear layer.

    Owns copies: moving, casting or freezing it leaves the client's model as it was.
    """

    def __init__(self, model: ClientModel) -> None:
        super().__init__()
        self.modalities = model.modalities
        self.normalizers = copy.deepcopy(model.normalizers)
        self.encoders = copy.deepcopy(model.encoders)
        self.fusion = copy.deepcopy(model.fusion)
        n_outputs, width = model.layout.n_outputs, model.layout.width
        head = model.head.detach()
        self.head = nn.Linear(width, n_outputs, device=head.device, dtype=head.dtype)
        with torch.no_grad():
            # the flat head holds the weights row by row, then the biases
            self.head.weight.copy_(head[: n_outputs * width].view(n_outputs, width))
            self.head.bias.copy_(head[n_outputs * width :])

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits of inputs in physical units.

        Args:
            inputs: one tensor per modality, [batch, ...]; with several modalities one more, which of them are there,
                [batch or 1, n_modalities] of 1 and 0.

        Returns:
            Logits [batch, n_outputs], and the share of every modality [batch, n_modalities]; None where there is one
            modality, or the fusion has no shares.
        """
        n = len(self.modalities)
        encoded = [
            self.encoders[modality](self.normalizers[modality](tensor))
            for modality, tensor in zip(self.modalities, inputs[:n], strict=True)
        ]
        embeddings, shares = torch.stack(encoded, dim=1), None
        fused = self.fusion(embeddings) if n == 1 else None
        if fused is None:
            (present,) = inputs[n:]
            fused, shares = self.fusion.masked(embeddings, present)
        return self.head(fused), shares


class DeployedTwins(nn.Module):
    """Both models of a pair of twins and their mixture, as a device runs them."""

    def __init__(self, model: TwinModel) -> None:
        super().__init__()
        self.modalities = model.modalities
        self.shared, self.own = DeployedModel(model.shared), DeployedModel(model.own)
        self.share = nn.Buffer(model.share.clone())
        self.temperatures = nn.Buffer(model.temperatures.clone())

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Logits and shares as of `DeployedModel`; shares of both models are mixed in the proportion of the models."""
        shared, shares = self.shared(*inputs)
        own, own_shares = self.own(*inputs)
        mixed = None if shares is None else self.share * shares + (1.0 - self.share) * own_shares
        return blended(shared, own, self.share, self.temperatures), mixed


Deployed = DeployedModel | DeployedTwins


def _deployed(model: ClientModel | TwinModel) -> Deployed:
    return DeployedTwins(model) if isinstance(model, TwinModel) else DeployedModel(model)


class OnnxExporter:
    """Writes clients' models as ONNX; traces each architecture once and fills in every client's values.

    Tracing takes seconds, and clients of one architecture differ in their numbers only.
    """

    def __init__(self) -> None:
        self._templates: dict[str, onnx.ModelProto] = {}

    def export(
        self,
        model: ClientModel | TwinModel,
        input_shapes: Mapping[Modality, tuple[int, ...]],
        path: Path,
        metadata: Mapping[str, str],
    ) -> None:
        """Write one model.

        Args:
            model: trained model.
            input_shapes: modality -> shape of one sample; the batch dimension stays free.
            path: path of the `.onnx` file.
            metadata: goes into the file's metadata properties.
        """
        deployed = _deployed(model).cpu().float().eval()
        shapes = {modality: input_shapes[modality] for modality in deployed.modalities}
        # the text of a module names its layers with their sizes, and `extra_repr` the rest
        key = f"{shapes} {deployed}"
        if key not in self._templates:
            self._templates[key] = _template(_with_distinct_values(deployed), shapes)
        proto = onnx.ModelProto()
        proto.CopyFrom(self._templates[key])
        _fill_in(proto, deployed.state_dict())
        onnx.helper.set_model_props(proto, dict(metadata))
        onnx.checker.check_model(proto)
        onnx.save(proto, path)


def _template(model: Deployed, shapes: Mapping[Modality, tuple[int, ...]]) -> onnx.ModelProto:
    """The traced graph, optimized unless that merges values which differ from client to client.

    A normalization right behind a convolution is folded into it; in an unoptimized graph both keep their names.
    """
    proto = _trace(model, shapes, optimize=True)
    return proto if not _folded(proto, model.state_dict()) else _trace(model, shapes, optimize=False)


def _trace(model: Deployed, shapes: Mapping[Modality, tuple[int, ...]], *, optimize: bool) -> onnx.ModelProto:
    names: list[str] = list(shapes)
    # a batch of two: the exporter would take a size of 1 for a constant
    sample = [torch.zeros(2, *shape) for shape in shapes.values()]
    if len(shapes) > 1:
        names.append(PRESENT_NAME)
        sample.append(torch.ones(2, len(shapes)))
    with torch.no_grad():
        outputs = [OUTPUT_NAME, ATTENTION_NAME][: 1 if model(*sample)[1] is None else 2]
    batch = torch.export.Dim("batch", min=1)
    with _quiet_exporter():
        program = torch.onnx.export(
            model,
            tuple(sample),
            dynamic_shapes=(tuple({0: batch} for _ in sample),),
            input_names=names,
            output_names=outputs,
            dynamo=True,
            optimize=optimize,
            verbose=False,
        )
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    if len(shapes) > 1:
        # one row for any batch: it is broadcast
        everything = np.ones((1, len(shapes)), np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(everything, PRESENT_NAME))
    return proto


def _with_distinct_values(model: Deployed) -> Deployed:
    """A copy whose values are all different: the exporter merges equal constants, and drops a division by 1."""
    traced = copy.deepcopy(model)
    draws = torch.Generator().manual_seed(0)  # never reaches a file; `_fill_in` replaces every value
    for value in traced.state_dict().values():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=draws).add_(0.5))
    return traced


def _fill_in(proto: onnx.ModelProto, state: Mapping[str, Tensor]) -> None:
    """Replace the traced client's values by this one's; a value not found would leave a file that mixes two clients."""
    if folded := _folded(proto, state):
        raise RuntimeError(f"the traced graph folded {folded[0]!r} into another constant; export it by itself")
    places = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, value in state.items():
        if value.is_floating_point():
            places[name].CopyFrom(onnx.numpy_helper.from_array(value.numpy(), name))


def _folded(proto: onnx.ModelProto, state: Mapping[str, Tensor]) -> list[str]:
    """Values that the graph does not hold under their own name."""
    kept = {tensor.name for tensor in proto.graph.initializer}
    return [name for name, value in state.items() if value.is_floating_point() and name not in kept]


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Torch's exporter warns of operators of packages that we do not use, and of a shared axis name that we intend."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
