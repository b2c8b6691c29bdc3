"""Pictures of calibrations beside published figures: of the sky and of streets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...emulator.contracts import Modality
from .published_figures import PUBLISHED_BLOCKAGE, PUBLISHED_TOP1
from .sky_calibration import PREDICTORS, SPLITS, SkyFigures, Split
from .street_calibration import StreetCalibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Predictor -> color-blind safe color (Okabe and Ito) and marker.
COLORS = {
    "image": ("#0072b2", "o"),
    "gps": ("#d55e00", "s"),
    "both": ("#009e73", "^"),
    "neighbors": ("#cc79a7", "D"),
}
OURS, MEASURED = "#0072b2", "#1c1c1c"
TITLES: dict[Split, str] = {"random": "random split (leaks)", "flights": "whole flights held out"}
LABELS = {
    "neighbors": "GPS\n15 nearest",
    "gps": "GPS\nnetwork",
    "persistence": "last\nbeam",
    "majority": "most\nfrequent",
}
#: Sensor -> name, color-blind safe color, marker.
STYLES: dict[Modality, tuple[str, str, str]] = {
    "lidar": ("LiDAR", "#0072b2", "o"),
    "camera": ("camera", "#009e73", "s"),
    "rf": ("power alone", "#d55e00", "^"),
}
#: Horizontal offset of published markers in s, so that their ranges do not overlap.
OFFSET_S: dict[Modality, float] = {"lidar": -0.012, "camera": 0.0, "rf": 0.012}
CHANCE = 50.0


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
    for predictor, (color, marker) in COLORS.items():
        top1 = [point.top1[predictor] for point in figures.noise]
        # the curves of image and both may coincide: one is broad, the other dashed
        width, line = (5.0, "-") if predictor == "image" else (1.6, "--" if predictor == "both" else "-")
        label = LABELS.get(predictor, predictor).replace("\n", ", ")
        ax.plot(biases_m, top1, marker=marker, color=color, label=label, lw=width, ls=line)
    ax.set_xlabel("drifting error of the GPS per axis [m], 0: RTK")
    ax.set_ylabel("top-1")
    ax.set_ylim(0.0, 1.0)
    ax.set_title("whole flights held out, over GPS error")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left")


def draw_street_calibration(calibration: StreetCalibration) -> Figure:
    """Balanced accuracy over the prediction horizon, "clear now" protocol: ours as lines, published as markers.

    Bands are the standard deviation over base stations, bars the range over the published scenarios.

    Returns:
        Figure for `pictures.save_picture`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    ax = figure.add_subplot()
    for sensor in STYLES:
        _draw_ours(calibration, sensor, ax)
        _draw_published(sensor, ax)
    ax.axhline(CHANCE, color="#555555", lw=1.0, ls=":")
    ax.annotate("chance", (0.75, CHANCE), xytext=(0, 3), textcoords="offset points", ha="center", color="#555555")
    ahead_s = [horizon / calibration.rate_hz for curve in calibration.curves for horizon in curve.horizons]
    longest_s = max([1.0, *ahead_s])
    ax.set_xlim(max(0.0, min([0.1, *ahead_s]) - 0.05), longest_s + 0.05)
    ax.set_xticks(np.arange(1, 11) / 10 * np.ceil(longest_s))
    ax.set_ylim(40.0, 100.0)
    ax.set_xlabel("prediction horizon [s]")
    ax.set_ylabel("balanced accuracy on held-out time [%]")
    ax.grid(alpha=0.25)
    minutes = calibration.n_frames / calibration.rate_hz / 60.0
    made_of = f"{len(calibration.station_names)} streets x {minutes:.0f} min, seed {calibration.seed}"
    ax.set_title(f"Blockage prediction by sensor and horizon ({made_of})", fontsize=11)
    _add_legend(figure, ax)
    return figure


def _draw_ours(calibration: StreetCalibration, sensor: Modality, ax: Axes) -> None:
    name, color, marker = STYLES[sensor]
    curve = next((c for c in calibration.curves if (c.predictor, c.protocol) == (sensor, "clear now")), None)
    if curve is None:
        return
    ahead_s = np.array(curve.horizons) / calibration.rate_hz
    mean = 100.0 * np.array([curve.mean(horizon) for horizon in curve.horizons])
    spread = 100.0 * np.array([curve.spread(horizon) for horizon in curve.horizons])
    ax.fill_between(ahead_s, mean - spread, np.minimum(mean + spread, 100.0), color=color, alpha=0.13, lw=0)
    ax.plot(ahead_s, mean, color=color, marker=marker, ms=5, lw=2.0, label=name)


def _draw_published(sensor: Modality, ax: Axes) -> None:
    _, color, marker = STYLES[sensor]
    for horizon_s, share in PUBLISHED_BLOCKAGE[sensor].items():
        bar = 100.0 * np.array([[share.mean - share.lowest], [share.highest - share.mean]])
        ax.errorbar(
            horizon_s + OFFSET_S[sensor],
            100.0 * share.mean,
            # some publications give a mean only
            yerr=bar if bar.any() else None,
            fmt=marker,
            ms=9,
            mfc="white",
            mec=color,
            mew=1.8,
            ecolor=color,
            elinewidth=1.3,
            capsize=4,
            zorder=5,
        )


def _add_legend(figure: Figure, ax: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles, _ = ax.get_legend_handles_labels()
    handles += [
        Patch(fc="#555555", alpha=0.2, label="spread over our streets"),
        Line2D([], [], ls="", marker="o", ms=9, mfc="white", mec="#555555", mew=1.8, label="published, with range"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
