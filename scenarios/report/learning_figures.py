"""Figures of learning: scores and losses over rounds, and the last score of every client."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .figure_style import MUTED, Columns, new_figure
from .report_figure import BAND, ReportFigure, draw_band, group_styles, legend_below, rounds_axis, widen_if_far_apart
from .round_records import Array, RoundRecords, last_known
from .shown_scores import MARGIN, heading, limit_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Room above a score of 1, where the numbers of clients stand.
ROOM_ABOVE = 3 * MARGIN
#: Clients whose numbers have room in a column of a paper.
MOST_NUMBERED = 24
#: Columns of losses on samples that are scored, on training samples, and of the last training step.
HELD_OUT_LOSS, TRAIN_LOSS, STEP_LOSS = "held_out_loss", "train_loss", "loss"


def learning_figures(records: RoundRecords) -> Iterator[ReportFigure]:
    """Figures of what was scored and learned."""
    title, samples = records.first.title, _samples(records)
    if np.isfinite(records.scores).any():
        trained = "; dashed: on training samples" if np.isfinite(records.train_scores).any() else ""
        dotted = "; dotted: the best prediction without a model" if _best_baselines(records) else ""
        caption = f"{title[0].upper()}{title[1:]} on {samples}. {BAND[:-1]}{trained}{dotted}."
        yield ReportFigure("score", caption, partial(_score, records))
    if records.has(HELD_OUT_LOSS, TRAIN_LOSS):
        caption = f"Loss on {samples}. {BAND[:-1]}; dashed: on training samples."
        yield ReportFigure("loss", caption, partial(_loss, records))
    if records.has(STEP_LOSS):
        caption = f"Loss of the last training step of every round, on its minibatch. {BAND}"
        yield ReportFigure("step-loss", caption, partial(_step_loss, records))
    if np.isfinite(records.scores).any() and len(records.groups) > 1:
        caption = f"Last {title} of every client on {samples}. Level line: mean of the group."
        yield ReportFigure("clients", caption, partial(_clients, records))


def _samples(records: RoundRecords) -> str:
    return "validation samples" if records.summary.get("scored") == "validation" else "held-out samples"


def _score(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.4)
    styles = group_styles(records)
    for group, style in styles.items():
        members = records.members(group)
        draw_band(panel, records.rounds, records.scores[members], style, group)
        draw_band(panel, records.rounds, records.train_scores[members], style, f"{group}, training", dashed=True)
    for group, value in _best_baselines(records).items():
        panel.axhline(value, color=styles[group].color, lw=0.9, ls=":", zorder=1.5)
    _score_axis(panel, records)
    rounds_axis(panel, records.n_rounds)
    legend_below(figure, panel)
    return figure


def _loss(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.4)
    for group, style in group_styles(records).items():
        members = records.members(group)
        draw_band(panel, records.rounds, records.columns[HELD_OUT_LOSS][members], style, group)
        draw_band(panel, records.rounds, records.columns[TRAIN_LOSS][members], style, f"{group}, training", dashed=True)
    return _finished(figure, panel, records, "loss", records.columns[TRAIN_LOSS])


def _step_loss(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.4)
    for group, style in group_styles(records).items():
        draw_band(panel, records.rounds, records.columns[STEP_LOSS][records.members(group)], style, group)
    return _finished(figure, panel, records, "loss of the last step", records.columns[STEP_LOSS])


def _finished(figure: Figure, panel: Axes, records: RoundRecords, label: str, values: Array) -> Figure:
    widen_if_far_apart(panel, values)
    panel.set_ylabel(label)
    rounds_axis(panel, records.n_rounds)
    legend_below(figure, panel)
    return figure


def _clients(records: RoundRecords, columns: Columns) -> Figure:
    figure, (panel,) = new_figure(columns, 2.2)
    scores = last_known(records.scores)
    is_numbered = len(scores) <= MOST_NUMBERED * columns
    place = 0
    centers, names = [], []
    styles = group_styles(records)
    for group in records.group_names:
        style = styles[group]
        members = sorted(records.members(group), key=lambda node: records.first.rank(float(scores[node])), reverse=True)
        x = place + np.arange(len(members))
        panel.plot(x, scores[members], ls="", marker=style.marker, color=style.color, ms=4)
        panel.plot([x[0] - 0.4, x[-1] + 0.4], [np.nanmean(scores[members])] * 2, color=style.color, lw=1.0)
        if is_numbered:
            for at, node in zip(x, members, strict=True):
                panel.annotate(
                    str(node), (at, scores[node]), xytext=(0, 4), textcoords="offset points", ha="center",
                    fontsize=6, color=MUTED,
                )  # fmt: skip
        centers.append(float(x.mean()))
        names.append(group)
        place += len(members) + 1
    panel.set_xticks(centers, names, rotation=0 if len(names) < 3 + 2 * columns else 30)
    panel.grid(visible=False, axis="x")
    panel.set_xlabel(f"clients of each group, best first{', with their numbers' if is_numbered else ''}")
    panel.margins(y=0.12)
    _score_axis(panel, records)
    return figure


def _score_axis(panel: Axes, records: RoundRecords) -> None:
    panel.set_ylabel(heading(records.first))
    levels = list(_best_baselines(records).values())
    limit_scores(panel, records.first, [records.scores, records.train_scores, levels], ROOM_ABOVE)


def _best_baselines(records: RoundRecords) -> dict[str, float]:
    """Group -> first score of its best prediction without a model."""
    first, found = records.first, {}
    for group in records.group_names:
        scored = records.summary["baselines"].get(group, {}).values()
        values = [one[first.key] for one in scored if one.get(first.key) is not None]
        if values:
            found[group] = max(values, key=first.rank)
    return found
