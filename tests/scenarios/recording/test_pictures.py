"""The pictures hold what the scene holds, and say what is wrong when they cannot be drawn."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles.radio_scenes import WALLS, street
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.camera import CameraSettings, pixels_of, render
from sheafedge.emulator.world.scene import Kind, Scene, Surroundings, blockers
from sheafedge.scenarios.recording.pictures import KIND_COLORS, draw_moments, draw_scene, save_picture
from sheafedge.scenarios.recording.sensor_panels import BLOCKED, CLEAR

PNG_BEGINS_WITH = b"\x89PNG\r\n"
N_FRAMES, N_BEAMS = 40, 64


@pytest.fixture
def passing_car() -> Scene:
    """One car drives through the line of sight; frames 13 to 26 are blocked."""
    one = street([(Kind.CAR, 0.0, 6.0), (Kind.PEDESTRIAN, 5.0, 1.0)])
    index = np.zeros(N_FRAMES, dtype=int)
    scene = replace(one.frames(index), time_s=np.arange(N_FRAMES) / 10)
    scene.center_m[:, 0, 0] = np.linspace(-7.0, 7.0, N_FRAMES)
    scene.velocity_m_per_s[:, 0, 0] = 3.6
    around = Surroundings(facades=WALLS, kerbs_y_m=(2.2, 9.2), lanes_y_m=(3.95, 7.45))
    return replace(scene, surroundings=around)


def drawn(scene: Scene, frame: int) -> tuple[list[tuple[float, ...]], list[str]]:
    """Fill colors of what is drawn as a patch, and the color of every line."""
    ax = Figure().add_subplot()
    draw_scene(scene, frame, ax)
    return [tuple(patch.get_facecolor()) for patch in ax.patches], [str(line.get_color()) for line in ax.lines]


def test_the_line_of_sight_has_another_color_while_the_car_stands_in_it(passing_car: Scene) -> None:
    for frame in range(N_FRAMES):
        blocked = abs(passing_car.center_m[frame, 0, 0]) < 2.4  # half of the car's length
        _, lines = drawn(passing_car, frame)
        assert (BLOCKED in lines, CLEAR in lines) == (blocked, not blocked)


def test_boxes_are_drawn_in_the_color_of_their_kind_and_absent_ones_are_not(passing_car: Scene) -> None:
    car = to_rgba(KIND_COLORS[Kind.CAR])
    assert car in drawn(passing_car, 20)[0]
    assert car not in drawn(replace(passing_car, present=np.zeros((N_FRAMES, 2), dtype=bool)), 20)[0]


def test_only_boxes_on_the_way_block_and_never_the_one_that_carries_the_antenna(passing_car: Scene) -> None:
    assert blockers(passing_car.frames([20])).tolist() == [[True, False]]
    high = replace(
        passing_car, user_m=passing_car.user_m + np.array([0, 0, 3.0]), base_station_m=np.array([0.0, 0.0, 4.2])
    )
    assert not blockers(high).any(), "the line passes above the roof"
    carried = street([(Kind.TARGET, 0.0, 12.0)], user=(0.0, 12.0, 0.7))
    assert not blockers(carried).any()
    assert blockers(replace(carried, kind=np.full((1, 1), Kind.CAR, dtype=np.uint8))).any()
    beyond = street([(Kind.CAR, 0.0, 16.0), (Kind.CAR, 0.0, -4.0)])
    assert not blockers(beyond).any()


@pytest.mark.parametrize("with_sensors", [False, True])
def test_moments_become_a_picture_with_named_axes(passing_car: Scene, tmp_path: Path, with_sensors: bool) -> None:
    draws, settings = np.random.default_rng(1), CameraSettings()
    angles = np.linspace(-1.8, 1.8, 216)
    scans = np.stack([draws.uniform(2, 16, (N_FRAMES, 216)), np.tile(angles, (N_FRAMES, 1))], axis=-1)
    power = draws.exponential(size=(N_FRAMES, N_BEAMS))
    power[3, 5] = np.nan
    pixels = np.stack(pixels_of(passing_car.user_m, passing_car, settings)[:2], axis=-1)
    images = render(passing_car, settings, draws)
    figure = (
        draw_moments(
            passing_car,
            [2, 20],
            {"camera": images, "lidar": scans, "rf": power},
            user_pixels=pixels,
            title="street",
        )
        if with_sensors
        else draw_moments(passing_car, [2, 20], {})
    )
    labels = [ax.get_xlabel() + ax.get_ylabel() for ax in figure.axes]
    assert sum("[m]" in label for label in labels) == (4 if with_sensors else 2)
    assert ("time [s]" in "".join(labels)) == with_sensors
    titles = [ax.get_title() for ax in figure.axes]
    assert [title for title in titles if title.startswith("(")] == ["(a)  t = 0.2 s, clear", "(b)  t = 2.0 s, blocked"]
    save_picture(figure, tmp_path / "moments.png")
    assert (tmp_path / "moments.png").read_bytes().startswith(PNG_BEGINS_WITH)


def test_the_label_given_decides_what_is_shaded(passing_car: Scene) -> None:
    power = np.ones((N_FRAMES, N_BEAMS))
    label = np.zeros(N_FRAMES, dtype=bool)
    label[[4, 5, 30]] = True
    for blocked, n_stretches in ((label, 2), (None, 1), (~label, 3)):
        figure = draw_moments(passing_car, [0], {"rf": power}, blocked=blocked)
        (strongest,) = (ax for ax in figure.axes if ax.get_ylabel().startswith("strongest"))
        assert len(strongest.patches) == n_stretches


def test_a_drone_is_shown_with_its_height() -> None:
    scene = street([(Kind.TARGET, 0.0, 0.0, (0.4, 0.4, 0.4))], user=(10.0, 40.0, 25.0))
    scene = replace(scene, center_m=scene.user_m[:, None])
    ax = Figure().add_subplot()
    draw_scene(scene, 0, ax)
    assert "25 m up" in [text.get_text() for text in ax.texts]


def test_a_legend_names_what_occurs_and_nothing_else(passing_car: Scene) -> None:
    drone = street([(Kind.TARGET, 0.0, 0.0, (0.4, 0.4, 0.4))], user=(10.0, 40.0, 25.0))
    drone = replace(drone, center_m=drone.user_m[:, None])
    assert legend(draw_moments(drone, [0], {})) == ["user's drone", "base station", "line of sight"]
    blocked = ["blocked", "blocked stretch"]
    in_the_way = legend(draw_moments(passing_car, [0], {}))
    assert in_the_way == ["car", "pedestrian", "user", "base station", "line of sight", *blocked]
    assert legend(draw_moments(passing_car, [0], {}, blocked=np.zeros(N_FRAMES, dtype=bool))) == in_the_way[:-2]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_what_does_not_fit_together_is_refused_by_name(passing_car: Scene) -> None:
    with pytest.raises(ConfigError, match="frames holds 40"):
        draw_moments(passing_car, [0, N_FRAMES], {})
    with pytest.raises(ConfigError, match="frames is empty"):
        draw_moments(passing_car, [], {})
    with pytest.raises(ConfigError, match="rf has 7 instants and the scene 40"):
        draw_moments(passing_car, [0], {"rf": np.ones((7, N_BEAMS))})


def test_importing_the_module_does_not_import_the_plotting_library() -> None:
    """The command line would pay half a second for it."""
    code = "import sys, sheafedge.scenarios.recording.pictures; sys.exit('matplotlib' in sys.modules)"
    path = [str(Path(entry).resolve()) if entry else "." for entry in sys.path]
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}"], check=False)
    assert done.returncode == 0
