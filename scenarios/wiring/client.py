"""A base station that takes part in a run: its modalities, rows and models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...datasets.windows.samples import Samples
from ...emulator.contracts import Modality, NodeId
from ...models.client_model import ClientModel
from ...models.twin_model import TwinModel
from .data import ClientData
from .live import LiveRows


@dataclass(frozen=True, slots=True)
class Client:
    """One base station with everything that it trains and trains on.

    Attributes:
        client_id: its node id.
        group: name of its group.
        modalities: what it owns, canonical order.
        data: its rows.
        models: what it trains, by name.
        outputs: [n_outputs] what each of its logits is about, see `Member.outputs`.
        train: rows that it trains on.
        private: training rows kept aside from these, for algorithms that need them.
        twin: its fused model with a second one, for algorithms that need both.
    """

    client_id: NodeId
    group: str
    modalities: tuple[Modality, ...]
    data: ClientData
    models: Mapping[str, ClientModel]
    outputs: tuple[int, ...]
    train: Samples | LiveRows
    private: Samples | None = None
    twin: TwinModel | None = None

    def answering(self, name: str) -> ClientModel | TwinModel:
        """The model that predicts under this name, and is exported."""
        return self.models[name] if self.twin is None else self.twin
