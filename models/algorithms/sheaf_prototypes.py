"""Ours: Sheaf-DMFL-Att whose clients also draw what their heads read towards class means over the neighborhood.

Coupled heads agree on little while the embeddings that they read differ from client to client; the class means (of the
fused embedding, over the last round's rows of a client and its neighbors) give all of them one place per class. Local
loss = loss + prototype_pull * squared distance of the fused embedding to the mean of its class, mean over rows and
features as in FedProto (Tan et al. 2022), which has a server and no coupling. The means travel with the encoders, one
vector per neighbor. Embeddings that shrink satisfy a strong pull too, and then learning is slow.

Privacy: beside what Sheaf-DMFL sends, neighbors learn the class means of a client's embeddings and *how many of its
rows have which class*, which is the distribution of its labels. Classes are matched by their numbers, so clients that
number outputs in orders of their own would be drawn to the means of other classes.
"""

from __future__ import annotations

from dataclasses import replace

from ...emulator.saved_state import Parts
from ..objectives import n_classes
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.prototypes import PrototypeExchange, Prototypes, prototype_penalty
from ..sheaf.coupled_learner import MIX
from ..training.client_setup import ClientSetup
from .sheaf_dmfl import sheaf_dmfl


def sheaf_prototypes(setup: ClientSetup) -> ChainedLearner:
    """One client: Sheaf-DMFL-Att with a penalty, and messages of class means beside its encoders."""
    (model,) = setup.models.values()
    classes = n_classes(setup.objective, model.layout.n_outputs)
    prototypes = Prototypes(classes, model.layout.width, like=model.head)
    penalty = prototype_penalty(prototypes, setup.training.prototype_pull, lambda passed: passed.fused)
    sheaf = sheaf_dmfl(setup, penalty)
    means = PrototypeExchange(setup.client_id, setup.head_mixing, prototypes)
    chain = [_beside(phase, means) if phase.name == MIX else phase for phase in sheaf.chain]
    return replace(sheaf, chain=chain, parts=Parts(sheaf=sheaf.parts, prototypes=prototypes))


def _beside(mix: ChainPhase, means: PrototypeExchange) -> ChainPhase:
    def work(round_index: int) -> None:
        means.prototypes.begin_round()
        mix.work(round_index)

    return replace(mix, exchanges=[*mix.exchanges, means], work=work)
