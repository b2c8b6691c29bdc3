"""Tables for papers compile whatever methods are called."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sheafedge.scenarios.compare.latex_tables import _head, escaped, latex

#: Names that would end a row, begin an argument, a comment or a formula, or be another character in the default font.
NAMES = ("[a] b", "*", r"50 % & more_#1 \end{tabular}", 'x^2 ~ {y} $z$ <1> |2| "q"', "λ = 0.1, γ ≥ 2 ± 1 → ü")


@pytest.fixture
def with_hostile_names(written_results: dict[str, Any]) -> dict[str, Any]:
    first = written_results["entries"][0]
    entries = [{**first, "arm": name} for name in NAMES]
    comparison = {**written_results["comparison"], "arms": {name: {} for name in NAMES}}
    return {**written_results, "name": "a_b & c", "entries": entries, "comparison": comparison}


def test_every_special_character_is_printed_as_it_is() -> None:
    assert escaped(r"50 % & more_#1") == r"50 \% \& more\_\#1"
    assert escaped("\\") == r"\textbackslash{}"
    assert escaped("λ") == r"$\lambda$"
    assert escaped("--x") == "-{}-x"
    assert not re.search(r"(?<!\\)[&%#_]", latex_text(escaped("a&b%c#d_e")))


def latex_text(text: str) -> str:
    return text.replace("{}", "")


def test_figures_are_set_as_mathematics_and_names_are_not(written_results: dict[str, Any]) -> None:
    text = latex(written_results)
    row = next(line for line in text.splitlines() if line.startswith(r"50 \% \& more\_\#1") and "+" in line)
    assert row == r"50 \% \& more\_\#1 & $+.023$ & $[+.009, +.037]$ & $+2.42$ & $.021$ \\"
    assert r"alone & $.712 \pm .019$ & " in text
    assert "5 seeds: an interval reaches" in text
    # all rows of a table have as many cells as its head
    for table in text.split(r"\toprule")[1:]:
        body = table.split(r"\bottomrule")[0]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in body.splitlines() if line.endswith(r"\\")}) == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_it_compiles(with_hostile_names: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "table.tex").write_text(latex(with_hostile_names), encoding="utf-8")
    page = r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{table.tex}\end{document}"
    (tmp_path / "paper.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in (tmp_path / "paper.log").read_text(errors="replace")


def test_a_long_heading_has_short_lines() -> None:
    """Else a table with costs is wider than the column of a page."""
    assert _head("MB sent") == "MB sent"
    assert _head("MB per client, both ways") == r"\shortstack[r]{MB per\\client,\\both ways}"
    assert _head("unbreakable_name_of_a_group") == r"unbreakable\_name\_of\_a\_group"


def test_captions_name_no_option_of_the_command_line(written_results: dict[str, Any]) -> None:
    assert "the first method, seed by seed" in latex(written_results)
    assert "reference names" not in latex(written_results)
