"""A bundle's model in the library that trained it: rebuilt from the scenario, with the values of the ONNX file."""

from __future__ import annotations

from collections.abc import Mapping

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
from ...emulator.plugin_sources import LOADED
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import parsed_toml
from .rebuilt_model import NOT_REBUILT, rebuilt_model

SCENARIO_FILE = "scenario.toml"


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
    except NOT_REBUILT as error:
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
    if tables.get("plugins") and not LOADED:  # a bundle has their names and hashes, and never their code
        raise ConfigError("it was made with plugins; give them with --plugin FILE")
    return stored_scenario(tables, SCENARIO_FILE)


def _deployed(scenario: Scenario, entry: Entry) -> nn.Module:
    """Model of the scenario with the values of the ONNX file."""
    manifest, model = entry.bundle.manifest, onnx.load_from_string(entry.bundle.content[MODEL_FILE])
    return rebuilt_model(scenario, str(manifest.trained["group"]), manifest.modalities, entry.inputs, model)


def _tensors(bundle: Bundle, inputs: Mapping[str, NDArray[np.float32]]) -> list[Tensor]:
    modalities = bundle.manifest.modalities
    tensors = [torch.from_numpy(inputs[modality]) for modality in modalities]
    if PRESENT_NAME in bundle.session.optional_names:
        # all inputs are present: the graph without this input assumes the same
        tensors.append(torch.ones(1, len(modalities)))
    return tensors
