"""Answers of trained models: each is computed once, whoever asks for it, and belongs to its own client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import Learner
from sheafedge.emulator.nodes.compute_pool import ComputePool, SerialPool, ThreadPool
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.predictions import Predictions


def summed(inputs: Mapping[Any, NDArray[Any]]) -> NDArray[Any]:
    return np.stack([rows.sum(axis=(1, 2)) for rows in inputs.values()]).sum(axis=0)[:, None]


@dataclass
class Adds:
    """Answers with the sum of its inputs and its own number."""

    client_id: int
    asked: list[int] = field(default_factory=list)

    def predict(self, inputs: Mapping[Any, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        logits = summed(inputs) + self.client_id
        self.asked.append(len(logits))
        return {"fused": logits}


@pytest.fixture(scope="module")
def rows(tiny: Scenario) -> list[ClientData]:
    return load_data(tiny).clients


@pytest.fixture(params=[SerialPool, lambda: ThreadPool(2)], ids=["serial", "threads"])
def pool(request: pytest.FixtureRequest) -> Iterator[ComputePool]:
    made = request.param()
    yield made
    made.close()


def test_samples_are_predicted_once_for_all_who_ask(rows: list[ClientData], pool: ComputePool) -> None:
    learners = [Adds(index) for index in range(3)]
    predictions = Predictions(cast("list[Learner]", learners), pool)
    tests = {index: rows[index].test for index in (2, 0, 1)}
    first, some = predictions.of(tests), predictions.of({1: tests[1]})
    assert list(first) == [2, 0, 1]
    assert some[1] is first[1]
    for index, one in tests.items():
        assert sum(learners[index].asked) == len(one)
        assert_array_equal(first[index]["fused"], summed(one.inputs()) + index)


def test_other_samples_of_a_client_are_answered_anew(rows: list[ClientData], pool: ComputePool) -> None:
    """Also where a table of samples that is gone has left its place in memory to the next."""
    predictions = Predictions(cast("list[Learner]", [Adds(0)]), pool)
    for n in (5, 3, 4):
        some = rows[0].test.take(np.arange(n))
        assert len(predictions.of({0: some})[0]["fused"]) == n
