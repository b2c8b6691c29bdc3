"""Answers of trained models about samples, computed once for everybody who reads them, several clients at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...emulator.contracts import Learner, NodeId
from ...emulator.nodes.compute_pool import ComputePool
from .evaluation import predicted

#: Clients whose learners are held at the same time.
AT_ONCE = 256
#: Model -> logits [n, n_outputs].
NamedLogits = Mapping[str, NDArray[np.floating[Any]]]


class Predictions:
    """Answers of learners that do not train any more.

    Args:
        learners: trained learners, by number.
        pool: computes clients side by side; as in rounds, this changes no answer.
    """

    def __init__(self, learners: Sequence[Learner], pool: ComputePool) -> None:
        self._learners = learners
        self._pool = pool
        self._known: dict[tuple[NodeId, int], tuple[Samples, NamedLogits]] = {}

    def of(self, samples: Mapping[NodeId, Samples]) -> dict[NodeId, NamedLogits]:
        """Answers of clients about samples of their own, in this order; the same samples are predicted once."""
        asked = [(client, own) for client, own in samples.items() if (client, id(own)) not in self._known]
        for first in range(0, len(asked), AT_ONCE):  # of many clients most may sleep
            tickets = {
                (client, id(own)): (own, self._pool.submit(partial(predicted, self._learners[client], own)))
                for client, own in asked[first : first + AT_ONCE]
            }
            # samples are kept beside their answers: the number of an object that is gone is given to another one
            self._known |= {key: (own, ticket.result()) for key, (own, ticket) in tickets.items()}
        return {client: self._known[client, id(own)][1] for client, own in samples.items()}
