"""The catalog of algorithms: every row of their table, in words."""

from __future__ import annotations

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.catalog.algorithm_catalog import algorithm_entries, algorithm_entry
from sheafedge.scenarios.catalog.field_catalog import fields_below


def test_every_algorithm_is_described() -> None:
    entries = algorithm_entries()
    assert [one.name for one in entries] == list(ALGORITHMS)
    assert all(one.summary and one.trains for one in entries)


def test_fields_that_algorithms_read_exist() -> None:
    for entry in algorithm_entries():
        for field in entry.fields:
            assert fields_below(field)[0].name == field


@pytest.mark.parametrize(
    ("name", "partners", "sends", "fields"),
    [
        ("sheaf_dmfl_att", "neighbors", ("encoder", "projection", "reprojection"), ("sheaf",)),
        ("fedprox", "a server", ("attention", "encoder", "head"), ("personalization.proximal", "server")),
        ("dfedu", "neighbors", ("model",), ("sheaf.coupling", "training.model_step_size")),
        ("fedsheafhn", "a server", ("embedding", "model", "update"), ("hyper", "server")),
        ("local", "nobody", (), ()),
        ("centralized", "all in one place", (), ()),
    ],
)
def test_an_entry_says_what_its_row_says(
    name: str, partners: str, sends: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    found = algorithm_entry(name)
    assert (found.partners, found.sends, found.fields) == (partners, sends, fields)


def test_an_unknown_algorithm_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match="did you mean fedavg"):
        algorithm_entry("fedagv")
