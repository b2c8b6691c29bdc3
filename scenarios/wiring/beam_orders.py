"""Orders of beams that clients find in their own sweeps, where nobody tells them."""

from __future__ import annotations

from collections.abc import Sequence

from ...datasets.windows.beam_frames import FoundOrder, found_order
from ...datasets.windows.sensor_windows import BeamWindows
from ...emulator.contracts import MODALITY_SPECS, ConfigError
from ...models.client_model import ClientModel
from ...models.encoders.ordered_beams import OrderedBeams
from ...models.sheaf.beam_frame import BeamFrame
from ..schema.scenario import Scenario
from .data import ClientData
from .members import Member


def found_orders(scenario: Scenario, data: Sequence[ClientData]) -> list[FoundOrder | None]:
    """Order of every client's beams, from the sweeps that its training labels are made of; None: they are not learned.

    Raises:
        ConfigError: the samples of a client have no sweeps.
    """
    if scenario.sheaf.map_start != "learned":
        return [None] * len(data)
    orders: list[FoundOrder | None] = []
    for client_id, rows in enumerate(data):
        if not isinstance(rows.train, BeamWindows):
            raise ConfigError(
                f"sheaf.map_start = 'learned' finds orders of beams in sweeps, which the samples of client {client_id}"
                " do not have; use 'structured' or 'aligned'"
            )
        orders.append(found_order(rows.train.powers))
    return orders


def outputs_of(member: Member, rows: ClientData, order: FoundOrder | None) -> tuple[int, ...]:
    """[n_outputs] identity of each logit of a client, as it is told, or as it found out; see `Member.outputs`."""
    return member.outputs(rows.test) if order is None else _places(order)


def put_in_order(model: ClientModel, order: FoundOrder) -> None:
    """Have the encoders of a model read sweeps in this order, if it is trusted."""
    if order.is_trusted:
        for modality in model.modalities:
            if MODALITY_SPECS[modality].per_beam:
                model.normalizers[modality] = OrderedBeams(model.normalizers[modality], order.order)


def beam_frame(order: FoundOrder, model: ClientModel) -> BeamFrame:
    """Frame of a client whose model was put in this order."""
    return BeamFrame(_places(order), model, is_trusted=order.is_trusted)


def _places(order: FoundOrder) -> tuple[int, ...]:
    """[n_beams] place of every own beam along the codebook; its own number where the order is not trusted."""
    return tuple(order.places.tolist()) if order.is_trusted else tuple(range(len(order.order)))
