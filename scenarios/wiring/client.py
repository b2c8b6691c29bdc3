"""A base station as a scenario knows it: what it owns and what it trains."""

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
    """One base station as the scenario knows it.

    Attributes:
        client_id: its node id.
        group: name of its group.
        modalities: what it owns, canonical order.
        data: its rows.
        models: what it trains, by name.
        outputs: [n_outputs] what each of its logits is about, see `Member.outputs`.
        train: rows that it trains on.
        private: rows that it keeps aside from them, for algorithms that ask.
        twin: its fused model with a second one, for algorithms that ask.
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
        """What answers under this name, and is handed out."""
        return self.models[name] if self.twin is None else self.twin
