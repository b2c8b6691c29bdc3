"""Cost of measuring beams: what the standard's numbers come down to."""

from __future__ import annotations

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.decisions.beam_measurement import SSB_PERIODS_S, BeamMeasurement

STANDARD = BeamMeasurement()


def test_a_burst_of_64_beams_takes_256_symbols_of_a_half_frame() -> None:
    airtime_s, ready_s = STANDARD.burst(64)
    assert airtime_s == pytest.approx(256 * 125e-6 / 14)  # 120 kHz: 14 symbols in 125 us
    assert ready_s == pytest.approx(0.005 + STANDARD.report_delay_s + STANDARD.indication_s)
    assert airtime_s / STANDARD.ssb_period_s == pytest.approx(0.1143, abs=1e-4)


def test_a_smaller_codebook_has_a_shorter_burst() -> None:
    airtime_s, ready_s = STANDARD.burst(16)
    assert airtime_s == pytest.approx(STANDARD.burst(64).airtime_s / 4)
    assert ready_s == pytest.approx(0.005 / 4 + STANDARD.report_delay_s + STANDARD.indication_s)


def test_a_beam_on_request_takes_a_symbol_and_every_stage_a_report() -> None:
    one_stage, two_stages = STANDARD.on_request(16), STANDARD.on_request(16, n_stages=2)
    assert one_stage.airtime_s == two_stages.airtime_s == pytest.approx(16 * 125e-6 / 14)
    assert one_stage.ready_s == pytest.approx(one_stage.airtime_s + 0.005)
    assert two_stages.ready_s - one_stage.ready_s == pytest.approx(STANDARD.report_delay_s)


def test_a_beam_that_is_trusted_has_only_to_be_indicated() -> None:
    assert STANDARD.trust == (0.0, STANDARD.indication_s)


def test_periods_of_bursts_are_those_of_the_standard() -> None:
    """TS 38.213, clause 4.1, typed again."""
    assert SSB_PERIODS_S == (0.005, 0.010, 0.020, 0.040, 0.080, 0.160)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("csi_rs_beam_s", -1e-6, "must lie in"),
        ("report_delay_s", float("nan"), "must lie in"),
        ("ssb_period_s", 0.03, "must be one of 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, got 0.03"),
        ("wide_split", 3, "must be one of 2, 4, 8, 16, 32, got 3"),
    ],
)
def test_an_impossible_value_is_refused_by_name(field: str, value: float, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"decision\.beams\.{field} {words}"):
        BeamMeasurement(**{field: value})  # type: ignore[arg-type]  # the point of the test
