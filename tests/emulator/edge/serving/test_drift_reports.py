"""A served model says that a stream is not like its training: in answers, metrics, and few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.bundles import tiny_bundle, tiny_drift
from doubles.served_model import replies, served
from sheafedge.emulator.contracts import Modality
from sheafedge.emulator.edge.bundle import load_bundle, write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer
from sheafedge.emulator.edge.manifest import DriftReference, FigureBounds
from sheafedge.emulator.edge.serving import drift_reports
from sheafedge.emulator.edge.serving.server import Server

FRAMES = 2
#: Levels from -3 to 3 were seen, in windows from -1 to 1; spreads and changes are logarithms from -15 to 3.
SEEN = FigureBounds(-15.0, 3.0, -1.5, 1.5)


def bundle_with(folder: Path, drift: DriftReference | None) -> Path:
    manifest, content = read_bundle(tiny_bundle(folder.with_name(f"{folder.name}-first"), frames=FRAMES))
    write_bundle(folder, replace(manifest, drift=drift), content)
    return folder


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def server(tmp_path: Path, said: list[str]) -> Iterator[Server]:
    inputs = read_bundle(tiny_bundle(tmp_path / "any", frames=FRAMES))[0].inputs
    bundle = bundle_with(tmp_path / "watched", tiny_drift(inputs, 2, SEEN, distance=1.0))
    with served(bundle, warn=said.append, waiting=100) as server:
        yield server


def frames(draws: np.random.Generator, **others: float) -> Mapping[Modality, Any]:
    usual = {"lidar": draws.normal(size=(2, 6)), "rf": draws.normal(size=8)}
    return {**usual, **{name: np.full_like(usual[name], value) for name, value in others.items()}}  # type: ignore[return-value]


def asked(server: Server, client: FrameClient, n: int, stream: str = "bs03", **others: float) -> list[Answer]:
    draws = np.random.default_rng(0)
    for index in range(n):
        client.send(stream, index, index / 10, frames(draws, **others), ask=index >= FRAMES - 1)
    found = replies(server, client, n - FRAMES + 1)
    assert all(isinstance(one, Answer) for one in found)
    return [one for one in found if isinstance(one, Answer)]


def test_a_stream_like_training_has_empty_fields(server: Server, said: list[str]) -> None:
    with FrameClient(server.address) as client:
        answers = asked(server, client, 20)
    assert all(one.outside == {} and one.drifted == {} for one in answers)
    assert server.counts.total("drift_windows", "like_training") > 0
    assert not said


def test_a_constant_sweep_is_told_in_answers_metrics_and_one_line(server: Server, said: list[str]) -> None:
    with FrameClient(server.address) as client:
        answers = asked(server, client, 30, rf=-90.0)
    assert all("mean" in one.outside["rf"] for one in answers)
    assert set(answers[-1].drifted) == {"rf"}
    total = server.counts.total
    assert total("answers_outside", "rf") == len(answers)
    assert total("answers_outside", "lidar") == 0
    assert total("drift_windows", "drifted") == 3  # of the sweeps alone
    assert total("drift_windows", "like_training") == 3 + 2  # of the LiDAR, and of the answers
    page = server.counts.page()
    assert "sheafedge_drifted_streams 1" in page
    assert 'drift="known"' in page
    (sentence,) = said
    assert sentence.startswith("stream bs03 is not like the training of tiny: rf (mean, ")


def test_many_streams_are_few_lines_and_the_next_one_counts_them(
    server: Server, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FrameClient(server.address) as client:
        for number in range(5):
            asked(server, client, 12, f"bs{number}", rf=-90.0)
        assert len(said) == 1
        monkeypatch.setattr(drift_reports, "LEAST_PAUSE_S", 0.0)
        asked(server, client, 12, "bs9", rf=-90.0)
    assert len(said) == 2
    assert said[1].endswith("(and 4 more since the last warning)")


def test_frames_that_stand_in_for_lost_ones_say_nothing_of_a_sensor(server: Server) -> None:
    with FrameClient(server.address) as client:
        draws = np.random.default_rng(0)
        for index in range(4):
            sent = dict(frames(draws))
            if index == 3:
                del sent["rf"]
            client.send("s", index, index / 10, sent, ask=index == 3)
        (answer,) = replies(server, client, 1)
    assert isinstance(answer, Answer)
    assert answer.held == {"rf": 1}
    assert answer.outside == {}  # a repeated sweep would change by nothing


def test_a_bundle_of_before_says_nothing(tmp_path: Path, said: list[str]) -> None:
    with (
        served(bundle_with(tmp_path / "plain", None), warn=said.append) as server,
        FrameClient(server.address) as client,
    ):
        for index in range(20):
            answer = asked(server, client, 2, f"bs{index}", rf=-90.0)[-1]
        assert answer.outside == answer.drifted == {}
        assert 'drift="unknown"' in server.counts.page()
    assert not said


def test_another_model_judges_by_its_own_training(server: Server, tmp_path: Path) -> None:
    with FrameClient(server.address) as client:
        asked(server, client, 20, rf=-90.0)
        assert server._drift.watch.drifted == {"bs03"}
        other = load_bundle(tiny_bundle(tmp_path / "other", frames=FRAMES, gain=2.0), trial=None)
        assert server._reloaded(other)[0] == "swapped"
        assert asked(server, client, 20, "again", rf=-90.0)[-1].drifted == {}
