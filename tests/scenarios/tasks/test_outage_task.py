"""Forecasts of outage: labels per frame ahead and strength, scores of probabilities, and what plans make of answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.datasets.windows.outage_windows import outage_windows
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.edge.label_probabilities import decided_labels, forecast_probabilities
from sheafedge.scenarios.schema.compatibility import IncompatibleError
from sheafedge.scenarios.schema.data_section import DataSection
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.tasks.outage_task import OutageForecast
from sheafedge.scenarios.tasks.task_spec import Answers, ForecastTask

FADES_DB = (14.0, 8.0)
TASK = OutageForecast()
DATA = DataSection(window=2, horizon=3, fades_db=FADES_DB)


def sensed(power_db: list[float] | np.ndarray, *, with_power: bool = True) -> SensedFrames:
    frames = SensedFrames("corner", ("rf", "signal"))
    n = len(power_db)
    fields: dict[str, Any] = {
        "time_s": np.arange(n) / 10,
        "sequence": np.zeros(n, dtype=np.int64),
        "rf": np.ones((n, 4)),
        "signal": np.zeros((n, 5)),
        "blocked_geometric": np.asarray(power_db) < -3.0,
    }
    if with_power:
        # what is recorded between frames is no label
        fields["link_power_dbw"] = np.column_stack([np.asarray(power_db) - 90.0, np.full(n, -300.0)])
    frames.append(fields)
    return frames


def samples_of(power_db: list[float] | np.ndarray) -> Any:
    return TASK.samples(sensed(power_db), ("rf", "signal"), DATA)


def test_every_frame_ahead_has_a_label_at_either_strength() -> None:
    """A fade of 10 dB is outage for who has 6 dB less, one of 20 dB for both; powers are relative to a clear view."""
    samples = samples_of([0.0, 0.0, 0.0, -10.0, -20.0, 0.0, 0.0])
    assert samples.end.tolist() == [1, 2, 3]
    own, neighbor = samples.label[:, :3], samples.label[:, 3:]
    assert own.tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert neighbor.tolist() == [[0, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert samples.blocked_now.tolist() == [False, False, False]
    assert samples.frames_to_blockage.tolist() == [3, 2, 1]
    assert_array_equal(samples.take(np.array([2])).label, samples.label[[2]])


def test_powers_that_were_not_recorded_are_named() -> None:
    with pytest.raises(DataError, match=r"world\.link_rate_hz = 100"):
        outage_windows(sensed([0.0] * 9, with_power=False), ("rf",), 2, 3, FADES_DB)
    with pytest.raises(ConfigError, match="choose among"):
        outage_windows(sensed([0.0] * 9), ("gps",), 2, 3, FADES_DB)


def test_stated_probabilities_are_scored_as_such() -> None:
    draws = np.random.default_rng(5)
    samples = samples_of(np.where(draws.random(400) < 0.2, -20.0, 0.0))
    truth = samples.label == 1
    right = TASK.scores(np.where(truth, 20.0, -20.0), samples)
    assert (right["brier"], right["auc"], right["ece"], right["ahead"]) == pytest.approx((0.0, 1.0, 0.0, 1.0), abs=1e-6)
    usual = TASK.baselines(samples, samples)["base rate"]
    share = truth.mean(axis=0)
    assert usual["brier"] == pytest.approx(float((share * (1.0 - share)).mean()))
    assert usual["ece"] == pytest.approx(0.0, abs=1e-9)
    assert usual["auc"] == 0.5
    boastful = TASK.scores(np.where(draws.random(truth.shape) < 0.5, 6.0, -6.0), samples)
    assert boastful["ece"] > 0.3
    assert boastful["brier"] > usual["brier"]


def test_a_client_without_outage_has_a_first_score() -> None:
    samples = samples_of([0.0] * 12)
    scores = TASK.scores(np.full(samples.label.shape, -4.0), samples)
    assert TASK.columns[0].key in scores
    assert "auc" not in scores
    assert "ahead" not in scores


def test_every_horizon_has_figures_of_its_own() -> None:
    draws = np.random.default_rng(6)
    samples = samples_of(np.where(draws.random(300) < 0.3, -20.0, 0.0))
    logits = np.where(samples.label == 1, 4.0, -4.0)
    logits[:, 1] = draws.normal(size=len(logits))  # the second frame ahead is guessed
    found = TASK.diagnostics([Answers(logits, samples, 10.0)])["horizons"]
    assert found["seconds"] == pytest.approx([0.1, 0.2, 0.3])
    assert found["own"]["auc"][0] == found["own"]["auc"][2] == 1.0
    assert found["own"]["auc"][1] < 0.7
    assert found["neighbor"]["auc"] == [1.0, 1.0, 1.0]


def test_plans_get_probabilities_and_rules_a_warning() -> None:
    assert isinstance(TASK, ForecastTask)
    logits = np.array([[0.0, 2.0, -1.0, 5.0, 5.0, 5.0]])
    assert TASK.warning_logits(logits).tolist() == [2.0]
    odds = TASK.outage_odds(logits)
    assert odds.shape == (1, 2, 3)
    assert_allclose(odds[0, :, 0], [0.5, 1.0 / (1.0 + np.exp(-5.0))])


def test_a_bundle_says_which_frame_and_receiver_every_output_is_about() -> None:
    output = TASK.forecast_output(DATA, 10.0)
    assert output.forecast is not None
    assert (output.forecast.series, output.forecast.fades_db) == (("own", "neighbor"), FADES_DB)
    assert output.forecast.ahead_s == pytest.approx((0.1, 0.2, 0.3))
    assert output.n_outputs == TASK.outputs(DATA).n
    assert output.labels == ("no outage within 0.3 s", "outage within 0.3 s")
    logits = np.random.default_rng(3).normal(size=(9, 6))
    assert_array_equal(decided_labels(logits, output) == 1, TASK.warning_logits(logits) > 0.0)
    odds = [*forecast_probabilities(logits, output).values()]
    assert_allclose(np.stack(odds, axis=1), TASK.outage_odds(logits), atol=1e-12)


@pytest.mark.parametrize(
    ("edits", "sentence"),
    [
        ({"world.link_rate_hz": 0}, "set it to 100"),
        ({"decision.neighbor_below_db": 3}, r"set it to \[14.33, 11.33\]"),
        ({"data.mode": "live"}, "set data.mode = 'replay'"),
        ({"training.class_weights": "balanced"}, "set it to 'none'"),
        ({"algorithm": "fedproto_decentralized"}, "works on classes"),
    ],
)
def test_what_does_not_go_with_forecasts_is_refused(edits: dict[str, Any], sentence: str) -> None:
    with pytest.raises(IncompatibleError, match=sentence):
        load_scenario("outage_forecast").edited(edits)
