"""Decentralised multimodal learning with knowledge distillation between modalities: an approximation.

Ghalkha et al. 2025 compare with DMML-KD (Yin, Chen, Tao) and give no details; this follows what the abstract of that
work tells, with prototypes in the place of its generator. Results of it must say so.

Every embedding has two halves: common features [l/2], which a classifier common to all modalities and clients reads,
and specific ones. Local loss = fused + common classifier per modality + distillation from the client's other modalities
+ distance of common features to the class means that neighbors agree on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ...emulator.contracts import ConfigError, Message, MessageKind, MessageSlot, Modality, Phase, State
from ...emulator.saved_state import Parts, restore_whole
from ..objectives import class_logits, n_classes
from ..sharing.prototypes import Prototypes, prototype_messages, prototype_slots
from ..sharing.vector_gossip import SharedVector, VectorGossip, shared_encoders
from ..state.tensors import TensorPart
from ..training.client_setup import ClientSetup
from ..training.local_training import LocalTraining
from ..training.minibatches import PassedBatch

MIX = "mix"

#: Our choice, as are the halves: the paper names none of them.
TEMPERATURE, DISTILLATION, PULL = 2.0, 1.0, 0.1


class DmmlKd:
    """One client: encoders averaged per modality, common classifier and class means with all neighbors."""

    def __init__(self, setup: ClientSetup) -> None:
        self.client_id = setup.client_id
        (self._name,) = setup.models
        model = setup.models[self._name]
        embedding_dim = model.layout.blocks[0][1]
        if embedding_dim % 2:
            raise ConfigError(
                f"model.embedding_dim must be even for algorithm 'dmml_kd', which halves it, got {embedding_dim}"
            )
        self._objective, self._settings = setup.objective, setup.training
        n_outputs = model.layout.n_outputs
        self._n_common = embedding_dim // 2
        # zeros are the common start of a linear classifier, and need no draw
        self._classifier = model.head.new_zeros(n_outputs, self._n_common + 1).requires_grad_()
        self.prototypes = Prototypes(n_classes(setup.objective, n_outputs), self._n_common, like=model.head)
        self.training = LocalTraining(
            setup.client_id,
            model,
            setup.rows,
            setup.objective,
            setup.training,
            setup.batch_draws[self._name],
            self._penalty,
        )
        classifier = SharedVector(MessageKind.CLASSIFIER, None, self._classifier.data.view(-1), setup.head_mixing)
        self._neighbors = tuple(sorted(setup.head_mixing))
        self._gossip = VectorGossip(
            setup.client_id, [*shared_encoders(self.training.encoders, setup.mixing), classifier], setup.sharing
        )
        self._parts = Parts(
            training=self.training,
            classifier=TensorPart(self._classifier),
            prototypes=self.prototypes,
            gossip=self._gossip,
        )

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase(MIX, self._settings.local_steps * self.training.flops_per_step),)

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        self.prototypes.begin_round()
        for _ in range(self._settings.local_steps):
            loss = self.training.backward()
            self.training.step_encoders()
            self.training.step_attention()
            self.training.step_head()
            self._step_classifier()
        self.training.check_finite(loss, round_index)
        means = prototype_messages(self.prototypes, self.client_id, self._neighbors, phase, round_index)
        return self._gossip.messages(phase, round_index) + means

    def expected(self, phase: str, round_index: int) -> frozenset[MessageSlot]:
        return self._gossip.expected(phase, round_index) | prototype_slots(self._neighbors, phase, round_index)

    def absorb(self, phase: str, round_index: int, arrived: Sequence[Message]) -> None:
        self._gossip.absorb(arrived)
        self.prototypes.absorb([m.payload for m in arrived if m.kind is MessageKind.PROTOTYPES])

    def predict(self, inputs: Mapping[Modality, NDArray[np.floating[Any]]]) -> Mapping[str, NDArray[np.floating[Any]]]:
        return {self._name: self.training.predict(inputs)}

    def health(self) -> Mapping[str, float]:
        return {"loss": self.training.loss}

    def state(self) -> State:
        return self._parts.state()

    def restore(self, state: State) -> None:
        restore_whole(self._parts, state)

    def _step_classifier(self) -> None:
        assert self._classifier.grad is not None
        self._classifier.data.sub_(self._classifier.grad, alpha=self._settings.head_step_size)
        self._classifier.grad = None

    def _penalty(self, passed: PassedBatch) -> Tensor:
        """Everything of the local loss but the fused one."""
        common = passed.embeddings[..., : self._n_common]  # [batch, n_modalities, l/2]
        weight, bias = self._classifier[:, :-1], self._classifier[:, -1]
        logits = functional.linear(common, weight, bias)  # [batch, n_modalities, n_outputs]
        of_modality = logits.unbind(dim=1)
        classified = sum(self._objective(one, passed.labels, passed.class_weights) for one in of_modality)
        self.prototypes.see(common.detach(), passed.labels)
        distance = self.prototypes.distance(common, passed.labels)
        return classified + DISTILLATION * distillation(logits, TEMPERATURE) + PULL * distance


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
    teachers = (shares.sum(dim=1, keepdim=True) - shares) / (n_modalities - 1)
    divergence = functional.kl_div(students, teachers, reduction="none").sum(dim=2)  # [batch, n_modalities]
    return temperature**2 * divergence.mean(dim=0).sum()
