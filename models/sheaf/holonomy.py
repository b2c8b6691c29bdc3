"""Holonomy: what is left of a vector that is carried around a cycle by the restriction maps.

An edge carries x from i to j as P_ji^+ P_ij x. Around a cycle these make H, from the stalk of its first client to
itself. H = I on all cycles: every client can be given a frame in which all maps are the identity, and the sheaf does
nothing that averaging in those frames would not do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...emulator.contracts import NodeId
from .whole_sheaf import WholeSheaf

#: Dimension up to which H is built; above, it is asked about so many random vectors.
MOST_EXACT, PROBES = 16, 2


def holonomy_defect(sheaf: WholeSheaf, cycle: Sequence[NodeId], like: Tensor) -> float:
    """|H - I| in the Frobenius norm, over |I|: 0 for trivial holonomy, about sqrt(2) for an unrelated rotation.

    Maps that leave something out have a defect as well: what they drop is not carried around.

    Args:
        sheaf: with its maps.
        cycle: clients in order, each once; the last and the first are neighbors.
        like: a vector of a client, for type and device.
    """
    dim = sheaf.dims[cycle[0]]
    if dim <= MOST_EXACT:
        vectors = torch.eye(dim).to(like)
    else:
        drawn = np.random.default_rng(0).choice((-1.0, 1.0), size=(PROBES, dim))
        vectors = torch.from_numpy(drawn).to(like)
    left = [_around(sheaf, cycle, vector) - vector for vector in vectors]
    defect = sum(float(one @ one) for one in left) / float(vectors.square().sum())
    return math.sqrt(defect)


def _around(sheaf: WholeSheaf, cycle: Sequence[NodeId], vector: Tensor) -> Tensor:
    for start, end in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        vector = sheaf.transported(start, end, vector)
    return vector
