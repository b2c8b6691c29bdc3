"""The pass of several models of one architecture: by batched matrix products where all layers are known, else by vmap.

A product of matrices per model, `baddbmm`, is what `torch.vmap` makes of linear layers too; written out, a step of 20
small perceptrons takes 0.7 times as long, because `vmap` walks through the network's Python for every layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ...emulator.contracts import PRESENT_NAME
from ..encoders.row_scale import AsColumns
from ..fusion import AttentionFusion, ConcatFusion, Fusion, MeanFusion
from .joint_network import JointNetwork

#: Parameters and buffers by name, [n_models, ...] each.
Values = Mapping[str, Tensor]
#: Values, factors of dropouts [n_models, batch, ...] or none, normalized inputs by modality [n_models, batch, ...] ->
#: embeddings [n_models, batch, n_modalities, embedding_dim], what heads read [n_models, batch, width], and logits
#: [n_models, batch, n_outputs].
JointPass = Callable[[Values, Sequence[Tensor], Mapping[str, Tensor]], tuple[Tensor, Tensor, Tensor]]


def joint_pass(network: JointNetwork) -> JointPass:
    """The fastest pass of models of this architecture."""
    known = all(_is_known(encoder) for encoder in network.encoders.values())
    if known and type(network.fusion) in (AttentionFusion, ConcatFusion, MeanFusion):
        return partial(_written_out, network)
    return torch.vmap(network.passed)


def _is_known(encoder: nn.Module) -> bool:
    if type(encoder) is AsColumns:
        return True
    if not isinstance(encoder, nn.Sequential):
        return False
    return all(
        type(layer) in (nn.Linear, nn.ReLU, nn.Tanh, nn.Identity)
        or (type(layer) is nn.Flatten and layer.start_dim == 1 and layer.end_dim == -1)
        for layer in encoder
    )


def _written_out(
    network: JointNetwork, values: Values, factors: Sequence[Tensor], inputs: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    assert not factors, "none of the known layers draws"
    encoded = [
        _through(encoder, values, f"encoders.{modality}", inputs[str(modality)])
        for modality, encoder in network.encoders.items()
    ]
    embeddings = encoded[0].unsqueeze(2) if len(encoded) == 1 else torch.stack(encoded, dim=2)
    fused = _fused(network.fusion, values, embeddings, inputs.get(PRESENT_NAME))
    n_outputs, head = network.n_outputs, values["head"]
    n_weights = n_outputs * fused.shape[-1]
    weight = head[:, :n_weights].view(len(head), n_outputs, fused.shape[-1])
    return embeddings, fused, _linear(fused, weight, head[:, n_weights:])


def _through(encoder: nn.Module, values: Values, name: str, rows: Tensor) -> Tensor:
    """[n_models, batch, ...] -> [n_models, batch, embedding_dim]."""
    if isinstance(encoder, AsColumns):
        return rows.flatten(start_dim=2)
    for place, layer in encoder.named_children():
        if isinstance(layer, nn.Linear):
            bias = values.get(f"{name}.{place}.bias")
            rows = _linear(rows, values[f"{name}.{place}.weight"], bias)
        elif isinstance(layer, nn.Flatten):
            rows = rows.flatten(start_dim=2)
        else:
            rows = layer(rows)
    return rows


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Linear layers of rows [n_models, batch, n_in] by weights [n_models, n_out, n_in] and biases [n_models, n_out]."""
    turned = weight.transpose(1, 2)
    return rows @ turned if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, turned)


def _fused(fusion: Fusion, values: Values, embeddings: Tensor, present: Tensor | None) -> Tensor:
    """As `Fusion.forward` of each model, or `Fusion.masked` where sensors are hidden.

    Args:
        fusion: of the architecture.
        values: by name.
        embeddings: [n_models, batch, n_modalities, embedding_dim].
        present: [n_models, batch, n_modalities] 1 where a modality is there, 0 where it is not; None: all are.

    Returns:
        [n_models, batch, width].
    """
    if isinstance(fusion, ConcatFusion) or embeddings.shape[2] == 1:  # all of the weight is on the only modality
        return (embeddings if present is None else present.unsqueeze(-1) * embeddings).flatten(start_dim=2)
    if isinstance(fusion, MeanFusion):
        if present is None:
            return embeddings.mean(dim=2)
        weights = present
    else:
        scores = torch.tanh((embeddings * values["fusion.scoring"].unsqueeze(1)).sum(dim=-1))
        weights = torch.softmax(scores, dim=2)
        weights = weights if present is None else weights * present
    shares = weights if present is None else weights / weights.sum(dim=2, keepdim=True)
    return (shares.unsqueeze(-1) * embeddings).sum(dim=2)
