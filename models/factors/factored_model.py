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
    """

    kind: MessageKind
    modality: Modality | None
    layout: FactorLayout
    vector: Tensor

    @property
    def values(self) -> Tensor:
        """[n_values] view of the vector."""
        return self.vector[: self.layout.n_values]


class FactoredModel:
    """Factors of all weights of encoders and head; biases, and all that a fusion learns, stay dense.

    Args:
        trained: dense model, whose initial weights give the factors their variance; it comes to hold what the factors
            make once they were trained, and names them.
        received: the same as they were received.
        settings: ratio and aggregation.
        draws: name -> stream from which all clients draw alike.
        share_buffers: see `FlatModule`.

    Attributes:
        layout: of the whole vectors, dense ones as in `FlatModel.parameters`.
        trained, received: the dense models.
    """

    def __init__(
        self,
        trained: ClientModel,
        received: ClientModel,
        settings: FactorSettings,
        draws: Callable[[str], np.random.Generator],
        *,
        share_buffers: bool,
    ) -> None:
        self.trained = FlatModel(trained, share_buffers=share_buffers)
        self.received = FlatModel(received, share_buffers=share_buffers)
        self._aggregation = settings.aggregation
        parts = _parts_of(trained)
        self.layout = FactorLayout([part for _, _, part in parts], settings.ratio)
        dense = torch.cat([one.reshape(-1) for one in self.trained.parameters])
        self._parts: list[_SentPart] = []
        for kind, modality, part in parts:
            layout = FactorLayout([part], settings.ratio)
            stream = torch.Generator().manual_seed(
                int(draws(f"factors {modality or kind} {part.shapes}").integers(2**63))
            )
            own, dense = dense[: layout.n_dense], dense[layout.n_dense :]
            statistics = self._statistics(self.trained, modality, layout.n_dense)
            vector = torch.cat([layout.initial(own, stream), statistics])
            self._parts.append(_SentPart(kind, modality, layout, vector))
        self._of_trained, self._of_received = copies(self.vectors), copies(self.vectors)
        trained.factors, received.factors = self._named(self._of_trained), self._named(self._of_received)
        self._compose(self._of_trained, self.trained)
        self._compose(self._of_received, self.received)

    @staticmethod
    def _statistics(flat: FlatModel, modality: Modality | None, n_parameters: int) -> Tensor:
        """Running statistics of an encoder that are shared, as a view; empty for the other parts."""
        return flat.model.head.detach()[:0] if modality is None else flat.encoders[modality].vector[n_parameters:]

    def _named(self, vectors: Sequence[Tensor]) -> dict[str, Sequence[Tensor]]:
        """Name of a weight in the dense model -> its factors, as views."""
        found: dict[str, Sequence[Tensor]] = {}
        for one, vector in zip(self._parts, vectors, strict=True):
            names = ["head"]
            if one.modality is not None:
                encoder = self.trained.model.encoders[one.modality]
                names = [f"encoders.{one.modality}.{name}" for name, _ in encoder.named_parameters()]
            found |= {names[weight.number]: weight.factors(vector) for weight in one.layout.weights}
        return found

    def shared(self, weights: Weights) -> list[SharedVector]:
        """What is exchanged: a vector per encoder, one of the head, and the fusion where it weighs several encoders."""
        alone = len(self.trained.model.modalities) == 1
        of_tensors = self._aggregation == "tensors"
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

    def take(self, values: Tensor, personal: FlatModel) -> None:
        """Have these values [layout.n_values], and the running statistics of the model that was trained beside them."""
        pieces = torch.split(values, [one.layout.n_values for one in self._parts])
        for one, piece in zip(self._parts, pieces, strict=True):
            statistics = self._statistics(personal, one.modality, one.layout.n_dense)
            one.vector.copy_(torch.cat([piece, statistics]))
        self._keep(self._of_trained, self.trained)
        self.copy_statistics(personal)

    def note_received(self) -> None:
        """Keep the vectors as they are now, which is how an exchange has left them."""
        self._keep(self._of_received, self.received)

    def composed(self) -> FlatModel:
        """The dense model of the vectors as they are now, whoever has changed them last."""
        self._keep(self._of_trained, self.trained)
        return self.trained

    def copy_statistics(self, personal: FlatModel) -> None:
        """Have the running statistics of the personal model that are never sent."""
        for vectors, flat in ((self._of_trained, self.trained), (self._of_received, self.received)):
            flat.copy_statistics(personal)
            self._give_statistics(vectors, flat)

    def _keep(self, kept: Sequence[Tensor], flat: FlatModel) -> None:
        assign(kept, self.vectors)
        self._compose(kept, flat)

    def _compose(self, vectors: Sequence[Tensor], flat: FlatModel) -> None:
        pairs = zip(self._parts, vectors, strict=True)
        dense = torch.cat([one.layout.compose(vector[: one.layout.n_values]) for one, vector in pairs])
        parameters = flat.parameters
        values = torch.split(dense, [one.numel() for one in parameters])
        assign(parameters, [own.view_as(one) for own, one in zip(values, parameters, strict=True)])
        self._give_statistics(vectors, flat)

    def _give_statistics(self, vectors: Sequence[Tensor], flat: FlatModel) -> None:
        for one, vector in zip(self._parts, vectors, strict=True):
            self._statistics(flat, one.modality, one.layout.n_dense).copy_(vector[one.layout.n_values :])

    def state(self) -> State:
        """The vectors, and as they were trained and received."""
        return [to_array(vector) for vector in (*self.vectors, *self._of_trained, *self._of_received)]

    def restore(self, saved: SavedState) -> None:
        vectors = [*self.vectors, *self._of_trained, *self._of_received]
        for vector, one in zip(vectors, saved.listed(len(vectors)), strict=True):
            restore_tensor(vector, one)
        self._compose(self._of_trained, self.trained)
        self._compose(self._of_received, self.received)


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
