"""Records of a run folder: every number of its files in its place, and one sentence for what cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.scenarios.report.round_records import MeasuredEdge, last_known
from sheafedge.scenarios.report.run_records import read_records

from .conftest import Written, score


def test_scores_and_columns_stand_at_their_node_and_round(written: Written) -> None:
    records = read_records(written())
    assert records.groups == ("gps", "gps", "rf", "rf")
    assert records.members("rf") == [2, 3]
    assert_allclose(records.scores[2], [score(2, 0), np.nan, score(2, 2)])
    assert_allclose(records.columns["loss"][1], [1 / 2, 1 / 3, 1 / 4])
    assert_allclose(records.last("energy_j"), [6.0] * 4)
    assert not records.has("compute_s")
    assert np.isnan(records.train_scores).all()
    assert records.residuals == {}
    assert records.diagnostics.edges == []


def test_a_residual_is_the_mean_of_what_its_two_ends_know(written: Written) -> None:
    known = {(0, 0): {"1": 2.0}, (1, 0): {"0": 4.0, "3": 8.0}, (0, 2): {"1": 6.0}}
    records = read_records(written(more=lambda *place: {"residuals": known.get(place, {})}))
    assert list(records.residuals) == [(0, 1), (1, 3)]
    assert_allclose(records.residuals[0, 1], [3.0, np.nan, 6.0])
    assert_allclose(records.residuals[1, 3], [8.0, np.nan, np.nan])


def test_the_last_known_value_skips_what_is_not_known() -> None:
    assert_allclose(last_known(np.array([[1.0, 2.0, np.nan], [np.nan] * 3, [3.0, np.nan, 4.0]])), [2.0, np.nan, 4.0])


def test_the_loss_of_an_edge_counts_packets_or_else_messages() -> None:
    ends = {"sender": 0, "receiver": 1, "bytes": 5}
    assert MeasuredEdge(**ends, messages=10, lost_messages=1, packets=100, lost_packets=20).loss == pytest.approx(0.2)
    assert MeasuredEdge(**ends, messages=10, lost_messages=1).loss == pytest.approx(0.1)
    assert MeasuredEdge(**ends, messages=0).loss == 0.0


def test_a_folder_that_is_no_complete_run_is_refused(written: Written) -> None:
    folder = written()
    (folder / "summary.json").unlink()
    with pytest.raises(ConfigError, match=r"not the folder of a complete run \(summary\.json is missing\)"):
        read_records(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.json", "{"),
        ("summary.json", "[]"),
        ("metrics.jsonl", "[1]\n"),
        ("metrics.jsonl", '{"round": 99, "client": 0, "group": "gps", "bytes_sent": 0, "time_s": 1}\n'),
        ("diagnostics.json", '{"edges": [{"sender": "a"}]}'),
        ("diagnostics.json", "[" * 100_000),
    ],
)
def test_a_damaged_file_is_one_sentence(name: str, text: str, written: Written) -> None:
    folder: Path = written()
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"run .*run cannot be read \(.*\); run it again") as caught:
        read_records(folder)
    assert "\n" not in str(caught.value)
