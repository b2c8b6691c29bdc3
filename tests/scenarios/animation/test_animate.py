"""An animation of a run: its pictures, what it shows, and what is refused before anything is drawn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Wedge
from numpy.typing import NDArray
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.animation import station_film
from sheafedge.scenarios.animation.animate import animate_run
from sheafedge.scenarios.animation.film_pictures import FilmPictures
from sheafedge.scenarios.animation.network_film import network_film
from sheafedge.scenarios.animation.station_film import shown_frames, station_films
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

#: Of the world of the tiny scenario, in which one car in ten seconds passes.
SECONDS, RATE_HZ = 0.4, 10.0


@pytest.fixture(scope="module")
def folder(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_scenario(tiny.edited({"rounds": 1}), tmp_path_factory.mktemp("runs") / "run").folder


def n_pictures(gif: Path) -> int:
    image = pytest.importorskip("PIL.Image")
    with image.open(gif) as opened:
        assert opened.format == "GIF"
        return int(opened.n_frames)


def test_a_run_becomes_a_gif_with_a_picture_per_frame_and_is_replaced_by_the_next(folder: Path) -> None:
    done: list[tuple[int, int]] = []
    made = animate_run(folder, folder / "street.gif", seconds=SECONDS, drawn=lambda *told: done.append(told))
    assert n_pictures(made) == 4
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    animate_run(folder, made, [1], seconds=0.2)
    assert n_pictures(made) == 2
    assert not list(folder.glob(".partial-*"))


def test_a_picture_shows_the_best_beam_where_the_user_is(folder: Path, tiny: Scenario) -> None:
    """Of drive-bys without anything in the way the best beam points at the car, as far as its lobe is wide."""
    (film,) = station_films(tiny, {}, [2], 40, every=1)
    assert (film.client, film.warned, film.chosen_sine) == (2, None, None)
    way_m = film.scene.user_m[:, :2] - film.scene.base_station_m[:2]
    apart_deg = np.degrees(np.arcsin(film.best_sine) - np.arctan2(way_m[:, 0], way_m[:, 1]))
    assert np.median(np.abs(apart_deg[~film.blocked])) < 4.0
    pictures = FilmPictures([film], network_film(folder), "tiny")
    pictures.draw(0)
    assert wedges(pictures.figure.axes[0]) == 1
    assert len(pictures.figure.axes) == 2


def wedges(ax: Axes) -> int:
    return sum(isinstance(patch, Wedge) for patch in ax.patches)


class ScriptedModel:
    """Session of a model whose outputs are always the same."""

    input_names = ("lidar", "camera", "signal")

    def __init__(self, logits: list[float]) -> None:
        self._logits = logits

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        n = len(next(iter(inputs.values())))
        return np.tile(np.float32(self._logits), (n, 1))


#: Two clients on one street, recorded as its scenario needs it.
STREET = {"world.n_sites": 1, "world.duration_s": 60.0, "clients.n_clients": 2}
#: Forecasts warn by the largest of the first five outputs: half a second.
N_AHEAD, EVEN, UNLIKELY = 15, 0.0, -5.0


@pytest.mark.parametrize(
    ("name", "logits", "warns"),
    [
        # shipped: outage is warned of from a probability of 0.1, a logit of -2.2, on
        ("outage_forecast", [UNLIKELY, -1.5] + [UNLIKELY] * (2 * N_AHEAD - 2), True),
        ("outage_forecast", [UNLIKELY] * 5 + [3.0] * (2 * N_AHEAD - 5), False),
        ("outage_forecast", [-2.5] * (2 * N_AHEAD), False),
        ("blockage", [EVEN + 0.1], True),
        ("blockage", [EVEN - 0.1], False),
    ],
)
def test_models_warn_as_their_answers_are_meant(
    name: str, logits: list[float], warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station_film, "OnnxSession", lambda _: ScriptedModel(logits))
    (film,) = station_films(load_scenario(name).edited(STREET), {0: Path("scripted")}, [0], 4, every=1)
    assert film.warned is not None
    assert film.warned.tolist() == [warns] * len(film)
    assert film.event == ("outage" if name == "outage_forecast" else "blockage")
    assert film.chosen_sine is None


@pytest.mark.slow
def test_models_choose_beams_and_mp4_is_written_where_ffmpeg_is(tiny: Scenario, tmp_path: Path) -> None:
    run = run_scenario(tiny.edited({"rounds": 1, "export.onnx": True}), tmp_path / "run").folder
    (film,) = station_films(tiny, {2: run / "models" / "client-02.onnx"}, [2], 20, every=1)
    assert film.chosen_sine is not None
    assert film.warned is None  # answers choose beams
    pictures = FilmPictures([film], None, "tiny")
    pictures.draw(3)
    ax = pictures.figure.axes[0]
    assert wedges(ax) == 2
    assert [handle.get_label() for handle in pictures.figure.legends[0].legend_handles][1].startswith("beam that")
    if shutil.which("ffmpeg"):
        assert b"ftyp" in animate_run(run, tmp_path / "street.mp4", seconds=SECONDS).read_bytes()[:16]


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("street.avi", {}, r"street.avi must end in .gif or .mp4, for example street.gif"),
        ("street.mp4", {}, r"needs the program ffmpeg, which is not found; install it, or write street.gif"),
        ("nowhere/street.gif", {}, r"is in a folder that does not exist"),
        ("street.gif", {"seconds": 0.0}, r"--seconds must lie above 0 and at most at 120, got 0"),
        ("street.gif", {"seconds": float("nan")}, r"--seconds must lie above 0"),
        ("street.gif", {"clients": [9]}, r"--client 9 is not in the run; its clients are 0 to 3"),
        ("street.gif", {"clients": [0, 1, 2, 3, 0]}, r"--client may be given 4 times, got 5"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence_and_leaves_no_file(
    out: str, options: dict[str, Any], message: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match=message):
        animate_run(folder, tmp_path / out, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["diagnostics.json", "links.jsonl"])
def test_a_damaged_run_is_refused_in_a_sentence_and_leaves_no_file(name: str, folder: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "run"))
    (damaged / name).write_text("{")
    with pytest.raises(DataError, match=rf"{name} cannot be read .*; run the scenario again"):
        animate_run(damaged, tmp_path / "street.gif", seconds=SECONDS)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_damaged_model_is_refused_in_a_sentence(tiny: Scenario, tmp_path: Path) -> None:
    model = tmp_path / "client-02.onnx"
    model.write_bytes(b"no model")
    with pytest.raises(DataError, match=r"client-02\.onnx is no model of a run .*; run the scenario again"):
        station_films(tiny, {2: model}, [2], 4, every=1)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo \"Unknown encoder 'libx264'.\" >&2; exit 1", r"Unknown encoder 'libx264'"),
        ("cat > /dev/null; exit 3", "exit code 3"),
    ],
    ids=["at once", "at the end"],
)
def test_an_ffmpeg_that_fails_is_one_sentence_that_offers_a_gif(
    script: str,
    why: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    programs, films = tmp_path / "programs", tmp_path / "films"
    programs.mkdir()
    films.mkdir()
    ffmpeg = programs / "ffmpeg"
    # what it has written until then may not stay
    ffmpeg.write_text(f'#!/bin/sh\nfor last; do :; done; echo film > "$last"; {script}\n')
    ffmpeg.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    said = rf"street\.mp4 cannot be written, because ffmpeg failed \({why}\); write street\.gif instead"
    with pytest.raises(ConfigError, match=said):
        animate_run(folder, films / "street.mp4", seconds=SECONDS)
    assert not list(films.iterdir())
    assert not caplog.records


def test_a_scenario_without_a_world_has_no_street() -> None:
    with pytest.raises(ConfigError, match=r"scenario 'digits' has none \(data.source = 'rows'\)"):
        station_films(load_scenario("digits"), {}, [], 10, every=1)


def test_frames_around_the_middle_blockage_are_shown_within_its_sequence() -> None:
    blocked, sequence = np.zeros(100, dtype=bool), np.repeat([0, 1], 50)
    blocked[[10, 58, 95]] = True
    assert shown_frames(blocked, sequence, 20) == slice(50, 70)
    assert shown_frames(blocked, sequence, 500) == slice(50, 100)
    assert shown_frames(np.zeros(100, dtype=bool), np.repeat([0, 1], [30, 70]), 20) == slice(30, 50)


def test_what_a_film_draws_is_told_apart_without_color(folder: Path, tiny: Scenario) -> None:
    (film,) = station_films(tiny, {}, [2], 4, every=1)
    film = replace(film, chosen_sine=np.zeros(len(film)))
    network = replace(network_film(folder), loss={(0, 1): 0.2, (1, 0): 0.0, (1, 2): 0.0})
    pictures = FilmPictures([film], network, "tiny")
    pictures.draw(0)
    street, edges = pictures.figure.axes
    assert [patch.get_hatch() or "" for patch in street.patches if isinstance(patch, Wedge)] == ["", "/////"]
    assert street.get_ylabel().endswith("[m]")
    assert [line.get_linestyle() for line in edges.lines[:2]] == ["--", "-"]
    labels = [text.get_text() for text in pictures.figure.legends[0].get_texts()]
    assert labels[-2:] == ["edge with losses (up to 20.0%)", "edge without losses"]
