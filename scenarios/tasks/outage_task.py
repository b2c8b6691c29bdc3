"""Task of outage forecasts: how likely is outage in each of the next frames, at own and at a neighbor's strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.curves import expected_calibration_error, roc
from ...datasets.scores import score_blockage
from ...datasets.windows.outage_windows import OUTAGE_INPUTS, outage_windows
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BlockageWindows
from ...emulator.contracts import Labels, Modality
from ...emulator.edge.label_probabilities import logistic
from ...emulator.edge.manifest import ForecastSpec, OutputSpec
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

#: At whose strength; the column of the labels begins anew with each.
STRENGTHS = ("own", "neighbor")
#: Frames within which outage at own strength is warned of: half a second at 10 Hz.
WARNED_FRAMES = 5
#: Probability above which `ahead` counts an outage as foreseen: about the share of frames that one follows within half
#: a second; classes are not weighted, so that 0.5 would be for the surest only.
LIKELY = 0.1
#: Largest and smallest logit of a baseline that is sure of itself: a share of 1e-4 is left for the other.
_SURE = 1e-4


class OutageForecast:
    """Outage forecast; labels: whether the user's power lies below a fade in each of the next `data.horizon` frames.

    Output k (from 0) is about frame k + 1 at own strength, output `data.horizon` + k at the neighbor's.
    """

    title = "When will the user be in outage?"
    modalities: tuple[Modality, ...] = OUTAGE_INPUTS
    # the power of the user is stored with the recording, so that no modality is needed for labels
    needs: tuple[Modality, ...] = ()
    encoders: Mapping[Modality, str] = {}
    color = False
    columns = (
        Column("brier", "Brier", "{:.4f}", better="lower"),
        Column("auc", "AUC"),
        Column("ece", "worst ECE", better="lower"),
        Column("ahead", "when clear now"),
    )
    labels: Literal["several"] = "several"
    objective = "several_binary_cross_entropy"
    decision: Literal["handover"] = "handover"
    group_fields: tuple[str, ...] = ()
    swept: tuple[Modality, ...] = ()

    def check(self, data: TaskData) -> None:
        refuse_beam_order("outage_forecast", data)

    def samples(
        self, sensed: SensedFrames, modalities: tuple[Modality, ...], data: TaskData, *, may_be_empty: bool = False
    ) -> BlockageWindows:
        return outage_windows(
            sensed,
            modalities,
            data.window,
            data.horizon,
            data.fades_db,
            stride=data.stride,
            may_be_empty=may_be_empty,
        )

    def outputs(self, data: TaskData, samples: Samples | None = None) -> Outputs:
        n = data.horizon
        meaning = (
            f"logits [batch, {2 * n}] of outage in each of the next {n} frames: {n} at the base station's own strength"
            f" (power {data.fades_db[0]:g} dB or more below its median with a clear view), then {n} at a neighbor's"
            f" ({data.fades_db[1]:g} dB)"
        )
        return Outputs(tuple(range(2 * n)), (), meaning)

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        return described_frames(samples, data)

    def scores(self, logits: NDArray[np.floating[Any]], samples: BlockageWindows) -> Scores:
        odds, truth = logistic(logits), samples.label == 1
        scores = {"brier": float(np.mean((odds - truth) ** 2))}
        n = samples.horizon
        areas = [area for k in range(n) if (area := roc(logits[:, k], truth[:, k])) is not None]
        # the area is undefined without any outage; means over clients leave the score out
        if areas:
            scores["auc"] = float(np.mean([area["auc"] for area in areas]))
        scores["ece"] = max(expected_calibration_error(odds[:, k], truth[:, k]) for k in range(odds.shape[1]))
        known, clear = self.known_blockages(samples), ~samples.blocked_now
        if len(np.unique(known.soon[clear])) == 2:
            warned = logistic(self.warning_logits(logits)) > LIKELY
            scores["ahead"] = score_blockage(warned[clear], known.soon[clear].astype(np.int64)).balanced_accuracy
        return scores

    def baselines(self, train: BlockageWindows, test: BlockageWindows) -> Mapping[str, Scores]:
        usual = np.clip(train.label.mean(axis=0), _SURE, 1.0 - _SURE)
        now = np.where(test.blocked_now, 1.0 - _SURE, _SURE)[:, None]
        return {
            "persistence": self.scores(_logit(np.broadcast_to(now, test.label.shape)), test),
            "base rate": self.scores(_logit(np.broadcast_to(usual, test.label.shape)), test),
        }

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        """Per horizon, pooled over clients: expected calibration error, Brier score, area under the ROC curve."""
        logits = np.concatenate([one.logits for one in answers]).astype(np.float64)
        truth = np.concatenate([one.samples.label == 1 for one in answers])
        odds, n = logistic(logits), answers[0].samples.horizon
        seconds = [(k + 1) / answers[0].rate_hz for k in range(n)]
        return {
            "horizons": {
                "seconds": seconds,
                **{
                    strength: {
                        "ece": [expected_calibration_error(odds[:, k], truth[:, k]) for k in part],
                        "brier": [float(np.mean((odds[:, k] - truth[:, k]) ** 2)) for k in part],
                        "auc": [None if (area := roc(odds[:, k], truth[:, k])) is None else area["auc"] for k in part],
                    }
                    for strength, part in zip(STRENGTHS, (range(n), range(n, 2 * n)), strict=True)
                },
            }
        }

    def known_blockages(self, samples: BlockageWindows) -> KnownBlockages:
        return KnownBlockages(samples.blocked_now, self.soon(samples.label), min(WARNED_FRAMES, samples.horizon))

    def soon(self, label: Labels) -> NDArray[np.bool_]:
        return np.asarray((label[:, : min(WARNED_FRAMES, label.shape[1] // 2)] == 1).any(axis=1))

    def known_beams(self, samples: BlockageWindows) -> None:
        return None

    def warning_logits(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        return np.asarray(logits[:, : min(WARNED_FRAMES, logits.shape[1] // 2)].max(axis=1))

    def forecast_output(self, data: TaskData, rate_hz: float) -> OutputSpec:
        n_warned = min(WARNED_FRAMES, data.horizon)
        soon = f"outage within {n_warned / rate_hz:g} s"
        ahead_s = tuple((k + 1) / rate_hz for k in range(data.horizon))
        return OutputSpec(
            "forecast",
            (f"no {soon}", soon),
            self.outputs(data).meaning,
            forecast=ForecastSpec(STRENGTHS, data.fades_db, ahead_s, n_warned),
        )

    def outage_odds(self, logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        return logistic(logits).reshape(len(logits), len(STRENGTHS), -1)


def _logit(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log(probability / (1.0 - probability)))
