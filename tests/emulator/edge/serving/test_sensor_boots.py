"""A sensor that starts again is heard at once, and nothing of before its start disturbs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from doubles.bundles import RATE_HZ, tiny_bundle, tiny_manifest
from doubles.served_model import at, plain_window, raw_frames, replies, served
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer, FrameRefused, Refused
from sheafedge.emulator.edge.serving.sensor_boots import FORMER_BOOTS
from sheafedge.emulator.edge.serving.stream_windows import LATE_INSTANTS, StreamWindows

FRAMES = 4
MANIFEST = tiny_manifest(frames=FRAMES)
RAW = raw_frames(MANIFEST, 100)


def new_windows() -> StreamWindows:
    return StreamWindows(MANIFEST.inputs, 0)


def put(
    windows: StreamWindows,
    index: int,
    boot: str | int | None,
    *names: str,
    raw: Any = RAW,
    now_s: float | None = None,
) -> str:
    """Put the frames of an instant, of some modalities or all; "taken", or the code of the refusal."""
    now_s = index / RATE_HZ if now_s is None else now_s
    frames = {name: values for name, values in at(raw, index).items() if name in (names or raw)}
    try:
        windows.put(index, index / RATE_HZ, frames, now_s, boot)
    except FrameRefused as refused:
        return refused.code
    return "taken"


def fed(boot: str | int | None, n: int = 50) -> StreamWindows:
    windows = new_windows()
    assert {put(windows, index, boot) for index in range(n)} == {"taken"}
    return windows


def test_a_sensor_that_counts_from_zero_again_is_heard_at_once() -> None:
    windows, again = fed("a"), raw_frames(MANIFEST, FRAMES, seed=1)
    assert [put(windows, index, "b", raw=again) for index in range(FRAMES)] == ["taken"] * FRAMES
    for spec in MANIFEST.inputs:
        found = windows.sample(FRAMES - 1, 0.0).inputs[spec.modality]
        assert_array_equal(found, plain_window(spec, again[spec.modality], FRAMES - 1))


@pytest.mark.parametrize("boot", ["a", None])
def test_without_another_boot_it_is_not(boot: str | None) -> None:
    """Negative control: what counts from zero again is old, as ever."""
    assert put(fed(boot), 0, boot) == "old"


def test_no_frame_of_before_a_start_is_in_a_window_after_it() -> None:
    """Also where the indices would fit: it starts again within the window, and goes on counting."""
    windows = fed("a", 10)
    assert put(windows, 10, "b") == "taken"
    assert windows.sample(10, 1.0).missing == ("lidar", "rf")
    for index in range(11, 10 + FRAMES):
        put(windows, index, "b")
    assert not windows.sample(9 + FRAMES, 0.0).missing


@given(late=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 99), st.sampled_from(["a", 7]))))
def test_late_packets_of_starts_that_are_over_change_nothing(late: list[tuple[int, int, str | int]]) -> None:
    """Replayed at any instant, with any index."""
    windows, undisturbed = fed("a"), new_windows()
    put(windows, 0, 7)
    for index in range(12):
        put(undisturbed, index, "c")
        assert put(windows, index, "c") == "taken"
        for instant, replayed, boot in late:
            if instant == index:
                assert put(windows, replayed, boot) == "boot"
    found, expected = windows.sample(11, 1.1), undisturbed.sample(11, 1.1)
    assert found.missing == expected.missing == ()
    for modality, values in expected.inputs.items():
        assert_array_equal(found.inputs[modality], values)


def test_every_sensor_of_a_stream_has_a_start_of_its_own() -> None:
    windows = new_windows()
    for index in range(20):
        assert {put(windows, index, 1, "lidar"), put(windows, index, 2, "rf")} == {"taken"}
    assert put(windows, 20, 3, "rf") == "taken"
    assert windows.sample(20, 2.0).missing == ("lidar", "rf")  # lidar gave nothing for this instant yet
    put(windows, 20, 1, "lidar")
    assert windows.sample(20, 2.0).missing == ("rf",)
    for index in range(21, 20 + FRAMES):
        put(windows, index, 3, "rf")
        put(windows, index, 1, "lidar")
    assert not windows.sample(19 + FRAMES, 0.0).missing
    assert put(windows, 20 + FRAMES, 2, "rf") == "boot"


def test_a_sensor_that_counts_elsewhere_than_the_others_is_heard_and_takes_nothing_from_them() -> None:
    windows = fed("a")
    for index in range(FRAMES):
        assert put(windows, index, "b", "rf") == "taken"
    assert windows.sample(FRAMES - 1, 0.0).missing == ("lidar",)
    assert put(windows, 50, "a", "lidar") == "taken"
    assert windows.sample(50, 5.0).missing == ("rf",)


def test_a_packet_that_is_refused_begins_nothing() -> None:
    windows = fed("a")
    with pytest.raises(FrameRefused):
        windows.put(0, 0.0, {"rf": np.zeros(3)}, 0.0, "b")
    assert put(windows, 50, "a") == "taken"
    assert not windows.sample(50, 5.0).missing


def test_one_packet_of_a_start_that_is_over_is_refused_as_a_whole() -> None:
    windows = fed("a")
    put(windows, 50, "b", "rf")
    assert put(windows, 51, "a") == "boot"
    assert put(windows, 51, "a", "lidar") == "taken"


def test_frames_without_a_boot_go_on_with_the_windows_that_are_there() -> None:
    windows = fed("a")
    assert put(windows, 50, None) == "taken"
    assert not windows.sample(50, 5.0).missing
    assert put(windows, 51, "a") == "taken"
    assert put(windows, 0, None) == "old"


def test_so_many_starts_are_remembered_and_no_more() -> None:
    windows = new_windows()
    for number in range(FORMER_BOOTS + 2):
        put(windows, 0, number)
    assert [put(windows, 1, number) for number in range(1, FORMER_BOOTS + 1)] == ["boot"] * FORMER_BOOTS
    assert put(windows, 1, 0) == "taken"


def test_a_wrong_index_after_a_start_does_not_empty_the_windows_of_the_others() -> None:
    windows = fed("a")
    far = 50 + FRAMES + LATE_INSTANTS
    raw = raw_frames(MANIFEST, far + 1)
    assert put(windows, far, "b", "rf", raw=raw, now_s=5.0) == "ahead"
    assert put(windows, 50, "a", "lidar") == "taken"
    assert "lidar" not in windows.sample(50, 5.0).missing


def test_a_client_that_starts_again_is_answered_by_the_server(tmp_path: Any) -> None:
    with served(tiny_bundle(tmp_path / "tiny", frames=FRAMES), waiting=99) as server:
        with FrameClient(server.address) as first:
            for index in range(20):
                first.send("bs00", index, index / RATE_HZ, at(RAW, index), ask=index == 19)
            assert isinstance(replies(server, first, 1)[0], Answer)
        with FrameClient(server.address) as second, FrameClient(server.address, boot=first.boot) as late:
            assert first.boot != second.boot
            for index in range(FRAMES):
                second.send("bs00", index, index / RATE_HZ, at(RAW, index), ask=index == FRAMES - 1)
            assert isinstance(replies(server, second, 1)[0], Answer)
            late.send("bs00", 20, 2.0, at(RAW, 20))
            (refused,) = replies(server, late, 1)
            assert isinstance(refused, Refused)
            assert refused.code == "boot"
            assert "has started again since" in refused.sentence


def test_a_client_refuses_a_boot_that_cannot_be_sent() -> None:
    with pytest.raises(ConfigError, match="boot must be a number, or a text"):
        FrameClient("tcp://127.0.0.1:5570", boot="")
