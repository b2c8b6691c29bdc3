"""Task of blockage prediction, from a window of frames of the LiDAR, the camera, the radar or beam sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.baselines import blockage_majority, blockage_persistence
from ...datasets.curves import lead_times, reliability, roc
from ...datasets.scores import score_blockage
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BLOCKAGE_INPUTS, BlockageWindows, blockage_windows
from ...emulator.contracts import Modality
from ...emulator.edge.label_probabilities import logistic
from .task_spec import (
    Answers,
    Column,
    InputDescription,
    KnownBlockages,
    Outputs,
    Scores,
    TaskData,
    described_frames,
    refuse_beam_order,
)


class Blockage:
    """Blockage prediction; label: whether the line of sight is blocked in any of the next `data.horizon` frames.

    Source: eq. (23) of Ghalkha et al. 2025.
    """

    title = "Will the line of sight be blocked soon?"
    modalities: tuple[Modality, ...] = BLOCKAGE_INPUTS
    # labels are stored with the recording, so that no modality is needed for them
    needs: tuple[Modality, ...] = ()
    encoders: Mapping[Modality, str] = {}
    color = False
    columns = (
        Column("balanced_accuracy", "balanced accuracy"),
        Column("f1", "F1"),
        Column("accuracy", "accuracy"),
        Column("ahead", "when clear now"),
    )
    labels: Literal["classes", "values"] = "classes"
    objective = "binary_cross_entropy"
    decision: Literal["handover", "beam"] = "handover"
    group_fields = ("horizon",)
    swept: tuple[Modality, ...] = ()

    def check(self, data: TaskData) -> None:
        refuse_beam_order("blockage", data)

    def samples(
        self, sensed: SensedFrames, modalities: tuple[Modality, ...], data: TaskData, *, may_be_empty: bool = False
    ) -> BlockageWindows:
        return blockage_windows(
            sensed,
            modalities,
            data.window,
            data.horizon,
            label=data.label or None,
            stride=data.stride,
            may_be_empty=may_be_empty,
        )

    def outputs(self, data: TaskData, samples: Samples | None = None) -> Outputs:
        meaning = f"logit [batch, 1] of a blockage within the next {data.horizon} frames; above 0: more likely than not"
        return Outputs((0,), ("stays clear", "blocked"), meaning)

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        return described_frames(samples, data)

    def scores(self, logits: NDArray[np.floating[Any]], samples: BlockageWindows) -> Scores:
        return _scores(logits[:, 0] > 0.0, samples)

    def baselines(self, train: BlockageWindows, test: BlockageWindows) -> Mapping[str, Scores]:
        return {
            "persistence": _scores(blockage_persistence(test), test),
            "majority": _scores(blockage_majority(train.label, len(test)), test),
        }

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        logit = np.concatenate([one.logits[:, 0] for one in answers]).astype(np.float64)
        comes = np.concatenate([one.samples.label == 1 for one in answers])
        curves = {
            "roc": roc(logit, comes),
            "reliability": reliability(logistic(logit), comes),
            "lead_times_s": _lead_times(answers),
        }
        return {name: curve for name, curve in curves.items() if curve is not None}

    def known_blockages(self, samples: BlockageWindows) -> KnownBlockages:
        return KnownBlockages(samples.blocked_now, samples.label == 1, samples.horizon)

    def known_beams(self, samples: BlockageWindows) -> None:
        return None


def _lead_times(answers: Sequence[Answers]) -> dict[str, Any] | None:
    """Times from samples that are clear to the blockages that follow them; None where no such sample is held out."""
    lead_s, warned = [], []
    for logits, samples, rate_hz in answers:
        precedes = ~samples.blocked_now & (samples.frames_to_blockage > 0)
        lead_s.append(samples.frames_to_blockage[precedes] / rate_hz)
        warned.append(logits[precedes, 0] > 0.0)
    if not sum(map(len, lead_s)):
        return None
    frame_s, horizon = 1.0 / answers[0].rate_hz, answers[0].samples.horizon
    return lead_times(np.concatenate(lead_s), np.concatenate(warned), frame_s, horizon)


def _scores(warned: NDArray[np.bool_], samples: BlockageWindows) -> Scores:
    """Over all samples, and `ahead`: balanced accuracy over those whose present frame is clear, if both kinds follow.

    What is blocked now mostly stays so for a frame or more, which takes no foresight; published figures come from
    windows that end before the blockage.
    """
    scores: dict[str, float] = asdict(score_blockage(warned, samples.label))
    clear = ~samples.blocked_now
    # balanced accuracy is undefined with one class; means over clients leave the score out
    if len(np.unique(samples.label[clear])) == 2:
        scores["ahead"] = score_blockage(warned[clear], samples.label[clear]).balanced_accuracy
    return scores
