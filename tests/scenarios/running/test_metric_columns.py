"""Rows of many clients as columns: nothing is lost on the way, a kill costs a round, and every reader reads both."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integration.tiny import tiny
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare.stored_runs import stored_rounds, stored_state
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.report.run_records import read_records
from sheafedge.scenarios.running.metric_columns import COLUMNS, read_columns, read_rows, write_columns
from sheafedge.scenarios.running.metric_rows import METRICS, metric_rows, round_lines
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario

N, ROUNDS = 5, 3
EDITS: dict[str, Any] = {"algorithm": "fedavg", "rounds": ROUNDS, "evaluate_every": 2, "keep_checkpoint": True}
FEW = {"export.client_lines": N - 1}

# --- one file ---

numbers = st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.booleans()
scores = st.dictionaries(st.sampled_from(["accuracy", "top.1"]), st.floats(allow_nan=False) | st.none())
rows = st.fixed_dictionaries(
    {"round": st.just(7), "client": st.integers(0, 2**40), "group": st.sampled_from(["lidar+rf", "gps"])},
    optional={
        "loss": st.floats(allow_nan=False),
        "off": st.booleans(),
        "heard": st.integers(0, 2**62),
        "models": st.dictionaries(st.sampled_from(["fused", "global"]), scores),
        "held_out_loss": st.dictionaries(st.sampled_from(["fused", "global"]), st.floats(allow_nan=False)),
        "residuals": st.dictionaries(st.integers(0, 9).map(str), st.floats(allow_nan=False)),
        "report": st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
    },
)


@settings(max_examples=40, deadline=None)
@given(written=st.lists(rows, min_size=1, max_size=8))
def test_rows_come_back_as_they_were_written(written: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    path = write_columns(tmp_path_factory.mktemp("columns"), 7, written)
    found = read_rows(path)
    assert found == written
    assert [json.dumps(row, sort_keys=True) for row in found] == [json.dumps(row, sort_keys=True) for row in written]


@settings(max_examples=20, deadline=None)
@given(values=st.lists(numbers, min_size=1, max_size=8))
def test_a_column_of_mixed_numbers_holds_them_as_floats(values: list[float], tmp_path_factory: Any) -> None:
    written = [{"round": 0, "client": node, "group": "a", "x": value} for node, value in enumerate(values)]
    column = read_columns(write_columns(tmp_path_factory.mktemp("columns"), 0, written))["x"]
    assert column.astype(float).tolist() == [float(value) for value in values]


def test_a_figure_that_is_not_finite_or_not_there_is_no_zero(tmp_path: Path) -> None:
    written = [
        {"round": 0, "client": 0, "group": "a", "loss": math.inf, "heard": 0, "off": False},
        {"round": 0, "client": 1, "group": "a"},
    ]
    assert read_rows(write_columns(tmp_path, 0, written)) == written


def linked(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["client"]
        file["client"] = h5py.ExternalLink(str(path.with_name("other.h5")), "client")


def elsewhere(path: Path) -> None:
    np.zeros(3, dtype=np.int64).tofile(path.with_name("raw"))
    with h5py.File(path, "r+") as file:
        del file["client"]
        file.create_dataset("client", (3,), np.int64, external=[(str(path.with_name("raw")), 0, 24)])


def shorter(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["client"]
        file["client"] = np.zeros(2, dtype=np.int64)


def packed(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["client"]
        file.create_dataset("client", data=np.zeros(3, dtype=np.int64), compression="gzip")


@pytest.mark.parametrize("damage", [linked, elsewhere, shorter, packed, lambda path: path.write_bytes(b"no HDF5")])
def test_a_file_that_was_changed_is_refused(damage: Any, tmp_path: Path) -> None:
    path = write_columns(tmp_path, 0, [{"round": 0, "client": node, "group": "a"} for node in range(3)])
    damage(path)
    with pytest.raises((ValueError, OSError)):
        read_rows(path)


def test_lines_of_a_round_are_a_sample_a_server_and_aggregates() -> None:
    n = 1000
    written = [
        {"round": 3, "client": node, "group": "ab"[node % 2], "loss": float(node), "models": {"fused": {"top1": 0.5}}}
        for node in range(0, n, 2)
    ]
    server = {"round": 3, "client": n, "group": "server", "heard": 4}
    *sample, of_server, aggregate = round_lines([*written, server], n)
    assert of_server == server
    assert 5 <= len(sample) <= 20
    assert all(line in written for line in sample)
    assert (aggregate["round"], aggregate["group"], aggregate["clients"]) == (3, "a", n // 2)
    assert aggregate["over_clients"]["loss"] == {
        "n": n // 2, "mean": n / 2 - 1, "std": pytest.approx(np.std(np.arange(0, n, 2))), "min": 0.0, "max": n - 2
    }  # fmt: skip
    assert aggregate["over_clients"]["models.fused.top1"]["mean"] == 0.5


# --- whole runs ---


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, RunResult]:
    """One with lines, and the same with columns."""
    root = tmp_path_factory.mktemp("runs")
    return run_scenario(tiny(EDITS), root / "lines"), run_scenario(tiny({**EDITS, **FEW}), root / "columns")


def test_every_reader_finds_the_same_in_both(runs: tuple[RunResult, RunResult]) -> None:
    lines, columns = (run.folder for run in runs)
    assert names(columns / COLUMNS) == [f"round-{n:06d}.h5" for n in range(ROUNDS)]
    assert not (lines / COLUMNS).exists()
    assert list(metric_rows(columns)) == list(metric_rows(lines))
    assert list(stored_rounds(columns)) == list(stored_rounds(lines))
    one, other = (finished_run(folder, needs_models=False).last_scores for folder in (lines, columns))
    assert one == other != {}
    first, second = (read_records(folder) for folder in (lines, columns))
    assert np.array_equal(first.scores, second.scores, equal_nan=True)
    assert first.columns.keys() == second.columns.keys()
    assert runs[0].summary["trace_hash"] == runs[1].summary["trace_hash"]


def test_data_frames_of_both_are_equal(runs: tuple[RunResult, RunResult]) -> None:
    pytest.importorskip("pandas")
    assert runs[0].metrics().equals(runs[1].metrics())


def test_a_comparison_finds_a_run_with_columns_again_and_not_a_part_of_it(
    runs: tuple[RunResult, RunResult], tmp_path: Path
) -> None:
    scenario = tiny({**EDITS, **FEW})
    assert stored_state(runs[1].folder, scenario).kind == "stored"
    part = tmp_path / "part"
    shutil.copytree(runs[1].folder, part)
    (part / COLUMNS / "round-000001.h5").unlink()
    assert stored_state(part, scenario).kind == "unusable"


class KilledAfter(NoRunProgress):
    """A machine that stops when a round has been written, and in the middle of writing the next."""

    def __init__(self, round_index: int) -> None:
        self._round_index = round_index

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if round_index == self._round_index:
            raise RuntimeError("killed")


def test_a_killed_run_goes_on_from_its_checkpoint_and_ends_as_if_it_had_not_been(
    runs: tuple[RunResult, RunResult], tmp_path: Path
) -> None:
    chosen = tiny({**EDITS, **FEW, "checkpoint_every": 1})
    with pytest.raises(RuntimeError, match="killed"):
        run_scenario(chosen, tmp_path / "run", KilledAfter(1))
    aside = (tmp_path / "run.failed").rename(tmp_path / "run.partial")
    assert len(list((aside / COLUMNS).glob("*.h5"))) == 2, "a round more than its checkpoint has"
    (aside / COLUMNS / ".partial-of-a-kill.h5").write_bytes(b"half")
    done = resume_run(aside)
    assert list(metric_rows(done.folder)) == list(metric_rows(runs[1].folder))
    assert (done.folder / METRICS).read_text() == (runs[1].folder / METRICS).read_text()
    assert names(done.folder / COLUMNS) == [f"round-{n:06d}.h5" for n in range(ROUNDS)]


def test_a_run_that_lacks_a_round_before_its_checkpoint_is_refused(tmp_path: Path) -> None:
    chosen = tiny({**EDITS, **FEW, "checkpoint_every": 1})
    with pytest.raises(RuntimeError, match="killed"):
        run_scenario(chosen, tmp_path / "run", KilledAfter(2))
    (tmp_path / "run.failed" / COLUMNS / "round-000000.h5").unlink()
    with pytest.raises(ConfigError, match="does not hold each of the 2 rounds"):
        resume_run(tmp_path / "run.failed")


def test_a_run_that_trains_on_keeps_its_columns_and_the_others_are_observed_once(tmp_path: Path) -> None:
    edits = {**EDITS, **FEW, "clients.sampled": 2, "rounds": 2}
    short = run_scenario(tiny(edits), tmp_path / "short")
    assert (short.folder / COLUMNS / "round-000001-resting.h5").is_file()
    longer = resume_run(short.folder, edits={"rounds": 4})
    whole = run_scenario(tiny({**edits, "rounds": 4}), tmp_path / "whole")
    assert list(metric_rows(longer.folder)) == list(metric_rows(whole.folder))
    assert sum(1 for _ in metric_rows(whole.folder)) == 3 * 3 + (N + 1)
    assert stored_state(whole.folder, tiny({**edits, "rounds": 4})).kind == "stored"
