"""Members of the groups: modalities, task, kept frames, numbering of beams and device of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.perturb import ImageChange, Occlusion, View
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.track_windows import renumbered
from ...emulator.contracts import MODALITIES, MODALITY_SPECS, Modality, NodeId
from ...emulator.edge.device_profiles import DEVICE_PROFILES, DeviceProfile
from ...emulator.edge.profile_file import profile_of
from ...emulator.modalities import has_images
from ...emulator.random_streams import named_stream
from ..schema.clients_section import ClientsSection
from ..schema.compute_section import ComputeSection
from ..schema.data_section import DataSection
from ..schema.neighborhood import assign_groups
from ..schema.scenario import Scenario
from ..tasks.task_spec import SensorTask, Task

#: A value of `data.images`.
ImageChangeName = Literal["plain", "occluded", "views"]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One client with the settings of its group.

    Attributes:
        client_id: node id.
        group: name of its group.
        modalities: modalities that it owns, in canonical order.
        task: task that it learns.
        data: data section with the values of its group.
        numbering: [n_outputs] int64, designed output that each of its own outputs stands for; empty where outputs
            follow from the data, in one numbering for all.
        encoder: name of the encoder that its group chooses; empty: that of the task, or of the modality.
    """

    client_id: NodeId
    group: str
    modalities: tuple[Modality, ...]
    task: Task
    data: DataSection
    numbering: NDArray[np.int64]
    encoder: str = ""

    @property
    def sensor_task(self) -> SensorTask:
        """Its task, where that is about what sensors recorded."""
        assert isinstance(self.task, SensorTask), "asked of clients with sensors only"
        return self.task

    def outputs(self, samples: Samples) -> tuple[int, ...]:
        """[n_outputs] identity of each logit: equal numbers of two clients are the same class or beam.

        A base station knows them from how its array is built and mounted.

        Args:
            samples: of the client.
        """
        designed = self.task.outputs(self.data, samples).identities
        return tuple(designed[output] for output in self.numbering) or designed

    def samples(self, sensed: SensedFrames, *, may_be_empty: bool = False) -> Samples:
        """All samples of the sensed frames, in the client's own numbers of beams; errors as of `SensorTask.samples`."""
        samples = self.sensor_task.samples(sensed, self.modalities, self.data, may_be_empty=may_be_empty)
        return self.numbered(samples)

    def samples_of_every_frame(self, sensed: SensedFrames) -> Samples:
        """Samples of every frame, as a served model gets them: without a stride; errors as of `SensorTask.samples`."""
        every = self.data.model_copy(update={"stride": 1})
        return self.numbered(self.sensor_task.samples(sensed, self.modalities, every))

    def numbered(self, samples: Samples) -> Samples:
        """Samples in the order of the codebook, as this client numbers its beams."""
        return samples if self.data.beam_order == "same" else renumbered(samples, self.numbering)


def members_of(scenario: Scenario) -> list[Member]:
    """All clients, ordered by client id."""
    members, task = [], scenario.task_spec
    for client_id, group in enumerate(assign_groups(scenario.clients, scenario.seed)):
        data = scenario.data_of(group)
        # outputs that follow from the data are numbered as these number them
        n_outputs = task.outputs(data).n if isinstance(task, SensorTask) else 0
        numbering = _numbering(data.beam_order, scenario.clients.n_clients, scenario.seed, client_id, n_outputs)
        section = scenario.clients.group(group)
        members.append(Member(client_id, group, section.owned, task, data, numbering, section.encoder))
    return members


def _numbering(beam_order: str, n_clients: int, seed: int, client_id: NodeId, n_outputs: int) -> NDArray[np.int64]:
    """[n_outputs] drawn from a stream of the client alone; arrays that hang upside down are drawn among all clients."""
    designed = np.arange(n_outputs, dtype=np.int64)
    if beam_order == "mirrored":
        # among all clients, so that exactly half of them are mirrored
        upside_down = named_stream(seed, "beam_order").permutation(n_clients)[: n_clients // 2]
        return designed[::-1] if client_id in upside_down else designed
    if beam_order == "same":
        return designed
    draws = named_stream(seed, "beam_order", client_id)
    if beam_order == "rotated":
        return np.roll(designed, -int(draws.integers(n_outputs)))
    return draws.permutation(designed) if beam_order == "permuted" else designed


def image_change(
    images: ImageChangeName, seed: int, client_id: NodeId, owned: Sequence[Modality]
) -> ImageChange | None:
    """Change of the images of one client; the same in training and test, and in every run of this seed.

    Args:
        images: name of the change, a value of `data.images`.
        seed: root seed of the run.
        client_id: number of the client.
        owned: modalities of the client; without images the result is None.

    Source: the settings of scenario II of Ghalkha et al. 2025; strengths are our choice, the paper gives none.
    """
    if not has_images(owned):
        return None
    if images == "occluded":
        return Occlusion(int(named_stream(seed, "occlusion", client_id).integers(2**31)))
    if images == "views":
        return View.drawn(named_stream(seed, "view", client_id))
    return None


def kept_frames(task: SensorTask, owned: Sequence[Sequence[Modality]]) -> dict[str, Any]:
    """Arguments of `SensedFrames` for the frames of a base station that its clients need.

    Args:
        task: task of the clients.
        owned: modalities of each client.
    """
    used = {modality for modalities in owned for modality in modalities}
    per_beam = {modality for modality in task.needs if MODALITY_SPECS[modality].per_beam}
    used |= {*task.needs} - per_beam  # for labels, powers as they were measured suffice
    return {
        "modalities": tuple(modality for modality in MODALITIES if modality in used),
        "color": task.color,
        "keep_powers": bool(per_beam),
    }


def client_devices(compute: ComputeSection, clients: ClientsSection, seed: int) -> dict[NodeId, DeviceProfile]:
    """Client -> profile of its device."""
    known = known_devices(compute.profiles)
    default = known[compute.profile]
    of_group = {group.name: default if group.profile is None else known[group.profile] for group in clients.groups}
    settings = compute.stragglers
    slow = stragglers(settings.share, clients.n_clients, seed)
    return {
        client_id: of_group[group].slowed(settings.factor) if client_id in slow else of_group[group]
        for client_id, group in enumerate(assign_groups(clients, seed))
    }


def node_devices(scenario: Scenario) -> dict[NodeId, DeviceProfile]:
    """Node -> profile of its device: of the clients, and of the server where there is one."""
    devices = client_devices(scenario.compute, scenario.clients, scenario.seed)
    if scenario.server_id is not None:
        known = known_devices(scenario.compute.profiles)
        devices[scenario.server_id] = known[scenario.server.profile or scenario.compute.profile]
    return devices


def stragglers(share: float, n_clients: int, seed: int) -> frozenset[NodeId]:
    """Clients that are slower than their device, drawn once; the larger of two shares holds those of the smaller."""
    order = named_stream(seed, "stragglers").permutation(n_clients)
    return frozenset(order[: round(share * n_clients)].tolist())


def known_devices(profiles: Mapping[str, Mapping[str, Any]]) -> Mapping[str, DeviceProfile]:
    """Devices that a scenario can name: those that come with sheafedge, and its own."""
    own = {name: profile_of(name, dict(table)) for name, table in profiles.items()}
    # profiles of the scenario come last: they may replace a shipped one of the same name
    return {**DEVICE_PROFILES, **own}
