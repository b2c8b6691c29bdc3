"""Representations of restriction maps, by the name that `sheaf.map_storage` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ...emulator.contracts import NodeId
from .kronecker_maps import KroneckerMaps
from .map_starts import MapStart
from .restriction_maps import DenseMaps, FactoredMaps, RestrictionMaps

MAP_STORAGES: dict[str, type[DenseMaps] | type[FactoredMaps]] = {"dense": DenseMaps, "factored": FactoredMaps}


def stored_maps(storage: str, starts: Mapping[NodeId, MapStart], head: Tensor, n_outputs: int) -> RestrictionMaps:
    """Restriction maps in one of the representations.

    Args:
        storage: as in `sheaf.map_storage`; "kronecker" holds maps that treat all outputs alike, the others any.
        starts: neighbor -> initial map, see `restriction_maps`.
        head: [d_i] for size, dtype and device.
        n_outputs: C, of the head.
    """
    if storage == "kronecker":
        lists = {neighbor: start for neighbor, start in starts.items() if isinstance(start, Tensor)}
        return KroneckerMaps(lists, len(head), n_outputs, dtype=head.dtype, device=head.device)
    return MAP_STORAGES[storage](starts, len(head), dtype=head.dtype, device=head.device)
