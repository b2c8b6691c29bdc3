"""The comparison behind docs/fewer_bits.md can be run, and leaves no option out."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.models.codecs.codec_table import CODECS
from sheafedge.scenarios.compare.comparison import loaded_tables, validated_comparison
from sheafedge.scenarios.compare.plan import planned_runs

PAGE = Path(__file__).parents[2] / "docs" / "fewer_bits.toml"
pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the sources are not here: an installed wheel is tested")


def test_the_comparison_can_be_planned_and_shows_every_codec() -> None:
    comparison = validated_comparison(loaded_tables(str(PAGE)))
    runs = planned_runs(comparison)
    assert len(runs) == len(comparison.methods) * len(comparison.seeds)
    assert {edits.get("sharing.codec", "float32") for edits in comparison.methods.values()} == set(CODECS)
    assert any("sharing.every" in edits for edits in comparison.methods.values())
