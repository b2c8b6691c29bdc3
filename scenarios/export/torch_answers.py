"""A bundle's model in the library that trained it: rebuilt from the scenario, with the values of the ONNX file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...emulator.contracts import PRESENT_NAME, ConfigError
from ...emulator.edge.bench_bundles import Entry
from ...emulator.edge.bundle import Bundle
from ...emulator.edge.bundle_files import MODEL_FILE
from ...emulator.edge.commands.bench_commands import TorchModel
from ...models.client_model import ClientModel
from ...models.export.onnx_export import DeployedModel, DeployedTwins
from ...models.twin_model import TwinModel
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import parsed_toml
from ..wiring.encoders import embedding_dim, make_encoder

SCENARIO_FILE = "scenario.toml"


@dataclass(frozen=True, slots=True)
class _SampleRows:
    """Samples of the bundle in place of training rows, for encoders that compute statistics of their inputs."""

    samples: Mapping[str, NDArray[np.float32]]

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: rows.shape[1:] for name, rows in self.samples.items()}

    def __len__(self) -> int:
        return len(next(iter(self.samples.values())))

    def inputs(self, indices: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        return {name: rows[indices] for name, rows in self.samples.items()}


def rebuild(entry: Entry, threads: int) -> TorchModel | str:
    """Torch model of a float32 entry, on the CPU.

    Args:
        entry: bundle with its inputs.
        threads: number of torch threads of this process.

    Returns:
        The model, or a short reason why it cannot be rebuilt.
    """
    bundle = entry.bundle
    if SCENARIO_FILE not in bundle.content:
        return f"the bundle holds no {SCENARIO_FILE}"
    try:
        model = _deployed(_scenario(bundle.content[SCENARIO_FILE]), entry)
    except (KeyError, StopIteration, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return f"cannot be rebuilt from the bundle's scenario ({reason})"
    difference = float(
        np.abs(_answer(model, bundle, bundle.samples).numpy() - bundle.session.run(bundle.samples)).max()
    )
    # a scenario of another version may build another network from the same names
    if not difference <= bundle.manifest.golden.tolerance:
        return f"rebuilt, it answers the bundle's samples with a difference of {difference:.3g}: not the same model"
    torch.set_num_threads(threads)
    tensors = _tensors(bundle, entry.inputs)

    def answer() -> Tensor:
        with torch.inference_mode():
            return model(*tensors)[0]  # type: ignore[no-any-return]

    return TorchModel(f"torch {torch.__version__}", "cpu", answer)


def _answer(model: nn.Module, bundle: Bundle, inputs: Mapping[str, NDArray[np.float32]]) -> Tensor:
    with torch.inference_mode():
        return model(*_tensors(bundle, inputs))[0]  # type: ignore[no-any-return]


def _scenario(content: bytes) -> Scenario:
    tables = parsed_toml(content.decode(), SCENARIO_FILE)
    if tables.get("plugins"):  # a bundle has their names, and never their code
        raise ConfigError("it was made with plugins, which bench does not load")
    return stored_scenario(tables, SCENARIO_FILE)


def _deployed(scenario: Scenario, entry: Entry) -> nn.Module:
    """Model of the scenario with the values of the ONNX file, whose initializers are named as in a state dict."""
    manifest = entry.bundle.manifest
    group = scenario.clients.group(str(manifest.trained["group"]))
    rows = _SampleRows(entry.inputs)
    made = {
        # the client number 0 only seeds initial weights; weights and statistics are overwritten below
        modality: make_encoder(scenario.task_spec, scenario.model, scenario.seed, modality, rows, 0, group.encoder)
        for modality in manifest.modalities
    }
    model = ClientModel(
        {modality: normalizer for modality, (normalizer, _) in made.items()},
        {modality: encoder for modality, (_, encoder) in made.items()},
        fusion=scenario.fusion,
        embedding_dim=embedding_dim([encoder for _, encoder in made.values()], scenario.model),
        n_outputs=manifest.output.n_outputs,
    )
    kept = {tensor.name: tensor for tensor in onnx.load_from_string(entry.bundle.content[MODEL_FILE]).graph.initializer}
    twins = "share" in kept  # weight of the second model, which only twins have
    deployed = (DeployedTwins(TwinModel(model, copy.deepcopy(model))) if twins else DeployedModel(model)).float().eval()
    state: dict[str, Any] = deployed.state_dict()
    for name, value in state.items():
        if value.is_floating_point():  # counters of batches are no part of an exported graph
            value.copy_(torch.from_numpy(onnx.numpy_helper.to_array(kept[name]).copy()))
    return deployed


def _tensors(bundle: Bundle, inputs: Mapping[str, NDArray[np.float32]]) -> list[Tensor]:
    modalities = bundle.manifest.modalities
    tensors = [torch.from_numpy(inputs[modality]) for modality in modalities]
    if PRESENT_NAME in bundle.session.optional_names:
        # all inputs are present: the graph without this input assumes the same
        tensors.append(torch.ones(1, len(modalities)))
    return tensors
