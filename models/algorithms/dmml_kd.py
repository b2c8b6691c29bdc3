"""Decentralised multimodal learning with knowledge distillation between modalities: an approximation.

Ghalkha et al. 2025 compare with DMML-KD (Yin, Chen, Tao) and give no details; this follows the abstract of that work,
with prototypes in the place of its generator. Reports of its results must state this.

Every embedding has two halves: common features [l/2], which a classifier common to all modalities and clients reads,
and specific ones. Local loss = fused + common classifier per modality + distillation from the client's other modalities
+ distance of common features to the class means that neighbors agree on.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ...emulator.contracts import ConfigError, MessageKind
from ...emulator.saved_state import Parts
from ..client_model import ClientModel
from ..objectives import Objective, class_logits, n_classes
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..sharing.prototypes import PrototypeExchange, Prototypes
from ..sharing.vector_gossip import SharedVector, VectorGossip, shared_encoders
from ..state.tensors import TensorPart
from ..training.client_setup import ClientSetup
from ..training.local_training import local_training
from ..training.minibatches import PassedBatch

MIX = "mix"

#: Our choice, as are the halves and the temperature: the paper names none of them.
DISTILLATION, PULL = 1.0, 0.1


def dmml_kd(setup: ClientSetup) -> ChainedLearner:
    """One client: encoders averaged per modality, common classifier and class means with all neighbors."""
    (name,) = setup.models
    common = CommonFeatures(setup.models[name], setup.objective, setup.training.distillation_temperature)
    training = local_training(setup, name, common.penalty)
    shared = [
        *shared_encoders(training.encoders, setup.mixing),
        SharedVector(MessageKind.CLASSIFIER, None, common.classifier.data.view(-1), setup.head_mixing),
    ]
    gossip = VectorGossip(setup.client_id, shared, setup.sharing)
    means = PrototypeExchange(setup.client_id, setup.head_mixing, common.prototypes)

    def step() -> None:
        training.step_head()
        common.step_classifier(setup.training.head_step_size)

    def work(round_index: int) -> None:
        common.prototypes.begin_round()
        training.train(round_index, step)

    mix = ChainPhase(
        MIX, [gossip, means], work=work, flops=lambda: setup.training.local_steps * training.flops_per_step
    )
    return ChainedLearner(
        setup.client_id,
        [mix],
        parts=Parts(
            training=training,
            classifier=TensorPart(common.classifier),
            prototypes=common.prototypes,
            gossip=gossip,
        ),
        models=lambda inputs: {name: training.predict(inputs)},
        figures=lambda: {"loss": training.loss},
    )


class CommonFeatures:
    """The half of every embedding that all modalities share, and what trains it: a classifier and class means.

    Args:
        model: of the client.
        objective: of its training, and of the classifier's.
        temperature: at which its modalities teach each other.

    Attributes:
        classifier: [n_outputs, l/2 + 1] weights and, in the last column, biases.
        prototypes: class means of common features.

    Raises:
        ConfigError: embeddings cannot be halved.
    """

    def __init__(self, model: ClientModel, objective: Objective, temperature: float) -> None:
        embedding_dim, n_outputs = model.layout.blocks[0][1], model.layout.n_outputs
        if embedding_dim % 2:
            raise ConfigError(
                f"model.embedding_dim must be even for algorithm 'dmml_kd', which halves it, got {embedding_dim}"
            )
        self._objective, self._n_common, self._temperature = objective, embedding_dim // 2, temperature
        # zeros are the common start of a linear classifier, and need no draw
        self.classifier = model.head.new_zeros(n_outputs, self._n_common + 1).requires_grad_()
        self.prototypes = Prototypes(n_classes(objective, n_outputs), self._n_common, like=model.head)

    def penalty(self, passed: PassedBatch) -> Tensor:
        """All of the local loss but the fused one, []."""
        common = passed.embeddings[..., : self._n_common]  # [batch, n_modalities, l/2]
        weight, bias = self.classifier[:, :-1], self.classifier[:, -1]
        logits = functional.linear(common, weight, bias)  # [batch, n_modalities, n_outputs]
        of_modality = logits.unbind(dim=1)
        classified = sum(self._objective(one, passed.labels, passed.class_weights) for one in of_modality)
        self.prototypes.count(common.detach(), passed.labels)
        distance = self.prototypes.distance(common, passed.labels)
        return classified + DISTILLATION * distillation(logits, self._temperature) + PULL * distance

    def step_classifier(self, step_size: float) -> None:
        """Follow the gradient of the last `backward`."""
        assert self.classifier.grad is not None
        self.classifier.data.sub_(self.classifier.grad, alpha=step_size)
        self.classifier.grad = None


def distillation(logits: Tensor, temperature: float) -> Tensor:
    """What each modality still has to learn from the client's others, [].

    T^2 * sum over k of KL(mean over m != k of softmax(z_m / T) || softmax(z_k / T)), the teachers held fixed; 0 for a
    client with one modality.

    Args:
        logits: [batch, n_modalities, n_outputs].
        temperature: T.
    """
    n_modalities = logits.shape[1]
    if n_modalities == 1:
        return logits.new_zeros(())
    students = functional.log_softmax(class_logits(logits) / temperature, dim=2)
    shares = students.detach().exp()
    # mean of the others, by taking the own share off the sum
    teachers = (shares.sum(dim=1, keepdim=True) - shares) / (n_modalities - 1)
    divergence = functional.kl_div(students, teachers, reduction="none").sum(dim=2)  # [batch, n_modalities]
    return temperature**2 * divergence.mean(dim=0).sum()
