"""Cora: the numbers that the field prints of it, and files that are not as published."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sheafedge.datasets.rows.citation_rows import cora_rows
from sheafedge.datasets.rows.federated_rows import RowRequest
from sheafedge.datasets.rows.graph_edges import largest_component, within
from sheafedge.emulator.contracts import DataError

Data = Callable[[str], Path]


def test_the_largest_component_has_the_published_nodes_and_edges(data_folder: Data) -> None:
    rows = cora_rows(RowRequest(data_folder("cora"), classes=True))
    assert rows.edges is not None
    assert rows.x.shape == (2485, 1433)
    assert rows.edges.shape == (2, 10_138)
    assert np.unique(rows.x).tolist() == [0.0, 1.0]
    assert np.bincount(rows.y).tolist() == [344, 214, 406, 726, 379, 285, 131]
    assert len(largest_component(len(rows), rows.edges)) == len(rows)
    assert np.array_equal(within(rows.edges[::-1], np.arange(len(rows))), rows.edges[::-1])
    # citations join papers of one field: wrong rows of the test files would not
    assert (rows.y[rows.edges[0]] == rows.y[rows.edges[1]]).mean() > 0.8


def test_files_that_do_not_belong_together_are_refused(data_folder: Data, tmp_path: Path) -> None:
    for file in data_folder("cora").iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    request = RowRequest(tmp_path, classes=True)
    cora_rows(request)
    for name, content, sentence in (
        ("graph", pickle.dumps({0: [99_999], 1: [0]}, protocol=2), r"names the node '99999', but there are 2708 nodes"),
        ("graph", pickle.dumps([1], protocol=2), r"holds no list of neighbors"),
        ("test.index", b"1\n2\n", r"do not belong together"),
        ("test.index", b"one\n", r"cannot be read as numbers of nodes"),
    ):
        kept = (tmp_path / f"ind.cora.{name}").read_bytes()
        (tmp_path / f"ind.cora.{name}").write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            cora_rows(request)
        (tmp_path / f"ind.cora.{name}").write_bytes(kept)
