"""Order of a codebook's beams along the angle, found from sweeps alone: neighboring beams are strong at the same time.

Nothing tells a base station where its beams point; it sees that powers of two beams rise and fall together. Seriation
brings the beams in a line in which those that do stand side by side. Which end of the line is which stays open: sweeps
of a mirrored street are sweeps, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

#: Other beams that a beam is tied to before the line is refined.
N_NEAREST = 4
#: Longest piece of the line that is tried at another place.
LONGEST_PIECE = 3
#: A move along the line that saves less than this is none: rounding must not go in circles.
LEAST_SAVING = 1e-9
#: A line is cut elsewhere only where its sum (`_well_cut`) falls below this share: between beams that overlap little
#: ties are few, and a wrong cut can have a somewhat smaller sum.
CLEAR_CUT = 2 / 3
#: Share of the codebook by which a beam may be displaced between two orders that agree on it, 2 places of 64; a place
#: in any case.
SLACK = 1 / 32
#: Share of the beams on which the orders of both halves of the sweeps must agree.
LEAST_AGREEMENT = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class FoundOrder:
    """Order of the beams of one codebook.

    Attributes:
        order: [n] int64, the beam at every place of the line, up to a mirror.
        agreement: share of the beams that the orders of both halves of the sweeps put at about the same place, 0 to 1.
    """

    order: NDArray[np.int64]
    agreement: float

    @property
    def is_trusted(self) -> bool:
        """Whether sweeps were many and clear enough for the order to repeat on half of them."""
        return self.agreement >= LEAST_AGREEMENT

    @property
    def places(self) -> NDArray[np.int64]:
        """[n] place of every beam on the line."""
        return inverse(self.order)


def found_order(powers: NDArray[np.floating[Any]]) -> FoundOrder:
    """Order of the beams, and how far that of every second sweep agrees with that of the others.

    Args:
        powers: as of `angular_order`, in the order of time.
    """
    first, second = (inverse(angular_order(powers[start::2])) for start in (0, 1))
    n = powers.shape[1]
    # an order and its mirror are the same order
    agreement = max(float(np.mean(np.abs(first - other) <= max(1.0, SLACK * n))) for other in (second, n - 1 - second))
    return FoundOrder(angular_order(powers), agreement)


def inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of every item of a permutation [n].

    >>> inverse(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def angular_order(powers: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Beams [n] in the order of a line on which beams that are strong together stand side by side, up to a mirror.

    Of both directions that in which the lower number stands first. Beams that never vary are put where they cost least.

    Args:
        powers: [n_sweeps, n] linear received power; NaN where a beam was not measured, which counts as the weakest of
            its sweep.

    Source: spectral seriation (Atkins, Boman, Hendrickson 1998) on the correlation of amplitudes, refined by 2-opt
    (Croes 1958) and moves of short pieces (Or 1976), and cut elsewhere where that makes the sum that seriation relaxes
    clearly smaller.
    """
    likeness = _correlation(_amplitudes(powers))
    ties = _ties(likeness)
    order = _well_cut(_shortened(_spectral_order(ties), 1.0 - likeness), ties)
    return order if len(order) < 2 or order[0] < order[-1] else np.ascontiguousarray(order[::-1])


def _amplitudes(powers: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """[n_kept, n] of the sweeps in which any beam was measured."""
    kept: NDArray[np.float64] = powers[~np.isnan(powers).all(axis=1)].astype(np.float64)
    if kept.size == 0:
        return kept
    weakest = np.nanmin(kept, axis=1, keepdims=True)
    amplitudes: NDArray[np.float64] = np.sqrt(np.maximum(np.where(np.isnan(kept), weakest, kept), 0.0))
    return amplitudes


def _correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, n] between columns; 0 to and from columns that never vary."""
    n = values.shape[1]
    if len(values) < 2:
        return np.eye(n)
    centered = values - values.mean(axis=0)
    norms = np.linalg.norm(centered, axis=0)
    # sums of equal numbers are rounded: what is left of a constant column is no variation
    varies = norms > 1e-9 * np.maximum(np.linalg.norm(values, axis=0), np.finfo(np.float64).tiny)
    scaled = np.where(varies, centered / np.where(varies, norms, 1.0), 0.0)
    found: NDArray[np.float64] = scaled.T @ scaled
    np.fill_diagonal(found, 1.0)
    return found


def _ties(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, n] symmetric: squared likeness of every beam to those that are most like it, 0 to all others."""
    n = len(likeness)
    others = likeness - 2.0 * np.eye(n)  # a beam is none of its own neighbors
    nearest = np.argsort(-others, axis=1, kind="stable")[:, :N_NEAREST]
    ties = np.zeros((n, n))
    rows = np.arange(n)[:, None]
    ties[rows, nearest] = np.maximum(others[rows, nearest], 0.0) ** 2
    return np.maximum(ties, ties.T)


def _spectral_order(ties: NDArray[np.float64]) -> NDArray[np.int64]:
    """[n] by the second eigenvector of the normalized Laplacian of the ties; groups without ties one by one."""
    n_groups, group = connected_components(ties > 0.0, directed=False)
    members = [np.flatnonzero(group == one) for one in range(n_groups)]
    members.sort(key=len, reverse=True)
    pieces = [beams[np.argsort(_fiedler(ties[np.ix_(beams, beams)]), kind="stable")] for beams in members]
    return np.concatenate(pieces).astype(np.int64)


def _fiedler(ties: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n] second eigenvector of I - D^-1/2 A D^-1/2 of a connected graph, over the roots of the degrees."""
    if len(ties) < 3:
        return np.arange(len(ties), dtype=np.float64)
    roots = np.sqrt(ties.sum(axis=1))
    _, vectors = eigh(np.eye(len(ties)) - ties / np.outer(roots, roots), subset_by_index=(1, 1))
    return np.asarray(vectors[:, 0] / roots)


def _shortened(order: NDArray[np.int64], cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """An open path over all beams that neither a reversed nor a moved piece makes cheaper.

    Args:
        order: [n] path to start from.
        cost: [n, n] symmetric, of two beams side by side.
    """
    n = len(order)
    # an end of the line costs nothing: a beam of its own before the first and behind the last one, next to all alike
    padded = np.zeros((n + 1, n + 1))
    padded[:n, :n] = cost
    path = np.concatenate([[n], order, [n]])
    while True:
        saving, better = _best_reversal(path, padded)
        if saving <= LEAST_SAVING:
            saving, better = _best_move(path, padded)
        if saving <= LEAST_SAVING:
            return path[1:-1]
        path = better


def _well_cut(order: NDArray[np.int64], ties: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rotation of a line with the least sum of ties times squared distances along it, if that is clearly less.

    Beams at the ends of a codebook are weak in most sweeps, and readings that are mostly noise tell little about which
    of two other beams is the next one: a path may put a beam of one end at the other, and every other beam so one place
    off. All the beams that such a beam is tied to tell where it belongs.

    Args:
        order: [n] line to start from.
        ties: [n, n] symmetric, at least 0.
    """
    n = len(order)
    if n < 3:
        return order  # a rotation of two is their mirror
    squared = np.subtract.outer(np.arange(n), np.arange(n)) ** 2
    along = ties[np.ix_(order, order)]
    sums = [float((np.roll(along, shift, (0, 1)) * squared).sum()) for shift in range(n)]
    best = int(np.argmin(sums))
    return np.roll(order, best) if sums[best] < CLEAR_CUT * sums[0] else order


def _best_reversal(path: NDArray[np.int64], cost: NDArray[np.float64]) -> tuple[float, NDArray[np.int64]]:
    """What the best reversal of a piece saves, and the path after it."""
    step = cost[path[:-1], path[1:]]
    inner = path[1:-1]
    before, behind = path[:-2], path[2:]
    # row: first of the piece; column: last of it
    saved = step[:-1, None] + step[None, 1:] - cost[before[:, None], inner[None, :]] - cost[inner[:, None], behind]
    saved = np.triu(saved, 1)
    first, last = divmod(int(saved.argmax()), len(inner)) if len(inner) else (0, 0)
    better = path.copy()
    better[first + 1 : last + 2] = path[first + 1 : last + 2][::-1]
    return float(saved.max(initial=0.0)), better


def _best_move(path: NDArray[np.int64], cost: NDArray[np.float64]) -> tuple[float, NDArray[np.int64]]:
    """What the best move of a short piece to another place saves, and the path after it."""
    best, better = 0.0, path
    for length in range(1, min(LONGEST_PIECE, len(path) - 3) + 1):
        for first in range(1, len(path) - length):
            piece, rest = path[first : first + length], np.delete(path, slice(first, first + length))
            ends = cost[rest[first - 1], piece[0]] + cost[piece[-1], path[first + length]]
            freed = ends - cost[rest[first - 1], path[first + length]]
            for way in (piece, piece[::-1]):
                added = cost[rest[:-1], way[0]] + cost[way[-1], rest[1:]] - cost[rest[:-1], rest[1:]]
                gap = int(added.argmin())
                if freed - added[gap] > best + LEAST_SAVING:
                    best, better = float(freed - added[gap]), np.insert(rest, gap + 1, way)
    return best, better
