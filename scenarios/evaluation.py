"""Scores of models and baselines on held-out rows, per client and per group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..datasets.baselines import majority_predictions, persistence_predictions
from ..datasets.scores import BeamScores, score_ranking
from ..emulator.contracts import Learner, NodeId
from .build import Client
from .data import model_inputs

Scores = Mapping[str, BeamScores]

#: Ranked beams that scoring looks at.
TOP_K = 3


class Evaluator:
    """Looks at learners at the end of rounds; knows the held-out rows, which learners never see.

    Args:
        clients: of the run.
        rounds, every: score every so many rounds, and always in the last.
    """

    def __init__(self, clients: Sequence[Client], rounds: int, every: int) -> None:
        self._tests = {client.client_id: client.data.test for client in clients}
        self._rounds, self._every = rounds, every

    def observe(self, learner: Learner, round_index: int) -> Mapping[str, Any]:
        """Health of the learner and, when it is time, scores of its models."""
        seen: dict[str, Any] = dict(learner.health())
        if (round_index + 1) % self._every == 0 or round_index + 1 == self._rounds:
            seen["models"] = {name: asdict(scores) for name, scores in self.scores(learner).items()}
        return seen

    def scores(self, learner: Learner) -> Scores:
        """Scores of every model of a learner on its client's held-out rows."""
        test = self._tests[learner.client_id]
        return {
            name: score_ranking(np.argsort(-logits, axis=1, kind="stable")[:, :TOP_K], test.label, test.powers)
            for name, logits in learner.predict(model_inputs(test)).items()
        }


def baseline_scores(client: Client) -> Scores:
    """What repeating the last beam, and always naming the most frequent beams, would score."""
    train, test = client.data.train, client.data.test
    rankings = {
        "persistence": persistence_predictions(test, TOP_K),
        "majority": majority_predictions(train.label, len(test), test.n_beams, TOP_K),
    }
    return {name: score_ranking(ranking, test.label, test.powers) for name, ranking in rankings.items()}


def by_group(
    clients: Mapping[str, Sequence[Client]], scores: Mapping[NodeId, Scores]
) -> dict[str, dict[str, dict[str, float]]]:
    """Mean over the clients of every group: group -> model or baseline -> figures."""
    groups: dict[str, dict[str, dict[str, float]]] = {}
    for group, members in clients.items():
        seen = [scores[client.client_id] for client in members]
        groups[group] = {name: _mean(one[name] for one in seen) for name in seen[0]}
    return groups


def best_model(models: Mapping[str, Mapping[str, float]]) -> str:
    """Which model a group reports: the one with the best mean top-1, as the paper reports unimodal methods."""
    return max(models, key=lambda name: models[name]["top1"])


def _mean(members: Iterable[BeamScores]) -> dict[str, float]:
    rows = [asdict(member) for member in members]
    means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    return {**means, "top1_std": float(np.std([row["top1"] for row in rows]))}
