"""A new version that makes streams drift gives way to the one before, and metrics and sentences say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles.bundles import ANYTHING, tiny_bundle, tiny_drift
from doubles.served_model import LIMIT_S, replies, served
from doubles.waiting import wait_for
from sheafedge.emulator.edge.bundle import write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.drift_watch import DriftVerdict
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer
from sheafedge.emulator.edge.manifest import FigureBounds
from sheafedge.emulator.edge.serving.reloading import BundleReloader
from sheafedge.emulator.edge.serving.server import Server
from sheafedge.emulator.edge.serving.version_trial import VersionTrial

FRAMES = 2
#: No figure of the frames below lies in such a training.
ELSEWHERE = FigureBounds(1e6, 2e6, 1e6, 2e6)
DRIFTS = DriftVerdict({}, {"rf": ("mean",)}, is_new=True)


def version(folder: Path, bounds: FigureBounds, gain: float) -> Path:
    manifest, content = read_bundle(tiny_bundle(folder.with_name(f".first-{folder.name}"), frames=FRAMES, gain=gain))
    drift = tiny_drift(manifest.inputs, 2, bounds)
    write_bundle(folder, replace(manifest, name=folder.name, drift=drift), content)
    return folder


@contextmanager
def serving(versions: Path, name: str, said: list[str], trial_s: float) -> Iterator[tuple[Server, BundleReloader]]:
    reloader = BundleReloader(versions, watch_s=None, cuda=False, threads=1)
    try:
        settings = {"reloader": reloader, "warn": said.append, "say": said.append, "trial_s": trial_s, "waiting": 100}
        with served(versions / name, **settings) as server:
            yield server, reloader
    finally:
        reloader.close()


def asked(server: Server, n: int, first: int = 0) -> list[Answer]:
    draws = np.random.default_rng(0)
    with FrameClient(server.address) as client:
        for index in range(first, first + n):
            frames = {"lidar": draws.normal(size=(2, 6)), "rf": draws.normal(size=8)}
            client.send("bs03", index, index / 10, frames, ask=index > first)  # type: ignore[arg-type]
        heard = replies(server, client, n - 1)
    return [one for one in heard if isinstance(one, Answer)]


def turned_until(server: Server, name: str) -> None:
    def is_served() -> bool:
        server.turn(wait_s=0.005)
        return server._model.manifest.name == name

    wait_for(is_served)


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    version(tmp_path / "v1", ANYTHING, 1.0)
    version(tmp_path / "v2", ELSEWHERE, 2.0)
    return tmp_path


def test_a_version_that_drifts_in_its_trial_gives_way(versions: Path) -> None:
    said: list[str] = []
    with serving(versions, "v2", said, trial_s=LIMIT_S) as (server, _):
        assert 'version="v2"' in server.counts.page()
        assert asked(server, 20)[-1].drifted
        turned_until(server, "v1")
        assert server.counts.total("reloads", "rolled_back") == 1
        assert 'version="v1"' in server.counts.page()
        assert not asked(server, 20, first=100)[-1].drifted
    assert [one for one in said if one == "version v2 is given up, because stream bs03 drifts since it came"]


def test_after_its_trial_a_version_stays(versions: Path) -> None:
    said: list[str] = []
    with serving(versions, "v2", said, trial_s=0.0) as (server, _):
        assert asked(server, 20)[-1].drifted
        assert server.counts.total("reloads", "rolled_back") == 0


def test_where_no_other_version_is_left_it_is_served_on(versions: Path) -> None:
    (versions / "v1" / "model.onnx").write_bytes(b"damaged")
    said: list[str] = []
    with serving(versions, "v2", said, trial_s=LIMIT_S) as (server, _):
        asked(server, 20)

        def is_told() -> bool:
            server.turn(wait_s=0.005)
            return any("no version" in one for one in said)

        wait_for(is_told)
        assert server._model.manifest.name == "v2"


def test_a_stream_that_had_drifted_before_is_no_fault_of_a_new_version() -> None:
    trial = VersionTrial(10.0)
    trial.begin(100.0, {"a"})
    assert not trial.fails("a", DRIFTS, 101.0)
    assert trial.fails("b", DRIFTS, 101.0)
    assert not trial.fails("b", replace(DRIFTS, is_new=False), 101.0)
    assert not trial.fails("b", DRIFTS, 110.0)
    trial.end()
    assert not trial.fails("b", DRIFTS, 101.0)


def test_a_version_that_comes_is_served_if_it_is_sound(versions: Path) -> None:
    said: list[str] = []
    with serving(versions, "v1", said, trial_s=LIMIT_S) as (server, reloader):
        version(versions / "v10", ANYTHING, 3.0)
        damaged = version(versions / "v11", ANYTHING, 3.0)
        (damaged / "model.onnx").write_bytes(b"damaged")
        reloader.ask()
        turned_until(server, "v10")
    assert any("v11" in one and "reload refused" in one for one in said)
