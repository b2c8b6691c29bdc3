"""Sheaf-FMTL: whole models, of any sizes, coupled through learned restriction maps.

One round, with the letters of section 2 of the paper (Ben Issaid, Vepakomma, Bennis, *Tackling Feature and Sample
Heterogeneity in Decentralized Multi-Task Learning: A Sheaf-Theoretic Approach*):

    project     z_ij = P_ij theta_i to every neighbor, theirs are held
    train       theta_i <- theta_i - alpha (g_i + lambda sum_j P_ij^T (z_ij - z_ji)), S times             (U1)
    reproject   w_ij = P_ij theta_i of the new model;  P_ij <- P_ij - eta lambda (w_ij - w_ji) theta_i^T    (U2)

With S = 1, `sheaf.map_start = "random"`, `sheaf.map_scale = 1` and `sheaf.clamp_map_step = false` this is the paper's
iteration exactly; with S > 1 the neighbors' projections are held. The penalty counts each edge once, as the updates of
the paper do and one of its formulas does not. It is Sheaf-DMFL on another vector, without averages of encoders.
"""

from __future__ import annotations

from ..sharing.chained_learner import ChainedLearner
from ..sheaf.coupled_learner import coupled_learner, model_part
from ..sheaf.vector_coupling import VectorCoupling
from ..training.client_setup import ClientSetup
from ..training.whole_model import WholeModel


def sheaf_fmtl(setup: ClientSetup) -> ChainedLearner:
    """One client; alone where nothing couples it, or where weight decay is to stand for the coupling."""
    (name,) = setup.models
    decay = setup.training.weight_decay
    if decay == "as_sheaf":
        return coupled_learner(setup, model_part(WholeModel(setup, name, setup.sheaf_decay)), None)
    training = WholeModel(setup, name, decay)
    if setup.sheaf.coupling == 0.0:
        return coupled_learner(setup, model_part(training), None)
    coupling = VectorCoupling(
        setup.client_id, setup.map_starts, training.vector, setup.sheaf, redrawn=setup.redrawn_maps
    )
    return coupled_learner(setup, model_part(training), coupling)
