"""Where base stations stand in relation to each other, and what is lost between any two of them.

Every base station of a world senses a street of its own, and no street says where the others are. Places are therefore
made up: a triangular lattice, filled from its middle outwards in the order of the stations' numbers, each moved a
little. What blocks a link is real - the vehicles of both ends' streets - and how far it reaches is this layout's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .large_scale import umi_large_scale
from .pathloss import los_probability, oxygen_db, umi_pathloss_db
from .tables import table
from .waves import Array

Mask = NDArray[np.bool_]

#: Stations are moved by at most this share of their distance, so that no three stand in line.
JITTER_SHARE = 0.15
#: Of all stations, the height that the path loss is fitted for.
STATION_HEIGHT_M = 10.0


def lattice_places_m(n_stations: int, inter_site_distance_m: float, draws: np.random.Generator) -> Array:
    """[n_stations, 2] x and y of stations on a triangular lattice, spiralling outwards, each moved a little.

    Args:
        n_stations: at least 1.
        inter_site_distance_m: between neighbors on the lattice, before they are moved.
        draws: advances by 2 * n_stations numbers.
    """
    reach = int(np.ceil(np.sqrt(n_stations))) + 1
    column, row = (grid.ravel() for grid in np.meshgrid(*[np.arange(-reach, reach + 1)] * 2))
    x, y = column + 0.5 * row, np.sqrt(0.75) * row
    ring = np.round(x**2 + y**2, 6)
    order = np.lexsort((np.arctan2(y, x), ring))[:n_stations]
    angle = draws.uniform(0.0, 2.0 * np.pi, n_stations)
    moved = JITTER_SHARE * np.sqrt(draws.random(n_stations))
    lattice = np.stack([x[order] + moved * np.cos(angle), y[order] + moved * np.sin(angle)], axis=1)
    return np.asarray(inter_site_distance_m * lattice)


def distances_m(places_m: Array) -> Array:
    """[n, n] along the ground between places [n, 2]."""
    across = places_m[:, None] - places_m[None]
    return np.asarray(np.hypot(across[..., 0], across[..., 1]))


def station_loss_db(
    distance_m: Array, carrier_hz: float, in_sight: Mask, draws: np.random.Generator, *, shadowing: bool = True
) -> Array:
    """[n, n] long-term loss between any two stations, the same both ways; infinite to oneself and beyond 5 km.

    Args:
        distance_m: [n, n] along the ground, at least 10 m between two stations.
        carrier_hz: 0.5 to 100 GHz.
        in_sight: [n, n] symmetric, pairs that were placed so that they see each other; others do with the standard's
            probability.
        draws: advances by n * (n - 1) numbers.
        shadowing: add the standard's shadow fading, one draw for each pair.

    Source: 3GPP TR 38.901, Tables 7.4.1-1, 7.4.2-1 and 7.6.1-1, UMi - Street Canyon; both ends 10 m high.
    """
    n = len(distance_m)
    first, second = np.triu_indices(n, k=1)
    farthest_m = table("umi_validity").row("distance_2d_m")["highest"]
    apart_m = distance_m[first, second]
    near_m = np.minimum(apart_m, farthest_m)
    is_los = in_sight[first, second] | (draws.random(len(first)) < los_probability(near_m))
    pair_db = umi_pathloss_db(near_m, carrier_hz, is_los=is_los, user_height_m=STATION_HEIGHT_M)
    pair_db = pair_db + oxygen_db(near_m, carrier_hz)
    normal = draws.standard_normal(len(first))
    if shadowing:
        laws = [umi_large_scale("shadow_fading_db", carrier_hz, is_los=sight) for sight in (False, True)]
        pair_db = pair_db + normal * np.where(is_los, laws[1].sigma, laws[0].sigma)
    loss_db = np.full((n, n), np.inf)
    loss_db[first, second] = np.where(apart_m <= farthest_m, pair_db, np.inf)
    return np.asarray(np.minimum(loss_db, loss_db.T))
