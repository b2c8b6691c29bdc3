"""A served sample is a training window, whatever happened to the frames on their way, or says what it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from doubles.bundles import RATE_HZ, tiny_manifest
from doubles.served_model import at, plain_window, raw_frames
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import InputWindow
from sheafedge.emulator.edge.frame_packets import MOST_INDEX, FrameRefused
from sheafedge.emulator.edge.manifest import InputSpec
from sheafedge.emulator.edge.serving.stream_windows import (
    LATE_INSTANTS,
    Sample,
    Streams,
    StreamWindows,
    ring_frames,
    stream_bytes,
)

BLOCKAGE, BEAMS = tiny_manifest(frames=4), tiny_manifest(kind="classes", n=8, frames=4)
ONE_FRAME = InputSpec(InputWindow("camera"), (3, 4, 5), 10.0, "0 to 255", "color")
COLUMNS = InputSpec(InputWindow("gps", 3, axis=1), (2, 3), 10.0, "m", "frames along the last axis")
N = 24


def windows_of(specs: Any, hold: int = 0) -> StreamWindows:
    return StreamWindows(specs, hold)


def fed(windows: StreamWindows, raw: Any, instants: Any) -> StreamWindows:
    for index in instants:
        windows.put(index, index / 10, at(raw, index), index / RATE_HZ)
    return windows


@pytest.mark.parametrize("specs", [BLOCKAGE.inputs, BEAMS.inputs, (ONE_FRAME, COLUMNS)], ids=["blockage", "beams", "x"])
def test_a_sample_is_the_training_window_at_every_instant(specs: tuple[InputSpec, ...]) -> None:
    draws = np.random.default_rng(0)
    raw = {spec.modality: draws.normal(size=(N, *spec.frame_shape)).astype(np.float32) for spec in specs}
    windows = windows_of(specs)
    n_whole = 0
    for now in range(N):
        fed(windows, raw, [now])
        sample = windows.sample(now, now / 10)
        assert not sample.stale_s
        assert not sample.held
        for spec in specs:
            first = spec.window.frames - 1 + spec.window.lag
            assert (spec.modality in sample.missing) == (now < first)
            if now >= first:
                n_whole += 1
                assert sample.inputs[spec.modality].shape == spec.shape
                assert_array_equal(sample.inputs[spec.modality], plain_window(spec, raw[spec.modality], now))
    assert n_whole > N


@given(st.data())
def test_the_order_in_which_frames_come_does_not_matter(data: st.DataObject) -> None:
    """Late by up to `LATE_INSTANTS`, each of its own accord."""
    delay = data.draw(st.lists(st.integers(0, LATE_INSTANTS), min_size=N, max_size=N))
    order = sorted(range(N), key=lambda index: (index + delay[index], index))
    raw = raw_frames(BLOCKAGE, N)
    sample = fed(windows_of(BLOCKAGE.inputs), raw, order).sample(N - 1, 0.0)
    for spec in BLOCKAGE.inputs:
        assert_array_equal(sample.inputs[spec.modality], plain_window(spec, raw[spec.modality], N - 1))


@given(lost=st.sets(st.integers(1, N - 1)), hold=st.integers(0, 3))
def test_holes_are_held_up_to_the_limit_and_told_and_never_crossed(lost: set[int], hold: int) -> None:
    """Against the same said in plain loops."""
    raw = raw_frames(BLOCKAGE, N)
    windows = fed(windows_of(BLOCKAGE.inputs, hold), raw, sorted(set(range(N)) - lost))
    sample = windows.sample(N - 1, 10.0)
    for spec in BLOCKAGE.inputs:
        taken = []
        for instant in range(N - spec.window.frames, N):
            before = [i for i in range(instant - hold, instant + 1) if i >= 0 and i not in lost]
            taken.append(before[-1] if before else None)
        if None in taken:
            assert spec.modality in sample.missing
            continue
        repeated = raw[spec.modality][taken]
        assert_array_equal(sample.inputs[spec.modality], np.stack(list(repeated), axis=spec.window.axis))
        assert sample.held.get(spec.modality, 0) == len(lost & set(range(N - spec.window.frames, N)))


def test_a_silent_sensor_is_stale_then_held_then_missing() -> None:
    raw, hold = raw_frames(BLOCKAGE, N), 2
    windows = fed(windows_of(BLOCKAGE.inputs, hold), raw, range(8))
    seen: list[Sample] = []
    for now in range(8, 12):
        windows.put(now, now / 10, {"rf": raw["rf"][now]})
        seen.append(windows.sample(now, now / 10))
    assert [sample.missing for sample in seen] == [(), (), ("lidar",), ("lidar",)]
    assert [sample.held.get("lidar") for sample in seen] == [1, 2, None, None]
    assert [sample.stale_s["lidar"] for sample in seen] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert all("rf" in sample.inputs and "rf" not in sample.stale_s for sample in seen)


def test_a_sensor_that_comes_back_counts_once_its_window_is_whole() -> None:
    raw = raw_frames(BLOCKAGE, N)
    windows = fed(windows_of(BLOCKAGE.inputs, 0), raw, [*range(6), *range(10, 16)])
    missing = [windows.sample(now, 0.0).missing for now in range(10, 16)]
    assert missing == [("lidar", "rf")] * 3 + [()] * 3


def test_with_a_lag_the_frame_of_now_is_not_looked_at_whether_it_is_there_or_not() -> None:
    raw = raw_frames(BEAMS, N)
    with_now = fed(windows_of(BEAMS.inputs), raw, range(10)).sample(9, 0.9)
    windows = fed(windows_of(BEAMS.inputs), raw, range(9))
    windows.put(9, 0.9, {"gps": raw["gps"][9]})
    without = windows.sample(9, 0.9)
    assert_array_equal(with_now.inputs["rf"], raw["rf"][5:9])
    assert_array_equal(without.inputs["rf"], raw["rf"][5:9])
    assert not without.stale_s


def test_a_sample_does_not_change_when_frames_come_later() -> None:
    raw = raw_frames(BLOCKAGE, 200)
    windows = fed(windows_of((*BLOCKAGE.inputs, ONE_FRAME)), raw, range(4))
    windows.put(4, 0.4, {"camera": np.ones((3, 4, 5))})
    sample = windows.sample(3, 0.3)
    camera = windows.sample(4, 0.4).inputs["camera"]
    kept = {modality: values.copy() for modality, values in sample.inputs.items()}
    fed(windows, raw, range(5, 200))
    windows.put(4 + ring_frames(ONE_FRAME, 0), 9.0, {"camera": np.zeros((3, 4, 5))})
    for modality, values in kept.items():
        assert_array_equal(sample.inputs[modality], values)
    assert (camera == 1.0).all()


def refusal(windows: StreamWindows, index: int, frames: Any) -> FrameRefused:
    with pytest.raises(FrameRefused) as caught:
        windows.put(index, 0.0, frames)
    return caught.value


def test_what_has_no_place_is_refused_by_name() -> None:
    raw = raw_frames(BLOCKAGE, 100)
    windows = fed(windows_of(BLOCKAGE.inputs), raw, range(50, 100))
    assert refusal(windows, 99, at(raw, 99)).code == "duplicate"
    assert refusal(windows, 10, at(raw, 10)).code == "old"
    assert refusal(windows, 100, {"camera": np.zeros(3)}).code == "modality"
    assert "lidar, rf" in str(refusal(windows, 100, {"camera": np.zeros(3)}))
    assert refusal(windows, 100, {"rf": np.zeros((8, 1))}).code == "shape"
    for bad in (np.nan, np.inf, 1e300):
        assert refusal(windows, 100, {"rf": np.full(8, bad)}).code == "values"


def test_the_ring_ends_exactly_where_it_says() -> None:
    """One instant further back lies the slot of the newest frame."""
    (spec,) = [one for one in BLOCKAGE.inputs if one.modality == "rf"]
    raw = raw_frames(BLOCKAGE, 100)
    reach = ring_frames(spec, 1)
    windows = windows_of([spec], hold=1)
    windows.put(99, 0.0, {"rf": raw["rf"][99]})
    assert refusal(windows, 99 - reach, {"rf": raw["rf"][0]}).code == "old"
    for index in range(100 - reach, 99):
        windows.put(index, 0.0, {"rf": raw["rf"][index]})
    assert_array_equal(windows.sample(99, 0.0).inputs["rf"], raw["rf"][96:])


def test_a_question_as_late_as_can_be_still_has_its_whole_window_and_what_is_held_before_it() -> None:
    (spec,) = [one for one in BEAMS.inputs if one.modality == "rf"]
    raw, hold, newest = raw_frames(BEAMS, 50), 2, 49
    now = newest - LATE_INSTANTS
    first = now - spec.window.lag - spec.window.frames + 1
    windows = windows_of([spec], hold)
    for index in sorted(set(range(50)) - {first, first - 1, now - spec.window.lag}):
        windows.put(index, 0.0, {"rf": raw["rf"][index]})
    windows.put(now - spec.window.lag, 0.0, {"rf": raw["rf"][now - spec.window.lag]})
    sample = windows.sample(now, 0.0)
    assert_array_equal(sample.inputs["rf"], raw["rf"][[first - 2, first + 1, first + 2, first + 3]])
    assert sample.held == {"rf": 1}


def test_a_packet_is_taken_whole_or_not_at_all() -> None:
    raw = raw_frames(BLOCKAGE, N)
    windows = fed(windows_of(BLOCKAGE.inputs), raw, range(8))
    refusal(windows, 8, {"lidar": raw["lidar"][8], "rf": np.zeros(3)})
    windows.put(8, 0.8, {"rf": raw["rf"][8]})
    assert refusal(windows, 8, at(raw, 8)).code == "duplicate"
    assert windows.sample(8, 0.8).missing == ("lidar",)


def test_the_memory_of_a_stream_is_bounded_and_foretold() -> None:
    windows = windows_of(BLOCKAGE.inputs, 2)
    for index in range(0, 5000, 7):
        windows.put(index, 0.0, at(raw_frames(BLOCKAGE, 1), 0))
    rings = windows._rings.values()
    assert sum(ring._frames.nbytes for ring in rings) == stream_bytes(BLOCKAGE.inputs, 2)


def streams(most: int = 2, idle_s: float = 10.0) -> Streams:
    return Streams(BLOCKAGE.inputs, 0, most, idle_s)


def sent(kept: Streams, name: str, now_s: float) -> StreamWindows:
    """A frame of a stream is taken, at some instant of its own."""
    windows = kept.of(name, now_s)
    windows.put(round(RATE_HZ * now_s), now_s, at(raw_frames(BLOCKAGE, 1), 0), now_s)
    kept.keep(name, windows, now_s)
    return windows


def test_the_longest_idle_stream_gives_way_and_is_counted() -> None:
    kept = streams()
    first = sent(kept, "a", 0.0)
    sent(kept, "b", 1.0)
    sent(kept, "a", 1.5)
    sent(kept, "c", 11.0)  # b is idle for ten seconds
    assert (len(kept), kept.n_evicted) == (2, 1)
    assert kept.of("a", 11.0) is first


def test_a_new_stream_does_not_push_out_who_is_served() -> None:
    kept = streams()
    sent(kept, "a", 0.0)
    sent(kept, "b", 1.0)
    with pytest.raises(FrameRefused, match="2 streams are served already") as caught:
        sent(kept, "c", 9.9)
    assert caught.value.code == "streams"
    kept.forget("a")
    sent(kept, "c", 9.9)
    assert (len(kept), kept.n_evicted) == (2, 0)


def test_a_stream_that_sends_only_what_is_refused_takes_no_place_and_pushes_out_nobody() -> None:
    kept = streams(idle_s=0.0)
    sent(kept, "a", 0.0)
    sent(kept, "b", 1.0)
    for number in range(20):
        with pytest.raises(FrameRefused):
            kept.of(f"stranger {number}", 99.0).put(0, 0.0, {"rf": np.zeros(3)}, 99.0)
    assert (len(kept), kept.n_evicted) == (2, 0)


def test_a_forgotten_stream_begins_again() -> None:
    kept, raw = streams(), raw_frames(BLOCKAGE, N)
    kept.keep("a", fed(kept.of("a", 0.0), raw, range(10, 20)), 0.0)
    kept.forget("a")
    kept.forget("never seen")
    kept.keep("a", fed(kept.of("a", 0.0), raw, range(4)), 0.0)
    assert not kept.of("a", 0.0).sample(3, 0.3).missing


# --- wrong indices ----------------------------------------------------------------------------------------------------

#: Of BLOCKAGE without `hold`, in instants and in s: a window of 4 and what may come late.
REACH, LASTS_S = 4 + LATE_INSTANTS, (4 + LATE_INSTANTS) / RATE_HZ


def taken(windows: StreamWindows, index: int, now_s: float = 0.0) -> str:
    """Put a frame; "taken", or the code of the refusal."""
    try:
        windows.put(index, 0.0, at(raw_frames(BLOCKAGE, 1), 0), now_s)
    except FrameRefused as refused:
        return refused.code
    return "taken"


@given(wrong=st.integers(0, MOST_INDEX), at_instant=st.integers(1, 20))
def test_one_wrong_index_costs_its_own_frame_and_those_of_one_window_at_most(wrong: int, at_instant: int) -> None:
    """At any instant, also as the very first frame of a stream."""
    windows = windows_of(BLOCKAGE.inputs)
    refused = []
    for index in range(100, 160):
        if index == 100 + at_instant - 1:
            taken(windows, wrong, index / RATE_HZ)
        if taken(windows, index, index / RATE_HZ) != "taken":
            refused.append(index)
    first = at_instant == 1
    assert len(refused) <= (REACH + 1 if first else 1), refused
    assert not windows.sample(159, 0.0).missing


def test_a_stream_that_goes_on_far_ahead_loses_one_frame() -> None:
    windows = windows_of(BLOCKAGE.inputs)
    assert [taken(windows, index) for index in range(3)] == ["taken"] * 3
    assert [taken(windows, index) for index in (2 + REACH, 3 + REACH)] == ["ahead", "taken"]
    assert [taken(windows, index) for index in (10**6, 10**9, 10**9 + 1)] == ["ahead", "ahead", "taken"]
    assert taken(windows, 3) == "old"


def test_a_stream_loses_nothing_after_an_outage_of_that_length() -> None:
    windows = windows_of(BLOCKAGE.inputs)
    taken(windows, 0)
    assert taken(windows, 1_000, 0.9 * 1_000 / RATE_HZ) == "taken"


def test_the_same_wrong_index_of_every_sensor_is_not_believed() -> None:
    windows = windows_of(BLOCKAGE.inputs)
    taken(windows, 0)
    assert [taken(windows, 5_000) for _ in range(3)] == ["ahead"] * 3
    assert taken(windows, 1) == "taken"


def test_a_stream_that_counts_from_zero_again_begins_again_after_a_window_of_silence() -> None:
    windows = windows_of(BLOCKAGE.inputs)
    taken(windows, 5_000)
    assert taken(windows, 0, 0.9 * LASTS_S) == "old"
    assert taken(windows, 1, 1.1 * LASTS_S) == "taken"
    assert taken(windows, 5_001, 1.1 * LASTS_S) == "ahead"
