"""Which client has which rows: by their own owners, or dealt in one of the ways of the literature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError
from .federated_rows import FederatedRows
from .graph_partition import overlapping_partition, partition

Owners = Literal["natural", "equal", "classes", "classes_uneven", "dirichlet", "metis", "metis_overlap"]

#: Rows that a client needs: three to train on, and one to be tested on.
LEAST_ROWS = 4
#: Draws of a Dirichlet distribution until every client has so many rows; small alphas leave many with none.
MOST_DRAWS = 500

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Dealing:
    """How rows come to clients.

    Attributes:
        owners: "natural": by the owners that the rows name; "equal": shuffled, in parts of one size; "classes": every
            client has rows of some classes only, a class dealt equally to its takers; "classes_uneven": the same, in
            parts of random size; "dirichlet": of every class the clients get shares drawn from Dir(alpha); "metis": a
            graph is cut into parts of about one size with few edges between them; "metis_overlap": into a fifth as
            many, and every client has a random half of one.
        classes_per_client: for "classes" and "classes_uneven".
        alpha: concentration of the shares of "dirichlet" and "classes_uneven"; small is uneven.
    """

    owners: Owners
    classes_per_client: int = 2
    alpha: float = 0.5


def dealt(rows: FederatedRows, n_clients: int, dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    """Rows [n_k] of every client, ascending; no row has two clients, but with "metis_overlap".

    With natural owners and fewer clients than these, the clients are owners drawn at random.

    Raises:
        ConfigError: more clients than owners or rows, more classes per client than there are, or a client with too
            few rows.
    """
    ways = {
        "natural": _natural,
        "equal": _equal,
        "classes": _classes,
        "classes_uneven": _classes,
        "dirichlet": _skewed,
        "metis": _cut_graph,
        "metis_overlap": _cut_graph,
    }
    parts = [np.sort(part) for part in ways[dealing.owners](rows, n_clients, dealing, draws)]
    for client, part in enumerate(parts):
        if len(part) < LEAST_ROWS:
            raise ConfigError(
                f"data.owners = {dealing.owners!r} gives client {client} {len(part)} of the {len(rows)} rows of"
                f" {rows.name!r}, but each needs {LEAST_ROWS}; {_remedy(dealing)}"
            )
    return parts


def owner_names(rows: FederatedRows, parts: Sequence[Rows]) -> list[str]:
    """Name of the owner of every client's rows, where they have one owner, else of the data set."""
    if rows.owner is None:
        return [rows.name] * len(parts)
    single = [np.unique(rows.owner[part]) for part in parts]
    return [f"{rows.name}, {rows.owner_names[own[0]]}" if len(own) == 1 else rows.name for own in single]


def _remedy(dealing: Dealing) -> str:
    return {
        "natural": "leave owners of so few rows out of the data, or lower clients.n_clients",
        "dirichlet": "raise data.alpha, or lower clients.n_clients",
        "classes_uneven": "raise data.alpha, or lower clients.n_clients",
    }.get(dealing.owners, "lower clients.n_clients")


def _natural(rows: FederatedRows, n_clients: int, _dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    assert rows.owner is not None, "checked by the caller"
    n_owners = len(rows.owner_names)
    if n_clients > n_owners:
        raise ConfigError(
            f"clients.n_clients = {n_clients}, but the rows of {rows.name!r} have {n_owners} owners; set it to at most"
            f" {n_owners}, or data.owners = 'equal'"
        )
    # all of them in their order, or so many drawn at random
    chosen = range(n_owners) if n_clients == n_owners else np.sort(draws.permutation(n_owners)[:n_clients])
    return [np.flatnonzero(rows.owner == owner) for owner in chosen]


def _equal(rows: FederatedRows, n_clients: int, _dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    return np.array_split(draws.permutation(len(rows)), n_clients)


def _cut_graph(rows: FederatedRows, n_clients: int, dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    assert rows.edges is not None, "checked by the caller"
    way = partition if dealing.owners == "metis" else overlapping_partition
    return way(len(rows), rows.edges, n_clients, draws)


def _classes(rows: FederatedRows, n_clients: int, dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    """Classes in random order go round the clients; rows of a class nobody takes belong to no client."""
    n_classes, taken = len(rows.class_names), dealing.classes_per_client
    if taken > n_classes:
        raise ConfigError(
            f"data.classes_per_client must be at most {n_classes}, the classes of {rows.name!r}, got {taken}"
        )
    order = draws.permutation(n_classes)
    takers: dict[int, list[int]] = {}
    for client in range(n_clients):
        for place in range(taken):
            takers.setdefault(int(order[(client * taken + place) % n_classes]), []).append(client)
    parts: list[list[Rows]] = [[] for _ in range(n_clients)]
    for one, clients in sorted(takers.items()):
        of_class = draws.permutation(np.flatnonzero(rows.y == one))
        even = dealing.owners == "classes"
        shares = np.full(len(clients), 1.0 / len(clients)) if even else draws.dirichlet([dealing.alpha] * len(clients))
        for client, piece in zip(clients, _cut(of_class, shares), strict=True):
            parts[client].append(piece)
    return [np.concatenate(pieces) for pieces in parts]


def _skewed(rows: FederatedRows, n_clients: int, dealing: Dealing, draws: np.random.Generator) -> list[Rows]:
    """Label skew.

    Source: Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", 2019, whose draws are
    repeated as here until no client has too few rows.
    """
    if n_clients * LEAST_ROWS > len(rows):
        return _equal(rows, n_clients, dealing, draws)  # which has too few rows as well, and is refused
    parts: list[Rows] = []
    for _ in range(MOST_DRAWS):
        pieces: list[list[Rows]] = [[] for _ in range(n_clients)]
        for one in range(len(rows.class_names)):
            of_class = draws.permutation(np.flatnonzero(rows.y == one))
            shares = draws.dirichlet([dealing.alpha] * n_clients)
            for client, piece in enumerate(_cut(of_class, shares)):
                pieces[client].append(piece)
        parts = [np.concatenate(of_client) for of_client in pieces]
        if min(map(len, parts)) >= LEAST_ROWS:
            break
    return parts


def _cut(rows: Rows, shares: NDArray[np.float64]) -> list[Rows]:
    """Rows in consecutive pieces of these shares."""
    ends = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
    return np.split(rows, ends)
