"""Losses: how many, in what bursts, and the exact edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.network.channels.recorded_blockage import BlockedTimes, ShadowedLoss
from sheafedge.emulator.network.loss import GilbertElliottLoss, IidLoss, LossProcess

N_TRANSMISSIONS = 400_000
# With fixed seeds, so a failure means that the process changed. Over 2000 seeds the scores of `LIGHT` had mean -0.01,
# deviation 0.99: errors are neither too wide nor too narrow, and one seed in 370 lies outside by chance.
STANDARD_ERRORS = 3.0

LIGHT = (0.01, 0.25, 0.0, 0.5)  # presets of the literature: p, r, loss in good, loss in bad
MOBILE = (0.02, 0.25, 0.0, 1.0)
NOISY = (0.05, 0.1, 0.02, 0.7)
ALTERNATING = (0.9, 0.8, 0.1, 0.9)  # 1 - p - r below zero: states change more often than by chance
MESSAGE_SIZES = (1, 3, 137, 2000)  # transmissions per call, so that bursts run across calls


def draws(seed: int = 6) -> np.random.Generator:
    return np.random.default_rng(seed)


def record(process: LossProcess, n: int = N_TRANSMISSIONS) -> np.ndarray:
    """[n] losses, asked for in messages of mixed sizes."""
    pieces: list[np.ndarray] = []
    total = 0
    while total < n:
        pieces.append(process.lost(MESSAGE_SIZES[len(pieces) % len(MESSAGE_SIZES)]))
        total += len(pieces[-1])
    return np.concatenate(pieces)[:n]


def bursts(lost: np.ndarray) -> np.ndarray:
    """Lengths of the runs of True that begin and end inside the record."""
    edges = np.flatnonzero(np.diff(lost.astype(np.int8)))
    starts = edges[:-1][~lost[edges[:-1]]]
    ends = edges[1:][~lost[edges[:-1]]]
    return ends - starts


def loss_standard_error(p: float, r: float, loss_good: float, loss_bad: float, n: int) -> float:
    """Of the mean of n losses that share a hidden two-state chain: correlated, so wider than binomial."""
    bad = p / (p + r)
    share = (1 - bad) * loss_good + bad * loss_bad
    correlation = 1 - p - r
    covariance = (loss_bad - loss_good) ** 2 * bad * (1 - bad)
    return math.sqrt((share * (1 - share) + 2 * covariance * correlation / (1 - correlation)) / n)


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.9])
def test_independent_losses_come_as_often_as_asked(probability: float) -> None:
    lost = record(IidLoss(probability, draws()))
    error = math.sqrt(probability * (1 - probability) / N_TRANSMISSIONS)
    assert abs(lost.mean() - probability) < STANDARD_ERRORS * error


def test_independent_losses_run_as_long_as_chance_makes_them() -> None:
    process = IidLoss(0.3, draws())
    lengths = bursts(record(process))
    assert process.mean_burst == pytest.approx(1 / 0.7)
    error = math.sqrt(0.3) / 0.7 / math.sqrt(len(lengths))
    assert abs(lengths.mean() - process.mean_burst) < STANDARD_ERRORS * error


@pytest.mark.parametrize(("probability", "expected"), [(0.0, False), (1.0, True)])
def test_certain_independent_losses_are_exact(probability: float, expected: bool) -> None:
    assert (record(IidLoss(probability, draws())) == expected).all()


@pytest.mark.parametrize("preset", [LIGHT, MOBILE, NOISY, ALTERNATING])
def test_bursty_losses_come_as_often_as_the_formula_says(preset: tuple[float, float, float, float]) -> None:
    process = GilbertElliottLoss(*preset, draws())
    lost = record(process)
    error = loss_standard_error(*preset, n=N_TRANSMISSIONS)
    assert abs(lost.mean() - process.stationary_loss) < STANDARD_ERRORS * error


def test_presets_lose_what_their_sources_print() -> None:
    assert GilbertElliottLoss(*LIGHT, draws()).stationary_loss == pytest.approx(0.019, abs=5e-4)
    assert GilbertElliottLoss(*MOBILE, draws()).stationary_loss == pytest.approx(0.074, abs=5e-4)


@pytest.mark.parametrize(("p", "r"), [(0.02, 0.25), (0.05, 0.1), (0.9, 0.8)])
def test_stays_in_the_bad_state_have_mean_one_over_r_and_geometric_spread(p: float, r: float) -> None:
    process = GilbertElliottLoss(p, r, 0.0, 1.0, draws())  # losses show the state
    lengths = bursts(record(process))
    spread = math.sqrt(1 - r) / r
    assert process.mean_burst == pytest.approx(1 / r)
    assert abs(lengths.mean() - 1 / r) < STANDARD_ERRORS * spread / math.sqrt(len(lengths))
    # Standard error of a sample deviation: geometric kurtosis is at most 9 + r^2 / (1 - r).
    kurtosis = 9 + r**2 / (1 - r)
    assert abs(lengths.std() - spread) < STANDARD_ERRORS * spread * math.sqrt((kurtosis - 1) / 4 / len(lengths))


@pytest.mark.parametrize(("p", "r"), [(0.02, 0.25), (0.05, 0.1), (0.9, 0.8), (0.3, 0.7)])
def test_the_state_remembers_itself_by_one_minus_p_minus_r(p: float, r: float) -> None:
    bad = record(GilbertElliottLoss(p, r, 0.0, 1.0, draws())).astype(float)
    centered = bad - bad.mean()
    autocorrelation = (centered[1:] * centered[:-1]).mean() / centered.var()
    # Equals 1 - p - r with p and r estimated from the record, each a binomial share of the stays in its state.
    n_bad = N_TRANSMISSIONS * p / (p + r)
    error = math.sqrt(p * (1 - p) / (N_TRANSMISSIONS - n_bad) + r * (1 - r) / n_bad)
    assert abs(autocorrelation - (1 - p - r)) < STANDARD_ERRORS * error


def test_independent_losses_of_the_same_share_fail_the_burst_test() -> None:
    """Negative control: the burst test tells a bursty link from one that merely loses as much."""
    bursty = GilbertElliottLoss(*MOBILE, draws())
    lengths = bursts(record(IidLoss(bursty.stationary_loss, draws())))
    spread = math.sqrt(1 - MOBILE[1]) / MOBILE[1]
    assert abs(lengths.mean() - bursty.mean_burst) > STANDARD_ERRORS * spread / math.sqrt(len(lengths))


def test_a_link_starts_in_its_long_run_mix_of_states() -> None:
    n_links = 20_000
    p, r = 0.02, 0.06
    stream = draws()
    first = np.array([GilbertElliottLoss(p, r, 0.0, 1.0, stream).lost(1)[0] for _ in range(n_links)])
    share = p / (p + r)
    assert abs(first.mean() - share) < STANDARD_ERRORS * math.sqrt(share * (1 - share) / n_links)


def test_the_state_survives_messages_of_one_packet() -> None:
    """Asking one by one must not restart the chain."""
    p, r = 0.02, 0.1
    process = GilbertElliottLoss(p, r, 0.0, 1.0, draws())
    bad = np.concatenate([process.lost(1) for _ in range(60_000)])
    lengths = bursts(bad)
    assert abs(lengths.mean() - 1 / r) < STANDARD_ERRORS * math.sqrt(1 - r) / r / math.sqrt(len(lengths))


@pytest.mark.parametrize(
    ("p", "r", "expected"),
    [(0.0, 0.5, False), (0.5, 0.0, True), (0.0, 1.0, False), (1.0, 0.0, True)],
)
def test_a_state_that_is_never_left_stays(p: float, r: float, expected: bool) -> None:
    process = GilbertElliottLoss(p, r, 0.0, 1.0, draws())
    assert (record(process, 20_000) == expected).all()
    assert process.stationary_loss == float(expected)


def test_certain_changes_alternate() -> None:
    lost = record(GilbertElliottLoss(1.0, 1.0, 0.0, 1.0, draws()), 10_001)
    assert (lost[1:] != lost[:-1]).all()


def test_tiny_probabilities_do_not_overflow() -> None:
    process = GilbertElliottLoss(1e-300, 1e-300, 0.0, 1.0, draws())
    assert len(np.unique(record(process, 20_000))) == 1


def test_mean_burst_is_infinite_where_a_burst_never_ends() -> None:
    assert IidLoss(1.0, draws()).mean_burst == math.inf
    assert GilbertElliottLoss(0.5, 0.0, 0.0, 1.0, draws()).mean_burst == math.inf


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_as_many_fates_as_transmissions(n: int) -> None:
    for process in (IidLoss(0.5, draws()), GilbertElliottLoss(*NOISY, draws())):
        assert process.lost(n).shape == (n,)
        assert process.lost(n).dtype == np.bool_


def test_transmissions_one_by_one_are_lost_as_those_of_one_message() -> None:
    one_by_one, together = (IidLoss(0.2, draws()) for _ in range(2))
    assert [bool(one_by_one.lost(1)[0]) for _ in range(500)] == together.lost(500).tolist()


@pytest.mark.parametrize("make", [lambda d: IidLoss(0.2, d), lambda d: GilbertElliottLoss(*NOISY, d)])
def test_the_same_seed_loses_the_same_and_another_seed_others(make) -> None:  # type: ignore[no-untyped-def]
    first, again, other = (record(make(draws(seed)), 5000) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
def test_impossible_probabilities_are_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"loss_probability must be a probability in \[0, 1\], got"):
        IidLoss(value, draws())
    for position, name in enumerate(("p", "r", "loss_good", "loss_bad")):
        values = [0.1] * 4
        values[position] = value
        with pytest.raises(ConfigError, match=f"^{name} must be a probability"):
            GilbertElliottLoss(*values, draws())


def test_a_chain_that_never_moves_has_no_long_run() -> None:
    with pytest.raises(ConfigError, match="p and r are both 0"):
        GilbertElliottLoss(0.0, 0.0, 0.0, 1.0, draws())


# --- shadows ----------------------------------------------------------------------------------------------------------


def test_a_recording_of_blockages_is_played_again_and_again() -> None:
    times = BlockedTimes(np.array([2.0, 2.1, 2.2, 2.3]), np.array([False, True, True, False]))
    assert times.share == 0.5
    for lap in range(3):
        start_s = 2.0 + 0.4 * lap
        assert [times(start_s + offset_s) for offset_s in (0.05, 0.15, 0.25, 0.35)] == [False, True, True, False]


def test_a_blocked_link_loses_more_and_a_clear_one_draws_as_if_there_were_no_blockers() -> None:
    blocked = False
    plain, shadow = draws(1), draws(2)
    process = ShadowedLoss(IidLoss(0.1, draws(1)), 0.5, lambda: blocked, 0.25, shadow)
    np.testing.assert_array_equal(process.lost(1000), IidLoss(0.1, plain).lost(1000))
    assert shadow.bit_generator.state == draws(2).bit_generator.state
    blocked = True
    share = process.lost(N_TRANSMISSIONS).mean()
    expected = 1.0 - 0.9 * 0.5
    assert abs(share - expected) < STANDARD_ERRORS * math.sqrt(expected * (1.0 - expected) / N_TRANSMISSIONS)
    assert process.stationary_loss == pytest.approx(1.0 - 0.9 * (1.0 - 0.25 * 0.5))
    assert process.mean_burst == pytest.approx(1.0 / 0.9)


def test_links_that_follow_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"without frames; record longer"):
        BlockedTimes(np.zeros(0), np.zeros(0, dtype=np.bool_))
    with pytest.raises(ConfigError, match=r"blocked_loss_probability must be a probability"):
        ShadowedLoss(IidLoss(0.0, draws()), 1.5, lambda: True, 0.0, draws())
