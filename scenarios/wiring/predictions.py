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

#: Model -> logits [n, n_outputs].
NamedLogits = Mapping[str, NDArray[np.floating[Any]]]


class Predictions:
    """Answers of learners that do not train any more.

    Args:
        learners: trained learners.
        pool: computes clients side by side; as in rounds, this changes no answer.
    """

    def __init__(self, learners: Sequence[Learner], pool: ComputePool) -> None:
        self._learners = {learner.client_id: learner for learner in learners}
        self._pool = pool
        self._known: dict[tuple[NodeId, int], tuple[Samples, NamedLogits]] = {}

    def of(self, samples: Mapping[NodeId, Samples]) -> dict[NodeId, NamedLogits]:
        """Answers of clients about samples of their own, in this order; the same samples are predicted once."""
        tickets = {
            (client, id(own)): (own, self._pool.submit(partial(predicted, self._learners[client], own)))
            for client, own in samples.items()
            if (client, id(own)) not in self._known
        }
        # samples are kept beside their answers: the number of an object that is gone is given to another one
        self._known |= {key: (own, ticket.result()) for key, (own, ticket) in tickets.items()}
        return {client: self._known[client, id(own)][1] for client, own in samples.items()}
