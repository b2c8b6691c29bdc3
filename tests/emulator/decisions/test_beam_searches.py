"""Searches for beams: when they can be made, what they find, and what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from sheafedge.emulator.decisions.beam_measurement import BeamMeasurement
from sheafedge.emulator.decisions.beam_searches import (
    arrived_answers,
    hierarchical_sweep,
    listed_beams,
    sweep_on_bursts,
    sweep_on_request,
)
from sheafedge.emulator.decisions.beam_signals import BeamSignals

from .made_up_beams import DEAD_DB, FRAME_S, GOOD_DB, LINK, N_BEAMS, WEAK_DB, moving

STANDARD = BeamMeasurement()


def test_bursts_keep_their_schedule_whatever_the_frames() -> None:
    """Every 160 ms from 80 ms on: in frames of 200 ms at 80, 240, 400, 560, 720 and 880 ms."""
    bursts = sweep_on_bursts(moving([0] * 5), STANDARD, 0.16)
    assert bursts.at_s[0] == pytest.approx([0.08, 0.04, 0.0, 0.12, 0.08])
    assert bursts.n_per_frame.tolist() == [1, 1, 2, 1, 1]


def test_all_bursts_of_a_frame_are_paid_for() -> None:
    bursts = sweep_on_bursts(moving([0] * 3), STANDARD, 0.02)
    assert bursts.n_per_frame.tolist() == [10] * 3
    assert bursts.at_s[0] == pytest.approx([0.01] * 3)


def test_a_frame_between_two_bursts_has_none() -> None:
    signals = BeamSignals.of([np.zeros((4, N_BEAMS))], 0.05, LINK)
    bursts = sweep_on_bursts(signals, STANDARD, 0.16)
    assert bursts.at_s[0].tolist() == [np.inf, pytest.approx(0.03), np.inf, np.inf]


def test_a_sweep_finds_the_best_beam_of_every_frame() -> None:
    beams = [3, 7, 0]
    search = sweep_on_request(moving(beams), STANDARD)
    assert search.beam[0].tolist() == beams
    assert search.cost == STANDARD.on_request(N_BEAMS)


@pytest.mark.parametrize(("split", "n_measured", "n_stages"), [(8, 8, 1), (4, 6, 2), (2, 6, 3)])
def test_a_hierarchy_finds_a_lone_beam_at_the_cost_of_its_stages(split: int, n_measured: int, n_stages: int) -> None:
    beams = [0, 3, 4, 7]
    measurement = BeamMeasurement(wide_split=split)
    search = hierarchical_sweep(moving(beams), measurement)
    assert search.beam[0].tolist() == beams
    assert search.cost == measurement.on_request(n_measured, n_stages)


def test_a_hierarchy_is_misled_by_a_wide_beam_with_several_fair_beams() -> None:
    """Mean powers: 15 dB and three dead beams are 9 dB together, four of 10 dB are 10 dB."""
    snr_db = np.array([[GOOD_DB, DEAD_DB, DEAD_DB, DEAD_DB, WEAK_DB, WEAK_DB, WEAK_DB, WEAK_DB]])
    signals = BeamSignals.of([snr_db], FRAME_S, LINK)
    assert hierarchical_sweep(signals, BeamMeasurement(wide_split=2)).beam[0, 0] == 4
    assert hierarchical_sweep(signals, BeamMeasurement(wide_split=8)).beam[0, 0] == 0


def test_of_a_list_the_strongest_is_taken_and_a_lone_one_is_trusted() -> None:
    signals = moving([3, 6])
    ranking, at_s = [np.array([[1, 3], [1, 3]])], [np.zeros(2)]
    several = listed_beams(signals, STANDARD, ranking, at_s)
    assert several.beam[0].tolist() == [3, 1]  # of two dead beams the first of the list
    assert several.cost == STANDARD.on_request(2)
    one = listed_beams(signals, STANDARD, [ranking[0][:, :1]], at_s)
    assert one.beam[0].tolist() == [1, 1]
    assert one.cost == STANDARD.trust


def test_answers_are_acted_on_in_the_frame_in_which_they_arrive() -> None:
    ranking = np.array([[4], [5], [6], [7]])
    beams, at_s = arrived_answers(ranking, np.array([0.05, 0.45, np.inf, 0.95]), FRAME_S)
    assert at_s.tolist() == [pytest.approx(0.05), np.inf, pytest.approx(0.05), np.inf]
    assert beams[[0, 2], 0].tolist() == [4, 5]
