"""Owners: nobody's rows are another's, shares are as asked for, and impossible ones are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.datasets.rows.federated_rows import FederatedRows
from sheafedge.datasets.rows.graph_edges import symmetric_edges
from sheafedge.datasets.rows.owners import LEAST_ROWS, Dealing, Owners, dealt, owner_names
from sheafedge.emulator.contracts import ConfigError


def rows_of(n: int, n_classes: int = 5, n_owners: int = 8) -> FederatedRows:
    names = tuple(f"person {one}" for one in range(n_owners))
    y = np.arange(n, dtype=np.int64) % n_classes
    owner = np.arange(n, dtype=np.int64) * n_owners // n
    return FederatedRows("some", np.zeros((n, 2), np.float32), y, tuple("abcdefgh"[:n_classes]), owner, names)


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("owners", get_args(Owners))
@given(n_clients=st.integers(1, 8), seed=st.integers(0, 5))
def test_no_row_has_two_clients_and_every_client_has_enough(owners: Owners, n_clients: int, seed: int) -> None:
    ring = symmetric_edges(np.array([np.arange(400), (np.arange(400) + 1) % 400]))
    rows, n_clients = replace(rows_of(400), edges=ring), 5 if owners == "metis_overlap" else n_clients
    parts = dealt(rows, n_clients, Dealing(owners, classes_per_client=2, alpha=1.0), drawn(seed))
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together) or owners == "metis_overlap"
    assert len(parts) == n_clients
    assert min(map(len, parts)) >= LEAST_ROWS
    if owners in {"equal", "dirichlet"} or (owners == "natural" and n_clients == 8):
        assert len(together) == 400


def test_the_same_draws_deal_the_same_rows_and_others_deal_others() -> None:
    for owners in ("equal", "classes", "classes_uneven", "dirichlet"):
        first, again, other = (dealt(rows_of(400), 6, Dealing(owners, alpha=1.0), drawn(seed)) for seed in (1, 1, 2))
        assert [one.tolist() for one in first] == [one.tolist() for one in again]
        assert [one.tolist() for one in first] != [one.tolist() for one in other]


def test_equal_parts_differ_by_one_row_at_most() -> None:
    sizes = [len(part) for part in dealt(rows_of(103), 10, Dealing("equal"), drawn())]
    assert sorted(set(sizes)) == [10, 11]


def test_a_client_has_rows_of_so_many_classes_only() -> None:
    rows = rows_of(500)
    for part in dealt(rows, 5, Dealing("classes", classes_per_client=2), drawn()):
        assert len(np.unique(rows.y[part])) == 2
        assert len(part) == 100  # five classes of 100 rows with two takers each


def test_a_small_alpha_is_more_uneven_than_a_large_one() -> None:
    def largest_share(alpha: float) -> float:
        rows = rows_of(2000)
        parts = dealt(rows, 8, Dealing("dirichlet", alpha=alpha), drawn())
        return float(np.mean([np.bincount(rows.y[part]).max() / len(part) for part in parts]))

    assert largest_share(0.1) > 0.6
    assert largest_share(100.0) < 0.3


def test_natural_owners_keep_their_rows_and_fewer_clients_are_drawn_from_them() -> None:
    rows = rows_of(80)
    assert rows.owner is not None
    whole = dealt(rows, 8, Dealing("natural"), drawn())
    assert owner_names(rows, whole) == [f"some, person {one}" for one in range(8)]
    chosen = dealt(rows, 3, Dealing("natural"), drawn())
    for part in chosen:
        (owner,) = np.unique(rows.owner[part])
        assert_array_equal(part, np.flatnonzero(rows.owner == owner))
    assert owner_names(rows, dealt(rows, 4, Dealing("equal"), drawn())) == ["some"] * 4


@pytest.mark.parametrize(
    ("n_rows", "n_clients", "dealing", "sentence"),
    [
        (80, 9, Dealing("natural"), "clients.n_clients = 9, but the rows of 'some' have 8 owners; set it to at most 8"),
        (16, 8, Dealing("natural"), "gives client 0 2 of the 16 rows of 'some', but each needs 4; leave owners of so"),
        (30, 9, Dealing("equal"), "gives client 3 3 of the 30 rows of 'some', but each needs 4; lower clients.n_cl"),
        (30, 9, Dealing("dirichlet"), "but each needs 4; raise data.alpha, or lower clients.n_clients"),
        (400, 40, Dealing("dirichlet", alpha=0.01), "but each needs 4; raise data.alpha, or lower clients.n_clients"),
        (400, 4, Dealing("classes", 6), "data.classes_per_client must be at most 5, the classes of 'some', got 6"),
    ],
)
def test_what_cannot_be_dealt_is_refused(n_rows: int, n_clients: int, dealing: Dealing, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        dealt(rows_of(n_rows), n_clients, dealing, drawn())
    assert sentence in str(caught.value)
