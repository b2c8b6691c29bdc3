"""Benchmarks of served answers and of devices still run and say what they promise; how fast, no test asks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from doubles.benchmark_reports import assert_spread, report
from doubles.bundles import tiny_bundle

pytestmark = pytest.mark.checkout  # benchmarks are not shipped


@pytest.mark.slow
def test_serve_finds_the_rate_that_a_bundle_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundles = [str(tiny_bundle(tmp_path / name)) for name in ("one", "other")]
    printed = report("serve", capsys, "--bundles", *bundles)
    assert printed["questions_per_s"].keys() == printed["cpu_ms_per_answer"].keys() == {"one", "other"}
    for seen in printed["questions_per_s"].values():
        assert_spread(seen)
    for seen in printed["cpu_ms_per_answer"].values():
        assert seen["min"] >= 0.0, "counted in hundredths of a second, which is more than so few answers take"
    (quantiles,) = printed["latency_ms_at_that_rate"]["one"]
    assert 0.0 < quantiles["p50"] <= quantiles["p95"] <= quantiles["p99"] < 5000.0


def test_the_cost_of_a_served_answer_is_that_over_a_loop_which_answers_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = report("serve_cost", capsys, "--bundle", str(tiny_bundle(tmp_path / "b")))
    assert_spread(printed["round_trip_ratio"])
    assert_spread(printed["cpu_ratio"])
    for figures in (printed["round_trip_ms"], printed["cpu_ms_per_answer"]):
        assert figures.keys() == {"bare", "served"}
        for seen in figures.values():
            assert_spread(seen)
    assert printed["parts_us"].keys() > {"header and checksum", "model", "figures of rf", "comparison with training"}
    for seen in printed["parts_us"].values():
        assert_spread(seen)


def test_a_soak_accounts_for_every_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(tiny_bundle(tmp_path / "b"))
    soak = ("--soak", "1", "--soak-streams", "20", "--soak-rate", "10")
    (figures,) = report("serve", capsys, "--bundles", bundle, *soak)["soaks"].values()
    counted = figures["counted_by_the_server"]
    assert figures["questions"] == counted["questions"] == 200
    assert figures["not_settled"] == 0
    assert figures["answers"] == counted["answers"]
    assert figures["dropped_and_told"] == sum(counted["dropped"].values())
    assert figures["answers"] + figures["dropped_and_told"] + figures["refused"] == 200
    assert counted["streams"] == 20
    assert figures["resident_mib"]["end"] > 1.0


def test_a_question_without_an_answer_waits_for_ever() -> None:
    heard = import_module("sheafedge.benchmarks._load").Heard(n_sent=100, latency_s=[0.001 * n for n in range(1, 99)])
    assert heard.quantile_ms(0.5) == pytest.approx(50.0)
    assert heard.quantile_ms(0.98) == pytest.approx(98.0)
    assert heard.quantile_ms(0.99) == float("inf")


@pytest.mark.slow
def test_devices_foretells_every_model_in_every_precision(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("devices", capsys)
    assert {row["model"] for row in printed["models"]} == {
        "beam_tracking both",
        "beam_tracking gps",
        "beam_tracking rf",
    }
    assert printed["fit"].keys() == {"float32", "float16", "int8"} == {row["precision"] for row in printed["models"]}
    for row in printed["models"]:
        assert row["mflop"] > 0.0
        assert row["cpu_ms"] > 0.0
        assert row["foretold_unseen"] > 0.0
        assert row["foretold_by_package"] > 0.0
        assert 0.0 < row["to_float32"]["low"] <= row["to_float32"]["median"] <= row["to_float32"]["high"]
        assert row["precision"] != "float32" or row["to_float32"]["median"] == 1.0
    assert 0.0 < printed["training"]["gflops_min"] <= printed["training"]["gflops_max"]


def test_the_cost_model_finds_what_a_sum_was_made_of() -> None:
    least_relative = import_module("sheafedge.benchmarks.devices")._least_relative
    terms = np.array([(1.0, flops, n_bytes) for flops in (1e6, 1e8) for n_bytes in (1e3, 1e6)])
    known = np.array([1e-4, 2e-4, 3e-4, 4e-4])
    truth = np.array([5e-5, 2e-11, 3e-10])
    found = least_relative(terms, terms @ truth + known, known)
    np.testing.assert_allclose(found, truth, rtol=1e-6)
    never_negative = least_relative(
        terms, terms @ np.array([5e-5, 2e-11, 0.0]) * (1.0 - 1e-3 * terms[:, 2] / 1e6), 0 * known
    )
    assert never_negative.min() >= 0.0
