"""From a run to bundles: what they say is what the run did, and what is not as good as it should be is not written."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from onnx import numpy_helper
from sheafedge.emulator.contracts import ConfigError, DataError, InputWindow, Modality, SheafedgeError
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.input_summaries import input_summaries, summary_names
from sheafedge.emulator.edge.label_probabilities import decided_labels
from sheafedge.emulator.edge.manifest import BundleError, InputSpec, OutputSpec
from sheafedge.emulator.edge.signatures import TrustedKey
from sheafedge.emulator.ownership import OwnedError, owned
from sheafedge.models.export import quantize
from sheafedge.scenarios.export import bundles
from sheafedge.scenarios.export.bundle_evidence import HELD_OUT, Evidence, without
from sheafedge.scenarios.export.bundles import ExportedBundle, QuantizationError, export_bundles
from sheafedge.scenarios.export.export_source import ExportRequest, export_sources
from sheafedge.scenarios.export.finished_run import FinishedRun, finished_run
from sheafedge.scenarios.export.precision_choice import (
    HERE,
    AnswerTimes,
    choosing_device,
    measured_times,
    modelled_times,
)
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.terminal import cli

#: One architecture, because tracing takes seconds.
BOTH = [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]
EDITS = {
    "clients.groups": BOTH,
    "clients.n_clients": 2,
    "export.onnx": True,
    "rounds": 2,
    "data.beam_order": "mirrored",
}
ANYTHING = ExportRequest(precision="int8", max_loss=1.0)
#: Scores of probabilities: torch and the ONNX runtime round logits differently.
CLOSE = 1e-5
#: Scores of a file and of the model in memory: none of a hundred rows is decided otherwise.
SAME = 1e-9


@pytest.fixture(scope="module")
def folder(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run; nobody changes it."""
    return run_scenario(tiny.edited(EDITS), tmp_path_factory.mktemp("runs") / "run").folder


@pytest.fixture(scope="module")
def run(folder: Path) -> FinishedRun:
    return finished_run(folder)


@pytest.fixture(scope="module")
def plain(run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> list[ExportedBundle]:
    return export_bundles(run, [ExportRequest()], tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def small(run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> list[ExportedBundle]:
    return export_bundles(run, [ANYTHING], tmp_path_factory.mktemp("small"))


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A run folder that may be changed."""
    return Path(shutil.copytree(folder, tmp_path / "run"))


def metrics_of(made: ExportedBundle) -> Mapping[str, Any]:
    return load_bundle(made.folder, trial=None).manifest.metrics


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | None:
    """Exit code of the command in this process."""
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code: int | None = ended.value.code  # type: ignore[assignment]
    return code


def test_every_client_gets_a_folder_and_an_archive(plain: list[ExportedBundle]) -> None:
    names = {path.name for path in plain[0].folder.parent.iterdir()}
    assert names == {f"beam_tracking-client-0{i}{ending}" for i in (0, 1) for ending in ("", ".zip")}
    for made in plain:
        assert made.archive is not None
        packed = load_bundle(made.archive, trial=None)
        assert packed.content == load_bundle(made.folder, trial=None).content
        assert set(packed.content) == {"model.onnx", "samples.npz", "README.md", "scenario.toml"}


def test_a_manifest_says_where_the_model_comes_from(run: FinishedRun, plain: list[ExportedBundle]) -> None:
    summary = json.loads((run.folder / "summary.json").read_text())
    for made in plain:
        manifest = load_bundle(made.folder, trial=None).manifest
        said = {"scenario": "beam_tracking", "algorithm": "sheaf_dmfl_att", "seed": 0, "rounds": 2, "group": "both"}
        assert said.items() <= manifest.trained.items()
        assert manifest.trained["client"] == made.client
        assert manifest.trained["trace_hash"] == summary["trace_hash"]
        assert (manifest.task, manifest.precision) == ("beam_tracking", "float32")
        assert manifest.flops > 0.0
        assert (made.folder / "scenario.toml").read_text() == run.scenario_text
        assert load_scenario(str(made.folder / "scenario.toml")) == run.scenario


def test_a_manifest_says_how_frames_make_a_sample(plain: list[ExportedBundle]) -> None:
    rf, gps = load_bundle(plain[0].folder, trial=None).manifest.inputs
    assert (rf.window, rf.shape, rf.frame_shape) == (InputWindow("rf", 4, lag=1, axis=0), (4, 8), (8,))
    assert (gps.window, gps.shape, gps.frame_shape) == (InputWindow("gps", 4, axis=0), (4, 2), (2,))
    assert rf.rate_hz == gps.rate_hz == 10.0
    assert (rf.unit, gps.unit) == ("dB", "m")


def test_labels_are_told_as_the_base_station_numbers_its_beams(run: FinishedRun, plain: list[ExportedBundle]) -> None:
    """Every eighth beam of 64; of two arrays one hangs upside down and counts from the other end."""
    codebooks = [load_bundle(made.folder, trial=None).manifest.output.codebook for made in plain]
    assert sorted(codebooks) == [tuple(range(0, 64, 8)), tuple(range(56, -1, -8))]
    assert codebooks == [one.member.outputs(one.data.test) for one in export_sources(run, [0, 1])]


def test_metrics_are_those_that_the_run_wrote_down(run: FinishedRun, plain: list[ExportedBundle]) -> None:
    for made in plain:
        metrics = metrics_of(made)
        written = run.last_scores[made.client]["fused"]
        assert_allclose([metrics["held_out"][key] for key in written], list(written.values()), atol=SAME)
        assert metrics["samples"] == len(next(export_sources(run, [made.client])).data.test)
        assert set(metrics["shifted"]) == {"noise"}  # neither night nor occlusion change sweeps and positions
        assert set(metrics["without"]) == {"rf", "gps"}
        assert metrics["without"]["rf"] != metrics["without"]["gps"]
        assert set(metrics["baselines"]) == {"persistence", "majority"}
        assert "agreement" not in metrics


def test_the_card_shows_the_figures_of_the_manifest(small: list[ExportedBundle]) -> None:
    for made in small:
        card, metrics = (made.folder / "README.md").read_text(), metrics_of(made)
        assert card.startswith(f"# {made.folder.name}\n")
        for scores in (metrics["held_out"], metrics["shifted"]["noise"], metrics["without"]["rf"]):
            assert f"| {scores['top1']:.3f} | {scores['top3']:.3f} | {scores['power_loss_db']:.2f} dB |" in card
        assert f"{metrics['agreement']['held_out']:.3f} | {metrics['float32']['held_out']['top1']:.3f} |" in card


def test_a_quantized_bundle_is_held_against_the_trained_model(
    plain: list[ExportedBundle], small: list[ExportedBundle]
) -> None:
    for before, after in zip(plain, small, strict=True):
        assert after.folder.name == f"{before.folder.name}-int8"
        bundle, metrics = load_bundle(after.folder, trial=None), metrics_of(after)
        assert bundle.manifest.precision == "int8"
        assert bundle.manifest.trained["calibration"] == "minmax"
        assert metrics["float32"]["held_out"] == metrics_of(before)["held_out"]
        assert metrics["float32"]["shifted"] == metrics_of(before)["shifted"]  # the same noise for everybody
        assert metrics["agreement"]["held_out"] > 0.9
        assert after.evidence.largest_difference > 0.0  # it is another model
        assert bundle.session.optional_names == ["present"]


def test_golden_answers_are_those_of_the_model_beside_them(run: FinishedRun, small: list[ExportedBundle]) -> None:
    for made in small:
        bundle = load_bundle(made.folder, trial=None)
        with np.load(made.folder / "samples.npz", allow_pickle=False) as arrays:
            inputs = {name: arrays[f"input_{name}"] for name in ("rf", "gps")}
            expected = arrays["logits"]
        assert_array_equal(bundle.session.run(inputs), expected)
        test = next(export_sources(run, [made.client])).data.test
        assert all((row == test.inputs()["rf"]).all(axis=(1, 2)).any() for row in inputs["rf"])
        assert bundle.manifest.golden.tolerance >= 1e-3 * np.abs(expected).max()


def spoiled(model: onnx.ModelProto, *_: Any, **__: Any) -> onnx.ModelProto:
    """A model that prefers beam 0 whatever it sees."""
    for tensor in model.graph.initializer:
        if tensor.name == "head.bias":
            bias = np.zeros(tensor.dims[0], np.float32)
            bias[0] = 1e3
            tensor.CopyFrom(numpy_helper.from_array(bias, tensor.name))
    return model


def test_a_model_that_lost_too_much_is_refused_and_nothing_is_written(
    run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "int8_model", spoiled)
    out = tmp_path / "bundles"
    with pytest.raises(QuantizationError) as refused:
        export_bundles(run, [ExportRequest(precision="int8")], out)
    for said in ("client-0", "top1 falls from", "--max-loss 0.02", "nothing is written"):
        assert said in str(refused.value)
    assert not out.exists()


def test_a_refusal_is_one_sentence_and_exit_code_2(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quantize, "int8_model", spoiled)
    code = command(monkeypatch, "export", str(folder), "--quantize", "int8", "--out", str(tmp_path / "bundles"))
    said = capsys.readouterr().err.strip()
    assert code == 2
    assert said.startswith("error: beam_tracking-client-0")
    assert "\n" not in said


def test_the_command_writes_and_shows_what_was_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--clients", "1", "--quantize", "fp16", "--no-zip", "-o", str(tmp_path), "--min-agreement", "1")
    assert not command(monkeypatch, "export", str(folder), *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["beam_tracking-client-01-float16"]
    assert load_bundle(tmp_path / "beam_tracking-client-01-float16").manifest.precision == "float16"
    said = capsys.readouterr().out
    for shown in ("held out", "noise", "without", "gps", "1 bundle in float16"):
        assert shown in said
    assert command(monkeypatch, "export", str(folder), *arguments) == 2
    assert "is there already" in capsys.readouterr().err


def timed(**seconds: float) -> Any:
    """A clock that says how long an answer takes in every precision."""
    return lambda sessions, _: AnswerTimes(HERE, {name: seconds[name] for name in sessions})


def test_the_fastest_precision_is_chosen_and_the_bundle_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--clients", "1", "--quantize", "auto", "--no-zip", "--max-loss", "1")
    for chosen, times in (
        ("int8", timed(float32=3e-4, float16=2e-4, int8=1e-4)),
        ("float16", timed(float32=3e-4, float16=2e-4, int8=4e-4)),
        ("float32", timed(float32=2e-4, float16=1.95e-4, int8=4e-4)),  # too small a gain to lose digits for
    ):
        monkeypatch.setattr(bundles, "measured_times", times)
        out = tmp_path / chosen
        assert not command(monkeypatch, "export", str(folder), *arguments, "-o", str(out))
        said = capsys.readouterr().out
        (made,) = out.iterdir()
        assert made.name == "beam_tracking-client-01" + ("" if chosen == "float32" else f"-{chosen}")
        manifest = load_bundle(made, trial=None).manifest
        assert manifest.precision == chosen
        assert manifest.metrics["answer_ms"].keys() == {"where", "float32", "float16", "int8"}
        why = "since no other saves 5 % of its time" if chosen == "float32" else "the fastest"
        assert f"{made.name}: {chosen}, {why}: float32 0." in said
        assert "chosen by the time of an answer on this machine" in (made / "README.md").read_text()
        assert "times as long as float32" not in said


def test_a_precision_that_loses_too_much_is_not_chosen_however_fast(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quantize, "int8_model", spoiled)
    monkeypatch.setattr(bundles, "measured_times", timed(float32=3e-4, float16=4e-4, int8=1e-6))
    arguments = ("--clients", "1", "--quantize", "auto", "--no-zip", "-o", str(tmp_path))
    assert not command(monkeypatch, "export", str(folder), *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["beam_tracking-client-01"]
    assert "; int8 loses more than --max-loss 0.02" in capsys.readouterr().out


def test_a_slower_model_of_fewer_bits_is_not_handed_out_without_a_warning(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--clients", "1", "--quantize", "int8", "--max-loss", "1", "--no-zip")
    for slower, seconds in ((True, 6e-4), (False, 1e-4)):
        monkeypatch.setattr(bundles, "measured_times", timed(float32=3e-4, int8=seconds))
        assert not command(monkeypatch, "export", str(folder), *arguments, "-o", str(tmp_path / str(slower)))
        said = " ".join(capsys.readouterr().out.split())
        assert ("beam_tracking-client-01-int8 takes 2.00 times as long as float32" in said) is slower


def test_a_device_is_asked_in_place_of_this_machine(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its profile: in models as small as these the fixed cost of int8 is more than its products save."""
    arguments = ("--clients", "1", "--quantize", "auto", "--no-zip", "--max-loss", "1", "-o", str(tmp_path))
    assert not command(monkeypatch, "export", str(folder), *arguments, "--device", "raspberry_pi_4")
    assert "on raspberry_pi_4" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["beam_tracking-client-01"]
    assert command(monkeypatch, "export", str(folder), *arguments, "--device", "edge_cpu") == 2
    assert "--device must be one of intel_n100" in capsys.readouterr().err
    assert command(monkeypatch, "export", str(folder), "--quantize", "auto", "--quantize", "int8") == 2
    assert "stands alone" in capsys.readouterr().err


def test_a_large_model_is_faster_in_8_bits_on_a_board_and_a_small_one_is_not() -> None:
    device = choosing_device("raspberry_pi_5")
    assert device is not None
    sizes = {"float32": 4_000_000, "int8": 1_000_000}
    assert modelled_times(device, 1e9, 1e6, sizes).fastest(sizes) == "int8"
    assert modelled_times(device, 1e5, 1e3, {"float32": 40_000, "int8": 20_000}).fastest(["int8"]) == "float32"


def test_times_of_an_answer_are_measured_for_every_precision(plain: list[ExportedBundle]) -> None:
    bundle = load_bundle(plain[0].folder, trial=None)
    sample = {name: rows[:1] for name, rows in bundle.samples.items()}
    found = measured_times({"float32": bundle.session, "int8": bundle.session}, sample)
    assert found.where == HERE
    assert set(found.seconds) == {"float32", "int8"}
    assert all(seconds > 0.0 for seconds in found.seconds.values())


def test_several_precisions_of_a_client_are_written_together_or_not_at_all(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bundles"
    arguments = ("--clients", "1", "--quantize", "none", "--quantize", "int8", "--no-zip", "-o", str(out))
    with monkeypatch.context() as patch:
        patch.setattr(quantize, "int8_model", spoiled)
        assert command(patch, "export", str(folder), *arguments) == 2
    assert not out.exists()
    assert not command(monkeypatch, "export", str(folder), *arguments, "--max-loss", "1")
    assert {path.name for path in out.iterdir()} == {"beam_tracking-client-01", "beam_tracking-client-01-int8"}
    said = capsys.readouterr().out
    assert said.count("held out") == 1, "one table shows both"
    for shown in ("1 bundle in float32", "1 bundle in int8"):
        assert shown in said


def test_too_little_agreement_is_warned_of() -> None:
    scores = {HELD_OUT: {"top1": 0.5}, "noise": {"top1": 0.4}}
    shown = Evidence("top1", 10, scores, scores, {HELD_OUT: 0.99, "noise": 0.9})
    (warning,) = bundles._warnings("beam", shown, ExportRequest(precision="int8"))
    assert "--min-agreement 0.98: noise 0.900" in warning
    assert bundles._warnings("beam", shown, ExportRequest(precision="int8", min_agreement=0.5)) == ()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an agreement above 1": ({"min_agreement": 1.5}, "--min-agreement must lie in"),
    "a loss below 0": ({"max_loss": -0.1}, "--max-loss must lie in"),
    "no number": ({"max_loss": float("nan")}, "--max-loss must lie in"),
    "no window": ({"calibration_windows": 0}, "--windows must be at least 1"),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_impossible_limits_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ExportRequest(**options)


@pytest.mark.parametrize("clients", ["", "a", "0,,1", "-1", "0;1", "１"])
def test_client_numbers_that_are_none_are_refused(
    folder: Path, clients: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "export", str(folder), f"--clients={clients}") == 2
    assert "--clients takes numbers with commas" in capsys.readouterr().err


def test_a_client_without_a_model_is_named(run: FinishedRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model of client 7; it has those of 0, 1"):
        export_bundles(run, [ExportRequest(clients=(7,))], tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path, copied: Path) -> None:
    with pytest.raises(ConfigError, match=r"not the folder of a complete run \(scenario.toml is missing\)"):
        finished_run(tmp_path)
    summary = json.loads((copied / "summary.json").read_text())
    (copied / "summary.json").write_text(json.dumps({**summary, "exports": []}))
    with pytest.raises(ConfigError, match=r"export.onnx = true"):
        finished_run(copied)
    for damaged in ("{", "[]", json.dumps({**summary, "rounds": "many"})):
        (copied / "summary.json").write_text(damaged)
        with pytest.raises(DataError, match="cannot be read"):
            finished_run(copied)


def test_a_run_whose_data_have_changed_is_refused(copied: Path, tmp_path: Path) -> None:
    path = copied / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps({**summary, "test_windows": summary["test_windows"] + 1}))
    with pytest.raises(DataError, match="the recordings have changed"):
        export_bundles(finished_run(copied), [ExportRequest()], tmp_path / "bundles")


def test_a_model_that_scores_otherwise_is_refused(copied: Path, tmp_path: Path) -> None:
    file = copied / "models" / "client-00.onnx"
    onnx.save(spoiled(onnx.load(file)), file)
    with pytest.raises(DataError, match="model or data are not those of the run"):
        export_bundles(finished_run(copied), [ExportRequest()], tmp_path / "bundles")
    file.write_bytes(b"no model")
    with pytest.raises(DataError, match="is no ONNX model"):
        export_bundles(finished_run(copied), [ExportRequest()], tmp_path / "bundles")
    assert not (tmp_path / "bundles").exists()


def test_clients_come_in_the_order_that_was_asked_for_and_with_their_own_models(run: FinishedRun) -> None:
    """They are answered for side by side."""
    for wanted in ([1, 0], [0, 1]):
        sources = list(export_sources(run, wanted))
        assert [source.member.client_id for source in sources] == wanted
        for source in sources:
            kept = {prop.key: prop.value for prop in source.model.metadata_props}
            assert kept["client"] == str(source.member.client_id)


def test_a_bundle_that_fails_on_loading_is_not_left_behind(
    run: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path, **_: object) -> None:
        raise BundleError(f"bundle {path}: it answers otherwise")

    monkeypatch.setattr(bundles, "load_bundle", failing)
    with pytest.raises(SheafedgeError, match="answers otherwise"):
        export_bundles(run, [ExportRequest()], tmp_path / "bundles")
    assert not (tmp_path / "bundles").exists()


def test_a_missing_sensor_sees_nothing_and_is_marked() -> None:
    inputs: dict[Modality, np.ndarray] = {
        "lidar": np.ones((3, 2, 1, 5), np.float32),
        "gps": np.ones((3, 4), np.float32),
    }
    sensors: dict[Modality, InputSpec] = {
        "lidar": InputSpec(InputWindow("lidar", axis=1), (2, 1, 5), 10.0, "m, rad", "", nothing=12.5),
        "gps": InputSpec(InputWindow("gps"), (4,), 10.0, "m", ""),
    }
    given = without(inputs, sensors, "lidar")
    assert_array_equal(given["present"], [[0.0, 1.0]] * 3)
    assert_array_equal(given["lidar"][:, 0], np.full((3, 1, 5), 12.5))
    assert_array_equal(given["gps"], inputs["gps"])
    assert_array_equal(without(inputs, sensors, "gps")["gps"], np.zeros((3, 4)))  # no position stands for nothing


def test_a_decision_is_the_sign_of_one_logit_or_the_largest_of_many() -> None:
    binary, classes = OutputSpec("binary", ("a", "b"), ""), OutputSpec("classes", ("a", "b", "c"), "")
    assert_array_equal(decided_labels(np.array([[-0.1], [0.2], [0.0]]), binary), [0, 1, 0])
    assert_array_equal(decided_labels(np.array([[1.0, 3.0, 2.0], [5.0, 3.0, 2.0]]), classes), [1, 0])


def test_a_precision_has_one_name_whatever_the_spelling() -> None:
    assert [ExportRequest(precision=one).precision for one in ("none", "fp16", "int8")] == [
        "float32",
        "float16",
        "int8",
    ]
    with pytest.raises(
        ConfigError, match=r"--quantize must be one of float32, float16, int8 \(or none, fp16\) or auto, got"
    ):
        ExportRequest(precision="int4")


def test_a_second_export_into_a_folder_is_refused_and_what_a_killed_one_left_is_removed(
    run: FinishedRun, tmp_path: Path
) -> None:
    (tmp_path / ".partial-0" / "half").mkdir(parents=True)
    with owned(tmp_path, inside=True), pytest.raises(OwnedError, match="is being written by process"):
        export_bundles(run, [ExportRequest()], tmp_path)
    assert (tmp_path / ".partial-0").exists()
    (made,) = export_bundles(run, [ExportRequest(clients=(0,), archives=False)], tmp_path)
    assert list(tmp_path.iterdir()) == [made.folder]


def test_a_manifest_says_what_training_looked_like(run: FinishedRun, plain: list[ExportedBundle]) -> None:
    for made, source in zip(plain, export_sources(run, [one.client for one in plain]), strict=True):
        manifest = load_bundle(made.folder, trial=None).manifest
        assert manifest.drift is not None
        assert set(manifest.drift.inputs) == set(manifest.modalities)
        assert manifest.drift.stride == np.median(np.diff(source.data.train.end))
        assert sum(manifest.drift.answers.shares) == pytest.approx(1.0, abs=1e-4)
        # every training frame lies inside, as the limits were taken from them
        for spec in manifest.inputs:
            bounds = manifest.drift.inputs[spec.modality]
            found = input_summaries(source.data.train.inputs(slice(0, 50))[spec.modality], spec)
            for name, values in zip(summary_names(spec), found.T, strict=True):
                assert (values > bounds[name].low).all()
                assert (values < bounds[name].high).all()
        seen = manifest.metrics["drift"]
        assert seen["answers"] == manifest.metrics["samples"]
        assert f"{seen['outside']} of {seen['answers']} lie outside" in (made.folder / "README.md").read_text("utf-8")


def test_the_summary_of_a_run_scores_probabilities_as_its_bundles_do(folder: Path, plain: list[ExportedBundle]) -> None:
    found = json.loads((folder / "summary.json").read_text("utf-8"))["probabilities"]
    of_bundles = [load_bundle(made.folder, trial=None).manifest.metrics["calibration"] for made in plain]
    assert found["all"] == found["groups"]["both"]  # the only group
    assert found["all"]["clients"] == len(plain)
    for score in ("ece", "brier"):
        for side in ("before", "after"):
            mean = np.mean([one[score][side] for one in of_bundles])
            assert found["all"][score][side] == pytest.approx(mean, abs=CLOSE)


def test_bundles_of_a_command_are_signed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography", reason="the extra [signing] is not installed")
    assert not command(monkeypatch, "keys", "--signing", str(tmp_path / "keys"))
    secret = str(tmp_path / "keys" / "signing.secret")
    assert not command(monkeypatch, "export", str(folder), "--clients", "0", "-o", str(tmp_path), "--sign", secret)
    trusted = TrustedKey(tmp_path / "keys" / "signing.public")
    for name in ("beam_tracking-client-00", "beam_tracking-client-00.zip"):
        assert load_bundle(tmp_path / name, trial=None, trusted=trusted).manifest.name == "beam_tracking-client-00"
