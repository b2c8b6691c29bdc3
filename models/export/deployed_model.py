"""A client's model as a device runs it, and the parts that it is traced in.

A client with several sensors can lose one. Its model has an input `present` [batch or 1, n_modalities] for that. Its
second output, where the fusion weighs modalities, is the share of each [batch, n_modalities].
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...emulator.contracts import PRESENT_NAME, Modality
from ..client_model import ClientModel
from ..factors.factored_layers import FactoredLinear, put_factored_layers
from ..fusion import ConcatFusion, Fusion
from ..model_pair import ModelPair, mean_answer
from .simplified_model import put_sector_means, simplify_encoder

#: Names of the outputs.
OUTPUT_NAME = "logits"
ATTENTION_NAME = "attention"

#: Logits [batch, n_outputs], and the share of every modality [batch, n_modalities]; None where there is one modality,
#: or the fusion has no shares.
Answer = tuple[Tensor, Tensor | None]


class DeployedModel(nn.Module):
    """A client's model as a device runs it: positional inputs in canonical order, the head an ordinary linear layer.

    Layers whose weights are tensors of factors are chains of small operators, see `factored_layers`; wherever there is
    no such chain, they have the weights. Owns copies: moving, casting or freezing it leaves the client's model as it
    was.
    """

    head: nn.Linear | FactoredLinear

    def __init__(self, model: ClientModel) -> None:
        super().__init__()
        self.modalities = model.modalities
        self.normalizers = copy.deepcopy(model.normalizers)
        self.encoders = copy.deepcopy(model.encoders)
        self.fusion: Fusion = copy.deepcopy(model.fusion)
        n_outputs, width = model.layout.n_outputs, model.layout.width
        head = model.head.detach()
        self.head = nn.Linear(width, n_outputs, device=head.device, dtype=head.dtype)
        with torch.no_grad():
            # the flat head holds the weights row by row, then the biases
            self.head.weight.copy_(head[: n_outputs * width].view(n_outputs, width))
            self.head.bias.copy_(head[n_outputs * width :])
        ranks = {name: factors[0].shape[-1] for name, factors in model.factors.items()}
        for name, layer in put_factored_layers(self, lambda layer: ranks.get(_weight_of(layer))).items():
            layer.take(model.factors[_weight_of(name)])

    def forward(self, *inputs: Tensor) -> Answer:
        """Logits and shares of inputs in physical units.

        Args:
            inputs: one tensor per modality, [batch, ...]; with several modalities one more, which of them are there,
                [batch or 1, n_modalities] of 1 and 0.
        """
        n = len(self.modalities)
        encoded = [
            self.encoders[modality](self.normalizers[modality](tensor))
            for modality, tensor in zip(self.modalities, inputs[:n], strict=True)
        ]
        return _read(self.fusion, self.head, (*encoded, *inputs[n:]))


def _weight_of(layer: str) -> str:
    """Name of the weight of a deployed model's layer among those of a client's model, whose head is one vector."""
    return layer if layer == "head" else f"{layer}.weight"


class DeployedPair(nn.Module):
    """Both models of a pair and their mean, as a device runs them."""

    def __init__(self, pair: ModelPair) -> None:
        super().__init__()
        self.modalities = pair.modalities
        self.trained, self.kept = DeployedModel(pair.trained), DeployedModel(pair.kept)

    def forward(self, *inputs: Tensor) -> Answer:
        """Logits of the mean of both models' probabilities, and means of both models' shares."""
        (first, first_shares), (second, second_shares) = self.trained(*inputs), self.kept(*inputs)
        shares = () if first_shares is None else (first_shares, second_shares)
        return _mean((first, second, *shares))


Deployed = DeployedModel | DeployedPair


def deployed_model(model: ClientModel | ModelPair) -> Deployed:
    """A copy of a trained model as a device runs it: float32, on the CPU, in evaluation mode."""
    made = DeployedPair(model) if isinstance(model, ModelPair) else DeployedModel(model)
    return simplified(made.cpu().float().eval())


def simplified(model: Deployed) -> Deployed:
    """The same model, changed in place, with normalizations and scales merged into the layers beside them."""
    for one in (model,) if isinstance(model, DeployedModel) else (model.trained, model.kept):
        if len(one.modalities) == 1:  # every fusion of one embedding is that embedding
            one.fusion = ConcatFusion(one.modalities, one.fusion.blocks[0][1])
        for modality in one.modalities:
            normalizer, encoder = one.normalizers[modality], one.encoders[modality]
            one.normalizers[modality] = simplify_encoder(normalizer, encoder)
    return model


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A piece of a deployed model that is traced by itself, and its place in the model.

    Clients of other groups have some parts in common, such as the encoder of a camera; the models of a pair have all.

    Attributes:
        module: what it computes; takes and gives tensors [batch, ...], in order. Its layers are those of the model.
        shapes: of one sample of every input.
        reads: names of the values that it takes.
        makes: names of the values that it gives.
        holds: attribute of the module -> its name in the model; what it is the beginning of, it is in both.
        name: of the part in the model.
    """

    module: nn.Module
    shapes: tuple[tuple[int, ...], ...]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    holds: Mapping[str, str]
    name: str

    @property
    def key(self) -> str:
        """Equal for parts that compute alike, whatever their values."""
        # the text of a module names its layers with their sizes, and `extra_repr` the rest
        return f"{self.shapes} {self.module}"


def parts_of(model: Deployed, input_shapes: Mapping[Modality, tuple[int, ...]]) -> list[Part]:
    """Parts of a model in the order of computing; they read the inputs by their names and make `OUTPUT_NAME`.

    Args:
        model: model to take apart; its parts share its layers.
        input_shapes: modality -> shape of one sample.
    """
    if isinstance(model, DeployedModel):
        return _parts(model, input_shapes, "")
    trained, kept = _parts(model.trained, input_shapes, "trained."), _parts(model.kept, input_shapes, "kept.")
    makes = [part[-1].makes for part in (trained, kept)]
    reads = tuple(name for pair in zip(*makes, strict=True) for name in pair)
    outputs = (OUTPUT_NAME, ATTENTION_NAME)[: len(makes[0])]
    n_outputs, n = model.trained.head.out_features, len(model.modalities)
    shapes = ((n_outputs,), (n_outputs,), (n,), (n,))[: len(reads)]
    return [*trained, *kept, Part(_Mean(), shapes, reads, outputs, {}, "mean")]


def _parts(model: DeployedModel, input_shapes: Mapping[Modality, tuple[int, ...]], within: str) -> list[Part]:
    for modality in model.modalities:
        with torch.no_grad():
            inputs = model.normalizers[modality](torch.zeros(1, *input_shapes[modality]))
        put_sector_means(model.encoders[modality], inputs)
    encodings = [
        Part(
            _Encoding(model.normalizers[modality], model.encoders[modality]),
            (tuple(input_shapes[modality]),),
            (str(modality),),
            (f"{within}embedding.{modality}",),
            {"normalizer": f"{within}normalizers.{modality}", "encoder": f"{within}encoders.{modality}"},
            f"{within}{modality}",
        )
        for modality in model.modalities
    ]
    n, (_, embedding_dim) = len(model.modalities), model.fusion.blocks[0]
    reads = tuple(name for part in encodings for name in part.makes)
    shapes: tuple[tuple[int, ...], ...] = ((embedding_dim,),) * n
    if n > 1:
        reads, shapes = (*reads, PRESENT_NAME), (*shapes, (n,))
    module = _Reading(model.fusion, model.head)
    with torch.no_grad():
        _, shares = module(*(torch.ones(1, *shape) for shape in shapes))
    makes = (f"{within}{OUTPUT_NAME}", f"{within}{ATTENTION_NAME}")[: 1 if shares is None else 2]
    holds = {"fusion": f"{within}fusion", "head": f"{within}head"}
    return [*encodings, Part(module, shapes, reads, makes, holds, f"{within}reading")]


class _Encoding(nn.Module):
    """Embedding [batch, embedding_dim] of one modality in physical units [batch, ...]."""

    def __init__(self, normalizer: nn.Module, encoder: nn.Module) -> None:
        super().__init__()
        self.normalizer, self.encoder = normalizer, encoder

    def forward(self, inputs: Tensor) -> tuple[Tensor]:
        return (self.encoder(self.normalizer(inputs)),)


class _Reading(nn.Module):
    """Logits and shares of embeddings; see `_read`."""

    def __init__(self, fusion: Fusion, head: nn.Linear | FactoredLinear) -> None:
        super().__init__()
        self.fusion, self.head = fusion, head

    def forward(self, *inputs: Tensor) -> Answer:
        return _read(self.fusion, self.head, inputs)


class _Mean(nn.Module):
    """Logits and shares of a pair of models; see `_mean`."""

    def forward(self, *inputs: Tensor) -> Answer:
        return _mean(inputs)


def _read(fusion: Fusion, head: nn.Module, inputs: tuple[Tensor, ...]) -> Answer:
    """Logits and shares of embeddings [batch, embedding_dim]; if of several modalities, then `present` comes last."""
    if len(inputs) == 1:
        return head(inputs[0] if isinstance(fusion, ConcatFusion) else fusion(torch.stack(inputs, dim=1))), None
    *embeddings, present = inputs
    # one operator for all, where `stack` takes one for each
    together = torch.unflatten(torch.cat(embeddings, dim=1), 1, (len(embeddings), -1))
    fused, shares = fusion.masked(together, present)
    return head(fused), shares


def _mean(inputs: tuple[Tensor, ...]) -> Answer:
    """Logits and shares of a pair of models: inputs are the logits of both, then the shares of both, if any."""
    first, second, *shares = inputs
    return mean_answer(first, second), (shares[0] + shares[1]) / 2.0 if shares else None
