"""What the camera shows: the right boxes in the right pixels, in the right light."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles.camera_slots import seen_slots
from doubles.radio_scenes import busy_street, street
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.sensors.backdrop import HAZE
from sheafedge.emulator.sensors.camera import (
    N_EXPOSURE_WAVES,
    NIGHT_GAIN,
    Camera,
    CameraSettings,
    Exposure,
    pixels_of,
    render,
    view_of,
)
from sheafedge.emulator.world.scene import Array, Facade, Kind, Scene
from sheafedge.emulator.world.weather import Weather

#: 90 degrees, so a slope of 1 reaches the edge, so that 32 pixels are one metre at a depth of one metre.
CLEAN = CameraSettings(field_of_view_deg=90.0, above_antenna_m=0.0, exposure_drift=0.0, noise_sigma=0.0)
CENTER = 32
AGREEMENT = 0.99  # a box may touch the pixel between its samples only
SAMPLES_IN_A_PIXEL = 4
STANDARD_ERRORS = 3.0
BOX = (2.0, 2.0, 2.0)


def draws(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def picture(scene: Scene, settings: CameraSettings = CLEAN) -> Array:
    return render(scene, settings, draws())[0].astype(np.float64)


def placed(scene: Scene, center_m: Array) -> Scene:
    return replace(scene, center_m=np.asarray(center_m, dtype=np.float64).reshape(scene.center_m.shape))


def first_box_on_the_way(scene: Scene, start_m: Array) -> np.ndarray:
    """[F] nearest box that the straight way to the user meets, -1 for none: slabs in all three dimensions."""
    along = (scene.user_m - start_m)[:, None]
    one, other = (scene.lower_m - start_m) / along, (scene.upper_m - start_m) / along
    enters, leaves = np.minimum(one, other).max(axis=-1), np.maximum(one, other).min(axis=-1)
    met = scene.present & (enters < leaves) & (leaves > 0) & (enters < 1)
    return np.where(met.any(axis=1), np.where(met, enters, np.inf).argmin(axis=1), -1)


def test_a_box_covers_exactly_the_pixels_that_its_corners_span() -> None:
    """A cube of 2 m whose near face is 8 m away, at eye level, is 8 pixels wide and high."""
    scene = placed(street([(Kind.VAN, 0, 0, BOX)], station=(0, 0, 5)), np.array([0, 9, 5]))
    seen = seen_slots(scene, CLEAN)[0]
    expected = np.full((64, 64), -1)
    expected[CENTER - 4 : CENTER + 4, CENTER - 4 : CENTER + 4] = 0
    assert_array_equal(seen, expected)


def test_from_above_the_roof_is_seen_too_and_is_lighter_than_the_front() -> None:
    scene = placed(street([(Kind.VAN, 0, 0, BOX)], station=(0, 0, 5)), np.array([0, 9, 1]))
    rows = np.flatnonzero(seen_slots(scene, CLEAN)[0][:, CENTER] == 0)
    far_edge, near_edge, bottom = (CENTER + 32 * drop / depth for drop, depth in ((3, 10), (3, 8), (5, 8)))
    assert rows[0] == np.ceil(far_edge - 0.5)
    assert rows[-1] == np.ceil(bottom - 0.5) - 1
    roof, front = picture(scene)[int(near_edge) - 1, CENTER], picture(scene)[int(near_edge) + 1, CENTER]
    assert roof.sum() > front.sum()


def test_from_below_the_dark_lower_side_is_seen() -> None:
    scene = placed(street([(Kind.VAN, 0, 0, BOX)], station=(0, 0, 1)), np.array([0, 9, 6]))
    image, seen = picture(scene), seen_slots(scene, CLEAN)[0]
    rows = np.flatnonzero(seen[:, CENTER] == 0)
    assert rows[-1] == np.ceil(CENTER - 32 * 4 / 10 - 0.5) - 1, "down to the far lower edge"
    assert image[rows[-1], CENTER].sum() < image[13, CENTER].sum(), "row 13 shows the body, 0.6 m above"


@pytest.mark.parametrize("swapped", [False, True])
def test_a_box_hides_what_is_behind_it_and_is_hidden_by_what_is_before_it(swapped: bool) -> None:
    """Near box in columns 32..39 only, far box in 29..34: the overlap belongs to the near one, whatever its slot."""
    scene = street([(Kind.CAR, 0, 0, BOX), (Kind.BUS, 0, 0, (3, 2, 2))], station=(0, 0, 5))
    near, far = (1, 0) if swapped else (0, 1)
    center_m, size_m = np.zeros((1, 2, 3)), np.zeros((1, 2, 3))
    center_m[0, near], size_m[0, near] = (1, 9, 5), (2, 2, 2)
    center_m[0, far], size_m[0, far] = (0, 17, 5), (3, 2, 2)
    seen = seen_slots(replace(scene, center_m=center_m, size_m=size_m), CLEAN)[0]
    assert_array_equal(seen[CENTER, 29:41], [far] * 3 + [near] * 8 + [-1])
    assert_array_equal(seen[CENTER + 3, 29:41], [-1] * 3 + [near] * 8 + [-1])


def test_the_hidden_box_leaves_no_trace_in_the_image() -> None:
    """And it does where it sticks out, or the comparison would prove nothing."""
    front = (Kind.BUS, 0.0, 6.0, (6.0, 2.0, 3.0))
    alone = picture(street([front]))
    assert_array_equal(picture(street([front, (Kind.CAR, 0.0, 12.0)])), alone)
    assert (picture(street([front, (Kind.CAR, 8.0, 12.0)])) != alone).any()


def test_a_wall_hides_what_stands_behind_it_but_not_what_rises_above() -> None:
    wall = (Facade(10.0, -50.0, 50.0, 2.0, "concrete"),)
    tower = (Kind.VAN, 0.0, 14.0, (4.0, 2.0, 8.0))
    seen = seen_slots(street([tower], facades=wall), CLEAN)[0]
    top_of_wall = CENTER - 32 * (2.0 - 1.2) / 10
    assert (seen[: int(top_of_wall), CENTER] == 0).any()
    assert (seen[int(np.ceil(top_of_wall)) :] == -1).all()
    assert (seen_slots(street([tower]), CLEAN)[0][CENTER] == 0).any(), "without the wall it is there"


@given(
    x_m=st.floats(-20, 20),
    y_m=st.floats(3, 40),
    z_m=st.floats(0, 20),
    yaw_deg=st.floats(-20, 20),
    tilt_deg=st.floats(-20, 40),
)
def test_a_corner_lands_where_the_pinhole_puts_it(
    x_m: float, y_m: float, z_m: float, yaw_deg: float, tilt_deg: float
) -> None:
    """The formula is written a second time here, with a rotation and a division."""
    settings = replace(CLEAN, yaw_deg=yaw_deg, tilt_deg=tilt_deg)
    column, row, depth_m = pixels_of(np.array([x_m, y_m, z_m]), street(), settings)
    yaw = np.radians(yaw_deg)
    right_m, ahead_m = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]]) @ (x_m, y_m)
    if ahead_m > 0.1:
        assert_allclose(depth_m, ahead_m)
        assert_allclose(column, CENTER + 32 * right_m / ahead_m)
        assert_allclose(row, CENTER - 32 * ((z_m - 1.2) / ahead_m - np.tan(np.radians(tilt_deg))))


@given(yaw_deg=st.floats(-30, 30), tilt_deg=st.floats(-10, 20), x_m=st.floats(-4, 4), y_m=st.floats(8, 20))
def test_boxes_and_points_are_projected_alike(yaw_deg: float, tilt_deg: float, x_m: float, y_m: float) -> None:
    """The silhouette ends where its outermost corners are, to a pixel."""
    settings = replace(CLEAN, yaw_deg=yaw_deg, tilt_deg=tilt_deg)
    scene = street([(Kind.VAN, x_m, y_m)])
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    column, row, _ = pixels_of(scene.lower_m[0, 0] + corners * scene.size_m[0, 0], scene, settings)
    assume(column.min() >= 0.0 and column.max() <= 64.0)  # a corner beside the picture may be the lowest or highest one
    rows, columns = np.nonzero(seen_slots(scene, settings)[0] == 0)
    expected = np.clip([column.min(), column.max(), row.min(), row.max()], 0, 64)
    found = [columns.min(), columns.max() + 1, rows.min(), rows.max() + 1] if len(rows) else expected
    assert_allclose(found, expected, atol=1.0)


def test_nearer_is_bigger() -> None:
    sizes = [(seen_slots(street([(Kind.CAR, 0.0, y_m)]), CLEAN)[0] == 0).sum() for y_m in (4.0, 8.0, 16.0)]
    assert sizes[0] > 2 * sizes[1] > 4 * sizes[2] > 0


def test_at_night_all_is_four_times_darker_but_the_lamps() -> None:
    scene = street([(Kind.CAR, 0.0, 7.0)])
    scene.velocity_m_per_s[:] = (10.0, 0.0, 0.0)
    day, night = picture(scene), picture(scene, replace(CLEAN, night=True))
    column, row, _ = pixels_of(np.array([[2.2, 6.1, 0.66], [-2.2, 6.1, 0.66]]), scene, CLEAN)
    (head, tail), (head_row, tail_row) = column.astype(int), row.astype(int)
    assert night[head_row, head].min() > day[head_row, head].max(), "white light ahead"
    assert night[tail_row, tail, 0] > 3 * night[tail_row, tail, 1], "red light behind"
    elsewhere = np.ones((64, 64), dtype=bool)
    elsewhere[:, [head - 1, head, head + 1, tail - 1, tail, tail + 1]] = False
    assert_allclose(night[elsewhere], day[elsewhere] * NIGHT_GAIN, atol=1.0)  # both are rounded


def test_the_lamp_ahead_follows_the_way_it_drives() -> None:
    scene = street([(Kind.CAR, 0.0, 7.0)])
    forwards = replace(scene, velocity_m_per_s=np.full((1, 1, 3), 5.0))
    backwards = replace(scene, velocity_m_per_s=np.full((1, 1, 3), -5.0))
    brightest = [
        int(picture(s, replace(CLEAN, night=True))[..., 1].max(axis=0).argmax()) for s in (forwards, backwards)
    ]
    assert brightest[0] > CENTER > brightest[1]


def test_a_drone_is_a_blob_of_a_few_pixels_around_its_direction() -> None:
    settings = replace(CLEAN, supersampling=2, tilt_deg=25.0)
    place = np.array([10.3, 50.0, 30.0])
    scene = placed(street([(Kind.TARGET, 0, 0, (0.4, 0.4, 0.4))]), place)
    empty = replace(scene, present=np.zeros((1, 1), dtype=bool))
    change = np.abs(picture(scene, settings) - picture(empty, settings)).sum(axis=-1)
    column, row, _ = pixels_of(place, scene, settings)
    rows, columns = np.nonzero(change)
    assert 2 <= len(rows) <= 9
    weight = change[rows, columns]
    assert_allclose([(weight * (columns + 0.5)).sum() / weight.sum()], column, atol=0.5)
    assert_allclose([(weight * (rows + 0.5)).sum() / weight.sum()], row, atol=0.5)
    assert not np.abs(picture(scene, replace(settings, least_target_px=0.0)) - picture(empty, settings)).max() > 80


def test_half_covered_pixels_mix_both_colors() -> None:
    scene = placed(street([(Kind.PEDESTRIAN, 0, 0, BOX)], station=(0, 0, 5)), np.array([0.125, 9, 5]))
    hard, soft = picture(scene), picture(scene, replace(CLEAN, supersampling=2))
    empty = picture(street(station=(0, 0, 5)))
    row = CENTER + 1
    assert_allclose(soft[row, 28], (soft[row, 30] + empty[row, 28]) / 2, atol=1.0)  # rounding to whole levels
    assert_array_equal(soft[row, 30], hard[row, 30])


def test_the_pixel_towards_a_blocked_user_shows_the_blocker() -> None:
    """Radio and camera agree in the image as it is delivered: a blocked user's pixel shows a box, a clear one's not."""
    scene = busy_street(1500, 10, seed=4)
    settings = replace(CLEAN, field_of_view_deg=100.0, supersampling=SAMPLES_IN_A_PIXEL)
    blocker = first_box_on_the_way(scene, np.array(view_of(scene, settings).position_m))
    column, row, _ = pixels_of(scene.user_m, scene, settings)
    shape = (len(scene), 64, SAMPLES_IN_A_PIXEL, 64, SAMPLES_IN_A_PIXEL)
    pixel = (
        seen_slots(scene, settings)
        .reshape(shape)[np.arange(len(scene)), row.astype(int), :, column.astype(int), :]
        .reshape(len(scene), -1)
    )
    assert 0.1 < (blocker >= 0).mean() < 0.9
    assert (pixel >= 0).any(axis=1)[blocker >= 0].mean() >= AGREEMENT
    assert (pixel < 0).any(axis=1)[blocker < 0].mean() >= AGREEMENT
    assert (pixel >= 0).any(axis=1)[blocker < 0].mean() < 0.5, "or a picture full of boxes would pass"


def test_a_sharper_camera_agrees_with_the_line_of_sight_at_the_very_sample() -> None:
    scene = busy_street(300, 10, seed=5)
    settings = replace(CLEAN, field_of_view_deg=100.0, n_pixels=512)
    blocker = first_box_on_the_way(scene, np.array(view_of(scene, settings).position_m))
    column, row, _ = pixels_of(scene.user_m, scene, settings)
    shown = seen_slots(scene, settings)[np.arange(len(scene)), row.astype(int), column.astype(int)]
    assert (shown == blocker).mean() >= AGREEMENT
    assert (shown == np.roll(blocker, 1)).mean() < AGREEMENT, "the wrong frames must not agree"


def test_noise_has_the_sigma_asked_for_and_is_the_same_in_all_colors() -> None:
    settings = replace(CLEAN, noise_sigma=0.02)
    noise = render(street(), settings, draws()).astype(float) - picture(street())
    inside = ((picture(street()) > 40) & (picture(street()) < 215)).all(axis=-1)
    unclipped = noise[inside[None]]
    np.testing.assert_array_equal(unclipped[:, 0], unclipped[:, 1])
    np.testing.assert_array_equal(unclipped[:, 0], unclipped[:, 2])
    sigma = np.sqrt(0.02**2 * 255**2 + 1 / 12)  # noise comes in whole steps
    assert len(unclipped) > 1000
    assert abs(unclipped[:, 0].std() - sigma) < STANDARD_ERRORS * sigma / np.sqrt(2 * len(unclipped))
    assert abs(unclipped[:, 0].mean()) < STANDARD_ERRORS * sigma / np.sqrt(len(unclipped))


def test_noise_stays_on_the_scale() -> None:
    image = render(street(), replace(CLEAN, noise_sigma=0.5), draws())
    assert image.min() == 0
    assert image.max() == 255


def test_exposure_stays_in_its_range_and_spreads_as_a_sum_of_waves() -> None:
    settings, source, n_cameras = CameraSettings(), draws(3), 4000
    values = np.array([Exposure.drawn(settings, source).at(np.array([17.0]))[0] for _ in range(n_cameras)])
    sigma = settings.exposure_drift / np.sqrt(2 * N_EXPOSURE_WAVES)
    assert np.abs(values - 1).max() <= settings.exposure_drift
    assert abs(values.mean() - 1) < STANDARD_ERRORS * sigma / np.sqrt(n_cameras)
    kurtosis_bound = np.sqrt(2 / n_cameras)  # a sum of sines has shorter tails than a normal, so this is generous
    assert abs(values.var() / sigma**2 - 1) < STANDARD_ERRORS * kurtosis_bound
    slow = Exposure.drawn(settings, source).at(np.arange(0, 600, 0.1))
    assert np.abs(np.diff(slow)).max() < 0.01
    assert np.ptp(slow) > 0.05


def test_exposure_scales_the_image() -> None:
    dimmed = Exposure(0.2, np.zeros(3), np.full(3, -np.pi / 2))
    image = render(street(), CLEAN, draws(), dimmed)[0]
    assert_allclose(image, 0.8 * picture(street()), atol=1.0)  # both are rounded


def test_the_same_seed_gives_the_same_bytes_in_pieces_of_any_size() -> None:
    scene, settings = busy_street(70, 6, seed=2), CameraSettings()
    whole = Camera(settings, draws(9)).sense(scene)
    camera = Camera(settings, draws(9))
    pieces = [camera.sense(scene.frames(slice(begin, begin + 13))) for begin in range(0, 70, 13)]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    assert Camera(settings, draws(10)).sense(scene).tobytes() != whole.tobytes()
    assert whole.shape == (70, 64, 64, 3)
    assert whole.dtype == np.uint8


@pytest.mark.parametrize("boxes", [[], [(Kind.CAR, 0.0, -8.0)]])
def test_nobody_and_somebody_behind_the_camera_look_the_same(boxes: list[tuple[Kind, float, float]]) -> None:
    for settings in (CLEAN, replace(CLEAN, supersampling=2), replace(CLEAN, night=True)):
        assert_array_equal(picture(street(boxes), settings), picture(street(), settings))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"field_of_view_deg": 180.0}, "camera.field_of_view_deg"),
        ({"supersampling": 0}, "camera.supersampling"),
        ({"noise_sigma": float("nan")}, "camera.noise_sigma"),
    ],
)
def test_impossible_settings_are_refused_by_name(change: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        CameraSettings(**change)  # type: ignore[arg-type]


def test_fog_takes_contrast_by_distance_and_hides_the_sky() -> None:
    """Koschmieder: what is left of a color beside the air's falls with e^(-extinction * distance)."""
    wall = Facade(30.0, -60.0, 60.0, 9.0, "concrete")
    scene = placed(street([(Kind.VAN, 0, 0, BOX)], station=(0, 0, 5), facades=(wall,)), np.array([0, 9, 5]))
    weather = Weather(fog_visibility_m=100.0)
    foggy = replace(scene, surroundings=replace(scene.surroundings, weather=weather))
    air = 255.0 * np.array(HAZE)
    clear, fog = picture(scene) - air, picture(foggy) - air
    for pixel, depth_m in (((32, 32), 8.0), ((30, 5), 30.0)):
        assert_allclose(fog[pixel], clear[pixel] * np.exp(-weather.extinction_per_m * depth_m), atol=1.5)
    assert np.abs(clear[0]).max() > 20.0
    assert np.abs(fog[0]).max() < 1.0
