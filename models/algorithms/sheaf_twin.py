"""Ours: every client trains a shared and an own model, and weighs the two on rows kept aside.

The shared twin is trained by sheaf diffusion, the own twin on the client's rows alone. So every client weighs the
coupling by its effect on predictions: the more the neighbors help, the larger the share of the shared twin. It costs a
second model; messages are those of sheaf diffusion. After half of the rounds the shares are fixed, and both twins train
on the rows that were kept aside too.
Related: mixtures of local and federated models (Deng et al. 2020, APFL), which have a server and mix parameters.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ...emulator.saved_state import Parts
from ..joint.prediction_turn import predict, predict_twins
from ..rules.sgd import LocalSgd
from ..sharing.chained_learner import ChainedLearner
from ..training.client_setup import ClientSetup
from ..training.minibatches import class_weights
from ..training.training_rows import PartlyPrivateRows, TrainingRows
from ..twin_model import TwinModel
from .sheaf_diffusion import sheaf_diffusion


def sheaf_twin(setup: ClientSetup) -> ChainedLearner:
    """One client with its twins: sheaf diffusion, a model of its own beside it, and the choice of their shares."""
    (name,) = setup.models
    assert setup.twin is not None
    assert setup.private is not None
    twin, private, rows = setup.twin, setup.private, PartlyPrivateRows(setup.rows, setup.private)
    setup = replace(setup, rows=rows)
    # spawned, so that draws of the own twin do not move those of the shared one
    draws = {"own": setup.batch_draws[name].spawn(1)[0]}
    own = LocalSgd(replace(setup, models={"own": twin.own}, batch_draws=draws))
    shared = sheaf_diffusion(setup)
    (mix,) = shared.chain

    def work(round_index: int) -> None:
        if round_index >= setup.private_rounds:  # a client may have missed the round itself
            rows.release()
        own.train(round_index)
        mix.work(round_index)

    def finish(_round_index: int) -> None:
        if not rows.released:
            _choose_share(twin, private, setup)

    return ChainedLearner(
        setup.client_id,
        [replace(mix, work=work, finish=finish, flops=lambda: mix.flops() + own.flops)],
        parts=Parts(shared=shared.parts, own=own, weighed=twin, released=rows),
        models=lambda inputs: {name: predict_twins(twin, inputs)},
        figures=lambda: {**shared.health(), "own_loss": own.health()["loss"], "share": float(twin.share)},
        stalk=shared.stalk,
    )


def _choose_share(twin: TwinModel, private: TrainingRows, setup: ClientSetup) -> None:
    """Weigh the twins as they are now, by their answers to the rows kept aside."""
    label = private.label
    inputs, labels = private.inputs(np.arange(len(label))), torch.from_numpy(label)
    shared, own = (torch.from_numpy(predict(model, inputs)) for model in (twin.shared, twin.own))
    balanced = setup.training.class_weights == "balanced"
    weights = class_weights(label, setup.objective, shared.shape[1], shared) if balanced else None
    twin.choose_share(shared, own, lambda logits: setup.objective(logits, labels, weights))
