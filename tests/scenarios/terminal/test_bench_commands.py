"""`sheafedge bench` where torch is: the model rebuilt from its bundle is the model that was exported, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tomli_w
import torch
from doubles.plugin_files import write_own
from sheafedge.emulator.contracts import ConfigError, InputWindow
from sheafedge.emulator.edge.bench_bundles import Entry, open_entries
from sheafedge.emulator.edge.bundle import write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.commands.bench_commands import TorchModel
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.emulator.edge.golden_samples import golden_file
from sheafedge.emulator.edge.manifest import Golden, InputSpec, Manifest, OutputSpec, Runtime
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.edge.profile_file import read_profile
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.scenarios.export.torch_answers import rebuild
from sheafedge.scenarios.plugins.loading import unload
from sheafedge.scenarios.running.run_folder import RunFolder
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.terminal.cli import main
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build
from sheafedge.scenarios.wiring.members import client_devices

BOTH = [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]
ROWS, TOLERANCE = 3, 1e-4  # the project's promise for float32


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Measuring sets the threads of torch for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A client's bundle."""
    return bundle_of(tiny, tmp_path_factory.mktemp("bundles"))


def bundle_of(scenario: Scenario, folder: Path) -> Path:
    """The bundle of a client that was not trained: what it computes is as good as anything."""
    scenario = scenario.edited({"clients.groups": BOTH, "clients.n_clients": 2})
    path = folder / "model.onnx"
    with closing(build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)) as emulation:
        client = emulation.clients[1]
        model = client.answering("fused")
        rows = client.data.test.inputs(np.arange(ROWS))
        inputs = {str(one): np.asarray(rows[one], np.float32) for one in model.modalities}
        draws = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for name, values in model.named_parameters():
                if "encoders" not in name:  # heads and fusions start as zeros
                    values.copy_(torch.randn(values.shape, generator=draws))
        OnnxExporter().export(model, {one: rows[one].shape[1:] for one in model.modalities}, path, {})
    logits = OnnxSession(path).run(inputs)
    manifest = Manifest(
        name="tiny-client-01",
        created_by="a test",
        task="beam_tracking",
        question="Which beam?",
        precision="float32",
        runtime=Runtime(20, 10, "1.20"),
        inputs=tuple(InputSpec(InputWindow(one), s, 10.0, "", "") for one, s in _shapes(inputs)),  # type: ignore[arg-type]
        output=OutputSpec("classes", tuple(f"beam {index}" for index in range(8)), "best beam"),
        flops=1e4,
        parameters=1,
        trained={"client": 1, "group": "both"},
        metrics={},
        golden=Golden(ROWS, TOLERANCE),
    )
    content = {
        "model.onnx": path.read_bytes(),
        "samples.npz": golden_file(inputs, logits),
        "README.md": b"",
        "scenario.toml": tomli_w.dumps(scenario.tables()).encode(),
    }
    write_bundle(folder / "tiny", manifest, content)
    return folder / "tiny"


def _shapes(inputs: dict[str, np.ndarray]) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, values.shape[1:]) for name, values in inputs.items()]


def altered(source: Path, target: Path, **content: bytes | None) -> Entry:
    """The entry of a bundle with other files; None leaves one out."""
    manifest, files = read_bundle(source)
    for name, data in content.items():
        files[name.replace("_", ".")] = data  # type: ignore[assignment]
    kept = {name: data for name, data in files.items() if data is not None}
    write_bundle(target, replace(manifest, files={}), kept)
    return opened(target)


def opened(path: Path, batch: int = 1) -> Entry:
    (entry,) = open_entries([path], batch=batch, threads=1, cuda=False)
    return entry


def scenario_of(path: Path, edits: dict[str, Any]) -> bytes:
    scenario = load_scenario(str(path / "scenario.toml")).edited(edits)
    return tomli_w.dumps(scenario.tables()).encode()


# --- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 5])
def test_the_rebuilt_model_is_the_one_that_was_exported(made: Path, batch: int) -> None:
    entry = opened(made, batch)
    found = rebuild(entry, 1)
    assert isinstance(found, TorchModel)
    assert found.runtime == f"torch {torch.__version__}"
    logits = found.answer()
    assert isinstance(logits, torch.Tensor)
    assert logits.shape == (batch, 8)
    np.testing.assert_allclose(logits.numpy(), entry.bundle.session.run(entry.inputs), atol=TOLERANCE)
    assert float(logits.std()) > 0.1  # not all alike
    assert not logits.requires_grad


@pytest.mark.slow
def test_a_pair_of_models_is_rebuilt_too(tiny: Scenario, tmp_path: Path, one_thread: None) -> None:
    entry = opened(bundle_of(tiny.edited({"algorithm": "averaged_and_tuned"}), tmp_path), batch=ROWS)
    assert "tuned" in (entry.bundle.content["scenario.toml"]).decode()
    found = rebuild(entry, 1)
    assert isinstance(found, TorchModel)
    expected = entry.bundle.session.run(entry.inputs)
    np.testing.assert_allclose(found.answer(), expected, atol=TOLERANCE)  # type: ignore[arg-type]


def test_a_bundle_without_its_scenario_has_no_row_of_torch(made: Path, tmp_path: Path) -> None:
    assert rebuild(altered(made, tmp_path / "b", scenario_toml=None), 1) == "the bundle holds no scenario.toml"


@pytest.mark.parametrize(
    "edits",
    [{"model.hidden_dim": 9}, {"model.embedding_dim": 5}, {"clients.groups": [{**BOTH[0], "name": "other"}]}],
    ids=["another width", "another embedding", "no such group"],
)
def test_a_scenario_of_another_model_is_told(made: Path, tmp_path: Path, edits: dict[str, Any]) -> None:
    found = rebuild(altered(made, tmp_path / "b", scenario_toml=scenario_of(made, edits)), 1)
    assert isinstance(found, str)
    assert found.startswith("cannot be rebuilt from the bundle's scenario")
    assert "\n" not in found


def test_a_scenario_that_is_none_is_told(made: Path, tmp_path: Path) -> None:
    found = rebuild(altered(made, tmp_path / "b", scenario_toml=b"rounds = "), 1)
    assert isinstance(found, str)
    assert found.startswith("cannot be rebuilt")


def test_a_bundle_of_a_plugin_s_run_is_not_rebuilt_without_the_plugin(made: Path, tmp_path: Path) -> None:
    """It holds the name of the plugin, and no code."""
    scenario = b'plugins = ["plugins/mine.py"]\n' + scenario_of(made, {})
    found = rebuild(altered(made, tmp_path / "b", scenario_toml=scenario.replace(b"plugins = []\n", b"")), 1)
    assert isinstance(found, str)
    assert found.endswith("(it was made with plugins; give them with --plugin FILE)")


def test_bench_loads_the_plugin_that_a_model_was_trained_with(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never the one that the bundle names: code runs because somebody typed where it is."""
    plugin, _ = write_own(tmp_path)
    listed = load_scenario(str(made / "scenario.toml")).tables() | {
        "plugins": [f"plugins/{plugin.name}"],
        "algorithm": "half_steps",
    }
    altered(made, tmp_path / "b", scenario_toml=tomli_w.dumps(listed).encode())
    quick = ("bench", str(tmp_path / "b"), "--repeats", "3", "--no-memory", "--json")
    assert sheafedge(monkeypatch, *quick) == 0
    assert "--plugin FILE" in json.loads(capsys.readouterr().out)["not_measured"]["torch"]
    try:
        assert sheafedge(monkeypatch, *quick, "--plugin", str(plugin)) == 0
        assert [row["label"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["float32", "torch"]
    finally:
        unload(plugin.name)
    assert sheafedge(monkeypatch, *quick, "--plugin", "no.py") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_rebuilt_model_that_answers_otherwise_is_not_timed(made: Path, tmp_path: Path) -> None:
    """A fusion that fits all weights and computes something else."""
    found = rebuild(altered(made, tmp_path / "b", scenario_toml=scenario_of(made, {"model.fusion": "mean"})), 1)
    assert isinstance(found, str)
    assert "not the same model" in found


def test_a_changed_weight_is_taken_from_the_file(made: Path, tmp_path: Path) -> None:
    """The negative control: what torch computes is what the file says, not what a scenario would start from."""
    model = onnx.load(made / "model.onnx")
    (bias,) = (one for one in model.graph.initializer if one.name == "head.bias")
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + np.float32(2.0), bias.name))
    content = model.SerializeToString()
    manifest, _ = read_bundle(made)
    with np.load(made / "samples.npz") as arrays:
        inputs = {one: arrays[f"input_{one}"] for one in manifest.modalities}
    samples = golden_file(inputs, OnnxSession(content).run(inputs))  # type: ignore[arg-type]
    entry = altered(made, tmp_path / "b", model_onnx=content, samples_npz=samples)
    changed, before = rebuild(entry, 1), rebuild(opened(made), 1)
    assert isinstance(changed, TorchModel)
    assert isinstance(before, TorchModel)
    np.testing.assert_allclose(changed.answer().numpy() - before.answer().numpy(), 2.0, atol=TOLERANCE)  # type: ignore[attr-defined]


# --- the command line -------------------------------------------------------------------------------------------------


def sheafedge(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_prints_torch_beside_onnx(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sheafedge(monkeypatch, "bench", str(made), "--repeats", "50", "--no-memory", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["label"] for row in found["rows"]] == ["float32", "torch"]
    assert found["rows"][1]["runtime"].startswith("torch ")
    assert found["not_measured"] == {}


def test_help_and_mistakes_are_those_of_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sheafedge(monkeypatch, "bench", "--help") == 0
    assert "--save-profile" in capsys.readouterr().out
    assert sheafedge(monkeypatch, "bench", "nowhere", "--threads", "0") == 2
    said = capsys.readouterr().err
    assert said == "error: --threads must be from 1 to 256, got 0\n"


# --- a scenario on a measured device ----------------------------------------------------------------------------------

BOX = 'name = "box"\nkind = "measured"\nflops_per_s = 7e9\noverhead_s = 1e-3\npower_w = 5\n'


def devices_of(scenario: Scenario) -> dict[int, DeviceProfile]:
    return client_devices(scenario.compute, scenario.clients, scenario.seed)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    path = tmp_path / "measured.toml"
    path.write_text(BOX)
    return path


def test_a_scenario_can_name_a_profile_s_file(tiny: Scenario, box: Path) -> None:
    devices = devices_of(tiny.edited({"compute.profile": str(box)}))
    assert set(devices.values()) == {read_profile(box)}


def test_a_run_folder_repeats_the_run_where_the_file_is_not(tiny: Scenario, box: Path, tmp_path: Path) -> None:
    scenario = tiny.edited({"compute.profile": str(box)})
    folder = RunFolder(tmp_path, tmp_path)
    folder.write_scenario(scenario)
    folder.close()
    box.unlink()
    again = load_scenario(str(tmp_path / "scenario.toml"))
    assert again.compute == scenario.compute
    assert devices_of(again) == devices_of(scenario)


def test_groups_can_have_devices_of_the_scenario_s_own(tiny: Scenario, box: Path) -> None:
    groups = [{**BOTH[0], "profile": "slow"}]
    table = {"flops_per_s": 1e6, "overhead_s": 0.0, "power_w": 1.0}
    scenario = tiny.edited({"compute.profiles": {"slow": table, "box": str(box)}, "clients.groups": groups})
    assert {device.name for device in devices_of(scenario).values()} == {"slow"}
    other = scenario.edited({"clients.groups": [{**BOTH[0], "profile": "box"}]})
    assert {device.flops_per_s for device in devices_of(other).values()} == {7e9}


def test_stragglers_answer_late_too(tiny: Scenario) -> None:
    edits = {"compute.profile": "raspberry_pi_4", "compute.stragglers.share": 1.0, "compute.stragglers.factor": 3.0}
    plain, slow = (devices_of(tiny.edited(one))[0] for one in ({"compute.profile": "raspberry_pi_4"}, edits))
    assert slow.answer_seconds(1e6, "int8") == pytest.approx(3.0 * plain.answer_seconds(1e6, "int8"))


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"compute.profile": "nowhere.toml"}, "device profile nowhere.toml cannot be read"),
        ({"compute.profiles": {"x": "nowhere.toml"}}, "device profile nowhere.toml cannot be read"),
        ({"compute.profiles": {"edge_cpu": {}}}, "'edge_cpu' is the name of a device that comes with sheafedge"),
        (
            {"compute.profiles": {"x": {"flops_per_s": 1.0}}},
            "compute.profiles.x.flops_per_s must be a number from 1000",
        ),
        ({"compute.profiles": {"x": {}}}, "compute.profiles.x.flops_per_s is missing"),
        ({"compute.profiles": {"x": 3}}, "compute.profiles.x must be"),
        ({"compute.profiles": 3}, "compute.profiles must be"),
    ],
)
def test_an_impossible_device_gets_a_sentence(tiny: Scenario, edits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tiny.edited(edits)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_device_is_told_with_those_that_there_are(tiny: Scenario, box: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown compute.profile 'abacus'; choose one of: box, edge_cpu"):
        devices_of(tiny.edited({"compute.profiles": {"box": str(box)}, "compute.profile": "abacus"}))
