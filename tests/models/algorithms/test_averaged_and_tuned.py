"""Head averaging, then training alone: what is sent, what stays, and what is answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from integration.tiny import Walk, tiny, walk
from numpy.testing import assert_array_equal
from sheafedge.models.client_model import ClientModel
from sheafedge.models.joint.prediction_turn import predict
from sheafedge.models.model_pair import ModelPair

ROUNDS, UNTIL = 4, 2
RUN: dict[str, Any] = {"rounds": ROUNDS, "link.loss_probability": 0.2}


def pairs_of(walked: Walk) -> list[ModelPair]:
    found = [client.pair for client in walked.emulation.clients]
    assert all(pair is not None for pair in found)
    return [pair for pair in found if pair is not None]


def values(model: ClientModel) -> np.ndarray:
    return np.concatenate([value.detach().numpy().ravel() for value in model.state_dict().values()])


#: Algorithm -> the rule that it begins with.
BEGINS = {"averaged_and_tuned": "head_averaging", "diffused_and_tuned": "sheaf_diffusion"}


@pytest.fixture(scope="module", params=BEGINS)
def algorithm(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tuned(algorithm: str) -> Walk:
    return walk(tiny({**RUN, "algorithm": algorithm, "sharing.until": UNTIL}))


@pytest.mark.parametrize("rule", ["head_averaging", "dpsgd_adapt_then_combine", "dsgd", "sheaf_diffusion"])
def test_after_the_last_exchange_nothing_is_sent_and_training_goes_on(rule: str) -> None:
    whole = walk(tiny({**RUN, "algorithm": rule}))
    early = walk(tiny({**RUN, "algorithm": rule, "sharing.until": UNTIL}))
    sent = early.emulation.recorder.traffic.messages
    assert 2 * sent == whole.emulation.recorder.traffic.messages
    for client, before in early.states[UNTIL - 1].items():
        for part, there in whole.states[UNTIL - 1][client].items():
            assert_array_equal(before[part], there)
        assert any((before[part] != early.states[-1][client][part]).any() for part in before)


def test_the_tuned_model_is_that_of_the_rule_and_the_other_is_what_it_started_from(tuned: Walk, algorithm: str) -> None:
    alone = walk(tiny({**RUN, "algorithm": BEGINS[algorithm], "sharing.until": UNTIL}))
    averaged = walk(tiny({**RUN, "algorithm": BEGINS[algorithm], "rounds": UNTIL}))
    for pair, own, then in zip(pairs_of(tuned), alone.emulation.clients, averaged.emulation.clients, strict=True):
        assert_array_equal(values(pair.trained), values(own.models["fused"]))
        assert_array_equal(values(pair.kept), values(then.models["fused"]))
        assert (values(pair.kept) != values(pair.trained)).any()
    assert tuned.emulation.recorder.traffic.as_dict() == alone.emulation.recorder.traffic.as_dict()


def test_answers_are_means_of_probabilities(tuned: Walk) -> None:
    client, pair = tuned.emulation.clients[0], pairs_of(tuned)[0]
    inputs = client.data.test.inputs(np.arange(5))
    each = [torch.from_numpy(predict(model, inputs)).softmax(dim=1) for model in (pair.trained, pair.kept)]
    answer = torch.from_numpy(tuned.emulation.learners[0].predict(inputs)["fused"]).softmax(dim=1)
    torch.testing.assert_close(answer, (each[0] + each[1]) / 2)


def test_by_default_the_last_fifth_of_the_rounds_is_for_training_alone(algorithm: str) -> None:
    unset = walk(tiny({**RUN, "algorithm": algorithm}))
    same = walk(tiny({**RUN, "algorithm": algorithm, "sharing.until": ROUNDS - 1}))
    assert unset.trace_hash == same.trace_hash
    assert unset.trace_hash != walk(tiny({**RUN, "algorithm": BEGINS[algorithm]})).trace_hash
