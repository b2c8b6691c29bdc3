"""A stream that is not like training is found, frame by frame and window by window, in bounded memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.bundles import tiny_drift, tiny_manifest
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.drift_watch import ANSWERS, SHARES, DriftVerdict, DriftWatch
from sheafedge.emulator.edge.input_summaries import summary_names
from sheafedge.emulator.edge.manifest import DriftReference, FigureBounds

INPUTS = tiny_manifest().inputs
#: Single frames may be within 3 of zero, means over windows within 1.
NARROW = FigureBounds(-3.0, 3.0, -1.0, 1.0)
REFERENCE = tiny_drift(INPUTS, 2, NARROW, distance=0.4)
STRIDE, WINDOW = REFERENCE.stride, REFERENCE.window
LABEL_WINDOW = REFERENCE.answers.window


def watched(reference: DriftReference | None = REFERENCE, most: int = 4) -> DriftWatch:
    return DriftWatch(reference, INPUTS, most)


def rows(value: float) -> dict[Modality, np.ndarray]:
    return {one.modality: np.full(len(summary_names(one)), value) for one in INPUTS}


def played(watch: DriftWatch, values: list[float], stream: str = "s", **others: object) -> list[DriftVerdict]:
    """Answers `STRIDE` instants apart, with labels in turn."""
    return [watch.judge(stream, STRIDE * n, rows(value), n % 2, **others) for n, value in enumerate(values)]  # type: ignore[arg-type]


def test_a_frame_outside_of_training_is_told_at_once_and_names_its_figures() -> None:
    (verdict,) = played(watched(), [3.5])
    assert set(verdict.outside) == {"lidar", "rf"}
    assert verdict.outside["rf"] == summary_names(INPUTS[1])
    assert not verdict.drifted


def test_a_window_drifts_by_its_mean_and_no_earlier_than_it_is_full() -> None:
    verdicts = played(watched(), [2.0] * WINDOW)
    assert [bool(one.drifted) for one in verdicts] == [False] * (WINDOW - 1) + [True]
    assert not any(one.outside for one in verdicts)
    assert verdicts[-1].is_new
    assert set(verdicts[-1].judged) == {"lidar", "rf"}


def test_windows_follow_one_another_and_a_stream_recovers() -> None:
    verdicts = played(watched(), [2.0] * WINDOW + [0.0] * WINDOW)
    assert all(one.drifted for one in verdicts[WINDOW - 1 : -1])  # until the next window is full
    assert not any(one.is_new for one in verdicts[WINDOW:])
    assert not verdicts[-1].drifted


def test_instants_in_between_fill_no_window() -> None:
    watch = watched()
    verdicts = [watch.judge("s", index, rows(2.0), index % 2) for index in range(STRIDE * (WINDOW - 1))]
    assert not any(one.judged for one in verdicts)
    assert watch.judge("s", STRIDE * (WINDOW - 1), rows(2.0), 0).judged


def test_a_stream_that_counts_from_the_beginning_goes_on() -> None:
    watch = watched()
    for _ in range(WINDOW):
        verdict = watch.judge("s", 0, rows(2.0), 0)
        watch.judge("s", 1000, rows(2.0), 1)
    assert verdict.drifted


def test_shares_of_answers_are_compared_by_their_distance() -> None:
    for labels, drifts in ([0, 1] * LABEL_WINDOW, False), ([0] * LABEL_WINDOW, True):
        watch = watched()
        verdicts = [watch.judge("s", STRIDE * n, rows(0.0), labels[n]) for n in range(LABEL_WINDOW)]
        assert verdicts[-1].drifted == ({ANSWERS: (SHARES,)} if drifts else {})
        assert ANSWERS in verdicts[-1].judged


def test_sensors_without_a_frame_of_their_own_are_left_out() -> None:
    verdicts = played(watched(), [9.0] * WINDOW, skipped={"rf"})
    assert all(set(one.outside) == {"lidar"} for one in verdicts)
    assert set(verdicts[-1].drifted) == {"lidar"}


def test_streams_do_not_share_windows_and_the_longest_unused_gives_way() -> None:
    watch = watched(most=2)
    played(watch, [2.0] * WINDOW, "a")
    played(watch, [0.0] * WINDOW, "b")
    assert len(watch.drifted) == 1
    played(watch, [0.0], "c")  # in the place of a
    assert not watch.drifted
    assert not played(watch, [0.0], "a")[0].drifted


def test_without_a_reference_nothing_is_said() -> None:
    watch = watched(None)
    (verdict,) = played(watch, [1e9])
    assert not verdict.is_known
    assert verdict.fields() == {}
    assert not watch.drifted


def test_an_answer_has_both_fields_where_training_is_known() -> None:
    (verdict,) = played(watched(), [0.0])
    assert verdict.fields() == {"outside": {}, "drifted": {}}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_figure_that_is_no_number_is_no_crash(value: float) -> None:
    played(watched(replace(REFERENCE, window=1)), [value] * 3)
