"""Sheaf-DMFL-Att with class means: the same learner but for the penalty, and embeddings of a class come together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from integration.tiny import Walk, tiny, walk, wired
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.client_model import ClientModel
from torch import Tensor

RUN: dict[str, Any] = {"algorithm": "sheaf_prototypes", "rounds": 8}


def test_without_pull_it_is_sheaf_dmfl_att_to_the_bit() -> None:
    """And with it, it is not."""
    plain = walk(tiny({**RUN, "algorithm": "sheaf_dmfl_att"})).states[-1]
    for pull, equal in ((0.0, True), (1.0, False)):
        found = walk(tiny({**RUN, "training.prototype_pull": pull})).states[-1]
        for client, state in found.items():
            learned = {name: values for name, values in plain[client].items() if not name.startswith("map to")}
            assert all(torch.equal(values, state[name]) for name, values in learned.items()) is equal


def fused_of(model: ClientModel, inputs: Any) -> Tensor:
    with torch.no_grad():
        return model.fusion(model.embeddings(model.tensors(inputs)))


def scatter(walked: Walk) -> float:
    """Mean squared distance of training rows to the mean of their class over all clients."""
    fused, labels = [], []
    for client in walked.emulation.clients:
        rows = client.data.train
        fused.append(fused_of(client.models["fused"], rows.inputs()))
        labels.append(torch.from_numpy(rows.label))
    features, label = torch.cat(fused), torch.cat(labels)
    within = sum(
        float((features[label == k] - features[label == k].mean(dim=0)).square().sum()) for k in label.unique()
    )
    return within / len(features)


def test_what_heads_read_of_a_class_is_drawn_together_across_clients() -> None:
    drawn, free = (scatter(walk(tiny({**RUN, "training.prototype_pull": pull}))) for pull in (4.0, 0.0))
    assert drawn < 0.8 * free


def test_the_means_travel_once_per_neighbor_and_round_with_the_encoders() -> None:
    walked = wired(tiny(RUN))
    learner, graph = walked.emulation.learners[0], walked.emulation.graph
    for phase in learner.phases(0):
        means = [m for m in learner.compute(phase.name, 0) if m.kind == "prototypes"]
        receivers = sorted(m.receiver for m in means)
        assert receivers == (sorted(graph[0]) if phase.name == "mix" else [])
        assert {m.payload.size for m in means} <= {8 * (4 + 1)}  # classes times features and a count


def test_heads_that_read_different_things_have_no_class_means_in_common() -> None:
    with pytest.raises(ConfigError, match=r"'sheaf_prototypes' averages heads or what they read, .* use 'sheaf_dmfl'"):
        wired(tiny({**RUN, "model.fusion": "concat"}))
