"""Ours: heads diffuse along the sheaf once per round, with mixing weights, instead of being pulled in every local step.

Each client moves its head by sum_j m_ij P_ij^T (P_ij w_i - P_ji w_j), with m_ij the Metropolis-Hastings weights of the
whole graph. Where all maps are the identity this *is* head averaging; where heads have different sizes, or outputs in
another order, only what the maps make comparable is averaged. Against (11) it needs one exchange instead of two, in the
same phase as the encoders, and no step size: it contracts for any coupling up to 1 while |P| <= 1.
"""

from __future__ import annotations

from ...emulator.saved_state import Parts
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.train_then_mix import UncoupledModels
from ..sharing.vector_gossip import VectorGossip, shared_encoders
from ..sheaf.head_diffusion import HeadDiffusion
from ..training.client_setup import ClientSetup

MIX = "mix"


def sheaf_diffusion(setup: ClientSetup) -> ChainedLearner:
    """One client: local steps, then encoders and heads are mixed together."""
    models = UncoupledModels(setup)
    (model,) = setup.models.values()
    gossip = VectorGossip(setup.client_id, shared_encoders(models.encoders, setup.mixing), setup.sharing)
    diffusion = HeadDiffusion(setup, model.head.data)
    # two products with the maps: one projects, one pulls
    mix = ChainPhase(
        MIX, [gossip, diffusion], work=models.train, flops=lambda: models.flops + 2.0 * diffusion.product_flops
    )
    return ChainedLearner(
        setup.client_id,
        [mix],
        parts=Parts(models=models, diffusion=diffusion, gossip=gossip),
        models=models.predict,
        figures=lambda: {**models.health(), "relative_residual": diffusion.relative_residual},
    )
