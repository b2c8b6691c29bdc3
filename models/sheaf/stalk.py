"""What a learner couples, for whoever looks at all clients at once: the vector of a client, and its maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .restriction_maps import RestrictionMaps


@dataclass(frozen=True, slots=True, eq=False)
class Stalk:
    """The node stalk of one client, as it is whenever it is asked for.

    Attributes:
        vector: gives the vector [d_i] that neighbors see through maps: the head, or the whole model.
        maps: gives the restriction maps of the client.
        coupling: lambda, by which neighbors pull in every step; 0: they do not.
        whole_model: whether the vector is the whole model.
    """

    vector: Callable[[], Tensor]
    maps: Callable[[], RestrictionMaps]
    coupling: float
    whole_model: bool = False
