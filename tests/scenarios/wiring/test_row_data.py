"""Rows of a data set from the scenario to learners: shares, scaling, shifts, every algorithm, and models that leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.table_rows import rows
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.rows.row_samples import RowSamples
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.model_layout import model_layout
from sheafedge.scenarios.export.bundles import export_bundles
from sheafedge.scenarios.export.export_source import ExportRequest
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate

N_OWNERS, N_ROWS = 4, 160
TINY = {
    "rounds": 2,
    "evaluate_every": 1,
    "clients.n_clients": N_OWNERS,
    "topology.kind": "complete",
    "network.transport": "memory",
    "compute.executor": "serial",
    "model.embedding_dim": 4,
    "model.hidden_dim": 6,
    "training.local_steps": 2,
    "export.onnx": False,
    "data.dataset": "file",
}
FLOAT32 = 1e-5
Own = Callable[..., Scenario]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of four owners, each with a linear question of its own, and images whose first row tells the class."""
    folder, draws = tmp_path_factory.mktemp("rows"), np.random.default_rng(5)
    x, owner = draws.normal(3.0, 2.0, (N_ROWS, 5)), np.arange(N_ROWS) % N_OWNERS
    values = np.einsum("ij,ij->i", x, draws.normal(size=(N_OWNERS, 5))[owner])
    np.savez(folder / "classes.npz", x=x, y=np.digitize(values, np.quantile(values, [0.3, 0.7])), owner=owner)
    np.savez(folder / "values.npz", x=x, y=1000.0 * values + 5e4, owner=owner)
    y = np.arange(N_ROWS) % 3
    images = draws.uniform(0, 50, (N_ROWS, 12, 12))
    images[np.arange(N_ROWS), 0, y] += 200.0
    np.savez(folder / "images.npz", x=images.astype(np.uint8), y=y)
    return folder


@pytest.fixture
def own(files: Path) -> Own:
    def made(name: str = "classes", **edits: Any) -> Scenario:
        task = "regression" if name == "values" else "classification"
        given = {key.replace("__", "."): value for key, value in edits.items()}
        return load_scenario("digits").edited({**TINY, "task": task, "data.root": str(files / f"{name}.npz"), **given})

    return made


def sides(scenario: Scenario) -> list[tuple[RowSamples, RowSamples]]:
    found = []
    for client in load_data(scenario).clients:
        assert isinstance(client.train, RowSamples)
        assert isinstance(client.test, RowSamples)
        found.append((client.train, client.test))
    return found


def test_owners_of_the_file_are_the_clients_and_three_quarters_of_their_rows_are_trained_on(own: Own) -> None:
    for client, (train, test) in enumerate(sides(own())):
        assert (len(train), len(test)) == (30, 10)
        assert set(np.concatenate([train.rows, test.rows]) % N_OWNERS) == {client}
        assert not set(train.rows) & set(test.rows)


def test_what_is_drawn_depends_on_the_seed_alone(own: Own) -> None:
    first, again, other = (
        [train.rows.tolist() for train, _ in sides(own("images", seed=seed, training__local_steps=steps))]
        for seed, steps in ((1, 1), (1, 2), (2, 1))
    )
    assert first == again
    assert first != other


def test_inputs_are_scaled_by_all_training_rows_or_by_the_own(own: Own) -> None:
    common, single = sides(own()), sides(own(data__scaling="own"))
    together = np.concatenate([train.inputs()["table"] for train, _ in common])
    for (train, test), (own_train, own_test) in zip(common, single, strict=True):
        assert train.scale is not None
        assert own_train.scale is not None
        assert own_test.scale is own_train.scale
        assert_allclose(train.scale[0], together.mean(axis=0), rtol=FLOAT32)
        assert test.scale is train.scale
        assert_allclose(own_train.scale[0], own_train.inputs()["table"].mean(axis=0), rtol=FLOAT32)


def test_values_are_scaled_alike_for_all_by_training_rows_only(own: Own) -> None:
    pairs = sides(own("values", data__scaling="own"))
    together = np.concatenate([train.truth for train, _ in pairs])
    assert {train.target for train, _ in pairs} == {test.target for _, test in pairs}
    assert pairs[0][0].target.mean == pytest.approx(together.mean())
    assert float(np.concatenate([train.label for train, _ in pairs]).std()) == pytest.approx(1.0, abs=FLOAT32)


def test_scarce_clients_keep_their_test_rows(own: Own) -> None:
    plain, scarce = sides(own()), sides(own(data__scarce=0.5, data__scarce_keeps=0.2))
    assert sorted(len(train) for train, _ in scarce) == [6, 6, 30, 30]
    for (_, test), (_, same) in zip(plain, scarce, strict=True):
        assert_array_equal(test.rows, same.rows)


def test_images_are_turned_by_client_and_only_images(own: Own) -> None:
    turned = sides(own("images", data__shift="rotation"))
    assert sorted(train.turns for train, _ in turned) == [0, 1, 2, 3]
    for (train, test), (plain, _) in zip(turned, sides(own("images")), strict=True):
        assert train.turns == test.turns
        expected = np.rot90(plain.inputs()["table"].reshape(-1, 12, 12), train.turns, axes=(1, 2))
        assert_array_equal(train.inputs()["table"].reshape(-1, 12, 12), expected)
    with pytest.raises(ConfigError, match=r"data.shift = 'rotation' turns square images, but .* has shape \[5\]"):
        load_data(own(data__shift="rotation"))


def test_what_only_the_data_can_tell_is_refused_in_one_sentence(own: Own) -> None:
    image = [{"name": "all", "modalities": ["image"], "share": 1.0}]
    with pytest.raises(ConfigError, match=r"modality 'image', but 'classes' holds rows of 5 columns; set modalities"):
        load_data(own(clients__groups=image))
    with pytest.raises(ConfigError, match=r"data.owners = 'natural', but 'images' names no owners; add them"):
        load_data(own("images", data__owners="natural"))
    with pytest.raises(ConfigError, match=r"clients.n_clients = 5, but the rows of 'classes' have 4 owners"):
        load_data(own(clients__n_clients=5))


@pytest.mark.parametrize("algorithm", rows())
def test_every_algorithm_learns_classes(algorithm: str, own: Own) -> None:
    assert_learns(own(algorithm=algorithm))


@pytest.mark.parametrize("algorithm", rows(name for name, one in ALGORITHMS.items() if not one.needs_classes))
@pytest.mark.parametrize("encoder", ["identity", "mlp"])
def test_every_algorithm_learns_values_with_a_linear_model_too(algorithm: str, encoder: str, own: Own) -> None:
    group = {"name": "all", "modalities": ["table"], "share": 1.0, "encoder": encoder}
    assert_learns(own("values", algorithm=algorithm, clients__groups=[group]))


def assert_learns(scenario: Scenario) -> None:
    seen: list[float] = []
    emulation = build(
        scenario,
        load_data(scenario).clients,
        lambda learner, _: dict(learner.health()),
        lambda _node, _round, _now, health: seen.extend([health["loss"]] if "loss" in health else []),  # no server's
    )
    try:
        emulate(emulation, scenario.rounds)
    finally:
        emulation.close()
    n_clients = scenario.clients.n_clients
    assert len(seen) == scenario.rounds * n_clients
    assert np.isfinite(seen).all()
    assert np.mean(seen[-n_clients:]) < np.mean(seen[:n_clients]) * 1.5


def test_a_run_scores_and_exports_as_any_other(own: Own, tmp_path: Path) -> None:
    scenario = own(export__onnx=True)
    result = run_scenario(scenario, tmp_path / "run")
    summary = result.summary
    assert "value" not in summary
    assert summary["pictures"] == []
    assert summary["split"] == "rows"
    (scores,) = summary["groups"].values()
    assert {"accuracy", "balanced_accuracy", "accuracy_std", "accuracy_worst_decile"} <= set(scores)
    assert scores["accuracy_worst_decile"] <= scores["accuracy"]
    assert set(summary["baselines"]["all"]) == {"majority"}
    assert summary["over_clients"]["accuracy_std"] == pytest.approx(scores["accuracy_std"])
    for row, client in zip(summary["exports"], load_data(scenario).clients, strict=True):
        session = OnnxSession(result.folder / row["path"])
        assert session.run({"table": client.test.inputs(slice(0, 3))["table"]}).shape == (3, 3)
        assert json.loads(session.metadata["labels"]) == ["0", "1", "2"]


def test_values_are_exported_with_the_way_back_to_their_unit(own: Own, tmp_path: Path) -> None:
    result = run_scenario(own("values", export__onnx=True), tmp_path / "run")
    (client, *_) = load_data(own("values")).clients
    session = OnnxSession(result.folder / result.summary["exports"][0]["path"])
    assert isinstance(client.test, RowSamples)
    target = client.test.target
    assert session.metadata["output"].endswith(f"the answer is {target.mean:.9g} + {target.std:.9g} * value")
    answers = client.test.values(session.run({"table": client.test.inputs()["table"]})[:, 0])
    mse = float(np.mean((answers - client.test.truth) ** 2))
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    last = next(row for row in rows if (row["round"], row["client"]) == (1, 0))
    assert mse == pytest.approx(last["models"]["fused"]["mse"], rel=1e-4)


def test_bundles_hold_classes_only(own: Own, tmp_path: Path) -> None:
    classes, values = (
        finished_run(run_scenario(own(name, export__onnx=True, rounds=1), tmp_path / name).folder)
        for name in ("classes", "values")
    )
    (made,) = export_bundles(classes, [ExportRequest(clients=(0,), archives=False)])
    manifest = load_bundle(made.folder, trial=None).manifest
    assert (manifest.modalities, manifest.output.labels) == (("table",), ("0", "1", "2"))
    assert set(made.evidence.scores) == {"held out"}
    with pytest.raises(ConfigError, match=r"are classes or forecasts of outage, but task 'regression' asks for values"):
        export_bundles(values, [ExportRequest(clients=(0,))])
    assert not (values.folder / "bundles").is_dir() or not list((values.folder / "bundles").glob("*client*"))


def test_convolutions_of_unequal_sizes_stay_apart_and_learn(own: Own) -> None:
    groups = [
        {"name": name, "modalities": ["image"], "share": 0.5, "encoder": encoder}
        for name, encoder in (("small", "cnn_fmtl_small"), ("large", "cnn_fmtl"))
    ]
    apart = {"training__personal_encoders": ["image"], "training__head_step_size": 0.01}
    assert_learns(own("images", clients__groups=groups, **apart))


def test_whole_models_of_one_input_hold_encoder_and_head_and_nothing_else(own: Own) -> None:
    """Fusions weigh inputs: of one there is nothing to weigh, to couple or to send."""
    encoders = {"mlp": 5 * 6 + 6 + 6 * 4 + 4, "identity": 0}
    for encoder, n_encoder in encoders.items():
        groups = [{"name": "all", "modalities": ["table"], "share": 1.0, "encoder": encoder}]
        clients = build_of(own(algorithm="sheaf_fmtl", clients__groups=groups)).clients
        width = 4 if encoder == "mlp" else 5
        assert {model_layout(client.models["fused"]).dim for client in clients} == {n_encoder + 3 * (width + 1)}


#: Scenario -> folder of its data, and the parameters of its models as the paper of Sheaf-FMTL counts them.
SHIPPED = {
    "school": ("school", {29}),
    "wisdm": ("wisdm", {264}),
    "rotated_mnist": ("mnist", {34_826}),
    "rotated_mnist_sizes": ("mnist", {27_210, 22_666, 212_146}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_of_rows_learn_and_couple_models_of_known_sizes(
    name: str, data_folder: Callable[[str], Path]
) -> None:
    folder, sizes = SHIPPED[name]
    few = {key: value for key, value in TINY.items() if key not in {"data.dataset", "training.local_steps"}}
    n_clients = {"clients.n_clients": 6, "data.train_fraction": 0.05} if folder == "mnist" else {}
    scenario = load_scenario(name).edited(
        {**few, "clients.n_clients": 12, **n_clients, "data.root": str(data_folder(folder))}
    )
    assert {model_layout(client.models["fused"]).dim for client in build_of(scenario).clients} == sizes
    assert_learns(scenario)


def build_of(scenario: Scenario) -> Emulation:
    return build(scenario, load_data(scenario).clients, lambda _learner, _round: {}, lambda _observation: None)
