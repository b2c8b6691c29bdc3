"""Base stations whose trained models are served: an answer about every frame, as late as their devices give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Learner
from ...emulator.decisions.answers import arrivals_s
from ...emulator.decisions.deadline import Deadline
from ...emulator.decisions.service import Service
from ...emulator.edge.device_profiles import DeviceProfile
from ...emulator.radio.waves import Array
from ...models.export.flops import forward_flops
from ..schema.scenario import Scenario
from ..wiring.client import Client
from ..wiring.devices import client_devices
from ..wiring.evaluation import predicted
from .user_links import ServedLink, served_links

FLOAT32_BYTES = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """A base station whose model is served.

    Attributes:
        client: it.
        link: of its user.
        logits: [n, n_outputs] answers about every frame of the link.
        delay_s: [n] from every frame to its answer; infinite where the device was busy and left it out.
        device: that answers, ...
        seconds: ... and how long it takes.
    """

    client: Client
    link: ServedLink
    logits: NDArray[np.floating[Any]]
    delay_s: Array
    device: str
    seconds: float

    def answering_after(self, seconds: float) -> Server:
        """The same on a device that takes so long."""
        return replace(self, seconds=seconds, delay_s=_delays_s(self.link, seconds))

    @property
    def slowest_answer_s(self) -> float:
        """From a frame to the first answer that knows of it, at worst: a slow device may have just begun another."""
        return self.seconds if self.seconds <= self.link.frame_s else 2.0 * self.seconds


@dataclass(slots=True)
class Played:
    """The user of one base station, under every way of deciding.

    Attributes:
        server: the base station.
        services: way of deciding -> what the user got.
        deadline_met: whether the device answers soon enough to act on it.
        deadline: how warnings came; blockages only.
        facts: more about it, for summaries.
    """

    server: Server
    services: Mapping[str, Service]
    deadline_met: bool
    deadline: Deadline | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def servers(
    scenario: Scenario,
    clients: Sequence[Client],
    learners: Sequence[Learner],
    reported: Mapping[str, str],
    recordings: Sequence[Path],
) -> list[Server]:
    """Let the reported model of every client answer about its held-out frames, one by one.

    Args:
        scenario: of the run.
        clients: whose models are here.
        learners: of these and perhaps more.
        reported: group -> name of its model.
        recordings: that the base stations are in.
    """
    links = served_links(
        clients, recordings, scenario.links.settings_of("radio"), with_fades=scenario.task_spec.decision == "handover"
    )
    devices = client_devices(scenario)
    learner_of = {learner.client_id: learner for learner in learners}
    made = []
    for client in clients:
        me, name = client.client_id, reported[client.group]
        seconds = _answer_seconds(devices[me], client, name)
        logits = predicted(learner_of[me], links[me].samples)[name]
        made.append(Server(client, links[me], logits, _delays_s(links[me], seconds), devices[me].name, seconds))
    return made


def _answer_seconds(device: DeviceProfile, client: Client, name: str) -> float:
    """In float32, as the model is handed out."""
    one, model = client.models[name].tensors(client.data.test.inputs(np.arange(1))), client.answering(name)
    input_bytes = FLOAT32_BYTES * sum(values.numel() for values in one.values())
    weight_bytes = FLOAT32_BYTES * sum(values.numel() for values in model.parameters())
    return device.answer_seconds(forward_flops(model, one), input_bytes=input_bytes, weight_bytes=weight_bytes)


def _delays_s(link: ServedLink, seconds: float) -> Array:
    """[n]; the device is idle when a stretch begins."""
    delays = []
    for rows in link.stretches:
        sensed_s = link.instants_s(rows)
        delays.append(arrivals_s(sensed_s, seconds) - sensed_s)
    return np.concatenate(delays)
