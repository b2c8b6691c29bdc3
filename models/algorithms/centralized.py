"""All rows in one place: an upper reference for decentralised methods.

No link carries the rows, so traffic is 0 and simulated time is that of one machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...emulator.contracts import Learner, Modality, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import ClientModel
from ..flat import FlatModule
from ..joint.prediction_turn import predict_at_rest
from ..sharing.chained_learner import ChainedLearner, ChainPhase
from ..state.module_state import module_state, optimizer_state, restore_module, restore_optimizer
from ..state.tensors import restore_tensor, to_array
from ..training.client_setup import ClientSetup
from ..training.divergence import refuse_diverged
from ..training.local_training import encoder_optimizer
from ..training.minibatches import Minibatches

#: A phase without work: it ends when the last round of all clients was observed, and only then may the model change.
READY = "ready"
TRAIN = "train"


def centralized(setups: Sequence[ClientSetup]) -> list[Learner]:
    """One encoder per modality for all its owners, one head and fusion per group, trained on all rows."""
    pool = _Pool(setups)
    return [_member(setup, pool) for setup in setups]


class _Pool:
    """The pooled model. A step takes a minibatch of every client and one mean gradient: a batch of all of theirs.

    Every client's rows keep its own normalization, so that all methods see the same inputs. Dropout and running
    statistics rest except while training, so that several threads may predict at once.
    """

    def __init__(self, setups: Sequence[ClientSetup]) -> None:
        self._setups, self._settings = setups, setups[0].training
        self.models = {setup.client_id: next(iter(setup.models.values())) for setup in setups}
        self._batches = {
            setup.client_id: Minibatches(
                setup.rows, setup.objective, setup.training, next(iter(setup.batch_draws.values()))
            )
            for setup in setups
        }
        self._owners: dict[Modality, int] = {}
        self._members: dict[str, list[NodeId]] = {}
        self._share_encoders()
        self._share_heads()
        share = not self._settings.local_statistics
        self._firsts = {m: next(model for model in self.models.values() if m in model.encoders) for m in self._owners}
        self._flats = {m: FlatModule(model.encoders[m], share_buffers=share) for m, model in self._firsts.items()}
        self._optimizer = encoder_optimizer(list(self._flats.values()), self._settings)
        self.losses = dict.fromkeys(self.models, math.nan)
        self.flops = self._settings.local_steps * sum(
            self.models[setup.client_id].training_flops(setup.rows)
            * min(self._settings.batch_size, len(setup.rows.label))
            for setup in setups
        )
        self._rest(True)

    def train(self, round_index: int) -> None:
        """A round of steps, for all clients."""
        # dropout and running statistics are active inside this call only
        self._rest(False)
        for _ in range(self._settings.local_steps):
            self._clear_gradients()
            # gradients add up in shared encoders and heads; `_step` divides them into means
            for client, model in self.models.items():
                passed = self._batches[client].next(model)
                passed.loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                self.losses[client] = float(passed.loss.detach())
                refuse_diverged(f"client {client}", round_index, self.losses[client], (), self._settings)
            self._step()
        vectors = [flat.vector for flat in self._flats.values()] + [model.head.data for model in self.models.values()]
        refuse_diverged("the pooled model", round_index, 0.0, vectors, self._settings)
        self._rest(True)

    def state(self) -> State:
        """Every encoder, head and fusion once, and every client's place in its epoch and last loss."""
        return {
            "encoders": {str(m): module_state(model.encoders[m]) for m, model in self._firsts.items()},
            "heads": {group: to_array(model.head) for group, model in self._leaders().items()},
            "fusions": {group: module_state(model.fusion) for group, model in self._leaders().items()},
            "optimizer": optimizer_state(self._optimizer),
            "minibatches": {str(client): batches.state() for client, batches in self._batches.items()},
            "losses": {str(client): loss for client, loss in self.losses.items()},
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("encoders", "heads", "fusions", "optimizer", "minibatches", "losses")
        encoders, leaders = parts["encoders"].parts(*self._firsts), self._leaders()
        heads, fusions = parts["heads"].parts(*leaders), parts["fusions"].parts(*leaders)
        for modality, model in self._firsts.items():
            restore_module(model.encoders[modality], encoders[modality])
        for group, model in leaders.items():
            restore_tensor(model.head, heads[group])
            restore_module(model.fusion, fusions[group])
        restore_optimizer(self._optimizer, parts["optimizer"])
        clients = [str(client) for client in self.models]
        batches, losses = parts["minibatches"].parts(*clients), parts["losses"].parts(*clients)
        for client in self.models:
            self._batches[client].restore(batches[str(client)])
            self.losses[client] = losses[str(client)].number()

    def _leaders(self) -> dict[str, ClientModel]:
        """Model of the first client of every group, whose head and fusion all members share."""
        return {group: self.models[members[0]] for group, members in self._members.items()}

    def _rest(self, at_rest: bool) -> None:
        for model in self.models.values():
            model.train(not at_rest)

    def _share_encoders(self) -> None:
        first: dict[Modality, Any] = {}
        for model in self.models.values():
            for modality in model.modalities:
                self._owners[modality] = self._owners.get(modality, 0) + 1
                model.encoders[modality] = first.setdefault(modality, model.encoders[modality])

    def _share_heads(self) -> None:
        for setup in self._setups:
            members = self._members.setdefault(setup.group, [])
            members.append(setup.client_id)
            first, model = self.models[members[0]], self.models[setup.client_id]
            model.head, model.fusion = first.head, first.fusion

    def _clear_gradients(self) -> None:
        for flat in self._flats.values():
            flat.gradient.zero_()
        for members in self._members.values():
            model = self.models[members[0]]
            for parameter in (model.head, *model.fusion.parameters()):
                parameter.grad = None

    def _step(self) -> None:
        """Mean gradients: over the owners of an encoder, over the members of a group."""
        for modality, flat in self._flats.items():
            flat.gradient.div_(self._owners[modality])
        self._optimizer.step()
        for members in self._members.values():
            model, settings = self.models[members[0]], self._settings
            sizes = {model.head: settings.head_step_size} | dict.fromkeys(
                model.fusion.parameters(), settings.attention_step_size
            )
            for parameter, step_size in sizes.items():
                assert parameter.grad is not None
                parameter.data.sub_(parameter.grad, alpha=step_size / len(members))


def _member(setup: ClientSetup, pool: _Pool) -> Learner:
    """A client that answers with the pooled model; the first one does the work for all."""
    client, (name,) = setup.client_id, setup.models
    hosts = client == next(iter(pool.models))
    train = ChainPhase(TRAIN, work=pool.train, flops=lambda: pool.flops) if hosts else ChainPhase(TRAIN)
    return ChainedLearner(
        client,
        [ChainPhase(READY), train],
        parts=pool if hosts else _NoState(),
        models=lambda inputs: {name: predict_at_rest(pool.models[client], inputs)},
        figures=lambda: {"loss": pool.losses[client]},
    )


class _NoState:
    """The state of all clients but the first, which holds that of the whole pool."""

    def state(self) -> State:
        return None

    def restore(self, saved: SavedState) -> None:
        if saved.state is not None:
            saved.refuse("be nothing, because the first client's holds everything", "something")
