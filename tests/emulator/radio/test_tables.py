"""The numbers of standards: every file is a table, and says of which clause."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import DataError
from sheafedge.emulator.radio.tables import FOLDER, parse_table, table

NAMES = sorted(path.stem for path in FOLDER.glob("*.csv"))
ROUNDING = 1.01e-4  # efficiencies are printed with four digits


def test_there_are_twelve_tables() -> None:
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", NAMES)
def test_every_table_names_its_clause(name: str) -> None:
    found = table(name)
    assert "Table" in found.clause
    assert found.clause.startswith(("3GPP T", "Recommendation ITU-R"))
    assert found.columns
    assert len(set(found.labels)) == len(found.labels)


def test_a_table_is_read_once_and_cannot_be_changed() -> None:
    assert table("cqi") is table("cqi")
    with pytest.raises(ValueError, match="read-only"):
        table("cqi")["efficiency"][0] = 1.0


def test_efficiency_is_bits_per_symbol_times_code_rate() -> None:
    cqi = table("cqi")
    assert_allclose(cqi["cqi"], np.arange(1, 16))
    assert_allclose(cqi["efficiency"], cqi["bits_per_symbol"] * cqi["code_rate_times_1024"] / 1024, atol=ROUNDING)


def test_an_empty_cell_is_not_a_number() -> None:
    assert np.isnan(table("umi_large_scale").row("rician_factor_db")["nlos_mean"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "must begin with '# '"),
        ("", "must begin with '# '"),
        ("# clause\n", "at least one row"),
        ("# clause\na,b\n", "at least one row"),
        ("# clause\na,b\n1,2,3\n", "line 3 has 3 cells, its header 2"),
        ("# clause\na,b\n1,two\n", "column 'b' must hold numbers"),
    ],
)
def test_a_damaged_table_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        parse_table("damaged", text)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"no table 'cqj'.*cqi, materials"):
        table("cqj")
    with pytest.raises(DataError, match=r"no column 'rate'.*efficiency"):
        table("cqi")["rate"]
    with pytest.raises(DataError, match="no row '16'"):
        table("cqi").row("16")
