"""How well the probabilities of trained models hold: figures of the summary, made as bundles make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from ..schema.scenario import Scenario
from ..tasks.calibration_fit import CalibrationScores, calibrated, label_output
from ..wiring.client import Client
from ..wiring.predictions import Predictions


def probability_scores(
    scenario: Scenario,
    members: Mapping[str, Sequence[Client]],
    predictions: Predictions,
    reported: Mapping[str, str],
) -> dict[str, Any]:
    """Calibration error and Brier score of every group, and of all clients; empty where a task has no labels.

    Args:
        scenario: scenario of the run.
        members: group -> its clients.
        predictions: answers of the trained models.
        reported: group -> name of the model that it reports.

    Returns:
        group, or "all", -> number of clients, and the mean over them of `CalibrationScores`. Clients with too few
        held-out samples are left out.
    """
    by_group = {group: _of_clients(scenario, own, predictions, reported[group]) for group, own in members.items()}
    known = {group: scores for group, scores in by_group.items() if scores}
    if not known:
        return {}
    return {
        "groups": {group: _mean(scores) for group, scores in known.items()},
        "all": _mean([one for scores in known.values() for one in scores]),
    }


def _of_clients(
    scenario: Scenario, clients: Sequence[Client], predictions: Predictions, name: str
) -> list[CalibrationScores]:
    task, found = scenario.task_spec, []
    for client in clients:
        outputs = task.outputs(scenario.data_of(client.group), client.data.test)
        if not outputs.labels:
            return []
        test, train = client.data.test, client.data.train
        output = label_output(outputs, train.label, balanced=scenario.training.class_weights == "balanced")
        logits = predictions.of({client.client_id: test})[client.client_id][name]
        found.append(calibrated(output, logits, test.label.astype(np.int64))[1])
    return [one for one in found if one is not None]


def _mean(scores: Sequence[CalibrationScores]) -> dict[str, Any]:
    return {
        "clients": len(scores),
        "ece": {"before": fmean(s.ece_before for s in scores), "after": fmean(s.ece_after for s in scores)},
        "brier": {"before": fmean(s.brier_before for s in scores), "after": fmean(s.brier_after for s in scores)},
    }
