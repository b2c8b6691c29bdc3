"""From a run to a device and back: what replay scores is what the run's own held-out rows said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from doubles.running_server import running_server
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.manifest import Manifest
from sheafedge.scenarios.terminal import cli


def group(*modalities: str) -> dict[str, Any]:
    """All clients."""
    return {"name": "all", "modalities": list(modalities), "share": 1.0}


#: Of one client of every scenario, trained for a moment: no matter how well.
SCENARIOS: dict[str, dict[str, Any]] = {
    "beam_tracking": {
        "world.duration_s": 300,
        "clients.groups": [group("gps", "rf")],
        "data.n_beams": 8,
        "data.beam_order": "permuted",
    },
    "blockage": {
        "world.duration_s": 120,
        "clients.groups": [group("lidar", "rf")],
        "data.window": 8,
        "data.stride": 1,
        "model.width": 0.1,
    },
    "drone_beam": {
        "world.duration_s": 240,
        "clients.groups": [group("camera", "gps")],
        "data.n_beams": 8,
        "data.stride": 1,
        "model.width": 0.1,
    },
    "outage_forecast": {
        "world.duration_s": 120,
        "clients.groups": [group("rf", "signal")],
        "data.window": 8,
        "data.stride": 1,
        "model.width": 0.1,
    },
}
COMMON: dict[str, Any] = {
    "rounds": 2,
    "world.n_sites": 2,
    "clients.n_clients": 2,
    "topology.kind": "complete",
    "network.transport": "memory",
    "compute.executor": "serial",
    "compute.device": "cpu",
    "export.pictures": 0,
    "export.report": False,
}
#: Torch scored in its own float32, the device in the ONNX runtime's: a tie may fall either way.
ROUNDING = 0.02
#: Of a mean of probabilities, by one runtime in batches of different sizes.
SAME = 1e-5


def toml(value: Any) -> str:
    """As `--set` takes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def sheafedge(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["sheafedge", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code


def replayed(
    name: str,
    edits: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> tuple[Manifest, dict[str, Any]]:
    """What a bundle says, and what a replay of its run's recording finds."""
    run = folder / "run"
    changes = [part for key, value in {**COMMON, **edits}.items() for part in ("--set", f"{key}={toml(value)}")]
    sheafedge(monkeypatch, "run", name, *changes, "--out", str(run))
    sheafedge(monkeypatch, "export", str(run), "--clients", "1", "-o", str(folder), "--no-zip")
    bundle = folder / f"{name}-client-01"
    manifest, _ = read_bundle(bundle)
    capsys.readouterr()
    with running_server(bundle) as address:
        sheafedge(monkeypatch, "replay", str(run), "--to", address, "--speed", "max", "--json")
    return manifest, json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_replay_finds_what_the_export_says_of_held_out_rows(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest, found = replayed(name, SCENARIOS[name], monkeypatch, capsys, tmp_path)
    assert found["notes"] == []
    assert list(found["streams"]) == [str(manifest.trained["recording"])[:4]]
    assert found["questions"]["answered"] == found["questions"]["asked"] == manifest.metrics["samples"]
    assert found["persistence"] == pytest.approx(manifest.metrics["baselines"]["persistence"])
    if ahead := manifest.metrics.get("ahead"):  # forecasts are scored as served, and the run knows no temperature
        served = fmean(one["brier"] for times in ahead.values() for one in times.values())
        assert found["scores"]["brier"] == pytest.approx(served, abs=SAME)
        return
    assert found["scores"] == pytest.approx(manifest.metrics["held_out"], abs=ROUNDING, rel=ROUNDING)


@pytest.mark.slow
def test_a_replay_of_plain_images_tells_that_training_saw_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    edits = {**SCENARIOS["drone_beam"], "data.images": "occluded"}
    _, found = replayed("drone_beam", edits, monkeypatch, capsys, tmp_path)
    (note,) = found["notes"]
    assert "trained on images that are occluded" in note
