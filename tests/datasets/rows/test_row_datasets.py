"""Data sets by name: what each holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sheafedge.datasets.rows.activity_rows import wisdm_rows
from sheafedge.datasets.rows.digit_rows import digits_rows
from sheafedge.datasets.rows.federated_rows import FederatedRows, RowRequest
from sheafedge.datasets.rows.row_datasets import ROW_DATASETS
from sheafedge.emulator.contracts import ConfigError, DataError

Data = Callable[[str], Path]


def read(name: str, root: Path | None = None) -> FederatedRows:
    dataset = ROW_DATASETS[name]
    return dataset.read(RowRequest(root, dataset.labels == "classes"))


def test_digits_come_with_a_package() -> None:
    pytest.importorskip("sklearn")
    rows = read("digits")
    assert rows.x.shape == (1797, 8, 8)
    assert (rows.x.min(), rows.x.max()) == (0.0, 16.0)
    assert np.bincount(rows.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_digits_without_the_package_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ConfigError, match=r"scikit-learn, which is not installed; run: pip install 'sheafedge\[exam"):
        digits_rows(RowRequest(None, classes=True))


def test_schools_are_owners_of_pupils(data_folder: Data) -> None:
    rows = read("school", data_folder("school"))
    assert rows.x.shape == (15_362, 28)
    assert rows.owner is not None
    assert len(rows.owner_names) == 139
    assert np.bincount(rows.owner)[0] == 200
    assert rows.y[:3].tolist() == [17.0, 5.0, 16.0]
    assert rows.class_names == ()


def test_people_are_owners_of_activities(data_folder: Data) -> None:
    rows = read("wisdm", data_folder("wisdm"))
    assert rows.x.shape == (3587, 43)
    assert len(rows.owner_names) == 24
    assert len(rows.class_names) == 6
    assert np.isfinite(rows.x).all()


def test_mnist_keeps_its_published_parts(data_folder: Data) -> None:
    rows = read("mnist", data_folder("mnist"))
    assert rows.x.shape == (70_000, 28, 28)
    assert rows.split is not None
    assert [int((rows.split == part).sum()) for part in ("train", "test")] == [60_000, 10_000]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("1,2,3", r"row 0 has 3 cells; WISDM rows have 46"),
        (",".join(["1", "2", *["x"] * 43, "Walking"]), r"fetch it again"),
        (",".join(["1", "2", *["?"] * 43, "Walking"]), r"a feature that is always missing"),
    ],
)
def test_what_is_no_wisdm_file_is_refused(line: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "wisdm.csv").write_text(line + "\n")
    with pytest.raises(DataError, match=sentence):
        wisdm_rows(RowRequest(tmp_path, classes=True))
    (tmp_path / "wisdm-2.csv").write_text("")
    with pytest.raises(DataError, match=r"holds 2 files wisdm\*.csv; name the file itself"):
        wisdm_rows(RowRequest(tmp_path, classes=True))


@pytest.mark.parametrize("name", ["school", "mnist"])
def test_what_is_no_file_of_the_data_set_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "some").write_bytes(b"MATLAB 5.0" + bytes(200))
    for root in (tmp_path, tmp_path / "some"):
        with pytest.raises(DataError, match=r"cannot be read|holds no cell array"):
            read(name, root)
