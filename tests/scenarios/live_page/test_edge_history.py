"""Edges in the last rounds, apart from what they did before."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from sheafedge.scenarios.live_page.edge_history import MOST_INSTANTS, EdgeHistory


def counters(messages: int, packets: int, lost: int, sent_bytes: int, airtime_s: float) -> list[list[float]]:
    return [[0, 1, messages, sent_bytes, 0, messages, packets, lost, sent_bytes, airtime_s, 0.5 * messages]]


def faded() -> EdgeHistory:
    """A link that loses nothing in two rounds, and half of its packets in the next three, at half of the rate."""
    history = EdgeHistory([(0, 1), (1, 0)])
    for done in range(1, 6):
        late = max(0, done - 2)
        history.see(done, counters(done, 10 * done, 5 * late, 1000 * done, 1.0 * (done + late)))
    return history


def test_the_last_rounds_stand_alone() -> None:
    history = faded()
    forth, back = history.lately()
    assert history.last_rounds == (3, 5)
    assert (forth.sender, forth.receiver, forth.messages, forth.packets) == (0, 1, 3, 30)
    assert forth.loss == 0.5  # 0.3 since the start
    assert forth.rate_bps == 4000.0
    assert (back.messages, back.loss, back.rate_bps) == (0, 0.0, None)


def test_curves_show_when_a_link_fades_and_nothing_of_one_that_is_silent() -> None:
    rounds, losses, rates = faded().curves()
    assert_allclose(rounds, [1, 2, 3, 4, 5])
    assert_allclose(losses[0], [0, 0, 0.5, 0.5, 0.5])
    assert_allclose(rates[0], [8000, 8000, 4000, 4000, 4000])
    assert np.isnan(losses[1]).all()
    assert np.isnan(rates[1]).all()


def test_rounds_that_are_repeated_are_not_counted_twice() -> None:
    history = faded()
    history.see(4, counters(4, 40, 20, 4000, 6.0))
    rounds, losses, _ = history.curves()
    assert_allclose(rounds, [1, 2, 3, 4])
    assert_allclose(losses[0], [0, 0, 0.5, 1.5])


def test_before_the_first_round_there_is_nothing() -> None:
    assert EdgeHistory([(0, 1)]).lately() == []


def test_an_edge_that_nobody_announced_is_shown() -> None:
    history = EdgeHistory([])
    history.see(1, counters(1, 10, 0, 1000, 1.0))
    assert [edge.messages for edge in history.lately()] == [1]


def test_memory_is_bounded_and_first_and_last_stay() -> None:
    history = EdgeHistory([])
    for done in range(1, 2 * MOST_INSTANTS):
        history.see(done, [])
    rounds, _, _ = history.curves()
    assert len(rounds) <= MOST_INSTANTS
    assert (rounds[0], rounds[-1]) == (1, 2 * MOST_INSTANTS - 1)
    assert np.all(np.diff(rounds) > 0)
