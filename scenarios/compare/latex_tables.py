"""Tables of a comparison as LaTeX with booktabs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any
from unicodedata import name

from .comparison_tables import legend, result_tables
from .differences import notes, with_differences
from .result_table import ResultTable

_HEAD = r"""% Written by sheafedge compare. The preamble needs \usepackage{booktabs}.
% pdfLaTeX takes Latin and Greek names of methods, XeLaTeX and LuaLaTeX those of all scripts.
"""


def _greek(letter: str) -> str:
    # Unicode spells lambda as modern Greek does
    return name(letter).split()[-1].replace("LAMDA", "LAMBDA")


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    '"': "''",  # an upright one is not in every font
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "²": "$^2$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "−": "$-$",
    "√": r"$\surd$",
    "→": r"$\to$",
    **{one: f"\\{one}" for one in "&%$#_{}"},
    # the letters that LaTeX names; the others look like Latin ones
    **{one: f"$\\{_greek(one).lower()}$" for one in "αβγδεζηθικλμνξπρστυφχψω"},
    **{one: f"$\\{_greek(one).title()}$" for one in "ΓΔΘΛΞΠΣΥΦΨΩ"},
}
_FIGURES = re.compile(r"[-+<]?[\d.,]+(±[\d.,]+)?( \[[-+\d.,]+, [-+\d.,]+\])?|\[[-+\d.,]+, [-+\d.,]+\]")
#: Characters of a heading in one line.
_LONGEST_HEAD = 10
_THOUSANDS = re.compile(r"(?<=\d),(?=\d)")


def latex(results: Mapping[str, Any]) -> str:
    """Content of `table.tex`: every table of the comparison as a float, for papers that read it as input."""
    results = with_differences(results)
    about = " ".join([legend(results), *notes(results, in_paper=True)])
    tables = [
        _float(table, about if place == 0 else "", f"{results['name']}-{place + 1}")
        for place, table in enumerate(result_tables(results))
    ]
    return _HEAD + "\n".join(tables)


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    # two hyphens would be a dash
    return "".join(_SPECIAL.get(one, one) for one in text).replace("--", "-{}-")


def _head(text: str) -> str:
    """Heading of a column, a long one in several lines: numbers are narrow."""
    lines = textwrap.wrap(text, _LONGEST_HEAD, break_long_words=False, break_on_hyphens=False)
    stacked = r"\\".join(escaped(line) for line in lines)
    return stacked if len(lines) < 2 else rf"\shortstack[r]{{{stacked}}}"


def _float(table: ResultTable, about: str, anchor: str) -> str:
    label = re.sub(r"[^A-Za-z0-9]+", "-", anchor)
    rows = [" & ".join(_cell(cell, place == 0) for place, cell in enumerate(row)) + r" \\" for row in table.rows]
    heads = " & ".join(_head(head.replace("_", " ")) for head in table.heads) + r" \\"
    caption = escaped(f"{table.title[:1].upper()}{table.title[1:]}. {about}".strip())
    return "\n".join(
        [
            r"\begin{table}[t]",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label}}}",
            r"\footnotesize\setlength{\tabcolsep}{3pt}",  # a column of a page is 252 pt wide
            rf"\begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}",
            r"\toprule",
            heads,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _cell(text: str, is_name: bool) -> str:
    if text == "-":
        return "--"
    if not is_name and _FIGURES.fullmatch(text):
        figures = _THOUSANDS.sub("{,}", text).replace("±", r" \pm ")
        return f"${figures}$"
    # a bracket or star after the end of a row would be an argument of it
    return f"{{{escaped(text)}}}" if text[:1] in ("[", "*") else escaped(text)
