"""Class means exchanged with neighbors and nothing else: models of any sizes that agree on what classes look like.

Local loss = loss + prototype_pull * squared distance to the mean of the row's class over the neighborhood, mean over
rows and features. What is averaged per class is what the head reads (`personalization.prototypes = "embedding"`, as in
FedProto, for embeddings of one width), or what it answers ("logits", as in federated distillation, for any models).
Class means are those of the rows of a round as they are trained on, where FedProto passes all rows once more, and
neighbors take the place of its server.

Privacy: neighbors learn the class means, and how many of a client's rows have which class.

Sources: Tan et al. 2022, *FedProto*; Jeong et al. 2018, *Communication-Efficient On-Device Machine Learning: Federated
Distillation and Augmentation*.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...emulator.contracts import ConfigError, Learner
from ...emulator.saved_state import Parts
from ..objectives import n_classes
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.prototypes import PrototypeExchange, Prototypes, prototype_penalty
from ..sharing.train_then_mix import MIX
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training


def fedproto_decentralized(setups: Sequence[ClientSetup]) -> list[Learner]:
    """Learners of these clients.

    Raises:
        ConfigError: embeddings are to be compared, and have different sizes.
    """
    widths = {setup.group: _width(setup) for setup in setups}
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{group!r} {width}" for group, width in widths.items())
        raise ConfigError(
            "algorithm 'fedproto_decentralized' averages embeddings, which have different sizes in clients.groups"
            f" ({found}); set personalization.prototypes = 'logits', or give the groups encoders of one size"
        )
    return [_client(setup) for setup in setups]


def _width(setup: ClientSetup) -> int:
    """Features of one class mean."""
    (model,) = setup.models.values()
    return model.layout.width if setup.personalization.prototypes == "embedding" else model.layout.n_outputs


def _client(setup: ClientSetup) -> ChainedLearner:
    (name,) = setup.models
    model, of_embeddings = setup.models[name], setup.personalization.prototypes == "embedding"
    classes = n_classes(setup.objective, model.layout.n_outputs)
    prototypes = Prototypes(classes, _width(setup), like=model.head)
    penalty = prototype_penalty(
        prototypes, setup.training.prototype_pull, lambda passed: passed.fused if of_embeddings else passed.logits
    )
    training = local_training(setup, name, penalty)

    def work(round_index: int) -> None:
        prototypes.begin_round()
        training.train(round_index)

    means = PrototypeExchange(setup.client_id, setup.head_mixing, prototypes)
    phase = ChainPhase(MIX, [means], work=work, flops=lambda: setup.training.local_steps * training.flops_per_step)
    return ChainedLearner(
        setup.client_id,
        [phase],
        parts=Parts(training=training, prototypes=prototypes),
        models=lambda inputs: {name: training.predict(inputs)},
        figures=lambda: {"loss": training.loss},
    )
