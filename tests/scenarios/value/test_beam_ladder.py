"""The ladder of beam rules: how they are tuned, and what is compared, for services that can be counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sheafedge.emulator.decisions.beam_rules import Trigger
from sheafedge.emulator.decisions.service import Service
from sheafedge.scenarios.value.beam_ladder import (
    AT_EQUAL_BEAMS,
    EVERY_FRAME,
    LISTED_BEAMS,
    MODEL,
    RIVALS,
    RULES,
    SETTINGS,
    BeamSetting,
    at_equal_beams,
    beam_fronts,
    beam_ladder,
    model_less_rivals,
    tuned,
)

MINUTE = Service(duration_s=60.0)
MBIT = 60e6  # bits of a minute at 1 Mbit/s


def services(*rates_mbit_s: float) -> list[Service]:
    return [replace(MINUTE, bits=rate * MBIT) for rate in rates_mbit_s]


def test_rules_are_tuned_where_they_are_not_shown() -> None:
    """Of two base stations each has the setting that is best for the other."""
    assert tuned([services(3.0, 1.0, 2.0), services(1.0, 2.0, 3.0)], np.array([False, True])) == [2, 0]


def test_rules_on_answers_are_tuned_in_their_own_group() -> None:
    good, bad = services(1.0, 5.0), services(3.0, 0.0)
    halves, groups = np.array([False, True, False, True]), ["camera", "camera", "gps", "gps"]
    assert tuned([good, good, bad, bad], halves, groups) == [1, 1, 0, 0]
    assert tuned([good, good, bad, bad], halves) == [1, 1, 1, 1]


def test_a_group_without_another_half_is_tuned_on_all_of_that_half() -> None:
    halves, groups = np.array([False, True]), ["camera", "gps"]
    assert tuned([services(1.0, 0.0), services(0.0, 1.0)], halves, groups) == [1, 0]


def test_base_stations_in_one_place_are_tuned_on_each_other_and_a_single_one_on_itself() -> None:
    of_three = [services(9.0, 0.0), services(0.0, 1.0), services(0.0, 1.0)]
    assert tuned(of_three, np.zeros(3, dtype=np.bool_)) == [1, 0, 0]
    assert tuned(of_three[:1], np.zeros(1, dtype=np.bool_)) == [0]


def test_differences_are_paired_over_base_stations() -> None:
    base = services(100.0, 200.0, 300.0)
    better = services(102.0, 203.0, 304.0)
    found = dict.fromkeys(RULES, base) | {MODEL: better}
    rows = {row["rule"]: row for row in beam_ladder(found, {MODEL: [BeamSetting(EVERY_FRAME, 3)] * 3})}
    assert list(rows) == list(RULES)
    row = rows[MODEL]
    assert row["throughput_mbit_s"] == pytest.approx(203.0)
    assert row["throughput_difference"] == pytest.approx(3.0)
    assert row["throughput_standard_error"] == pytest.approx(1.0 / 3**0.5)
    assert row["settings"] == [{"beams": 3, "measured_on": "csi_rs", "period_s": 0.0, "drop_db": None}]
    assert model_less_rivals(found) == {
        rule: {name: row[name] for name in ("throughput_difference", "throughput_standard_error")} for rule in RIVALS
    }


def test_time_measuring_and_lost_power_are_means_over_base_stations() -> None:
    """Lost power counts where something is sent: 54 of 60 s."""
    measuring = replace(MINUTE, interrupted_s=6.0, lost_db_s=54.0 * 2.0, bits=MBIT)
    found = [measuring, replace(MINUTE, bits=MBIT)]
    (row, *_) = beam_ladder(dict.fromkeys(RULES, found), {})
    assert row["measuring_share"] == pytest.approx(0.05)
    assert row["lost_db"] == pytest.approx(1.0)


def test_equal_numbers_of_beams_are_compared_in_every_frame_without_a_fallback() -> None:
    """Services whose rate says which setting they are of: hundreds for the rule, the number of beams as units."""
    tried = {
        rule: [
            services(
                *(100.0 * (place + 1) + one.n_beams if one.trigger == EVERY_FRAME else 0.0 for one in SETTINGS[rule])
            )
        ]
        * 2
        for place, rule in enumerate(AT_EQUAL_BEAMS)
    }
    rows = at_equal_beams(tried)
    assert [row["beams"] for row in rows] == list(LISTED_BEAMS)
    for row in rows:
        assert row[MODEL]["throughput_mbit_s"] == pytest.approx(100.0 + row["beams"])
        assert row["less_prior_sweep_difference"] == pytest.approx(-100.0)
        assert row.get("less_neighbor_sweep_difference", -200.0) == pytest.approx(-200.0)
    # the beam in use alone is nothing to choose from
    assert "neighbor_sweep" not in rows[0]


def test_fronts_are_periods_of_sweeps_and_numbers_of_beams_of_lists() -> None:
    tried = {rule: [[MINUTE] * len(found)] for rule, found in SETTINGS.items()}
    fronts = beam_fronts(tried)
    assert [point["period_s"] for point in fronts["sweep_tuned_on_bursts"]] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16]
    assert [point["period_s"] for point in fronts["sweep_tuned"]] == [0.0, 0.5, 1.0, 2.0, 5.0, None]
    assert [point["beams"] for point in fronts[MODEL]] == list(LISTED_BEAMS)
    assert all(point["drop_db"] is None for points in fronts.values() for point in points)


def test_settings_are_told_apart() -> None:
    for found in SETTINGS.values():
        assert len(set(found)) == len(found)
    assert Trigger(np.inf, np.inf).figures() == {"period_s": None, "drop_db": None}
