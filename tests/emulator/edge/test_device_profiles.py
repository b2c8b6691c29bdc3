"""Named devices: plausible in their units, slower for more work, told honestly, and read from files without trust."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bench_bundles import Workload
from sheafedge.emulator.edge.bench_report import Measured, calibrated
from sheafedge.emulator.edge.device_profiles import (
    BOARDS,
    DEVICE_PROFILES,
    REFERENCE,
    REFERENCE_COPY_BYTES_PER_S,
    REFERENCE_GFLOPS,
    AnswerCost,
    DeviceProfile,
)
from sheafedge.emulator.edge.precisions import PRECISIONS
from sheafedge.emulator.edge.profile_file import (
    profile_of,
    profile_table,
    read_profile,
    read_table,
    write_profile,
)

#: About the answer of a base station with a camera and beam sweeps.
FLOPS, INPUT_BYTES, WEIGHT_BYTES = 1.6e7, 2.7e5, 8.2e5

TOY = DeviceProfile(
    "toy",
    flops_per_s=4.0,
    overhead_s=0.5,
    power_w=1.0,
    answers=(AnswerCost("float32", 8.0, 16.0, 32.0, 0.25), AnswerCost("int8", 16.0, 16.0, 32.0, 0.5)),
)


def test_work_takes_its_overhead_and_its_operations_at_the_device_s_rate() -> None:
    profile = DeviceProfile("toy", flops_per_s=4.0, overhead_s=0.5, power_w=1.0)
    assert [profile.seconds(flops) for flops in (0.0, 1.0, 8.0)] == [0.5, 0.75, 2.5]


def test_an_answer_takes_overhead_operations_inputs_and_weights() -> None:
    assert TOY.answer_seconds(0.0) == 0.25
    assert TOY.answer_seconds(8.0) == 1.25
    assert TOY.answer_seconds(8.0, input_bytes=32.0) == 3.25
    assert TOY.answer_seconds(8.0, input_bytes=32.0, weight_bytes=32.0) == 4.25
    assert TOY.answer_seconds(8.0, "int8", weight_bytes=8.0) == 1.25


def test_a_precision_without_figures_counts_as_float32() -> None:
    assert TOY.answer_seconds(8.0, "float16") == TOY.answer_seconds(8.0)


def test_a_device_without_figures_of_answers_takes_as_long_as_for_training_work() -> None:
    plain = dataclasses.replace(TOY, answers=())
    assert plain.answer_seconds(8.0, "int8", input_bytes=1e9) == plain.seconds(8.0)


@given(factor=st.floats(0.01, 100.0), flops=st.floats(0.0, 1e12), moved=st.floats(0.0, 1e9))
def test_a_slowed_device_takes_so_many_times_as_long_for_everything(factor: float, flops: float, moved: float) -> None:
    slow = TOY.slowed(factor)
    assert slow.seconds(flops) == pytest.approx(factor * TOY.seconds(flops))
    for precision in tuple(PRECISIONS):
        asked = TOY.answer_seconds(flops, precision, input_bytes=moved, weight_bytes=moved)
        found = slow.answer_seconds(flops, precision, input_bytes=moved, weight_bytes=moved)
        assert found == pytest.approx(factor * asked)
    assert slow.power_w == TOY.power_w


@pytest.mark.parametrize("name", sorted(DEVICE_PROFILES))
def test_a_profile_is_listed_under_its_own_name_and_says_where_its_figures_come_from(name: str) -> None:
    profile = DEVICE_PROFILES[name]
    assert profile.name == name
    assert profile.source.startswith("modelled: ")
    assert profile.kind == "modelled"
    assert 0.0 < profile.seconds(0.0) < profile.seconds(1e9) < 1.0  # a gigaflop within a second on all of them
    assert 1.0 <= profile.power_w <= 400.0


def test_profiles_differ_in_speed_as_their_names_promise() -> None:
    big_step = {name: profile.seconds(1e12) for name, profile in DEVICE_PROFILES.items()}
    assert big_step["edge_gpu"] < big_step["server_cpu"] < big_step["edge_cpu"]


def test_the_three_classes_are_what_recorded_runs_were_played_with() -> None:
    kept = {name: (DEVICE_PROFILES[name].flops_per_s, DEVICE_PROFILES[name].overhead_s) for name in CLASSES}
    assert kept == CLASSES


CLASSES = {"edge_cpu": (5e9, 0.002), "edge_gpu": (2e11, 0.005), "server_cpu": (5e10, 0.001)}


# --- boards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BOARDS))
@pytest.mark.parametrize("precision", tuple(PRECISIONS))
def test_a_board_s_core_answers_slower_than_the_reference_and_in_time_for_a_frame(name: str, precision: str) -> None:
    moved = {"input_bytes": INPUT_BYTES, "weight_bytes": WEIGHT_BYTES}
    on_reference, here = (one.answer_seconds(FLOPS, precision, **moved) for one in (REFERENCE, BOARDS[name]))
    assert on_reference < here < 0.1


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_a_board_cites_where_its_figures_were_published(name: str) -> None:
    assert BOARDS[name].source.count("github.com/") >= 2
    assert REFERENCE.name in BOARDS[name].source


def products_s(profile: DeviceProfile, precision: str = "float32") -> float:
    return profile.answer_seconds(1e9, precision) - profile.answer_seconds(0.0, precision)


def test_boards_multiply_as_their_cores_do_in_the_published_benchmark() -> None:
    four, five = BOARDS["raspberry_pi_4"], BOARDS["raspberry_pi_5"]
    assert products_s(four) / products_s(five) == pytest.approx(30.249 / 11.889)
    assert products_s(five) / products_s(REFERENCE) == pytest.approx(REFERENCE_GFLOPS / (2 * 30.249 / 4))
    assert products_s(five) / products_s(five, "int8") == pytest.approx(2.0)


def test_boards_do_all_else_as_they_copy_memory() -> None:
    four, five = BOARDS["raspberry_pi_4"], BOARDS["raspberry_pi_5"]
    for asked in ({}, {"input_bytes": 1e6}, {"weight_bytes": 1e6}):
        on_four, on_five, here = (one.answer_seconds(0.0, **asked) for one in (four, five, REFERENCE))
        assert on_four / on_five == pytest.approx(4.64 / 2.24)
        assert on_five / here == pytest.approx(REFERENCE_COPY_BYTES_PER_S / 4.64e9)


#: Float32 operations of one core at its data sheet's clock: pipes, lanes, a fused multiply and add counted twice.
PEAKS = {
    "raspberry_pi_4": 1.8e9 * 8,
    "raspberry_pi_5": 2.4e9 * 16,
    "orange_pi_5": 2.4e9 * 16,
    "jetson_orin_nano": 1.5e9 * 16,
    "intel_n100": 3.4e9 * 32,
}


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_no_board_multiplies_faster_than_its_core_can(name: str) -> None:
    assert 0.25 * PEAKS[name] < 1e9 / products_s(BOARDS[name]) < PEAKS[name]
    assert BOARDS[name].flops_per_s < PEAKS[name]


def test_the_reference_is_the_only_one_that_was_measured() -> None:
    assert REFERENCE.kind == "measured"
    assert {cost.precision for cost in REFERENCE.answers} == {"float32", "float16", "int8"}
    assert REFERENCE.name not in DEVICE_PROFILES


# --- a profile of this machine ----------------------------------------------------------------------------------------


def call(precision: str, flops: float, factor: float) -> Measured:
    """A call that took so many times what the reference takes."""
    workload = Workload(flops, INPUT_BYTES, WEIGHT_BYTES)
    return Measured(precision, workload, factor * workload.seconds_on(REFERENCE, precision))


def test_a_machine_that_takes_twice_as_long_is_the_reference_slowed_by_two() -> None:
    calls = [call("float32", FLOPS, 2.0), call("float32", 10 * FLOPS, 2.0), call("int8", FLOPS, 3.0)]
    found = calibrated("mine", 5.0, calls, "a test")
    assert found.seconds(1e9) == pytest.approx(2.0 * REFERENCE.seconds(1e9))
    for one in calls:
        assert one.workload.seconds_on(found, one.precision) == pytest.approx(one.seconds)
    assert (found.name, found.power_w, found.kind) == ("mine", 5.0, "measured")


def test_several_sizes_count_alike_and_their_spread_is_told() -> None:
    calls = [call("float32", FLOPS, 1.0), call("float32", 10 * FLOPS, 4.0)]
    found = calibrated("mine", 5.0, calls, "a test")
    assert found.answer_seconds(1e9) == pytest.approx(2.0 * REFERENCE.answer_seconds(1e9))
    assert "float32 1.00-4.00" in found.source


def test_a_machine_that_was_not_measured_in_float32_has_no_profile() -> None:
    with pytest.raises(ConfigError, match="needs a float32 bundle"):
        calibrated("mine", 5.0, [call("int8", FLOPS, 1.0)], "a test")


# --- files ------------------------------------------------------------------------------------------------------------

rates = st.floats(1e3, 1e18)
times = st.floats(0.0, 1e3)


@given(
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True).filter(
        lambda name: name not in DEVICE_PROFILES
    ),
    source=st.text(max_size=200).map(lambda text: "".join(filter(str.isprintable, text))),
    numbers=st.tuples(rates, times, st.floats(1e-3, 1e5)),
    costs=st.dictionaries(st.sampled_from(tuple(PRECISIONS)), st.tuples(rates, rates, rates, times)),
)
def test_a_profile_comes_back_from_its_file_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    source: str,
    numbers: tuple[float, float, float],
    costs: dict[str, tuple[float, float, float, float]],
) -> None:
    answers = tuple(AnswerCost(one, *costs[one]) for one in PRECISIONS if one in costs)
    profile = DeviceProfile(name, *numbers, source=source, kind="measured", answers=answers)
    path = tmp_path_factory.mktemp("profiles") / "device.toml"
    write_profile(path, profile)
    found = read_profile(path)
    assert found == profile
    assert (found.source, found.kind) == (profile.source, profile.kind)
    assert [one.name for one in path.parent.iterdir()] == ["device.toml"]
    assert profile_of(name, profile_table(profile)) == profile


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "device.toml"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        write_profile(path, TOY)
    assert path.read_text() == "mine"


def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_profile(tmp_path / "nowhere" / "device.toml", dataclasses.replace(TOY, flops_per_s=1e9, answers=()))


GOOD = 'name = "box"\nflops_per_s = 1e9\noverhead_s = 1e-3\npower_w = 5\n'
COST = "flops_per_s = 1e9\ninput_bytes_per_s = 1e9\nweight_bytes_per_s = 1e9\noverhead_s = 1e-4\n"


def test_a_file_by_hand_needs_three_numbers_and_a_name(tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    path.write_text(f"{GOOD}[answers.int8]\n{COST}")
    found = read_profile(path)
    assert (found.name, found.power_w, found.kind) == ("box", 5.0, "modelled")
    assert [cost.precision for cost in found.answers] == ["int8"]


HOSTILE = {
    "no text": ("\x00\xff", "cannot be read"),
    "no TOML": ("name = ", "cannot be read"),
    "no name": (GOOD.replace("name", "nome"), "has no name"),
    "a name that is none": (GOOD.replace("box", "../../etc"), "no name of a device"),
    "an empty name": (GOOD.replace("box", ""), "no name of a device"),
    "a name that is taken": (GOOD.replace("box", "edge_cpu"), "comes with sheafedge"),
    "a field too many": (GOOD + "cores = 4\n", "cores is not a known field"),
    "a field missing": (GOOD.replace("power_w = 5\n", ""), "power_w is missing"),
    "a text for a number": (GOOD.replace("1e9", '"fast"'), "flops_per_s must be a number"),
    "a truth for a number": (GOOD.replace("= 5", "= true"), "power_w must be a number"),
    "no number": (GOOD.replace("1e9", "nan"), "flops_per_s must be a number"),
    "endless": (GOOD.replace("1e9", "inf"), "flops_per_s must be a number"),
    "negative": (GOOD.replace("1e-3", "-1e-3"), "overhead_s must be a number"),
    "nothing per second": (GOOD.replace("1e9", "0"), "flops_per_s must be a number"),
    "hundreds of digits": (GOOD.replace("1e9", "9" * 400), "flops_per_s must be a number"),
    "thousands of digits": (GOOD.replace("1e9", "9" * 5000), "cannot be read"),
    "another kind": (GOOD + 'kind = "dreamt"\n', "kind must be"),
    "a kind that is a list": (GOOD + "kind = [1]\n", "kind must be"),
    "a source that is a number": (GOOD + "source = 3\n", "source must be a text"),
    "a novel": (GOOD + f'source = "{"x" * 2000}"\n', "source must be a text"),
    "answers that are a number": (GOOD + "answers = 3\n", "answers must hold tables"),
    "an unknown precision": (f"{GOOD}[answers.int4]\n{COST}", "answers.int4 is not a known field"),
    "a precision that is a number": (GOOD + "[answers]\nint8 = 3\n", "answers.int8 must be a table"),
    "a cost missing": (f"{GOOD}[answers.int8]\nflops_per_s = 1e9\n", "answers.int8.input_bytes_per_s is missing"),
    "deep": (GOOD + "x = " + "[" * 5000 + "]" * 5000, "cannot be read"),
    "long": (GOOD + "#" * 70_000, "longer than"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_gets_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "box.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        read_profile(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_file_that_is_not_there_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_table(tmp_path / "box.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_profile(tmp_path)
