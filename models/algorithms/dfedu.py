"""dFedU: whole models of one layout, drawn towards those of the neighbors by the Laplacian of the graph.

One round: every client sends its model, then S times w_i <- w_i - alpha (g_i + lambda sum_j (w_i - w_j)), with the
neighbors' models held. It is Sheaf-FMTL with identity maps that do not learn. Whole models mean the same only where
all modalities are, so, as in D-PSGD, neighbors are those of the same group.
Source: Dinh et al., *A New Look and Convergence Rate of Federated Multitask Learning With Laplacian Regularization*
(2022), decentralized; all a_ij = 1 and the step size of Sheaf-FMTL, as Ben Issaid et al. set it.
"""

from __future__ import annotations

from ..sharing.chained_learner import ChainedLearner
from ..sheaf.coupled_learner import coupled_learner, model_part
from ..sheaf.laplacian_coupling import LaplacianCoupling
from ..training.client_setup import ClientSetup
from ..training.whole_model import WholeModel


def dfedu(setup: ClientSetup) -> ChainedLearner:
    """One client, and its neighbors of the same group."""
    (name,) = setup.models
    assert not isinstance(setup.training.weight_decay, str), "refused with the scenario"
    training = WholeModel(setup, name, setup.training.weight_decay)
    if setup.sheaf.coupling == 0.0:
        return coupled_learner(setup, model_part(training), None)
    coupling = LaplacianCoupling(
        setup.client_id, setup.group_mixing, training.vector, setup.sharing, setup.sheaf.coupling
    )
    return coupled_learner(setup, model_part(training), coupling)
