"""Gaussian maps of the two ends of an edge, drawn as a scenario draws them."""

from __future__ import annotations

import numpy as np
from sheafedge.models.head import HeadLayout
from sheafedge.models.settings import SheafSettings
from sheafedge.models.sheaf.drawn_maps import drawn_starts
from torch import Tensor


def random_starts(
    own: HeadLayout, peer: HeadLayout, compression: float, draws: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Independent N(0, 1/d_i) entries."""
    settings = SheafSettings(map_start="random", compression=compression)
    first, second = drawn_starts(settings, own, peer, draws)
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    return first, second
