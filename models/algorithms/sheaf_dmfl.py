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

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from ...emulator.contracts import MessageKind
from ...emulator.saved_state import Parts
from ..sharing.chained_learner import ChainedLearner, ChainPhase, FunctionExchange
from ..sharing.vector_gossip import VectorGossip, shared_encoders
from ..sheaf.coupling_health import finite
from ..sheaf.equations import head_step
from ..sheaf.head_coupling import HeadCoupling
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining, local_training
from ..training.minibatches import PassedBatch

PROJECT, MIX, REPROJECT = "project", "mix", "reproject"


def sheaf_dmfl(setup: ClientSetup, penalty: Callable[[PassedBatch], Tensor] | None = None) -> ChainedLearner:
    """One client of Sheaf-DMFL(-Att).

    Args:
        setup: of the client.
        penalty: cost of a minibatch beyond its loss, for algorithms that build on this one.
    """
    (name,) = setup.models
    training = local_training(setup, name, penalty)
    gossip = VectorGossip(setup.client_id, shared_encoders(training.encoders, setup.mixing), setup.sharing)
    coupling = HeadCoupling(
        setup.client_id,
        setup.map_starts if setup.sheaf.coupling > 0.0 else {},
        training.head,
        setup.sheaf,
        n_outputs=training.model.layout.n_outputs,
        redrawn=setup.redrawn_maps,
    )
    return ChainedLearner(
        setup.client_id,
        _chain(setup, training, coupling, gossip),
        parts=Parts(training=training, coupling=coupling, gossip=gossip),
        models=lambda inputs: {name: training.predict(inputs)},
        figures=partial(_figures, training, coupling),
    )


def _chain(
    setup: ClientSetup, training: LocalTraining, coupling: HeadCoupling, gossip: VectorGossip
) -> list[ChainPhase]:
    sheaf, alpha = setup.sheaf, setup.training.head_step_size

    def product_flops() -> float:
        return coupling.maps.product_flops

    def step_head() -> None:
        head, gradient = training.head, training.head_gradient
        training.set_head(
            head_step(head, gradient, coupling.pull(head), step_size=alpha, coupling=sheaf.coupling)  # (11)
        )

    project = FunctionExchange(
        frozenset({MessageKind.PROJECTION}),
        lambda phase, round_index: coupling.projections(phase, round_index, training.head),
        partial(coupling.expected, MessageKind.PROJECTION),
        coupling.hold,
    )
    reproject = FunctionExchange(
        frozenset({MessageKind.REPROJECTION}),
        lambda phase, round_index: coupling.reprojections(phase, round_index, training.head),
        partial(coupling.expected, MessageKind.REPROJECTION),
        lambda arrived: coupling.step_maps(arrived, training.head),
    )
    # with the single exchange, the last reprojections determine the projections of every round but the first
    projects_once = sheaf.exchange == "single" and sheaf.learns_maps
    return [
        ChainPhase(
            PROJECT,
            [project],
            flops=product_flops,
            in_round=lambda round_index: sheaf.coupling > 0.0 and (round_index == 0 or not projects_once),
        ),
        ChainPhase(
            MIX,
            [gossip],
            work=lambda round_index: training.train(
                round_index, step_head, lambda: coupling.broken_bound(training.head, alpha)
            ),
            flops=lambda: setup.training.local_steps * (training.flops_per_step + 2.0 * product_flops()),
        ),
        ChainPhase(REPROJECT, [reproject], flops=product_flops, in_round=lambda _round_index: sheaf.learns_maps),
    ]


def _figures(training: LocalTraining, coupling: HeadCoupling) -> Mapping[str, float]:
    return {
        "loss": training.loss,
        "relative_residual": finite(coupling.relative_residual),
        **coupling.figures(),
    }
