"""Base stations with served models: an answer for every frame, and the delay of their devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import NodeId
from ...emulator.decisions.service import Service, arrivals_s
from ...emulator.decisions.warning_events import WarningEvents
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.radio.waves import Array
from ...models.client_model import forward_flops
from ..wiring.client import Client
from ..wiring.predictions import Predictions
from .user_links import ServedLink

FLOAT32_BYTES = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class ServedStation:
    """Base station with a served model.

    Attributes:
        client: base station as a client of the scenario.
        link: radio link of its user over the held-out frames.
        logits: [n, n_outputs] answers for every frame of the link.
        delay_s: [n] s from every frame to its answer; infinite for frames that the busy device skipped.
        device: name of the device.
        seconds: computing time of one answer in s.
    """

    client: Client
    link: ServedLink
    logits: NDArray[np.floating[Any]]
    delay_s: Array
    device: str
    seconds: float

    def answering_after(self, seconds: float) -> ServedStation:
        """The same base station on a device that takes `seconds` for an answer."""
        return replace(self, seconds=seconds, delay_s=_delays_s(self.link, seconds))

    @property
    def slowest_answer_s(self) -> float:
        """Longest time in s from a frame to the first answer that includes it."""
        # a device that keeps pace is idle when a frame comes; a slower one may have just begun another answer
        return self.seconds if self.seconds <= self.link.frame_s else 2.0 * self.seconds


@dataclass(slots=True)
class StationValue:
    """Service of the user of one base station under every policy.

    Attributes:
        station: the base station.
        services: policy -> service of the user.
        deadline_met: whether the device answers early enough to act on it.
        warnings: blockages and warnings; None where answers are no warnings.
        facts: further entries for summaries.
    """

    station: ServedStation
    services: Mapping[str, Service]
    deadline_met: bool
    warnings: WarningEvents | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class PlayedUsers(NamedTuple):
    """Service of the users of all base stations.

    Attributes:
        values: service of each of them.
        figures: further figures over all of them, for summaries.
    """

    values: list[StationValue]
    figures: Mapping[str, Any] = {}


def halves_of(stations: Sequence[ServedStation]) -> NDArray[np.bool_]:
    """[n_stations] half of each; base stations at one place are in one half, and every second place in the other."""
    places = sorted({station.client.data.station_index for station in stations})
    return np.array([places.index(station.client.data.station_index) % 2 == 1 for station in stations])


def served_stations(
    clients: Sequence[Client],
    predictions: Predictions,
    reported: Mapping[str, str],
    links: Mapping[NodeId, ServedLink],
    devices: Mapping[NodeId, DeviceProfile],
) -> list[ServedStation]:
    """Base stations with the answers of their reported models about all held-out frames.

    Args:
        clients: clients whose models are in this process.
        predictions: answers of their models.
        reported: group -> name of the model that it reports.
        links: client -> radio link of its user.
        devices: client -> profile of its device.
    """
    found = predictions.of({client.client_id: links[client.client_id].samples for client in clients})
    made = []
    for client in clients:
        me, name = client.client_id, reported[client.group]
        seconds = _answer_seconds(devices[me], client, name)
        logits = found[me][name]
        made.append(ServedStation(client, links[me], logits, _delays_s(links[me], seconds), devices[me].name, seconds))
    return made


def _answer_seconds(device: DeviceProfile, client: Client, name: str) -> float:
    """Time of one answer on a device, in float32, as the model is handed out."""
    one, model = client.models[name].tensors(client.data.test.inputs(np.arange(1))), client.answering(name)
    input_bytes = FLOAT32_BYTES * sum(values.numel() for values in one.values())
    weight_bytes = FLOAT32_BYTES * sum(values.numel() for values in model.parameters())
    return device.answer_seconds(forward_flops(model, one), input_bytes=input_bytes, weight_bytes=weight_bytes)


def _delays_s(link: ServedLink, seconds: float) -> Array:
    """[n] s from every frame to its answer; the device is idle when a stretch begins."""
    delays = []
    for rows in link.stretches:
        sensed_s = link.instants_s(rows)
        delays.append(arrivals_s(sensed_s, seconds) - sensed_s)
    return np.concatenate(delays)
