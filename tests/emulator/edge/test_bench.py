"""Measuring: arithmetic on times that are given, turns on a clock that is made up, and one real round of everything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.bundles import tiny_bundle
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bench import (
    ANSWERS_PER_TURN,
    FEWEST_TURNS,
    Clocks,
    Contender,
    Times,
    latency,
    ratio,
    take_turns,
)
from sheafedge.emulator.edge.bench_bundles import Entry, open_entries, with_siblings
from sheafedge.emulator.edge.bench_report import aligned
from sheafedge.emulator.edge.bundle import pack_bundle, write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.commands.bench_commands import TorchModel, bench
from sheafedge.emulator.edge.commands.command_options import bench_options
from sheafedge.emulator.edge.device_profiles import BOARDS
from sheafedge.emulator.edge.footprint import FootprintError, footprint_of
from sheafedge.emulator.edge.manifest import BundleError, OutputSpec
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.edge.precisions import precision_named
from sheafedge.emulator.edge.profile_file import read_profile

QUICK = ["--repeats", "50", "--no-memory"]


def times(wall_ms: Sequence[Sequence[float]], cpu_ms: Sequence[Sequence[float]] | None = None) -> Times:
    return Times(np.array(wall_ms) / 1e3, np.array(wall_ms if cpu_ms is None else cpu_ms) / 1e3)


@dataclass
class MadeUpTime:
    """Clocks that move only when somebody answers, and say who did."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.wall_s, lambda: self.cpu_s)

    def contender(self, name: str, wall_s: float, cpu_s: float | None = None) -> Contender:
        def answer() -> None:
            self.asked.append(name)
            self.wall_s += wall_s
            self.cpu_s += wall_s if cpu_s is None else cpu_s

        return Contender(name, answer)


# --- arithmetic -------------------------------------------------------------------------------------------------------


def test_percentiles_are_those_of_all_answers() -> None:
    found = latency(times([[float(10 * turn + place + 1) for place in range(10)] for turn in range(10)]), batch=1)
    assert found.n == 100
    assert found.p50_ms == pytest.approx(50.5)
    assert found.p95_ms == pytest.approx(95.05)
    assert found.p99_ms == pytest.approx(99.01)


def test_fewer_than_a_hundred_answers_have_no_last_of_a_hundred() -> None:
    assert latency(times([[1.0] * 10] * 9), batch=1).p99_ms is None
    assert latency(times([[1.0] * 10] * 10), batch=1).p99_ms == pytest.approx(1.0)


def test_throughput_counts_every_sample_of_a_batch() -> None:
    found = latency(times([[2.0, 6.0]]), batch=8)
    assert found.answers_per_s == pytest.approx(2 * 8 / 8e-3)


def test_time_that_others_had_is_told_and_not_the_processor_s() -> None:
    found = latency(times([[4.0, 4.0]], [[1.0, 1.0]]), batch=1)
    assert (found.cpu_ms, found.taken_by_others) == (pytest.approx(1.0), pytest.approx(0.75))
    several_threads = latency(times([[1.0, 1.0]], [[2.0, 2.0]]), batch=1)
    assert several_threads.taken_by_others == 0.0


def test_a_ratio_is_taken_turn_by_turn_so_that_a_slow_minute_meets_both() -> None:
    pace = np.array([1.0, 5.0, 1.0, 50.0, 2.0])[:, None] * np.ones(3)
    found = ratio(times(2.0 * pace), times(pace))
    assert_allclose([found.median, found.low, found.high], 2.0)


def test_a_ratio_tells_its_spread_over_turns() -> None:
    found = ratio(times([[1.0], [2.0], [3.0], [4.0], [5.0]]), times([[1.0]] * 5))
    assert_allclose([found.low, found.median, found.high], [1.4, 3.0, 4.6])


def test_a_ratio_is_of_the_processor_or_of_the_wall() -> None:
    one, other = times([[8.0]], [[2.0]]), times([[2.0]], [[1.0]])
    assert_allclose([ratio(one, other).median, ratio(one, other, "wall").median], [2.0, 4.0])


# --- turns ------------------------------------------------------------------------------------------------------------


def test_contenders_take_turns_of_answers_in_a_row() -> None:
    made_up = MadeUpTime()
    take_turns([made_up.contender("a", 1.0), made_up.contender("b", 2.0)], answers=1, clocks=made_up.clocks)
    turn = ANSWERS_PER_TURN + 1
    whose = made_up.asked[::turn]
    assert made_up.asked == [name for name in whose for _ in range(turn)]
    assert whose == ["a", "b", *"abbaabbaab"]  # warm-up, then nobody always first
    assert len(whose) == 2 * (1 + FEWEST_TURNS)


def test_times_are_those_of_the_clock_without_warm_up_and_first_answers() -> None:
    made_up = MadeUpTime()
    cold: dict[str, int] = {"slow": 0}
    inner = made_up.contender("slow", 3.0, 1.5)

    def answer() -> None:
        cold["slow"] += 1
        if cold["slow"] <= ANSWERS_PER_TURN + 1:
            made_up.wall_s += 1e6  # the warm-up
        inner.answer()

    found = take_turns([Contender("slow", answer), made_up.contender("fast", 1.0)], answers=61, clocks=made_up.clocks)
    assert found["slow"].wall_s.shape == found["fast"].cpu_s.shape == (7, ANSWERS_PER_TURN)
    assert_allclose(found["slow"].wall_s, 3.0)
    assert_allclose(found["slow"].cpu_s, 1.5)
    assert_allclose(found["fast"].wall_s, 1.0)


def test_measuring_for_a_time_ends_with_it_but_not_before_there_is_a_spread() -> None:
    made_up = MadeUpTime()
    found = take_turns([made_up.contender("a", 1.0)], seconds=200.0, clocks=made_up.clocks)
    assert len(found["a"].wall_s) == -(-200 // (ANSWERS_PER_TURN + 1))
    hurried = take_turns([made_up.contender("a", 1.0)], seconds=1.0, clocks=made_up.clocks)
    assert len(hurried["a"].wall_s) == FEWEST_TURNS


def test_a_clock_that_stands_still_does_not_divide_by_zero() -> None:
    still = Contender("still", lambda: None)
    found = take_turns([still], answers=1, clocks=Clocks(lambda: 0.0, lambda: 0.0))["still"]
    assert np.isfinite(latency(found, 1).answers_per_s)
    assert ratio(found, found).median == 1.0


@pytest.mark.parametrize(
    ("names", "asked", "said"),
    [
        ([], {"answers": 1}, "different names"),
        (["a", "a"], {"answers": 1}, "different names"),
        (["a"], {}, "either seconds or answers"),
        (["a"], {"answers": 1, "seconds": 1.0}, "either seconds or answers"),
        (["a"], {"answers": 0}, "above 0"),
        (["a"], {"seconds": -1.0}, "above 0"),
        (["a"], {"seconds": float("inf")}, "above 0"),
        (["a"], {"seconds": float("nan")}, "above 0"),
    ],
)
def test_measuring_nothing_is_refused(names: list[str], asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        take_turns([Contender(name, lambda: None) for name in names], **asked)


# --- bundles side by side ---------------------------------------------------------------------------------------------


def in_precision(source: Path, ending: str, **changes: Any) -> Path:
    """A copy of a bundle that calls itself one of another precision."""
    manifest, content = read_bundle(source)
    precision = precision_named(ending.removeprefix("-")).name
    target = source.with_name(source.name + ending)
    write_bundle(target, replace(manifest, precision=precision, files={}, **changes), content)
    return target


@pytest.fixture(params=["-float16", pytest.param("-fp16", marks=pytest.mark.slow)])
def family(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path]:
    """One model in three precisions, side by side; bundles of before end in `-fp16`."""
    whole = tiny_bundle(tmp_path / "tiny")
    return [whole, in_precision(whole, request.param), in_precision(whole, "-int8")]


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_of_the_precisions_finds_the_others_float32_first(family: list[Path], given: int) -> None:
    assert with_siblings(family[given]) == family
    entries = open_entries([family[given]], batch=1, threads=1, cuda=False)
    assert [entry.label for entry in entries] == ["float32", "float16", "int8"]


def test_packed_siblings_are_found_beside_folders_and_packed_ones(family: list[Path]) -> None:
    packed = [pack_bundle(path) for path in family]
    assert with_siblings(packed[1]) == packed
    shutil.rmtree(family[1])
    assert with_siblings(family[0]) == [family[0], packed[1], family[2]]


def test_of_two_spellings_of_a_precision_one_takes_part(tmp_path: Path) -> None:
    whole = tiny_bundle(tmp_path / "tiny")
    new, old = in_precision(whole, "-float16"), in_precision(whole, "-fp16")
    assert with_siblings(whole) == with_siblings(new) == [whole, new]
    assert with_siblings(old) == [whole, old]


def test_a_bundle_alone_is_alone(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "tiny")
    assert with_siblings(path) == [path]
    assert with_siblings(tmp_path / "not-there-int8") == [tmp_path / "not-there-int8"]


def test_a_sibling_may_tell_more_about_its_making(tmp_path: Path) -> None:
    whole = tiny_bundle(tmp_path / "tiny")
    in_precision(whole, "-int8", trained={**read_bundle(whole)[0].trained, "calibration": "minmax"})
    assert len(open_entries([whole], batch=1, threads=1, cuda=False)) == 2


def test_a_sibling_may_have_a_temperature_of_its_own(tmp_path: Path) -> None:
    whole = tiny_bundle(tmp_path / "tiny")
    in_precision(whole, "-int8", output=replace(read_bundle(whole)[0].output, temperature=1.25))
    assert len(open_entries([whole], batch=1, threads=1, cuda=False)) == 2


@pytest.mark.parametrize(
    "changes",
    [{"trained": {"seed": 1}}, {"output": OutputSpec("binary", ("no", "yes"), "something else")}],
)
def test_a_neighbor_of_another_run_is_no_sibling(tmp_path: Path, changes: dict[str, Any]) -> None:
    whole = tiny_bundle(tmp_path / "tiny")
    in_precision(whole, "-int8", **changes)
    with pytest.raises(BundleError, match=r"not of one model.*name those that you want"):
        open_entries([whole], batch=1, threads=1, cuda=False)
    named = open_entries([whole, whole.with_name("tiny-int8")], batch=1, threads=1, cuda=False)
    assert [entry.label for entry in named] == ["float32", "int8"]


def test_bundles_of_one_precision_go_by_their_names(tmp_path: Path) -> None:
    paths = [tiny_bundle(tmp_path / name, name=name) for name in ("a", "b")]
    entries = open_entries([*paths, paths[0]], batch=1, threads=1, cuda=False)
    assert [entry.label for entry in entries] == ["a float32", "b float32"]


def test_a_batch_is_made_of_the_bundle_s_own_samples_and_counted(tmp_path: Path) -> None:
    (entry,) = open_entries([tiny_bundle(tmp_path / "tiny")], batch=5, threads=1, cuda=False)
    assert {name: rows.shape[0] for name, rows in entry.inputs.items()} == {"lidar": 5, "rf": 5}
    for rows in entry.inputs.values():
        assert_allclose(rows[3:], rows[:2])  # three samples, again from the first
        assert np.abs(rows[0] - rows[1]).max() > 0.1
    assert entry.workload.flops == 5 * 1000.0
    assert entry.workload.input_bytes == 5 * 4 * (2 * 4 * 6 + 4 * 8)
    assert entry.workload.weight_bytes == len(entry.bundle.content["model.onnx"])


# --- the whole command ------------------------------------------------------------------------------------------------


def stand_in(entry: Entry, threads: int) -> TorchModel | str:
    """What torch would be."""
    assert (entry.label, threads) == ("float32", 1)
    return TorchModel("torch 0", "cpu", lambda: entry.bundle.session.run(entry.inputs))


def test_all_precisions_and_torch_stand_side_by_side(family: list[Path]) -> None:
    found = json.loads(bench([str(family[0]), *QUICK, "--json"], stand_in))
    assert [row["label"] for row in found["rows"]] == ["float32", "float16", "int8", "torch"]
    assert {row["provider"] for row in found["rows"][:3]} == {OnnxSession(family[0] / "model.onnx").provider}
    for row in found["rows"]:
        assert row["latency"]["n"] == 50
        assert 0.0 < row["latency"]["p50_ms"] <= row["latency"]["p95_ms"]
        assert row["latency"]["p99_ms"] is None
        assert 0.0 < row["against_first"]["low"] <= row["against_first"]["median"] <= row["against_first"]["high"]
    assert found["rows"][0]["against_first"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert found["not_measured"] == {}


def test_without_torch_its_row_says_so(family: list[Path]) -> None:
    text = bench([str(family[0]), *QUICK])
    assert "torch: not installed" in text.splitlines()
    assert [line.split()[0] for line in text.splitlines()[3:6]] == ["float32", "float16", "int8"]
    assert "torch: left out" in bench([str(family[0]), *QUICK, "--no-torch"], stand_in)
    assert "torch: no float32 bundle" in bench([str(family[1]), str(family[2]), *QUICK], stand_in)


def test_devices_are_told_as_modelled_beside_what_was_measured(family: list[Path]) -> None:
    found = json.loads(bench([str(family[0]), *QUICK, "--json", "--devices", "all"]))
    assert {row["device"] for row in found["devices"]} == {"here", *BOARDS}
    (entry, *_) = open_entries([family[0]], batch=1, threads=1, cuda=False)
    for row in found["devices"]:
        if row["device"] == "here":
            assert row["kind"] == "measured"
            continue
        board = BOARDS[row["device"]]
        assert row["kind"] == "modelled"
        assert row["source"].startswith("modelled: ")
        assert row["joules"] == pytest.approx(row["seconds"] * board.power_w)
        if row["label"] == "float32":
            assert row["seconds"] == pytest.approx(entry.workload.seconds_on(board, "float32"))
    text = bench([str(family[0]), *QUICK, "--devices", "raspberry_pi_4,intel_n100"])
    assert re.search(r"^raspberry_pi_4 +modelled", text, re.MULTILINE)
    assert "raspberry_pi_5" not in text


def test_a_profile_of_this_machine_is_written_and_foretells_what_was_measured(
    family: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    said = bench([str(family[0]), *QUICK, "--save-profile", str(path), "--power-w", "7.5", "--devices", "all"])
    assert f"wrote {path}" in said
    profile = read_profile(path)
    assert (profile.name, profile.kind, profile.power_w) == ("mine", "measured", 7.5)
    assert {cost.precision for cost in profile.answers} == {"float32", "int8", "float16"}
    again = json.loads(bench([str(family[0]), *QUICK, "--json", "--devices", str(path)]))
    assert {row["device"] for row in again["devices"]} == {"here", "mine"}


@pytest.mark.parametrize(("quiet", "contended"), [(-1.0, True), (1.0, False)])
def test_a_profile_of_a_contended_machine_says_so_itself(
    family: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: float, contended: bool
) -> None:
    monkeypatch.setattr("sheafedge.emulator.edge.commands.bench_commands.QUIET", quiet)
    path = tmp_path / "mine.toml"
    said = bench([str(family[0]), *QUICK, "--save-profile", str(path), "--power-w", "7.5"])
    assert ("measure again when it is idle" in said) is contended
    assert ("CONTENDED: other programs had up to" in read_profile(path).source) is contended


WRONG = {
    "nothing": ([], "required: BUNDLE"),
    "an unknown option": (["x", "--fast"], "unrecognized arguments: --fast"),
    "no thread": (["x", "--threads", "0"], "--threads must be from 1 to 256, got 0"),
    "too many": (["x", "--batch", "5000"], "--batch must be from 1 to 4096, got 5000"),
    "a word": (["x", "--threads", "many"], "invalid int value: 'many'"),
    "both ends": (["x", "--seconds", "1", "--repeats", "2"], "not both"),
    "no time": (["x", "--seconds", "0"], "--seconds must be above 0"),
    "no number": (["x", "--seconds", "nan"], "--seconds must be above 0"),
    "a profile's name alone": (["x", "--name", "a"], "add that"),
    "a profile without power": (["x", "--save-profile", "a.toml"], "needs --power-w"),
    "a profile of another ending": (["x", "--save-profile", "a.txt", "--power-w", "5"], "must end in .toml"),
    "a profile of a GPU": (["x", "--save-profile", "a.toml", "--power-w", "5", "--cuda"], "leave --cuda out"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_command_line_gets_a_sentence(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        bench_options(arguments)


def test_an_unknown_device_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown device 'abacus' in --devices; choose among all, raspberry_pi_4"):
        bench([str(tmp_path / "no-bundle"), "--devices", "abacus"])


def test_a_damaged_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no bundle at"):
        bench([str(tmp_path / "no-bundle"), *QUICK])


def test_help_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bench_options(["--help"])
    assert ended.value.code == 0
    assert "--save-profile" in capsys.readouterr().out


def test_a_table_is_aligned() -> None:
    assert aligned([["", "ms"], ["float32", "1.5"], ["a", "10.25"]]) == [
        "            ms",
        "float32    1.5",
        "a        10.25",
    ]


# --- memory and start -------------------------------------------------------------------------------------------------


def test_a_process_of_its_own_tells_what_loading_costs(tmp_path: Path) -> None:
    (entry,) = open_entries([tiny_bundle(tmp_path / "tiny")], batch=2, threads=1, cuda=False)
    found = footprint_of(entry.bundle.content["model.onnx"], entry.inputs)
    assert found.start_s > 0.0
    assert found.first_answer_s > 0.0
    if Path("/proc/self/status").exists():
        assert found.load_bytes is not None
        assert found.peak_bytes is not None
        assert found.peak_bytes > found.load_bytes > 0


def test_a_model_that_cannot_be_loaded_gets_a_sentence() -> None:
    with pytest.raises(FootprintError, match=r"memory cannot be measured.*try --no-memory"):
        footprint_of(b"no model", {})


def test_measuring_needs_nothing_that_a_device_has_not() -> None:
    code = (
        "import sys, sheafedge.emulator.edge.commands.bench_commands;"
        "print(*{'torch', 'typer', 'rich', 'pydantic', 'simpy', 'h5py', 'onnx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
