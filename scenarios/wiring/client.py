"""Client of a run: a base station with its modalities, rows and models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...datasets.windows.beam_frames import FoundOrder
from ...emulator.contracts import Modality, NodeId
from ...models.client_model import ClientModel
from ...models.model_pair import ModelPair
from .data import ClientData


@dataclass(frozen=True, slots=True)
class Client:
    """One base station with its models and training rows.

    Attributes:
        client_id: its node id.
        group: name of its group.
        modalities: modalities that it owns, in canonical order.
        data: training and held-out rows.
        models: name -> model that it trains.
        outputs: [n_outputs] identity of each logit, see `outputs_of`.
        pair: fused model with a second one, for algorithms that need both.
        order: order of its beams that it found in its own sweeps; None: it is told, or needs none.
    """

    client_id: NodeId
    group: str
    modalities: tuple[Modality, ...]
    data: ClientData
    models: Mapping[str, ClientModel]
    outputs: tuple[int, ...]
    pair: ModelPair | None = None
    order: FoundOrder | None = None

    def answering(self, name: str) -> ClientModel | ModelPair:
        """Model that predicts under this name, and is exported."""
        return self.models[name] if self.pair is None else self.pair
