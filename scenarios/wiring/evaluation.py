"""Scores of models and baselines on held-out rows, per client and per group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...emulator.contracts import Learner, Modality, NodeId
from ...models.algorithms.algorithm import GLOBAL, PERSONAL
from ...models.objectives import OBJECTIVES
from ...models.state.tensors import finite
from ..tasks.task_spec import Scores, Task, mean_scores
from .client import Client
from .live import LiveRows

#: Held-out samples whose inputs are gathered together; a window of images has a quarter of a megabyte.
GATHERED_AT_ONCE = 256

#: Training rows of a client that are scored beside the held-out ones: enough for a curve of a group, and cheap.
MOST_TRAINED = 128

#: Share of the clients whose mean first score stands for the worst: at least one of them.
WORST_SHARE = 0.1

#: Name of a model or baseline -> its scores.
NamedScores = Mapping[str, Scores]


class Evaluator:
    """Scores learners at the end of rounds on held-out rows, which learners do not have.

    Args:
        task: task that defines the scores.
        clients: clients with the held-out rows.
        rounds, every: number of rounds, and of rounds from one scoring to the next; the last round is always scored.

    Attributes:
        latest: client -> newest scores of its models; after the last round, the final ones.
    """

    def __init__(self, task: Task, clients: Sequence[Client], rounds: int, every: int) -> None:
        self._task = task
        self._tests = {client.client_id: client.data.test for client in clients}
        # live rows are left out: which of them there are changes from round to round
        rows = {client.client_id: client.data.train for client in clients}
        self._trained = {client: train for client, train in rows.items() if not isinstance(train, LiveRows)}
        self._rounds, self._every = rounds, every
        self.latest: dict[NodeId, NamedScores] = {}

    def observe(self, learner: Learner, round_index: int) -> Mapping[str, Any]:
        """Figures of a learner's health and, in scored rounds, scores of its models; the evaluator stays as it is.

        Held-out losses, and scores and losses on some of its training rows, are for reports, and no part of the trace.
        """
        # stateless, because it also runs in workers, whose evaluators the engine does not see
        seen: dict[str, Any] = dict(learner.health())
        if learner.client_id not in self._tests:  # a server has no rows
            return seen
        if (round_index + 1) % self._every == 0 or round_index + 1 == self._rounds:
            seen["models"], seen["held_out_loss"] = self._scored(learner, self._tests[learner.client_id])
            if (rows := self._trained.get(learner.client_id)) is not None:
                seen["train_models"], seen["train_loss"] = self._scored(learner, some_of(rows))
        return seen

    def score_again(self, learner: Learner) -> None:
        """Keep the scores of a learner whose models have changed after its last round."""
        self.latest[learner.client_id] = self._scored(learner, self._tests[learner.client_id])[0]

    def see(self, client: NodeId, seen: Mapping[str, Any]) -> None:
        """Keep the scores among what was observed of a client, wherever its learner lives."""
        if "models" in seen:
            self.latest[client] = seen["models"]

    def _scored(self, learner: Learner, samples: Samples) -> tuple[dict[str, Scores], dict[str, float]]:
        """Scores, and mean losses without class weights, of every model of a learner on these samples."""
        answers, labels = predicted(learner, samples), torch.from_numpy(np.asarray(samples.label))
        objective = OBJECTIVES[self._task.objective]
        losses = {name: objective(torch.from_numpy(logits), labels, None) for name, logits in answers.items()}
        scores = {name: self._task.scores(logits, samples) for name, logits in answers.items()}
        return scores, {name: finite(float(loss)) for name, loss in losses.items()}


def some_of(samples: Samples) -> Samples:
    """Up to `MOST_TRAINED` of these samples, evenly spread; all where there are no more."""
    if len(samples) <= MOST_TRAINED:
        return samples
    return samples.take(np.linspace(0, len(samples) - 1, MOST_TRAINED).astype(np.int64))


def in_pieces(samples: Samples) -> Iterator[Mapping[Modality, NDArray[np.float32]]]:
    """Inputs of all samples in order, a piece at a time: memory does not grow with the samples."""
    for first in range(0, len(samples), GATHERED_AT_ONCE):
        yield samples.inputs(slice(first, first + GATHERED_AT_ONCE))


def predicted(learner: Learner, samples: Samples) -> dict[str, NDArray[np.floating[Any]]]:
    """Logits [n, n_outputs] of every model of a learner; memory does not grow with the samples."""
    pieces = [learner.predict(inputs) for inputs in in_pieces(samples)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def baseline_scores(task: Task, client: Client) -> NamedScores:
    """Scores of predictions without a model on a client's held-out rows."""
    return task.baselines(client.data.train, client.data.test)


def by_group(
    task: Task, clients: Mapping[str, Sequence[Client]], scores: Mapping[NodeId, NamedScores]
) -> dict[str, dict[str, dict[str, float]]]:
    """Mean over the clients of every group: group -> model or baseline -> figures."""
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for group, members in clients.items():
        seen = [scores[client.client_id] for client in members]
        groups[group] = {name: _mean(task, [one[name] for one in seen]) for name in seen[0]}
    return groups


def best_model(task: Task, models: Mapping[str, Mapping[str, float]], wanted: str = PERSONAL) -> str:
    """Name of the model that a group reports: the wanted one, or the client's own, or the one with the best mean score.

    Which of a client's own and a global model is meant is part of an algorithm, and no choice by scores; the best of
    several unimodal models is what the paper reports.
    """
    if wanted in models:
        return wanted
    if GLOBAL in models:
        return next(name for name in models if name != GLOBAL)
    first = task.columns[0]
    return max(models, key=lambda name: first.rank(models[name][first.key]))


def over_clients(task: Task, members: Sequence[Scores]) -> dict[str, float]:
    """Statistics of the first score over clients: standard deviation, and mean of the worst tenth of them.

    Args:
        task: task of the clients.
        members: scores of each client; one at least.
    """
    first = task.columns[0]
    ranked = sorted((member[first.key] for member in members), key=first.rank)
    worst = ranked[: math.ceil(WORST_SHARE * len(ranked))]
    return {f"{first.key}_std": float(np.std(ranked)), f"{first.key}_worst_decile": float(np.mean(worst))}


def _mean(task: Task, members: Sequence[Scores]) -> dict[str, float]:
    return {**mean_scores(members), **over_clients(task, members)}
