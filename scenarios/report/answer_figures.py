"""Figures of held-out answers: confusion, ROC, reliability, lead times, residuals and calibration of values.

What is drawn follows from the curves that a task has written into `diagnostics.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .figure_style import COLORS, INK, MAP, MUTED, PAPER, Columns, new_figure
from .report_figure import ReportFigure, group_styles, legend_below
from .run_records import RunRecords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .figure_style import SeriesStyle

Curve = Mapping[str, Any]

#: Classes of a confusion matrix whose cells have their shares written in.
MOST_WRITTEN = 12


def answer_figures(records: RunRecords) -> Iterator[ReportFigure]:
    """Figures of the reported model of every group."""
    for name, caption, draw in (
        ("roc", "Receiver operating characteristic: positives found over false alarms; dotted: chance.", _draw_roc),
        ("reliability", _RELIABILITY, _draw_reliability),
        ("calibration", _CALIBRATION, _draw_calibration),
    ):
        if curves := _curves(records, name):
            without = [group for group in records.group_names if group not in curves and name == "roc"]
            missing = f" Only one answer is right in all samples of: {', '.join(without)}." if without else ""
            yield ReportFigure(name, caption + missing, partial(_together, records, curves, draw))
    if curves := _curves(records, "horizons"):
        for score, caption in _OVER_HORIZONS.items():
            drawn = partial(_draw_horizons, score)
            yield ReportFigure(f"horizons-{score}", caption, partial(_together, records, curves, drawn))
    for name, caption, draw_one in (
        ("confusion", _CONFUSION, _draw_confusion),
        ("lead_times_s", _LEADS, _draw_leads),
        ("residuals", "Errors of the predicted values: number of held-out samples.", _draw_residuals),
    ):
        for index, (group, curve) in enumerate(_curves(records, name).items()):
            stem = f"{name.removesuffix('_s').replace('_', '-')}-{index}"
            yield ReportFigure(stem, f"{group}: {caption}", partial(_alone, group, curve, draw_one))


_OVER_HORIZONS = {
    "auc": "Area under the ROC curve over the time ahead: lines at own strength, dashed at a neighbor's. 0.5: chance.",
    "ece": "Expected calibration error over the time ahead: lines at own strength, dashed at the neighbor's.",
}
_RELIABILITY = (
    "Reliability: share of answers that came true over their stated probability, in bins; on the diagonal a probability"
    " means what it says. Larger marks: more samples."
)
_CALIBRATION = "Mean observed value over mean predicted value, in bins of the prediction; dotted: where both are equal."
_CONFUSION = (
    "Share of the samples of every true class by predicted class; colors follow the square root of the share, so that"
    " small ones are seen. Rows without color: classes without samples."
)
_LEADS = "Held-out samples that are clear now, by the time to the blockage that follows within the horizon."


def _curves(records: RunRecords, name: str) -> dict[str, Curve]:
    """Group -> this curve of the model that it reports, where there is one."""
    found = {}
    for group in records.group_names:
        model = records.summary["groups"][group]["model"]
        curves = records.diagnostics.held_out.get(group, {}).get(model, {})
        if name in curves:
            found[group] = {"classes": curves.get("classes"), name: curves[name]}
    return {group: _flat(curve, name) for group, curve in found.items()}


def _flat(curve: Mapping[str, Any], name: str) -> Curve:
    values = curve[name]
    return {**values, "classes": curve["classes"]} if isinstance(values, dict) else {**curve}


def _together(
    records: RunRecords,
    curves: Mapping[str, Curve],
    draw: Callable[[Axes, Curve, SeriesStyle, str], None],
    columns: Columns,
) -> Figure:
    figure, (panel,) = new_figure(columns, 2.7 if columns == 1 else 3.4)
    styles = group_styles(records)
    for group, curve in curves.items():
        draw(panel, curve, styles[group], group)
    legend_below(figure, panel, least=1)
    return figure


def _alone(group: str, curve: Curve, draw: Callable[[Figure, Axes, Curve], None], columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.7 if columns == 1 else 3.6)
    panel.set_title(group)
    draw(figure, panel, curve)
    return figure


def _draw_roc(panel: Axes, curve: Curve, style: SeriesStyle, group: str) -> None:
    auc = curve.get("auc")
    label = group if auc is None else f"{group}, area {auc:.3f}"
    panel.plot(curve["fpr"], curve["tpr"], color=style.color, ls=style.line, label=label)
    panel.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=":")
    panel.set_xlabel("false alarms [share of negatives]")
    panel.set_ylabel("found [share of positives]")
    panel.set_aspect("equal")


def _draw_reliability(panel: Axes, curve: Curve, style: SeriesStyle, group: str) -> None:
    predicted, observed = _numbers(curve["predicted"]), _numbers(curve["observed"])
    n = _numbers(curve.get("n", np.ones(len(predicted))))
    known = np.isfinite(predicted) & np.isfinite(observed) & (n > 0)
    panel.plot(predicted[known], observed[known], color=style.color, ls=style.line, lw=1.0)
    sizes = 6.0 + 40.0 * n[known] / max(float(n.max()), 1.0)
    panel.scatter(predicted[known], observed[known], s=sizes, color=style.color, marker=style.marker, label=group)
    panel.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=":")
    panel.set_xlabel("stated probability")
    panel.set_ylabel("share that came true")
    panel.set_aspect("equal")


def _draw_horizons(score: str, panel: Axes, curve: Curve, style: SeriesStyle, group: str) -> None:
    for strength, line in (("own", "-"), ("neighbor", "--")):
        values = _numbers(curve[strength][score])
        label = group if strength == "own" else None
        panel.plot(curve["seconds"], values, color=style.color, ls=line, marker=style.marker, ms=3, label=label)
    panel.set_xlabel("time ahead [s]")
    panel.set_ylabel({"auc": "area under the ROC curve", "ece": "expected calibration error"}[score])


def _draw_calibration(panel: Axes, curve: Curve, style: SeriesStyle, group: str) -> None:
    predicted, observed = _numbers(curve["predicted"]), _numbers(curve["observed"])
    panel.plot(predicted, observed, color=style.color, ls=style.line, marker=style.marker, label=group)
    panel.axline((float(np.nanmean(observed)),) * 2, slope=1.0, color=MUTED, lw=0.7, ls=":")
    panel.set_xlabel("predicted value")
    panel.set_ylabel("observed value")


def _draw_confusion(figure: Figure, panel: Axes, curve: Curve) -> None:
    from matplotlib.colors import PowerNorm

    counts = _numbers(curve["confusion"])
    n_true = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, n_true, out=np.full_like(counts, np.nan), where=n_true > 0)
    n = len(counts)
    scale = PowerNorm(0.5, vmin=0.0, vmax=1.0)
    drawn = panel.imshow(shares, norm=scale, cmap=MAP, interpolation="nearest")
    panel.grid(visible=False)
    kind, classes = _class_names(curve, n)
    shown = range(0, n, -(-n // (MOST_WRITTEN if n > MOST_WRITTEN else n)))
    is_long = max(map(len, classes)) > 3
    panel.set_xticks(
        shown, [classes[index] for index in shown], rotation=45 if is_long else 0, ha="right" if is_long else "center"
    )
    panel.set_yticks(shown, [classes[index] for index in shown])
    if n <= MOST_WRITTEN:
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                color = "#000000" if float(scale(share)) > 0.5 else PAPER_ON_MAP
                panel.annotate(f"{share:.2f}", (column, row), ha="center", va="center", fontsize=6, color=color)
    ticks = [0.0, 0.05, 0.2, 0.5, 1.0]
    figure.colorbar(drawn, ax=panel, shrink=0.85, label=f"share of the true {kind}", ticks=ticks)
    panel.set_xlabel(f"predicted {kind}")
    panel.set_ylabel(f"true {kind}")


def _class_names(curve: Curve, n: int) -> tuple[str, list[str]]:
    """What the classes are, and their names: "beam 0", "beam 1" are beams 0, 1."""
    classes = [str(name) for name in curve.get("classes") or range(n)]
    kinds = {name.rpartition(" ")[0] for name in classes}
    if len(kinds) == 1 and "" not in kinds and all(name.rpartition(" ")[2].isdigit() for name in classes):
        return kinds.pop(), [name.rpartition(" ")[2] for name in classes]
    return "class", classes


#: White on the dark half of the map of colors, in light and in dark pages: almost that of `PAPER`, which turns dark.
PAPER_ON_MAP = "#fefefe"


def _draw_leads(figure: Figure, panel: Axes, curve: Curve) -> None:
    from matplotlib.ticker import MaxNLocator

    edges, warned, missed = (_numbers(curve[name]) for name in ("edges", "warned", "missed"))
    widths = 1e3 * np.diff(edges)
    panel.bar(1e3 * edges[:-1], warned, widths, align="edge", color=COLORS[0], ec=PAPER, lw=0.5, label="warned")
    panel.bar(
        1e3 * edges[:-1], missed, widths, bottom=warned, align="edge", color=COLORS[4], ec=INK, lw=0.3, hatch="////",
        label="not warned",
    )  # fmt: skip
    panel.set_xlabel("time to the blockage [ms]")
    panel.set_ylabel("samples")
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    legend_below(figure, panel)


def _draw_residuals(_: Figure, panel: Axes, curve: Curve) -> None:
    edges, counts = _numbers(curve["edges"]), _numbers(curve["counts"])
    panel.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=COLORS[0], ec=PAPER, lw=0.4)
    panel.axvline(0.0, color=MUTED, lw=0.7, ls=":")
    panel.set_xlabel("predicted − true value")
    panel.set_ylabel("samples")


def _numbers(values: Any) -> Any:
    """Values as an array; what is None is NaN."""
    return np.array(values, dtype=np.float64)
