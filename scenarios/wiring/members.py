"""The members of the groups: what each client owns, what it is asked, and how it numbers its beams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.beam_order import renumbered
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.contracts import Modality, NodeId
from ...emulator.engine import named_stream
from ..schema.data_section import DataSection
from ..schema.scenario import Scenario
from ..tasks.task_spec import TaskSpec
from .groups import assign_groups, modalities_of


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One client as its group makes it.

    Attributes:
        client_id: its node id.
        group: name of its group.
        modalities: what it owns, canonical order.
        task: what it is asked, ...
        data: ... with the numbers of its group.
        numbering: [n_outputs] int64, which of the outputs, as they were designed, each of its own is.
    """

    client_id: NodeId
    group: str
    modalities: tuple[Modality, ...]
    task: TaskSpec
    data: DataSection
    numbering: NDArray[np.int64]

    @property
    def outputs(self) -> tuple[int, ...]:
        """[n_outputs] what each of its logits is about: equal numbers of two clients are the same beam.

        A base station knows them from how its array is built and mounted.
        """
        designed = self.task.output_identities(self.data)
        return tuple(designed[output] for output in self.numbering)

    def samples(self, sensed: SensedFrames, *, may_be_empty: bool = False) -> Samples:
        """All its samples of what a base station has sensed, in its own numbers; errors as of `TaskSpec.samples`."""
        samples = self.task.samples(sensed, self.modalities, self.data, may_be_empty=may_be_empty)
        return self.numbered(samples)

    def samples_of_every_frame(self, sensed: SensedFrames) -> Samples:
        """The same without leaving any out, as a served model is asked; errors as of `TaskSpec.samples`."""
        every = self.data.model_copy(update={"stride": 1})
        return self.numbered(self.task.samples(sensed, self.modalities, every))

    def numbered(self, samples: Samples) -> Samples:
        """Samples in the order of the codebook, as this client numbers its beams."""
        return samples if self.data.beam_order == "same" else renumbered(samples, self.numbering)


def members_of(scenario: Scenario) -> list[Member]:
    """All clients, ordered by client id."""
    members = []
    for client_id, group in enumerate(assign_groups(scenario)):
        data = scenario.data_of(group)
        numbering = _numbering(scenario, client_id, scenario.task_spec.n_outputs(data))
        owned = modalities_of(scenario, group)
        members.append(Member(client_id, group, owned, scenario.task_spec, data, numbering))
    return members


def _numbering(scenario: Scenario, client_id: NodeId, n_outputs: int) -> NDArray[np.int64]:
    """[n_outputs] drawn from a stream of the client alone; who mounts arrays upside down is drawn among all clients."""
    designed = np.arange(n_outputs, dtype=np.int64)
    if scenario.data.beam_order == "mirrored":
        n_clients = scenario.clients.n_clients
        upside_down = named_stream(scenario.seed, "beam_order").permutation(n_clients)[: n_clients // 2]
        return designed[::-1] if client_id in upside_down else designed
    draws = named_stream(scenario.seed, "beam_order", client_id)
    if scenario.data.beam_order == "rotated":
        return np.roll(designed, -int(draws.integers(n_outputs)))
    return draws.permutation(designed) if scenario.data.beam_order == "permuted" else designed
