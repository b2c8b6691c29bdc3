"""Which frames of a base station its clients keep, and what a scenario does to images before anybody sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...datasets.windows.perturb import ImageChange, Occlusion, View
from ...emulator.contracts import MODALITIES, MODALITY_SPECS, Modality, NodeId
from ...emulator.engine import named_stream
from ..schema.scenario import Scenario
from ..tasks.task_spec import TaskSpec


def image_change(scenario: Scenario, client_id: NodeId, owned: Sequence[Modality]) -> ImageChange | None:
    """What happens to the images of one client; the same in training and test, and in every run of this seed.

    Args:
        scenario: whose data section names the change.
        client_id: of the client.
        owned: its modalities; a client without images has none that change.

    Source: the settings of scenario II of Ghalkha et al. 2025; strengths are our choice, the paper gives none.
    """
    if not any(MODALITY_SPECS[modality].picture == "image" for modality in owned):
        return None
    if scenario.data.images == "occluded":
        return Occlusion(int(named_stream(scenario.seed, "occlusion", client_id).integers(2**31)))
    if scenario.data.images == "views":
        return View.drawn(named_stream(scenario.seed, "view", client_id))
    return None


def kept_frames(scenario: Scenario, owned: Sequence[Sequence[Modality]]) -> dict[str, Any]:
    """What `SensedFrames` of a base station keeps for clients that own these modalities."""
    return frames_for(scenario.task_spec, owned)


def frames_for(task: TaskSpec, owned: Sequence[Sequence[Modality]]) -> dict[str, Any]:
    """What `SensedFrames` of a base station keeps for those who own these modalities and are asked this."""
    used = {modality for modalities in owned for modality in modalities}
    per_beam = {modality for modality in task.needs if MODALITY_SPECS[modality].per_beam}
    used |= {*task.needs} - per_beam  # for labels, powers as they were measured suffice
    return {
        "modalities": tuple(modality for modality in MODALITIES if modality in used),
        "color": task.color,
        "keep_powers": bool(per_beam),
    }
