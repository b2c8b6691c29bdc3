"""Hand-out as ONNX: the file computes what the client computes, for any batch, and says what a stranger must know."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.mlp import window_mlp
from sheafedge.models.encoders.normalize import RelativePower, StandardizePosition
from sheafedge.models.export import traced_parts as tracing
from sheafedge.models.export.deployed_model import DeployedModel
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.flat import FlatModule
from sheafedge.models.native_norms import NativeBatchNorm2d
from torch import nn

RUNTIMES = 1e-4  # the project's promise for float32; one summation order against another
ROUNDING = 1e-5  # float32 in one library, summed in another order
N_OUTPUTS = 8
SHAPES: dict[Modality, tuple[int, ...]] = {"gps": (4, 2), "rf": (4, 8)}  # not in canonical order, on purpose
METADATA = {"client": "0", "labels": '["beam 0", "beam 1"]', "empty": ""}

Rows = dict[str, np.ndarray]


def physical_rows(n_rows: int, seed: int = 0) -> Rows:
    """Positions in metres and powers in dB."""
    rng = np.random.default_rng(seed)
    return {
        "gps": rng.normal(30.0, 10.0, size=(n_rows, 4, 2)).astype(np.float32),
        "rf": rng.normal(-60.0, 8.0, size=(n_rows, 4, 8)).astype(np.float32),
    }


def client(seed: int, modalities: tuple[Modality, ...] = ("rf", "gps"), fusion: str = "attention") -> ClientModel:
    """A client as training leaves it: encoders live on flat vectors, no value is special."""
    rows = physical_rows(50, seed)
    encoders = {m: window_mlp(SHAPES[m], hidden_dim=6, embedding_dim=5) for m in modalities}
    made: dict[Modality, nn.Module] = {"gps": StandardizePosition(rows["gps"]), "rf": RelativePower(rows["rf"])}
    model = ClientModel(made, encoders, fusion=fusion, embedding_dim=5, n_outputs=N_OUTPUTS)
    flats = [FlatModule(encoder) for encoder in encoders.values()]
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for values in [*(flat.vector for flat in flats), model.head, *model.fusion.parameters()]:
            values.copy_(torch.randn(values.shape, generator=draws))
    return model


def logits_of(model: ClientModel, rows: Mapping[str, np.ndarray]) -> np.ndarray:
    with torch.no_grad():
        return model({name: torch.from_numpy(values) for name, values in rows.items()}).numpy()


@dataclass(frozen=True)
class Handout:
    """Clients with their files."""

    exporter: OnnxExporter
    models: list[ClientModel]
    paths: list[Path]
    before: list[dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def handout(tmp_path_factory: pytest.TempPathFactory) -> Handout:
    """Two clients of one architecture; tracing takes seconds, so all tests share it."""
    folder, exporter = tmp_path_factory.mktemp("models"), OnnxExporter()
    models = [client(1), client(2)]
    before = [copy.deepcopy(dict(model.state_dict())) for model in models]
    paths = [folder / f"client-{index}.onnx" for index in range(2)]
    for index, (model, path) in enumerate(zip(models, paths, strict=True)):
        exporter.export(model, SHAPES, path, METADATA | {"client": str(index)})
    return Handout(exporter, models, paths, before)


@pytest.fixture(scope="module")
def sessions(handout: Handout) -> list[OnnxSession]:
    return [OnnxSession(path) for path in handout.paths]


# --- the model as a device runs it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["attention", "attention_mlp", "concat", "mean"])
@pytest.mark.parametrize("modalities", [("rf", "gps"), ("gps", "rf"), ("gps",), ("rf",)])
def test_a_deployed_model_computes_what_its_client_computes(modalities: tuple[Modality, ...], fusion: str) -> None:
    model, rows = client(3, modalities, fusion), physical_rows(9)
    deployed = DeployedModel(model).eval()
    inputs = [torch.from_numpy(rows[m]) for m in model.modalities]
    present = [torch.ones(1, 2)] if len(modalities) > 1 else []
    with torch.no_grad():
        logits, shares = deployed(*inputs, *present)
    assert_allclose(logits.numpy(), logits_of(model, rows), atol=ROUNDING, rtol=0.0)
    if len(modalities) == 1 or fusion == "concat":
        assert shares is None
    else:
        assert_allclose(shares.sum(dim=1), np.ones(9), atol=ROUNDING, rtol=0.0)


@pytest.mark.parametrize("fusion", ["attention", "attention_mlp", "mean"])
def test_a_model_that_lost_a_modality_answers_as_if_it_had_never_had_it(fusion: str) -> None:
    """The softmax over what is left is that of a client with what is left; the head stays the same."""
    model, rows = client(3, fusion=fusion), physical_rows(4)
    deployed = DeployedModel(model).eval()
    rf, gps = (torch.from_numpy(rows[m]) for m in ("rf", "gps"))
    with torch.no_grad():
        logits, shares = deployed(rf, torch.zeros_like(gps), torch.tensor([[1.0, 0.0]]))
        alone = model.read(model.encoders["rf"](model.normalizers["rf"](rf)))
    assert_allclose(logits, alone, atol=ROUNDING, rtol=0.0)
    assert_array_equal(shares, [[1.0, 0.0]] * 4)


def test_a_model_of_embeddings_side_by_side_sees_nothing_where_a_modality_is_missing() -> None:
    model, rows = client(3, fusion="concat"), physical_rows(4)
    deployed = DeployedModel(model).eval()
    rf = torch.from_numpy(rows["rf"])
    with torch.no_grad():
        found = [
            deployed(rf, noise, torch.tensor([[1.0, 0.0]]))[0] for noise in (torch.zeros(4, 4, 2), torch.ones(4, 4, 2))
        ]
        expected = model.read(torch.cat([model.encoders["rf"](model.normalizers["rf"](rf)), torch.zeros(4, 5)], dim=1))
    assert_array_equal(found[0], found[1])
    assert_allclose(found[0], expected, atol=ROUNDING, rtol=0.0)


def test_a_deployed_model_owns_its_values() -> None:
    """Casting or freezing it for a device must not touch what the client trains on."""
    model, rows = client(3).double(), physical_rows(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    deployed = DeployedModel(model).float().eval()
    for values in deployed.state_dict().values():
        values.zero_()
    assert all(value.dtype == torch.float64 for value in model.state_dict().values())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert np.isfinite(logits_of(model, {name: values.astype(np.float64) for name, values in rows.items()})).all()


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7])
def test_the_file_computes_what_the_client_computes_for_any_batch(
    handout: Handout, sessions: list[OnnxSession], batch: int
) -> None:
    rows = physical_rows(batch, seed=20)
    for model, session in zip(handout.models, sessions, strict=True):
        found = session.run(rows)
        assert found.shape == (batch, N_OUTPUTS)
        assert_allclose(found, logits_of(model, rows), atol=RUNTIMES, rtol=0.0)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("index", [0, 1])
def test_a_batch_of_no_samples_gets_an_empty_answer(sessions: list[OnnxSession], index: int, rows: int) -> None:
    """Before 1.32 onnxruntime reduces nothing at axis -1 where there are no samples."""
    present = np.ones((rows, 2), np.float32)
    logits, attention = sessions[index].answer({**physical_rows(0), "present": present})
    assert attention is not None
    assert (logits.shape, attention.shape) == ((0, N_OUTPUTS), (0, 2))


def test_the_file_says_how_much_each_modality_counts_and_does_without_one(
    handout: Handout, sessions: list[OnnxSession]
) -> None:
    """Row by row: a batch may mix whoever lost something with whoever did not."""
    rows, present = physical_rows(3, seed=20), np.array([[1, 1], [1, 0], [0, 1]], np.float32)
    for model, session in zip(handout.models, sessions, strict=True):
        assert session.optional_names == ["present"]
        tensors = model.tensors({"gps": rows["gps"], "rf": rows["rf"]})
        with torch.no_grad():
            embeddings = model.embeddings(tensors)
            fused, shares = model.fusion.masked(embeddings, torch.from_numpy(present))
            expected = model.read(fused)
        logits, found = session.answer({**rows, "present": present})
        assert_allclose(logits, expected, atol=RUNTIMES, rtol=0.0)
        assert found is not None
        assert_allclose(found, shares, atol=RUNTIMES, rtol=0.0)
        assert_array_equal(found[1:], [[1.0, 0.0], [0.0, 1.0]])
        assert_allclose(session.run(rows)[0], logits[0], atol=RUNTIMES, rtol=0.0)


def test_two_clients_of_one_architecture_get_their_own_numbers(handout: Handout, sessions: list[OnnxSession]) -> None:
    rows = physical_rows(7, seed=20)
    first, second = (session.run(rows) for session in sessions)
    assert np.abs(first - second).max() > 1000 * RUNTIMES
    kept = [
        onnx.numpy_helper.to_array(t) for t in onnx.load(handout.paths[1]).graph.initializer if t.name == "head.bias"
    ]
    assert_array_equal(kept[0], handout.models[1].head.detach()[-N_OUTPUTS:])


@pytest.mark.slow
def test_attention_of_two_layers_leaves_as_a_file_too(tmp_path: Path) -> None:
    exporter, rows = OnnxExporter(), physical_rows(5)
    for seed in (1, 2):  # the second one is filled into the graph of the first
        model, path = client(seed, fusion="attention_mlp"), tmp_path / f"{seed}.onnx"
        exporter.export(model, SHAPES, path, {})
        assert_allclose(OnnxSession(path).run(rows), logits_of(model, rows), atol=RUNTIMES, rtol=0.0)
    assert len(exporter._traced) == 3  # two encoders, and what reads them


def test_an_architecture_is_traced_once(handout: Handout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("traced again")

    monkeypatch.setattr(tracing, "_traced", refuse)
    third = client(7)
    handout.exporter.export(third, SHAPES, tmp_path / "third.onnx", {})
    rows = physical_rows(2)
    assert_allclose(OnnxSession(tmp_path / "third.onnx").run(rows), logits_of(third, rows), atol=RUNTIMES, rtol=0.0)
    for other in (client(7, fusion="mean"), client(7, ("gps",))):  # another fusion, and one of fewer modalities
        with pytest.raises(AssertionError, match="traced again"):
            handout.exporter.export(other, SHAPES, tmp_path / "other.onnx", {})


def test_what_is_present_is_an_input_like_any_other(handout: Handout, sessions: list[OnnxSession]) -> None:
    """Runtimes take an input with a default for a constant; our session fills in ones where nobody says anything."""
    assert "present" not in {tensor.name for tensor in onnx.load(handout.paths[0]).graph.initializer}
    rows = physical_rows(3)
    assert (sessions[0].input_names, sessions[0].optional_names) == (["rf", "gps"], ["present"])
    assert_array_equal(sessions[0].run(rows), sessions[0].run({**rows, "present": np.ones((3, 2), np.float32)}))
    lost = sessions[0].run({**rows, "present": np.array([[1.0, 0.0]], np.float32)})
    assert float(np.abs(lost - sessions[0].run(rows)).max()) > RUNTIMES


def test_a_file_of_before_whose_present_has_a_default_answers_alike(handout: Handout) -> None:
    before = onnx.load(handout.paths[0])
    before.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 2), np.float32), "present"))
    old, new = OnnxSession(before.SerializeToString()), OnnxSession(handout.paths[0])
    assert (old.input_names, old.optional_names) == (new.input_names, new.optional_names)
    rows = physical_rows(3)
    for given in (rows, {**rows, "present": np.array([[0.0, 1.0]], np.float32)}):
        assert_array_equal(old.run(given), new.run(given))


def test_inputs_have_names_and_a_free_batch(handout: Handout, sessions: list[OnnxSession]) -> None:
    graph = onnx.load(handout.paths[0]).graph
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in [*graph.input, *graph.output]
    }
    assert list(shapes) == ["rf", "gps", "present", "logits", "attention"]  # canonical order
    # names, not numbers; `present` may have one row for any batch
    assert {name: shape[0] for name, shape in shapes.items()} == {
        **dict.fromkeys(shapes, "batch"),
        "present": "batch_or_1",
    }
    assert {name: shape[1:] for name, shape in shapes.items()} == {
        "rf": [4, 8],
        "gps": [4, 2],
        "present": [2],
        "logits": [N_OUTPUTS],
        "attention": [2],
    }
    assert sessions[0].input_names == ["rf", "gps"]


def test_metadata_can_be_read_from_the_file(handout: Handout, sessions: list[OnnxSession]) -> None:
    for index, (path, session) in enumerate(zip(handout.paths, sessions, strict=True)):
        expected = METADATA | {"client": str(index)}
        assert {entry.key: entry.value for entry in onnx.load(path).metadata_props} == expected
        assert session.metadata == expected


def test_the_session_tells_the_provider_that_runs_it(sessions: list[OnnxSession]) -> None:
    assert sessions[0].provider == "CPUExecutionProvider"


def test_inputs_are_in_physical_units(handout: Handout, sessions: list[OnnxSession]) -> None:
    """Normalisation is inside: a receiver with another gain changes nothing, another position does."""
    rows = physical_rows(3)
    plain = sessions[0].run(rows)
    assert_allclose(sessions[0].run(rows | {"rf": rows["rf"] + 20.0}), plain, atol=RUNTIMES)
    assert np.abs(sessions[0].run(rows | {"gps": rows["gps"] + 20.0}) - plain).max() > 1000 * RUNTIMES


def test_handing_out_leaves_the_client_as_it_was(handout: Handout) -> None:
    for model, before in zip(handout.models, handout.before, strict=True):
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
        assert all(module.training for module in model.modules())


def test_values_that_look_like_constants_are_kept_apart(handout: Handout, tmp_path: Path) -> None:
    """Zero biases, a spread of exactly 1, equal scores: the tracer merges or drops such values if it sees them."""
    plain, rows = client(4), physical_rows(5)
    with torch.no_grad():
        for modality in plain.modalities:
            plain.encoders[modality][1].bias.zero_()
            plain.encoders[modality][3].bias.zero_()
        plain.fusion.scoring.zero_()
        plain.normalizers["rf"].std_db.fill_(1.0)
        plain.normalizers["gps"].std_m.fill_(1.0)
        plain.normalizers["gps"].mean_m.zero_()
    other, exporter = client(5), OnnxExporter()
    for name, model in (("plain", plain), ("other", other)):
        exporter.export(model, SHAPES, tmp_path / name, {})
        found = OnnxSession(tmp_path / name).run(rows)
        assert_allclose(found, logits_of(model, rows), atol=RUNTIMES, rtol=0.0)


class DoubleBias(nn.Module):
    """What the exporter's optimizer folds: a function of a parameter is one constant to it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 5)
        self.extra = nn.Parameter(torch.ones(5))

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        return self.linear(positions[:, -1]) + self.extra.exp()


def double_bias(seed: int) -> ClientModel:
    encoder = DoubleBias()
    model = ClientModel({"gps": nn.Identity()}, {"gps": encoder}, fusion="mean", embedding_dim=5, n_outputs=N_OUTPUTS)
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for values in (encoder.linear.weight, encoder.extra, model.head):
            values.copy_(torch.randn(values.shape, generator=draws))
    return model


@pytest.mark.slow
def test_what_the_optimizer_would_fold_is_exported_unoptimized(tmp_path: Path) -> None:
    exporter, rows = OnnxExporter(), {"gps": physical_rows(6)["gps"]}
    for seed in range(2):
        model = double_bias(seed)
        exporter.export(model, SHAPES, tmp_path / f"{seed}.onnx", {})
        found = OnnxSession(tmp_path / f"{seed}.onnx").run(rows)
        assert_allclose(found, logits_of(model, rows), rtol=RUNTIMES, atol=RUNTIMES)


def test_a_value_that_cannot_be_found_in_the_graph_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tracing._traced
    monkeypatch.setattr(tracing, "_traced", lambda parts, **_: trace(parts, optimize=True))
    with pytest.raises(RuntimeError, match=r"'encoders\.gps\.extra'"):
        OnnxExporter().export(double_bias(0), SHAPES, tmp_path / "folded.onnx", {})
    assert not (tmp_path / "folded.onnx").exists()


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, NativeBatchNorm2d])  # the second of models that a GPU trained
def test_a_normalization_right_behind_a_convolution_reaches_the_file(tmp_path: Path, norm: type[nn.Module]) -> None:
    """As in a ResNet that is tuned: the exporter's optimizer would fold one client's statistics into the graph."""
    exporter = OnnxExporter()
    rows = np.random.default_rng(0).normal(size=(5, 3, 8, 8)).astype(np.float32)
    for seed in range(2):
        encoder = nn.Sequential(nn.Conv2d(3, 4, 3), norm(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
        model = ClientModel({"camera": nn.Identity()}, {"camera": encoder}, fusion="mean", embedding_dim=5, n_outputs=2)
        model.head.data.normal_()
        model({"camera": torch.from_numpy(3.0 * rows + seed)})  # moves the running statistics
        model.eval()
        path = tmp_path / f"{seed}.onnx"
        exporter.export(model, {"camera": (3, 8, 8)}, path, METADATA)
        assert_allclose(OnnxSession(path).run({"camera": rows}), logits_of(model, {"camera": rows}), atol=RUNTIMES)
