"""An exported model in the library that trained it: rebuilt from the scenario, with the values of the ONNX file."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...emulator.contracts import Modality
from ...models.client_model import ClientModel
from ...models.export.deployed_model import Deployed, DeployedModel, DeployedPair, simplified
from ...models.factors.factored_layers import put_factored_layers
from ...models.model_pair import ModelPair
from ..schema.scenario import Scenario
from ..wiring.encoders import embedding_dim, make_encoders

#: Ending of the name of the first weight of a chain, see `FactoredLinear`.
NARROW = ".narrow.weight"
#: Ending of names that only files of releases hold which did not merge normalizations.
STATISTICS = ".running_var"
#: What can go wrong where a scenario of another version builds another network from the same names.
NOT_REBUILT = (KeyError, StopIteration, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class _SampleRows:
    """Some samples in place of training rows, for encoders that compute statistics of their inputs."""

    samples: Mapping[str, NDArray[np.float32]]

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: rows.shape[1:] for name, rows in self.samples.items()}

    def __len__(self) -> int:
        return len(next(iter(self.samples.values())))

    def inputs(self, indices: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        return {name: rows[indices] for name, rows in self.samples.items()}


def rebuilt_model(
    scenario: Scenario,
    group_name: str,
    modalities: Sequence[Modality],
    samples: Mapping[str, NDArray[np.float32]],
    model: onnx.ModelProto,
) -> Deployed:
    """Model of a client with the values of its ONNX file, whose initializers are named as in a state dict.

    Args:
        scenario: scenario of the run.
        group_name: group of the client.
        modalities: inputs of the model, in order.
        samples: modality -> [n, ...] any inputs; only their shapes matter, since all statistics are overwritten.
        model: content of the ONNX file.

    Returns:
        The model in float32, on the CPU, in evaluation mode.

    Raises:
        One of `NOT_REBUILT`: the scenario builds another network.
    """
    group, rows = scenario.clients.group(group_name), _SampleRows(samples)
    # the client number 0 only seeds initial weights; weights and statistics are overwritten below
    normalizers, encoders = make_encoders(
        scenario.task_spec, scenario.model, scenario.seed, modalities, rows, 0, group.encoder
    )
    network = ClientModel(
        normalizers,
        encoders,
        fusion=scenario.fusion,
        embedding_dim=embedding_dim(encoders.values(), scenario.model),
        n_outputs=model.graph.output[0].type.tensor_type.shape.dim[1].dim_value,
    )
    kept = {tensor.name: tensor for tensor in model.graph.initializer}
    pair = any(name.startswith("kept.") for name in kept)  # the second model's
    made_up = DeployedPair(ModelPair(network, copy.deepcopy(network))) if pair else DeployedModel(network)
    # a layer that was exported as a chain has another first weight, with a row per rank-one term
    ranks = {name.removesuffix(NARROW): tensor.dims[0] for name, tensor in kept.items() if name.endswith(NARROW)}
    put_factored_layers(made_up, ranks.get)
    deployed: Deployed = made_up.float().eval()
    # files of earlier releases hold the statistics of normalizations, which are merged with other weights now
    if not any(name.endswith(STATISTICS) for name in kept):
        deployed = simplified(deployed)
    state: dict[str, Any] = deployed.state_dict()
    for name, value in state.items():
        if value.is_floating_point():  # counters of batches are no part of an exported graph
            value.copy_(torch.from_numpy(onnx.numpy_helper.to_array(kept[name]).copy()))
    return deployed


class NamedInputs(nn.Module):
    """An exported model that takes its inputs by name, all of them present.

    Args:
        deployed: model with positional inputs.
    """

    def __init__(self, deployed: Deployed) -> None:
        super().__init__()
        self.deployed = deployed
        self.modalities = deployed.modalities

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits [batch, n_outputs] of inputs in physical units, one tensor [batch, ...] per modality."""
        tensors = [inputs[modality] for modality in self.modalities]
        if len(tensors) > 1:
            tensors.append(torch.ones(1, len(tensors)).to(tensors[0]))
        logits: Tensor = self.deployed(*tensors)[0]
        return logits
