"""Initial models of clients, with equal encoders and heads wherever shapes allow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from ...datasets.windows.beam_frames import FoundOrder
from ...emulator.contracts import Modality, NodeId
from ...models.client_model import ClientModel
from ...models.head import HeadLayout, chosen_outputs, initial_head, mean_outputs
from ...models.settings import ModelSettings
from .beam_orders import outputs_of, put_in_order
from .data import ClientData
from .encoders import embedding_dim, make_encoders, torch_seed
from .members import Member
from .started_models import StartedModels


@dataclass(frozen=True, slots=True)
class InitialModels:
    """Maker of initial models; equal arguments give equal models.

    Attributes:
        seed: root seed of the run.
        settings: settings of all models.
        fusion: name of the fusion of embeddings.
        device, dtype: of all models.
        all_outputs: identities of the outputs of all clients, ascending, where restriction maps compare outputs by
            that; None: they are compared by number.
        orders: order of every client's beams that it found in its own sweeps; None for those that found none.
        started: trained models that take the place of drawn weights; None: there are none.
    """

    seed: int
    settings: ModelSettings
    fusion: str
    device: torch.device
    dtype: torch.dtype
    all_outputs: Sequence[int] | None
    orders: Sequence[FoundOrder | None]
    started: StartedModels | None = None

    def model(
        self, member: Member, modalities: Sequence[Modality], rows: ClientData, used: ClientModel | None = None
    ) -> ClientModel:
        """Initial model of some modalities of a client; errors as of `StartedModels.put_into`.

        Args:
            member, rows: of the client.
            modalities: of the model.
            used: model of another client with the same architecture, as it was before its first round; the result is
                this one where nothing but what scales inputs depends on the client's samples. None: there is none.
        """
        order = self.orders[member.client_id]
        outputs = outputs_of(member, rows, order)
        normalizers, encoders = make_encoders(
            member.task, self.settings, self.seed, modalities, rows.train, member.client_id, member.encoder, used
        )
        if used is not None and all(encoder is used.encoders[modality] for modality, encoder in encoders.items()):
            model = used
            model.scale_by(normalizers)
        else:
            model = ClientModel(
                normalizers,
                encoders,
                fusion=self.fusion,
                embedding_dim=embedding_dim(encoders.values(), self.settings),
                n_outputs=len(outputs),
            )
        model.head.data.copy_(self._head(model.layout, member.client_id, outputs))
        if order is not None:
            put_in_order(model, order)
        if self.started is not None:
            self.started.put_into(model, member.client_id, modalities)
        # of a used model the rest is where it belongs
        (model.normalizers if model is used else model).to(device=self.device, dtype=self.dtype)
        return model

    def _head(self, layout: HeadLayout, client_id: NodeId, outputs: Sequence[int]) -> Tensor:
        """[d] initial head; a common head is drawn once per layout.

        Where outputs are compared by what they are about, it is drawn for the outputs of all clients, and a client
        takes its own: neighbors then start in agreement on their edge.
        """
        if self.settings.head_start == "independent":
            return self._drawn(layout, client_id)
        if self.all_outputs is None:
            return self._drawn(layout)
        whole = replace(layout, n_outputs=len(self.all_outputs))
        drawn = self._drawn(whole)
        if self.orders[client_id] is not None:
            # places of a codebook with fewer beams are as many times as wide as those of the largest one
            k = whole.n_outputs // layout.n_outputs
            return mean_outputs(drawn, whole, [range(place * k, (place + 1) * k) for place in outputs])
        # equal identities get equal rows of the common head, whatever numbers the client gives its beams
        return chosen_outputs(drawn, whole, [self.all_outputs.index(one) for one in outputs])

    def _drawn(self, layout: HeadLayout, *owner: NodeId) -> Tensor:
        return _head_of(layout, torch_seed(self.seed, "head", layout, *owner))


@lru_cache(maxsize=64)  # asked again for every client that starts equal
def _head_of(layout: HeadLayout, seed: int) -> Tensor:
    """[d] head drawn by a seed, to be copied."""
    return initial_head(layout, torch.Generator().manual_seed(seed))
