"""Sheaf-DMFL and Sheaf-DMFL-Att: averaged encoders, personal heads coupled through learned restriction maps.

One round, with the letters of the paper's Algorithm 1 (Ghalkha et al. 2025):

    project     B  send P^r w^r, hold what the neighbors send
    mix         A  one backward pass, C encoders (15) and attention (17), E head (11); S times
                D  send the encoders, average those that arrive (6)
    reproject   F  send P^r w^{r+1};  G  step the maps (12)

The head step comes before the averaging of encoders because its gradient is the one of the single backward pass at the
old parameters; with S = 1 this is the paper's round exactly. With S > 1 the neighbors' projections are held.
The two variants differ only in the fusion of the model they are given.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..sharing.chained_learner import ChainedLearner
from ..sharing.vector_gossip import VectorGossip, shared_encoders
from ..sheaf.coupled_learner import coupled_learner, head_part
from ..sheaf.vector_coupling import VectorCoupling
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from ..training.minibatches import PassedBatch


def sheaf_dmfl(setup: ClientSetup, penalty: Callable[[PassedBatch], Tensor] | None = None) -> ChainedLearner:
    """One client of Sheaf-DMFL(-Att).

    Args:
        setup: of the client.
        penalty: cost of a minibatch beyond its loss, for algorithms that build on this one.
    """
    (name,) = setup.models
    training = local_training(setup, name, penalty)
    gossip = VectorGossip(setup.client_id, shared_encoders(training.encoders, setup.mixing), setup.sharing)
    coupling = VectorCoupling(
        setup.client_id,
        setup.map_starts if setup.sheaf.coupling > 0.0 else {},
        training.head,
        setup.sheaf,
        n_outputs=training.model.layout.n_outputs,
        redrawn=setup.redrawn_maps,
    )
    return coupled_learner(setup, head_part(training), coupling, gossip)
