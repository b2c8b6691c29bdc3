"""Clients that start with the weights of another run: they answer as it did, and what does not fit is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sheafedge import RunResult, load_run, load_scenario, run_scenario
from sheafedge.emulator.contracts import DataError, ScenarioError

#: Answers of a model whose weights were taken differ by the rounding of float32 alone.
ROUNDING = 1e-5
ROWS: dict[str, Any] = {
    "data.root": "",
    "data.train_fraction": 0.2,
    "clients.n_clients": 2,
    "topology.kind": "complete",
    "rounds": 2,
    "network.transport": "memory",
    "export.report": False,
    "export.pictures": 0,
    "evaluate_every": 1,
}
STILL = {"rounds": 1, "training.head_step_size": 0.0, "training.encoder_step_size": 0.0}


def played(out: Path, **edits: Any) -> RunResult:
    return run_scenario(load_scenario("digits").edited({**ROWS, **edits}), out)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("trained") / "run"
    played(folder, algorithm="local", **{"clients.groups": MLP})
    return folder


MLP = [{"name": "table", "modalities": ["table"], "share": 1.0, "encoder": "mlp"}]


def logits(folder: Path, client: int) -> np.ndarray:
    model = load_run(folder).model(client)
    ((name, said),) = model.inputs.items()
    return model.logits({name: np.random.default_rng(0).normal(4.0, 4.0, (9, *said["shape"]))})


@pytest.mark.parametrize("algorithm", ["local", "fedavg", "dpsgd", "ditto_decentralized", "sheaf_dmfl_att"])
def test_without_a_step_clients_answer_as_those_that_they_start_from(
    algorithm: str, trained: Path, tmp_path: Path
) -> None:
    """Client k takes the model of client k; algorithms that average start from one of them."""
    start = trained if algorithm == "local" else trained / "weights" / "client-01.safetensors"
    edits = {**STILL, "model.start_from": str(start), "clients.groups": MLP}
    played(tmp_path / "r", algorithm=algorithm, **edits)
    for client in range(2):
        expected = logits(trained, client if algorithm == "local" else 1)
        assert np.abs(logits(tmp_path / "r", client) - expected).max() <= ROUNDING * np.abs(expected).max()
    assert np.abs(logits(trained, 0) - logits(trained, 1)).max() > 0.1, "the two differ, or nothing was compared"


def test_the_seed_in_a_path_is_that_of_the_run_and_training_goes_on_from_there(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "of-7").symlink_to(trained)
    edits = {"model.start_from": str(tmp_path / "of-{seed}"), "clients.groups": MLP, "seed": 7}
    played(tmp_path / "still", algorithm="local", **{**edits, **STILL})
    played(tmp_path / "on", algorithm="local", **edits)
    still, on = logits(tmp_path / "still", 0), logits(tmp_path / "on", 0)
    assert np.abs(still - logits(trained, 0)).max() <= ROUNDING * np.abs(still).max()
    assert np.abs(on - still).max() > ROUNDING


def test_scaling_of_inputs_can_stay_the_clients_own(trained: Path, tmp_path: Path) -> None:
    edits = {**STILL, "model.start_from": str(trained), "clients.groups": MLP, "data.scaling": "own", "seed": 3}
    answers = []
    for scaling in ("kept", "own"):
        played(tmp_path / scaling, algorithm="local", **{**edits, "model.start_scaling": scaling})
        answers.append(logits(tmp_path / scaling, 0))
    expected = logits(trained, 0)
    assert np.abs(answers[0] - expected).max() <= ROUNDING * np.abs(expected).max()
    assert np.abs(answers[1] - expected).max() > 1e-3


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another width": ({"model.embedding_dim": 16}, r"has '.*' of shape \[.*\], the model of this scenario has finite"),
    "another encoder": ({"clients.groups": [{**MLP[0], "encoder": "identity"}]}, "of shape|no weight"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_weights_that_do_not_fit_are_refused_by_name(case: str, trained: Path, tmp_path: Path) -> None:
    edits, words = REFUSED[case]
    with pytest.raises(DataError, match=words) as refused:
        played(tmp_path / "r", algorithm="local", **{"model.start_from": str(trained), "clients.groups": MLP, **edits})
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "r").exists()


def test_what_holds_no_model_is_refused(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("weights")
    for name, words in (("empty", "holds no trained weights at"), ("text", "holds no weights")):
        start = {"model.start_from": str(tmp_path / name), "clients.groups": MLP}
        with pytest.raises(DataError, match=words):
            played(tmp_path / "r", algorithm="local", **start)
    with pytest.raises(ScenarioError, match="nowhere', which is not here"):
        played(tmp_path / "r", algorithm="local", **{"model.start_from": str(tmp_path / "nowhere")})


def test_inputs_that_no_model_there_has_are_refused(trained: Path, tmp_path: Path) -> None:
    scenario = load_scenario("beam_tracking").edited(
        {
            "world.n_sites": 2,
            "world.duration_s": 100,
            "clients.n_clients": 2,
            "topology.kind": "complete",
            "model.start_from": str(trained),
            "clients.groups": [{"name": "gps", "modalities": ["gps"], "share": 1.0}],
        }
    )
    with pytest.raises(DataError, match=r"no model of gps, which client 0 owns; .*client-00.safetensors is of table"):
        run_scenario(scenario, tmp_path / "r")
