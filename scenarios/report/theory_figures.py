"""Figures of theory beside the run: objective, gradients and their bound, spectrum, holonomy and what maps show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..running.stored_run import StoredBound, StoredTheory, StoredTheoryRow
from .figure_style import MUTED, Columns, new_figure, series_style
from .report_figure import FEW_POINTS, ReportFigure, legend_below, rounds_axis, widen_if_far_apart
from .round_records import Array, RoundRecords

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Figure -> label of its axis, and line -> key of a row.
_CURVES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "theory-objective": (
        "objective",
        {"losses": "loss", "losses and coupling": "objective", "energy of the sheaf": "energy"},
    ),
    "theory-gradients": (
        "squared gradient",
        {
            "coupled vectors": "gradient_vectors",
            "maps": "gradient_maps",
            "encoders": "gradient_encoders",
            "attention": "gradient_attention",
        },
    ),
    "theory-spectrum": (
        "eigenvalue",
        {
            "largest": "largest_eigenvalue",
            "smallest above 0": "smallest_eigenvalue",
            "energy / |w|²": "rayleigh",
            "as weight decay": "weight_decay",
        },
    ),
    "theory-consensus": (
        "distance to the mean",
        {"coupled vectors": "consensus_vectors", "encoders": "consensus_encoders"},
    ),
    "theory-maps": (
        "share, or |H − I| / |I|",
        {
            "seen through maps": "seen",
            "pull along the vectors": "shrinking",
            "holonomy, mean": "holonomy",
            "holonomy, largest": "largest_holonomy",
        },
    ),
}
_CAPTIONS = {
    "theory-objective": "Sum of the clients' losses on all their training samples; the same with coupling / 2 × energy;"
    " and that energy, the squared differences of neighbors through their maps.",
    "theory-gradients": "Squared norm of the gradient of that objective, by what is trained.",
    "theory-spectrum": "Ends of the spectrum of the sheaf Laplacian, and between them the energy per squared norm of"
    " what is coupled. As weight decay: the coupling times that, the decay that would shrink it as much.",
    "theory-consensus": "Root mean square distance from the mean over all clients.",
    "theory-maps": "What neighbors see of a client's vector, as a share of its squared norm; the share of the pull that"
    " only shrinks it; and the holonomy of cycles, |H − I| / |I|: 0 where maps around a cycle cancel.",
}
#: Dashes of the mean squared gradient, and of its bound.
_DASHES = ((0, (4, 2)), (0, (1, 1)))
#: Keys that are squared when they are drawn.
_NORMS = frozenset({"gradient_vectors", "gradient_maps", "gradient_encoders", "gradient_attention"})


def theory_figures(records: RoundRecords) -> Iterator[ReportFigure]:
    """Figures of a run that computed figures of theory; none of others."""
    theory = StoredTheory.model_validate(records.summary.get("theory", {}))
    for name, (_, lines) in _CURVES.items():
        if _known_lines(lines, theory.rows):
            caption = _CAPTIONS[name] + (_said(theory.bound) if name == "theory-gradients" else "")
            yield ReportFigure(name, caption, partial(_curves, name, theory))


def _curves(name: str, theory: StoredTheory, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    label, lines = _CURVES[name]
    rounds = np.array([row.round for row in theory.rows], dtype=np.float64)
    drawn = _known_lines(lines, theory.rows)
    bounds = _bounds(theory.bound) if name == "theory-gradients" else {}
    if name != "theory-maps":
        widen_if_far_apart(
            panel, np.concatenate([values[values > 0.0] for values in (*drawn.values(), *bounds.values())])
        )
    for index, line in enumerate(lines):
        if line not in drawn:
            continue
        # heads that start equal have no energy: a logarithmic axis has no place for it
        values = np.where(drawn[line] > 0.0, drawn[line], np.nan) if panel.get_yscale() == "log" else drawn[line]
        style = series_style(index)
        marker = style.marker if len(rounds) < FEW_POINTS or np.isfinite(values).sum() == 1 else ""
        panel.plot(rounds, values, color=style.color, ls=style.line, marker=marker, label=line)
    for (line, values), dashes in zip(bounds.items(), _DASHES, strict=False):
        panel.axhline(float(values[0]), color=MUTED, ls=dashes, lw=1.0, label=line)
    panel.set_ylabel(label)
    rounds_axis(panel, int(rounds[-1]))
    legend_below(figure, panel)
    return figure


def _known_lines(lines: Mapping[str, str], rows: Sequence[StoredTheoryRow]) -> dict[str, Array]:
    """Line -> its values; without lines that are nowhere known, and without gradients of what is not trained."""
    found = {}
    for line, key in lines.items():
        figures = [(row.model_extra or {}).get(key) for row in rows]
        values = np.array([np.nan if one is None else float(one) for one in figures], dtype=np.float64)
        values = values**2 if key in _NORMS else values
        known = values[np.isfinite(values)]
        if len(known) and (key not in _NORMS or known.any()):
            found[line] = values
    return found


def _bounds(bound: StoredBound) -> dict[str, Array]:
    """Line -> [1] the mean over the run, and what it is at most."""
    named = {"vectors, mean": bound.mean_square, "bound of that mean": bound.bound}
    return {line: np.array([value]) for line, value in named.items() if value is not None}


def _said(bound: StoredBound) -> str:
    if bound.bound is None:
        return f" No bound: {bound.reason}."
    return (
        f" Bound: Ψ at the start / (ρ × steps) of Theorem 1, corrected, with ρ = {bound.rho:.3g} from a step size of"
        f" {bound.step_size:g} and a smoothness estimated as {bound.smoothness:.3g}: a check, no proof."
    )
