"""Personal models at the least cost: share, then train on alone, and answer with the mean of both models.

In the first `sharing.until` rounds this is head averaging, or sheaf diffusion where heads have to go through maps. Then
nothing is sent any more and the model trains on with the client's rows alone, while a copy stays as the last exchange
left it; answers are the mean of both models' probabilities. It needs no rows kept aside, the steps of the rule that it
begins with and fewer bytes. The tuned model alone is that rule with the same `sharing.until`, bit for bit.
"""

from __future__ import annotations

from dataclasses import replace

from ...emulator.saved_state import Parts
from ..joint.prediction_turn import predict_pair
from ..sharing.chained_learner import ChainedLearner
from ..training.client_setup import ClientSetup
from .head_averaging import head_averaging
from .sheaf_diffusion import sheaf_diffusion


def averaged_and_tuned(setup: ClientSetup) -> ChainedLearner:
    """One client: head averaging, and a copy of its model that stays where the last exchange left it."""
    return _with_copy(setup, head_averaging(setup))


def diffused_and_tuned(setup: ClientSetup) -> ChainedLearner:
    """The same with sheaf diffusion."""
    return _with_copy(setup, sheaf_diffusion(setup))


def _with_copy(setup: ClientSetup, sharing: ChainedLearner) -> ChainedLearner:
    (name,) = setup.models
    assert setup.pair is not None
    pair, (*before, mix) = setup.pair, sharing.chain

    def finish(round_index: int) -> None:
        mix.finish(round_index)
        if not setup.sharing.is_over(round_index):
            pair.kept.load_state_dict(pair.trained.state_dict())

    return ChainedLearner(
        setup.client_id,
        [*before, replace(mix, finish=finish)],
        parts=Parts(sharing=sharing.parts, kept=pair.kept),
        models=lambda inputs: {name: predict_pair(pair, inputs)},
        figures=sharing.health,
        stalk=sharing.stalk,
    )
