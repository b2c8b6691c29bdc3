"""Trained weights of clients as files that other runs start from; ONNX files hold merged layers in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...models.model_pair import ModelPair
from ...models.state.start_weights import trained_weights
from ..wiring.client import Client
from .tensor_file import tensor_pieces


def write_weights(clients: Sequence[Client], reported: Mapping[str, str], folder: Path) -> None:
    """Write `client-NN.safetensors` for every client whose reported model is one, not a pair.

    Args:
        clients: clients whose models are exported.
        reported: group -> name of the model that it reports.
        folder: folder of the files, made if there is one.
    """
    for client in clients:
        model = client.answering(reported[client.group])
        if isinstance(model, ModelPair):
            continue
        folder.mkdir(exist_ok=True)
        with (folder / f"client-{client.client_id:02d}.safetensors").open("wb") as stream:
            stream.writelines(tensor_pieces(trained_weights(model)))
