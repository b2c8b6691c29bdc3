"""The data sets of rows that a scenario can name. A new one is a reader beside this, and a row here."""

from __future__ import annotations

from .activity_rows import wisdm_rows
from .citation_rows import cora_rows
from .digit_rows import digits_rows, mnist_rows
from .federated_rows import RowDataset
from .file_rows import file_rows
from .school_rows import school_rows

ROW_DATASETS: dict[str, RowDataset] = {
    "file": RowDataset(file_rows, "a .npz or .csv file of your own", "any"),
    "digits": RowDataset(digits_rows, "", "classes"),
    "mnist": RowDataset(mnist_rows, "the file mnist.npz, or its folder", "classes"),
    "school": RowDataset(school_rows, "the file school.mat, or its folder", "values"),
    "cora": RowDataset(cora_rows, "the folder with the files ind.cora.*", "classes"),
    "wisdm": RowDataset(wisdm_rows, "the transformed WISDM file, or its folder", "classes"),
}
