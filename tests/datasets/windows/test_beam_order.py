"""Base stations that number their beams in orders of their own: other names, and exactly the same task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sheafedge.datasets.baselines import majority_predictions, persistence_predictions
from sheafedge.datasets.scores import BeamScores, score_ranking
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import beam_windows
from sheafedge.datasets.windows.track_windows import renumbered, tracking_windows

N_ROWS = 60
N_BEAMS = 8

Order = NDArray[np.int64]


def powers_with_ties(seed: int) -> NDArray[np.float64]:
    """[n, n_beams] of a coarse receiver: the two best beams are often equal."""
    return np.random.default_rng(seed).integers(1, 4, (N_ROWS, N_BEAMS)).astype(np.float64)


def tracked(seed: int = 0) -> Any:
    """Samples of somebody who follows a car."""
    sequence = np.repeat(np.arange(3), N_ROWS // 3)
    return tracking_windows(Recording("street", np.zeros((N_ROWS, 2)), powers_with_ties(seed), sequence), 2)


def seen(seed: int = 0) -> Any:
    """Samples of somebody who looks once."""
    sensed = SensedFrames("corner", ("gps",), keep_powers=True, gps_columns=("east_m", "north_m"))
    sensed.append(
        {
            "time_s": np.arange(N_ROWS) / 10,
            "sequence": np.repeat(np.arange(3), N_ROWS // 3),
            "rf": powers_with_ties(seed),
            "gps": np.zeros((N_ROWS, 2)),
        }
    )
    return beam_windows(sensed, ("gps",))


SAMPLES = {"tracked": tracked, "seen": seen}
orders = st.permutations(range(N_BEAMS)).map(lambda order: np.array(order, dtype=np.int64))
every_kind = pytest.mark.parametrize("kind", SAMPLES)


def baselines(samples: Any, numbering: Order) -> tuple[BeamScores, BeamScores]:
    """Persistence and majority, who know that number k is beam numbering[k]; trained on the first half."""
    half = len(samples) // 2
    train, test = samples.take(np.arange(half)), samples.take(np.arange(half, len(samples)))
    rankings = (
        persistence_predictions(test),
        majority_predictions(train.label, len(test), N_BEAMS, numbering=numbering),
    )
    persistence, majority = (score_ranking(ranking, test.label, test.powers) for ranking in rankings)
    return persistence, majority


@every_kind
@given(order=orders, seed=st.integers(0, 9))
def test_everything_that_a_base_station_numbers_gets_its_own_numbers(kind: str, order: Order, seed: int) -> None:
    designed = SAMPLES[kind](seed)
    own = renumbered(designed, order)
    assert_array_equal(order[own.label], designed.label)
    assert_array_equal(order[own.previous_beam], designed.previous_beam)
    assert_array_equal(own.powers, designed.powers[:, order])
    assert_array_equal(own.numbering, order)
    assert_array_equal(own.end, designed.end)
    for modality, rows in designed.inputs().items():
        assert_array_equal(own.inputs()[modality], rows[..., order] if modality == "rf" else rows)
    some = np.array([5, 2, 5])
    assert_array_equal(own.take(some).powers, designed.take(some).powers[:, order])


def test_a_tie_is_broken_before_beams_get_new_numbers() -> None:
    """Negative control: whoever numbers first and compares then has other labels, and so another task."""
    designed, order = tracked(), np.arange(N_BEAMS)[::-1]
    own = renumbered(designed, order)
    assert (order[own.powers.argmax(axis=1)] != designed.label).any()
    assert_array_equal(order[own.label], designed.label)


@every_kind
@given(order=orders, seed=st.integers(0, 9))
def test_answers_without_a_model_are_as_good_as_before(kind: str, order: Order, seed: int) -> None:
    designed = SAMPLES[kind](seed)
    as_designed = np.arange(N_BEAMS)
    assert baselines(renumbered(designed, order), order) == baselines(designed, as_designed)


def test_who_takes_numbers_for_neighbors_is_worse_at_repeating_the_last_beam() -> None:
    """Negative control: a user moves to the beam beside the last one, not to the next number."""
    powers = np.full((N_ROWS, N_BEAMS), 0.01)
    powers[np.arange(N_ROWS), np.arange(N_ROWS) // 2 % N_BEAMS] = 1.0
    designed = tracking_windows(Recording("street", np.zeros((N_ROWS, 2)), powers, np.zeros(N_ROWS, dtype=np.int64)), 1)
    own: Any = renumbered(designed, np.array([0, 4, 1, 5, 2, 6, 3, 7]))
    ranking = np.argsort(np.abs(np.arange(N_BEAMS) - own.previous_beam[:, None]), axis=1)[:, :3]
    known = score_ranking(persistence_predictions(own), own.label, own.powers)
    guessed = score_ranking(ranking, own.label, own.powers)
    assert known == score_ranking(persistence_predictions(designed), designed.label, designed.powers)
    assert known.top3 > guessed.top3 + 0.2


@every_kind
@given(order=orders, seed=st.integers(0, 9))
def test_a_model_whose_logits_are_renumbered_scores_the_same(kind: str, order: Order, seed: int) -> None:
    designed = SAMPLES[kind](seed)
    own = renumbered(designed, order)
    logits = np.random.default_rng(seed).normal(size=(len(designed), N_BEAMS))
    scores = [
        score_ranking(np.argsort(-answers, axis=1)[:, :3], samples.label, samples.powers)
        for samples, answers in ((designed, logits), (own, logits[:, order]))
    ]
    assert scores[0] == scores[1]


@every_kind
def test_the_order_of_the_codebook_changes_nothing_at_all(kind: str) -> None:
    designed = SAMPLES[kind]()
    assert renumbered(designed, np.arange(N_BEAMS)) is designed


def test_frames_stay_where_they_are() -> None:
    """Sweeps of a long recording are not copied for every client of it."""
    designed = seen()
    own: Any = renumbered(designed, np.arange(N_BEAMS)[::-1])
    assert np.shares_memory(own.measured, designed.measured)
    assert np.shares_memory(own.frames["gps"], designed.frames["gps"])
