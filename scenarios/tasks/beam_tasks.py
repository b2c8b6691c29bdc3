"""Tasks of beam prediction: the best beam now, from past positions and sweeps, or from one image and position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...datasets.baselines import majority_predictions, persistence_predictions
from ...datasets.curves import confusion_counts, reliability
from ...datasets.scores import BeamScores, score_ranking
from ...datasets.windows.drive_bys import CODEBOOK_SIZES
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BeamWindows, beam_windows
from ...datasets.windows.track_windows import tracked_recording, tracking_windows
from ...emulator.contracts import ConfigError, Modality
from .task_spec import (
    Answers,
    Column,
    InputDescription,
    KnownBeams,
    Outputs,
    Scores,
    TaskData,
    described_inputs,
    top_probability,
)

#: Number of ranked beams that scores use.
TOP_K = 3
#: What positions of a window are, by `data.position_axes`.
_AXES = {
    "compass": "east and north of the base station",
    "array": "to the right of the base station's array and ahead of it",
}
#: Beams of the largest codebook; the smaller ones are every second, fourth or eighth of them.
WHOLE_CODEBOOK = max(CODEBOOK_SIZES)


class _BestBeam:
    """Label: the beam with the most received power of the present sweep."""

    title = "Which beam is best now?"
    columns = (
        Column("top1", "top-1"),
        Column("top3", "top-3"),
        Column(
            "power_loss_db",
            "power loss",
            "{:.2f} dB",
            better="lower",
            absent="the samples have best beams without powers",
        ),
    )
    labels: Literal["classes", "values"] = "classes"
    objective = "cross_entropy"
    decision: Literal["handover", "beam"] = "beam"
    group_fields = ("n_beams",)

    def outputs(self, data: TaskData, samples: Samples | None = None) -> Outputs:
        # each beam is named by its number in the largest codebook
        identities = tuple(range(0, WHOLE_CODEBOOK, WHOLE_CODEBOOK // data.n_beams))
        numbered = "" if data.beam_order == "same" else ", in the numbers that this base station gives its beams"
        return Outputs(
            identities,
            tuple(f"beam {index}" for index in range(data.n_beams)),
            f"logits [batch, {data.n_beams}], one per beam of the codebook{numbered}",
        )

    def scores(self, logits: NDArray[np.floating[Any]], samples: BeamWindows) -> Scores:
        # stable: of equal logits the lower beam ranks first on every machine
        ranking = np.argsort(-logits, axis=1, kind="stable")[:, :TOP_K]
        return _known_scores(score_ranking(ranking, samples.label, samples.powers))

    def baselines(self, train: BeamWindows, test: BeamWindows) -> Mapping[str, Scores]:
        rankings = {
            "persistence": persistence_predictions(test, TOP_K),
            "majority": majority_predictions(train.label, len(test), test.n_beams, TOP_K, numbering=test.numbering),
        }
        return {
            name: _known_scores(score_ranking(ranking, test.label, test.powers)) for name, ranking in rankings.items()
        }

    def diagnostics(self, answers: Sequence[Answers]) -> Mapping[str, Any]:
        n_beams = answers[0].samples.n_beams
        # Base stations may number beams in orders of their own: counted are those of the codebook.
        chosen, best = (
            np.concatenate([one.samples.numbering[index] for one, index in zip(answers, of_each, strict=True)])
            for of_each in ([one.logits.argmax(axis=1) for one in answers], [one.samples.label for one in answers])
        )
        return {
            "classes": [f"beam {index}" for index in range(n_beams)],
            "confusion": confusion_counts(chosen, best, n_beams),
            "reliability": reliability(top_probability(answers), chosen == best),
        }

    def known_blockages(self, samples: BeamWindows) -> None:
        return None

    def known_beams(self, samples: BeamWindows) -> KnownBeams:
        return KnownBeams(samples.powers, samples.numbering)


def _known_scores(scores: BeamScores) -> Scores:
    """Without those that need powers, where no sample has any."""
    return {name: score for name, score in asdict(scores).items() if not np.isnan(score)}


class BeamTracking(_BestBeam):
    """Beam tracking: positions up to now, and the sweeps before now."""

    modalities: tuple[Modality, ...] = ("rf", "gps")
    needs: tuple[Modality, ...] = ("rf", "gps")
    encoders: Mapping[Modality, str] = {"rf": "relative_sweeps"}
    color = False
    swept: tuple[Modality, ...] = ("rf",)

    def check(self, data: TaskData) -> None:
        """Accept every data section."""

    def samples(
        self, sensed: SensedFrames, modalities: tuple[Modality, ...], data: TaskData, *, may_be_empty: bool = False
    ) -> BeamWindows:
        # one row more than the window: sweeps end one frame before the label
        recording = tracked_recording(sensed, min_rows=data.window + 1, axes=data.position_axes).with_n_beams(
            data.n_beams
        )
        return tracking_windows(recording, data.window).every(data.stride).owned_by(modalities)

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        n, axes = data.window, _AXES[data.position_axes]
        said: dict[Modality, tuple[str, str]] = {
            "gps": ("m", f"last {n} positions up to now, {axes}, oldest first"),
            "rf": ("dB", f"received power of every beam in the {n} sweeps before now, oldest first"),
        }
        return described_inputs(samples, said)


class BeamPrediction(_BestBeam):
    """Beam prediction from one instant: a position report and a color image.

    Source: scenario II of Ghalkha et al. 2025.
    """

    modalities: tuple[Modality, ...] = ("camera", "gps")
    # for labels only: the best beam and the power loss of a wrong one come from the sweep of this instant; where there
    # are best beams without powers, these are the labels
    needs: tuple[Modality, ...] = ("rf",)
    encoders: Mapping[Modality, str] = {"camera": "color_image", "gps": "position_report"}
    color = True
    swept: tuple[Modality, ...] = ()

    def check(self, data: TaskData) -> None:
        if data.window != 1:
            raise ConfigError(
                f"data.window must be 1 for task 'beam_prediction', which looks at one instant, got {data.window};"
                " task 'beam_tracking' looks back"
            )

    def samples(
        self, sensed: SensedFrames, modalities: tuple[Modality, ...], data: TaskData, *, may_be_empty: bool = False
    ) -> BeamWindows:
        return beam_windows(sensed, modalities, data.n_beams, stride=data.stride, may_be_empty=may_be_empty)

    def input_descriptions(self, samples: Samples, data: TaskData) -> Mapping[Modality, InputDescription]:
        position = "latitude and longitude from the base station, distance along the ground, height above it"
        said: dict[Modality, tuple[str, str]] = {
            "gps": ("deg, deg, m, m", position),
            "camera": ("0 to 255", "color image of this instant; axes: red, green and blue, row, column"),
        }
        return described_inputs(samples, said)
