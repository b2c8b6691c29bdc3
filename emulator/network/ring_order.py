"""Order of clients in a ring in which the owners of each modality are adjacent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ..contracts import MODALITIES, Modality, NodeId

Piece = tuple[frozenset[Modality], tuple[NodeId, ...]]


def ring_order(modalities_of: Mapping[NodeId, frozenset[Modality]]) -> list[NodeId]:
    """All clients, ordered so that each modality's owners form one arc of the ring, where such an order exists.

    Clients with the same modalities stay together; only those with the most may stand in two places, so that GPS
    clients, both, RF clients, both close a full ring. Prefers a ring without gaps; where no order works, the clients
    are ordered by id, and the connectivity check reports what is wrong.
    """
    pieces = _pieces(modalities_of)
    # Around the ring every modality starts once and ends once, and every change of group is one of these: a cheap
    # way to see that no order exists, which also keeps the search short.
    n_groups = len({group for group, _ in pieces})
    if n_groups > 2 * len(frozenset[Modality]().union(*modalities_of.values())):
        return sorted(modalities_of)
    # A gap is a pair of ring neighbors without a shared modality, between which there will be no edge.
    for may_have_gaps in (False, True):
        for order in _orders(pieces[:1], pieces[1:], may_have_gaps):
            return [client for _, clients in order for client in clients]
    return sorted(modalities_of)


def _pieces(modalities_of: Mapping[NodeId, frozenset[Modality]]) -> list[Piece]:
    """Clients by what they own, in a fixed order; the best equipped first, and in two halves."""
    groups: dict[frozenset[Modality], list[NodeId]] = {}
    for client in sorted(modalities_of):
        groups.setdefault(modalities_of[client], []).append(client)
    owned = sorted(groups, key=lambda group: (-len(group), [MODALITIES.index(m) for m in MODALITIES if m in group]))
    pieces = [(group, tuple(groups[group])) for group in owned]
    group, clients = pieces[0]
    # The owners of most modalities link the arcs of two modalities, and a ring has two such places.
    half = len(clients) // 2
    return [*((group, part) for part in (clients[:half], clients[half:]) if part), *pieces[1:]]


def _orders(placed: list[Piece], left: list[Piece], may_have_gaps: bool) -> Iterator[list[Piece]]:
    """Orders in which every modality forms one arc, by depth-first search that stops where an arc breaks."""
    if not _are_arcs(placed):
        return
    if not left and (may_have_gaps or _has_no_gaps(placed)):
        yield placed
    for index, piece in enumerate(left):
        if may_have_gaps or placed[-1][0] & piece[0]:
            yield from _orders([*placed, piece], left[:index] + left[index + 1 :], may_have_gaps)


def _runs(placed: list[Piece], modality: Modality) -> list[bool]:
    """Whether owners stand at each place, with repetitions removed: [True, False, True] is two runs."""
    owned = [modality in piece[0] for piece in placed]
    return owned[:1] + [after for before, after in pairwise(owned) if before != after]


def _are_arcs(placed: list[Piece]) -> bool:
    """Each modality changes sides twice at most: its owners stand together, if need be around the seam."""
    # Three runs, such as owned, not owned, owned, still close to one arc around the seam.
    return all(len(_runs(placed, modality)) <= 3 for modality in MODALITIES)


def _has_no_gaps(placed: list[Piece]) -> bool:
    return all(before[0] & after[0] for before, after in pairwise([*placed, placed[0]]))
