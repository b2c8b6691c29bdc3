"""Notebooks and the page about Python: every cell and every block of them runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.checkout

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NAMES = ["blockage_figure", "edge_evaluation", "own_method"]
#: Longest time of a cell on a busy machine; the notebooks take about a minute each on one that is not.
LONGEST_CELL_S = 600


def notebook(name: str) -> Any:
    nbformat = pytest.importorskip("nbformat")
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_all_notebooks_are_tested() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_without_outputs(name: str) -> None:
    code = [cell for cell in notebook(name).cells if cell.cell_type == "code"]
    assert code
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert {cell.execution_count for cell in code} == {None}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("default")  # of the machinery of notebooks
@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("blockage_figure", "runs/losses/losses.pdf"),
        ("edge_evaluation", "runs/beams/bundles"),
        ("own_method", "runs/methods/results.json"),
    ],
)
def test_every_cell_of_a_notebook_runs(name: str, left: str, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for package in ("pandas", "sklearn"):
        pytest.importorskip(package)
    book = notebook(name)
    client = nbclient.NotebookClient(
        book, timeout=LONGEST_CELL_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises where a cell does
    said = [text for cell in book.cells if cell.cell_type == "code" for text in printed(cell)]
    assert [text for text in said if "Warning" in text or "warning:" in text] == []
    # progress is lines, and not every state of a bar
    assert [text for text in said if "\x1b" in text] == []
    assert (tmp_path / left).exists()


@pytest.mark.slow
def test_the_blocks_of_the_page_about_python_are_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("pandas", "sklearn"):
        pytest.importorskip(package)
    page = (FOLDER.parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102 - the page is ours
    printed = capsys.readouterr().out
    promised = re.findall(r"^ *print\(\w+\)  # (.+)$", page, re.MULTILINE)
    assert len(promised) == 2
    assert [line for line in promised if line not in printed.splitlines()] == []


def printed(cell: Any) -> list[str]:
    """Texts that a cell has printed or returned."""
    return [str(one.get("text", one.get("data", {}).get("text/plain", ""))) for one in cell.outputs]
