"""Changes of images: what they hide or move, that they are the same every time, and that nothing else happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sheafedge.datasets.windows.perturb import ImageChange, Occlusion, View
from sheafedge.emulator.contracts import ConfigError, DataError

SHAPES = [(64, 64, 3), (64, 64), (48, 80, 3), (33, 21)]
#: Rectangles end at whole pixels: half a one too early or too late at most.
PIXEL = 0.5
#: Bilinear weights are whole sixteenths of a pixel.
LEVELS = 255 / 16


def images(n: int = 20, shape: tuple[int, ...] = (64, 64, 3), seed: int = 0) -> NDArray[np.uint8]:
    # Never 0, so that what is black was hidden.
    return np.random.default_rng(seed).integers(1, 256, (n, *shape), dtype=np.uint8)


def drawn(seed: int) -> View:
    return View.drawn(np.random.default_rng(seed))


def changes() -> list[ImageChange]:
    return [Occlusion(5), drawn(5)]


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 2**63 - 1), first=st.integers(0, 10**9))
def test_a_rectangle_of_the_asked_share_is_black(shape: tuple[int, ...], seed: int, first: int) -> None:
    frames, some = first + np.arange(8), images(8, shape)
    occlusion = Occlusion(seed)
    hidden = (occlusion(some, frames) == 0).reshape(8, *shape[:2], -1).all(axis=3)
    height, width = shape[:2]
    for one, (top, bottom, left, right) in zip(hidden, occlusion.rectangles(frames, height, width), strict=True):
        assert one[top:bottom, left:right].all()
        assert one.sum() == (bottom - top) * (right - left)
        slack = PIXEL * max(bottom - top, right - left)
        assert 0.3 * height * width - slack <= one.sum() <= 0.6 * height * width + slack


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_not_hidden_stays_as_it_was(shape: tuple[int, ...]) -> None:
    some = images(20, shape)
    hidden = Occlusion(1)(some, np.arange(20))
    assert_array_equal(hidden[hidden > 0], some[hidden > 0])
    assert (hidden == 0).any()


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.6), (0.05, 0.1), (0.5, 0.5)])
def test_hidden_shares_fill_their_range_evenly(low: float, high: float) -> None:
    top, bottom, left, right = Occlusion(2, low, high).rectangles(np.arange(20_000), 6400, 6400).T
    share = (bottom - top) * (right - left) / 6400**2
    # Means of 20,000 uniform numbers scatter by a standard error of 0.2 % of their range.
    assert share.mean() == pytest.approx((low + high) / 2, abs=0.01 * (high - low) + 1e-3)
    tenths = [low + 0.1 * (high - low), high - 0.1 * (high - low)]
    assert np.quantile(share, [0.1, 0.9]) == pytest.approx(tenths, abs=0.01)


def test_no_place_in_the_image_is_hidden_much_more_often_than_others() -> None:
    often = (Occlusion(4)(np.full((4000, 16, 16), 255, dtype=np.uint8), np.arange(4000)) == 0).mean(axis=0)
    assert often.mean() == pytest.approx(0.45, abs=0.02)
    assert often.min() > 0.3
    assert often.max() < 0.6


def test_frames_and_clients_are_hidden_differently() -> None:
    frames = np.arange(200)
    one, other = (Occlusion(seed).rectangles(frames, 64, 64) for seed in (1, 2))
    assert len(np.unique(one, axis=0)) > 50  # of 4 sides times 20 lengths
    assert (one == other).all(axis=1).mean() < 0.05


@pytest.mark.parametrize("change", changes(), ids=["occluded", "view"])
@given(order=st.permutations(range(20)), cut=st.integers(1, 19))
def test_a_frame_is_changed_alike_in_any_batch(change: ImageChange, order: list[int], cut: int) -> None:
    some, frames = images(), 1000 + np.arange(20)
    whole = change(some, frames)
    rows = np.array(order[:cut])
    assert_array_equal(change(some[rows], frames[rows]), whole[rows])


@pytest.mark.parametrize("change", changes(), ids=["occluded", "view"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_change_leaves_its_inputs_alone(change: ImageChange, shape: tuple[int, ...]) -> None:
    some = images(3, shape)
    before = some.copy()
    changed = change(some, np.arange(3))
    assert_array_equal(some, before)
    assert changed.dtype == np.uint8
    assert changed.shape == some.shape
    assert not np.array_equal(changed, some)
    assert change(some[:0], np.arange(0)).shape == (0, *shape)


def test_a_view_is_the_same_in_every_frame() -> None:
    one = np.repeat(images(1), 30, axis=0)
    seen = drawn(3)(one, np.arange(30))
    assert_array_equal(seen, np.repeat(seen[:1], 30, axis=0))


def test_clients_have_views_of_their_own() -> None:
    views = [drawn(seed) for seed in range(20)]
    assert len(set(views)) == 20
    assert 2 <= sum(view.flipped for view in views) <= 18
    seen = np.array([view(images(1), np.zeros(1, dtype=np.int64))[0] for view in views])
    assert len(np.unique(seen.reshape(20, -1), axis=0)) == 20
    assert drawn(4) == drawn(4)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_of_nothing_changes_nothing(shape: tuple[int, ...]) -> None:
    some = images(20, shape)
    assert_array_equal(View()(some, np.arange(20)), some)


def test_quarter_turns_and_mirrors_move_whole_pixels() -> None:
    some, frames = images(), np.arange(20)
    assert_array_equal(View(rotation_deg=90.0)(some, frames), np.rot90(some, 1, axes=(1, 2)))
    assert_array_equal(View(flipped=True)(some, frames), some[:, :, ::-1])
    assert_array_equal(View(rotation_deg=180.0, flipped=True)(some, frames), some[:, ::-1])
    assert_array_equal(View(shift_right=0.25)(some, frames)[:, :, 8:], some[:, :, :-8])


def test_a_wide_picture_turns_without_being_squeezed() -> None:
    some = np.full((1, 48, 80), 10, dtype=np.uint8)
    some[:, 22:26, 50:54] = 250  # 12 pixels right of the middle
    seen = View(rotation_deg=90.0)(some, np.arange(1))[0]
    row, column = np.nonzero(seen > 200)
    assert (row.mean(), column.mean()) == pytest.approx((23.5 - 12.0, 39.5), abs=0.1)


def place_of_a_dot(view: View, row: int, column: int) -> tuple[float, float]:
    """Brightness-weighted row and column, from the middle, at which a dot is seen."""
    dot = np.zeros((1, 65, 65), dtype=np.uint8)
    dot[0, row - 1 : row + 2, column - 1 : column + 2] = 255
    light = view(dot, np.zeros(1, dtype=np.int64))[0].astype(float)
    return float((light.sum(axis=1) @ np.arange(65)) / light.sum()) - 32, float(
        (light.sum(axis=0) @ np.arange(65)) / light.sum()
    ) - 32


def test_zoom_and_perspective_move_a_dot_as_they_should() -> None:
    assert place_of_a_dot(View(zoom=1.25), 32, 48) == pytest.approx((0.0, 20.0), abs=0.2)
    right, left = (place_of_a_dot(View(tilt_right=0.2), 32, column)[1] for column in (48, 16))
    assert right > 16 + 1
    assert -16 < left < -16 + 3
    down = place_of_a_dot(View(tilt_down=0.2), 48, 32)[0]
    assert down > 16 + 1


def test_colors_follow_their_matrix() -> None:
    some = images(4)
    greyed = View(saturation=0.0)(some, np.arange(4)).astype(float)
    assert_array_equal(greyed[..., 0], greyed[..., 2])
    assert greyed[..., 0] == pytest.approx(some @ np.array([0.299, 0.587, 0.114]), abs=1.0)
    redder = View(gains=(1.2, 1.0, 0.8))(some, np.arange(4)).astype(float)
    assert redder == pytest.approx(np.minimum(some * np.array([1.2, 1.0, 0.8]), 255.0), abs=1.0)
    brighter = View(brightness=0.1)(some[..., 0], np.arange(4)).astype(float)
    assert brighter == pytest.approx(np.minimum(some[..., 0] + 25.5, 255.0), abs=1.0)


def test_grey_images_see_the_same_geometry_as_colored_ones() -> None:
    some = images(4)
    moved = replace(drawn(7), saturation=1.0, gains=(1.0, 1.0, 1.0), brightness=0.0)
    assert_array_equal(moved(some[..., 1], np.arange(4)), moved(some, np.arange(4))[..., 1])


@pytest.mark.parametrize("seed", range(20))
def test_most_of_the_picture_stays_in_view(seed: int) -> None:
    white = np.full((1, 64, 64), 255, dtype=np.uint8)
    view = replace(drawn(seed), gains=(1.0, 1.0, 1.0), brightness=0.0)
    assert (view(white, np.arange(1)) > 255 - LEVELS).mean() > 0.75


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Occlusion(0, 0.0, 0.5), "occlusion.low"),
        (lambda: Occlusion(0, 0.6, 0.3), "occlusion.low"),
        (lambda: Occlusion(0, 0.5, 1.5), "occlusion.low"),
        (lambda: Occlusion(-1), "occlusion.seed"),
        (lambda: View(zoom=0.0), "view.zoom"),
        (lambda: View(tilt_right=1.0), "view.tilt_right"),
        (lambda: View(rotation_deg=float("nan")), "view.rotation_deg"),
        (lambda: View(gains=(1.0, -1.0, 1.0)), "view.gains"),
    ],
)
def test_impossible_changes_are_refused(make: object, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("change", changes(), ids=["occluded", "view"])
def test_what_is_no_image_is_refused(change: ImageChange) -> None:
    with pytest.raises(DataError, match="uint8"):
        change(images().astype(np.float32), np.arange(20))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="uint8"):
        change(images(20, (64, 64, 4)), np.arange(20))
    with pytest.raises(DataError, match="frame numbers"):
        change(images(), np.arange(19))
