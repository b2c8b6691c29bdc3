"""Figure of a sky calibration: top-1 accuracy beside published figures, and over GPS error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .published_figures import PUBLISHED_TOP1
from .sky_calibration import PREDICTORS, SPLITS, SkyFigures, Split

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"image": "#2f6db3", "gps": "#d9822b", "both": "#3c9d5d", "neighbors": "#8d6bb8"}
OURS, MEASURED = "#2f6db3", "#1c1c1c"
TITLES: dict[Split, str] = {"random": "random split (leaks)", "flights": "whole flights held out"}
LABELS = {
    "neighbors": "GPS\n15 nearest",
    "gps": "GPS\nnetwork",
    "persistence": "last\nbeam",
    "majority": "most\nfrequent",
}


def draw_sky_figures(figures: SkyFigures) -> Figure:
    """Top-1 accuracy of both splits, ours as bars and published as markers; and top-1 over GPS error."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.8), layout="constrained")
    *bars, curve = figure.subplots(1, 3, width_ratios=[1.0, 1.0, 0.9])
    for split, ax in zip(SPLITS, bars, strict=True):
        _draw_bars(figures, split, ax)
    _draw_noise(figures, curve)
    study = figures.study
    figure.suptitle(
        f"best of 32 beams for a drone: {study.n_sites} base stations x {study.minutes:g} minutes, seed {study.seed}"
    )
    return figure


def _draw_bars(figures: SkyFigures, split: Split, ax: Axes) -> None:
    for place, predictor in enumerate(PREDICTORS):
        mean, spread = figures.top(split, predictor)
        label = None if place else "ours, ± over base stations"
        ax.bar(place, mean, width=0.62, color=OURS, yerr=spread, capsize=4, label=label)
        # a lower bar is shorter than its label
        inside = mean > 0.15
        height, color = (0.02, "white") if inside else (mean + spread + 0.02, "black")
        ax.text(place, height, f"{mean:.2f}", ha="center", color=color, weight="bold")
        for published in PUBLISHED_TOP1.get((split, predictor), ()):
            ax.plot(place + 0.2, published.top1, marker="D", ms=7, color=MEASURED, mec="white", ls="")
    # an empty line, so that the legend has one entry however many markers there are
    ax.plot([], [], marker="D", ms=7, color=MEASURED, mec="white", ls="", label="published")
    ax.set_xticks(range(len(PREDICTORS)), [LABELS.get(name, name) for name in PREDICTORS])
    ax.set_ylim(0.0, 1.0)
    ax.set_ylabel("top-1 accuracy")
    ax.set_title(TITLES[split])
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    ax.legend(loc="upper right")


def _draw_noise(figures: SkyFigures, ax: Axes) -> None:
    biases_m = [point.bias_m for point in figures.noise]
    for predictor, color in COLORS.items():
        top1 = [point.top1[predictor] for point in figures.noise]
        # the curves of image and both may coincide: one is broad, the other dashed
        width, line = (5.0, "-") if predictor == "image" else (1.6, "--" if predictor == "both" else "-")
        label = LABELS.get(predictor, predictor).replace("\n", ", ")
        ax.plot(biases_m, top1, marker="o", color=color, label=label, lw=width, ls=line)
    ax.set_xlabel("drifting error of the GPS per axis [m], 0: RTK")
    ax.set_ylabel("top-1")
    ax.set_ylim(0.0, 1.0)
    ax.set_title("whole flights held out, over GPS error")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left")
