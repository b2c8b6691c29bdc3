"""Orders of codebooks found from sweeps: right where neighbors are alike, whatever their numbers, or not trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.datasets.windows import beam_frames
from sheafedge.datasets.windows.beam_frames import angular_order, found_order, inverse

Powers = NDArray[np.float64]


def sweeps(n_sweeps: int, n_beams: int, *, noise_db: float = 0.0, seed: int = 0) -> Powers:
    """[n_sweeps, n_beams] powers of a user that crosses the codebook, over a floor, with noise in every reading."""
    draws = np.random.default_rng(seed)
    angle = draws.uniform(-1.0, n_beams, n_sweeps)
    lobe = np.exp(-0.5 * ((np.arange(n_beams) - angle[:, None]) / 1.5) ** 2)
    noise = 10.0 ** (draws.normal(0.0, 1.0, lobe.shape) * noise_db / 10.0)
    return np.asarray((lobe * draws.uniform(0.5, 2.0, (n_sweeps, 1)) + 0.02) * noise)


def is_same_line(order: Any, wanted: Any) -> bool:
    return np.array_equal(order, wanted) or np.array_equal(order, wanted[::-1])


@pytest.mark.parametrize("n_beams", [8, 16, 64])
def test_a_band_of_correlations_is_brought_back_in_line(n_beams: int) -> None:
    numbering = np.random.default_rng(3).permutation(n_beams)
    order = angular_order(sweeps(400, n_beams)[:, numbering])
    assert is_same_line(numbering[order], np.arange(n_beams))


@settings(max_examples=15, deadline=None)
@given(n_beams=st.integers(4, 20), seed=st.integers(0, 1000))
def test_other_numbers_give_the_same_line_of_beams(n_beams: int, seed: int) -> None:
    """Equivariance up to a mirror: what is found does not depend on how the beams were numbered."""
    powers = sweeps(60, n_beams, noise_db=1.0, seed=seed)
    numbering = np.random.default_rng(seed).permutation(n_beams)
    assert is_same_line(numbering[angular_order(powers[:, numbering])], angular_order(powers))


def test_the_lower_number_stands_first() -> None:
    powers = sweeps(200, 8)
    assert angular_order(powers).tolist() == list(range(8))
    assert angular_order(powers[:, ::-1]).tolist() == list(range(8))


def without(powers: Powers, *, rows: Any = slice(0, 0), columns: Any = slice(0, 0)) -> Powers:
    powers = powers.copy()
    powers[rows], powers[:, columns] = np.nan, np.nan
    return powers


def constant(powers: Powers, column: int) -> Powers:
    powers = powers.copy()
    powers[:, column] = 0.7
    return powers


@pytest.mark.parametrize(
    "powers",
    [
        constant(sweeps(100, 16), 5),
        without(sweeps(100, 16), rows=slice(10, 30)),
        without(sweeps(100, 16), columns=3),
        without(sweeps(100, 16), rows=slice(None)),
        np.ones((50, 16)),
        np.zeros((50, 16)),
        sweeps(20, 16),
        sweeps(1, 16),
        sweeps(0, 16),
        sweeps(30, 2),
        sweeps(30, 1),
    ],
    ids=[
        "a beam that never varies",
        "sweeps without a reading",
        "a beam that is never measured",
        "no readings at all",
        "nothing varies",
        "nothing received",
        "20 sweeps",
        "one sweep",
        "no sweep",
        "two beams",
        "one beam",
    ],
)
def test_poor_sweeps_still_give_every_beam_a_place(powers: Powers) -> None:
    found = found_order(powers)
    assert sorted(found.order.tolist()) == list(range(powers.shape[1]))
    assert np.array_equal(found.order[found.places], np.arange(powers.shape[1]))


def test_lost_sweeps_do_not_disturb_the_others() -> None:
    powers = sweeps(300, 16)
    assert np.array_equal(angular_order(without(powers, rows=slice(50, 80))), angular_order(powers))


def test_an_order_that_does_not_repeat_on_half_of_the_sweeps_is_not_trusted() -> None:
    """The pair: clear sweeps are trusted, few of them with much noise in every reading are not, and are wrong."""
    clear, noisy = found_order(sweeps(250, 64)), found_order(sweeps(60, 64, noise_db=10.0))
    assert clear.is_trusted
    assert is_same_line(clear.order, np.arange(64))
    assert not noisy.is_trusted
    assert not is_same_line(noisy.order, np.arange(64))
    assert not found_order(np.random.default_rng(1).exponential(size=(250, 64))).is_trusted


def array_sweeps(n_beams: int, seed: int) -> Powers:
    """[400, n_beams] power that an array of 16 antennas receives on beams 45 degrees to both sides, over much noise.

    No user stands in the outer fifth of the sector, so that the outermost beams are weak in all sweeps.
    """
    draws = np.random.default_rng(seed)
    user = np.sin(np.radians(draws.uniform(-36.0, 36.0, (400, 1))))
    phase = (user - np.sin(np.radians(np.linspace(-45.0, 45.0, n_beams)))) / 2.0  # half a wavelength apart
    gain = (np.sinc(16 * phase) / np.sinc(phase)) ** 2
    noise = 0.1 * draws.gamma(8.0, 1 / 8, gain.shape)  # the mean of 8 snapshots
    return np.asarray(gain * draws.lognormal(size=(400, 1)) + noise)


def test_a_weak_beam_of_one_end_is_not_put_at_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pair: a path alone does so in some draws, and then all the other beams are one place off."""

    def misplaced() -> int:
        orders = [angular_order(array_sweeps(32, seed)) for seed in range(20)]
        lines = [min(order, order[::-1], key=lambda line: np.abs(line - np.arange(32)).sum()) for order in orders]
        return sum(bool(np.median(line - np.arange(32))) for line in lines)

    assert misplaced() == 0
    monkeypatch.setattr(beam_frames, "CLEAR_CUT", 0.0)
    assert misplaced() > 0


def test_the_inverse_of_an_order_is_the_place_of_every_beam() -> None:
    order = np.random.default_rng(5).permutation(9)
    assert inverse(order)[order].tolist() == list(range(9))


def panel_sweeps(n_columns: int, n_rows: int, draws: np.random.Generator) -> NDArray[np.float64]:
    """[400, n_columns * n_rows] power of a user that wanders in azimuth and elevation, beams in any order."""

    def gains(size: int, reach: float) -> NDArray[np.float64]:
        angle = reach * np.sin(np.cumsum(draws.normal(0.0, 0.15, 400)))
        return np.exp(-(((angle[:, None] - np.linspace(-reach, reach, size)) * size) ** 2))

    powers = (gains(n_columns, 0.7)[:, :, None] * gains(n_rows, 0.5)[:, None, :]).reshape(400, -1)
    noisy = powers * 10.0 ** draws.normal(0.0, 0.1, powers.shape) + 1e-3
    return noisy[:, draws.permutation(powers.shape[1])]


@pytest.mark.parametrize("seed", range(3))
def test_beams_of_a_square_panel_have_no_order_that_is_trusted(seed: int) -> None:
    """A line through a plane is not found twice; the pair is a codebook along one angle."""
    assert not found_order(panel_sweeps(8, 8, np.random.default_rng(seed))).is_trusted
    assert found_order(panel_sweeps(32, 1, np.random.default_rng(seed))).is_trusted
