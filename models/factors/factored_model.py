"""The shared model of a client as factors: what it sends, and the dense model that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import MessageKind, Modality, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..factor_settings import FactorSettings
from ..flat_model import FlatModel, assign, copies
from ..sharing.vector_gossip import SharedVector, Weights
from ..state.tensors import restore_tensor, to_array
from .factor_layout import FactorLayout, PartShapes
from .tensor_average import tensor_average


@dataclass(frozen=True, slots=True, eq=False)
class _SentPart:
    """A part of a model on its way to others.

    Attributes:
        kind, modality: how messages name it.
        layout: of its values.
        vector: [n] its values, then the running statistics that are shared.
        statistics: [n_statistics] these in the dense model, as a view.
    """

    kind: MessageKind
    modality: Modality | None
    layout: FactorLayout
    vector: Tensor
    statistics: Tensor

    @property
    def values(self) -> Tensor:
        """[n_values] view of the vector."""
        return self.vector[: self.layout.n_values]


class FactoredModel:
    """Factors of all weights of encoders and head; biases, and all that a fusion learns, stay dense.

    Args:
        model: dense model, whose initial weights give the factors their variance; it comes to hold what is composed.
        settings: ratio and aggregation.
        draws: name -> stream from which all clients draw alike.
        share_buffers: see `FlatModule`.

    Attributes:
        layout: of the whole vectors, dense ones as in `FlatModel.parameters`.
        flat: the dense model.
    """

    def __init__(
        self,
        model: ClientModel,
        settings: FactorSettings,
        draws: Callable[[str], np.random.Generator],
        *,
        share_buffers: bool,
    ) -> None:
        self.flat, self._settings = FlatModel(model, share_buffers=share_buffers), settings
        parts = _parts_of(model)
        self.layout = FactorLayout([part for _, _, part in parts], settings.ratio)
        dense = torch.cat([one.reshape(-1) for one in self.flat.parameters])
        self._parts: list[_SentPart] = []
        for kind, modality, part in parts:
            layout = FactorLayout([part], settings.ratio)
            name = f"factors {modality or kind} {part.shapes}"
            stream = torch.Generator().manual_seed(int(draws(name).integers(2**63)))
            own, dense = dense[: layout.n_dense], dense[layout.n_dense :]
            statistics = dense[:0]
            if modality is not None:
                statistics = self.flat.encoders[modality].vector[layout.n_dense :]
            vector = torch.cat([layout.initial(own, stream), statistics])
            self._parts.append(_SentPart(kind, modality, layout, vector, statistics))
        self._received = copies(self.vectors)

    def shared(self, weights: Weights) -> list[SharedVector]:
        """What is exchanged: a vector per encoder, one of the head, and the fusion where it weighs several encoders."""
        alone = len(self.flat.model.modalities) == 1
        of_tensors = self._settings.aggregation == "tensors"
        return [
            SharedVector(
                one.kind,
                one.modality,
                one.vector,
                weights.rest if one.modality is None else weights.encoders.get(one.modality, {}),
                at_server=tensor_average(one.layout) if of_tensors and one.layout.weights else None,
            )
            for one in self._parts
            if not (alone and one.kind == MessageKind.ATTENTION)
        ]

    @property
    def vectors(self) -> list[Tensor]:
        """Of all parts; change them in place only."""
        return [one.vector for one in self._parts]

    @property
    def values(self) -> Tensor:
        """[layout.n_values] copy of the values of all parts."""
        return torch.cat([one.values for one in self._parts])

    def take(self, values: Tensor, trained: FlatModel) -> None:
        """Have these values [layout.n_values], and the running statistics of a model that was trained beside them."""
        pieces = torch.split(values, [one.layout.n_values for one in self._parts])
        assign([one.values for one in self._parts], pieces)
        self.flat.copy_statistics(trained)
        for one in self._parts:
            one.vector[one.layout.n_values :] = one.statistics

    def note_received(self) -> None:
        """Keep the vectors as they are now, which is how an exchange has left them."""
        assign(self._received, self.vectors)

    def compose(self) -> FlatModel:
        """The dense model, which now has the values that the factors make."""
        return self._composed(self.vectors)

    def compose_received(self) -> FlatModel:
        """The dense model, which now has the values that the factors made as they were received."""
        return self._composed(self._received)

    def _composed(self, vectors: Sequence[Tensor]) -> FlatModel:
        pieces: list[Tensor] = []
        for one, vector in zip(self._parts, vectors, strict=True):
            pieces.append(one.layout.compose(vector[: one.layout.n_values]))
            one.statistics.copy_(vector[one.layout.n_values :])
        dense, parameters = torch.cat(pieces), self.flat.parameters
        values = torch.split(dense, [one.numel() for one in parameters])
        assign(parameters, [own.view_as(one) for own, one in zip(values, parameters, strict=True)])
        return self.flat

    def state(self) -> State:
        """The vectors, and as they were received."""
        return [to_array(vector) for vector in (*self.vectors, *self._received)]

    def restore(self, saved: SavedState) -> None:
        vectors = [*self.vectors, *self._received]
        for vector, one in zip(vectors, saved.listed(len(vectors)), strict=True):
            restore_tensor(vector, one)


def _parts_of(model: ClientModel) -> list[tuple[MessageKind, Modality | None, PartShapes]]:
    """Encoders in canonical order, the fusion if it learns, the head; as in `FlatModel.parameters`."""
    found: list[tuple[MessageKind, Modality | None, PartShapes]] = [
        (MessageKind.FACTORS, modality, PartShapes(_shapes(model.encoders[modality].parameters())))
        for modality in model.modalities
    ]
    if fusion := _shapes(model.fusion.parameters()):
        found.append((MessageKind.ATTENTION, None, PartShapes(fusion, factored=False)))
    layout = model.layout
    head = PartShapes(((layout.n_outputs, layout.width), (layout.n_outputs,)))
    return [*found, (MessageKind.FACTORS, None, head)]


def _shapes(parameters: Iterable[Tensor]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(parameter.shape) for parameter in parameters)
