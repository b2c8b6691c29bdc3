"""Tables of `calibrate`: our figures beside published ones, of streets and of the sky."""

from __future__ import annotations

import os
import platform

import torch
from rich.console import Console
from rich.table import Table

from ..calibration.published_figures import (
    PUBLISHED_PERSISTENCE,
    PUBLISHED_TOP1,
    PublishedShare,
    published_blockage,
)
from ..calibration.sky_calibration import LAGS, PREDICTORS, SPLITS, SkyFigures
from ..calibration.street_calibration import Predictor, StreetCalibration, WarningCurve
from .console_elements import data_table

#: Predictor of a street -> its name in the table; the sensors have published figures.
STREET_NAMES: dict[Predictor, str] = {
    "lidar": "LiDAR",
    "camera": "camera",
    "rf": "power",
    "persistence": "persistence",
    "majority": "majority",
}
#: Range in measured streets or in the standard.
EXPECTED = {"vehicle": "15 to 25", "pedestrian": "7 to 15", "blocked": "5 to 15"}
#: Predictor of the sky -> its name in the tables, where the two differ.
SKY_NAMES = {"gps": "GPS", "neighbors": "GPS neighbors", "persistence": "last beam", "majority": "most frequent"}


def print_street_calibration(console: Console, calibration: StreetCalibration) -> None:
    """Prints balanced accuracy by horizon, statistics of the recording, and the machine."""
    for protocol, title in (
        ("clear now", "balanced accuracy in % where the last frame is clear, mean ± spread over base stations"),
        ("all", "the same on all windows (models trained on all windows)"),
    ):
        curves = [curve for curve in calibration.curves if curve.protocol == protocol]
        if curves:
            console.print(_curve_table(curves, calibration.rate_hz, title, published=protocol == "clear now"))
    _print_figures(console, calibration)
    console.print(
        f"seed {calibration.seed}, {len(calibration.station_names)} base stations x {calibration.n_frames:,} frames,"
        f" last 30 % held out; {hardware()}",
        soft_wrap=True,
    )


def hardware() -> str:
    """Description of this machine; last digits of the figures differ between machines."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads"
    return f"{machine}, torch {torch.__version__}, {platform.system()}"


def _curve_table(curves: list[WarningCurve], rate_hz: float, title: str, *, published: bool) -> Table:
    horizons = curves[0].horizons
    table = data_table(title)
    table.add_column("horizon", no_wrap=True)
    for horizon in horizons:
        table.add_column(f"{horizon / rate_hz:g} s", justify="right")
    of_predictor = {curve.predictor: curve for curve in curves if curve.learner == "network"}
    of_trees = {curve.predictor: curve for curve in curves if curve.learner == "trees"}
    for predictor, name in STREET_NAMES.items():
        if predictor not in of_predictor:
            continue
        learned = [(name, of_predictor[predictor])]
        if predictor in of_trees:
            learned.append(("  trees", of_trees[predictor]))
        for label, curve in learned:
            # spreads without decimals: a row must fit 80 columns
            table.add_row(label, *(f"{100 * curve.mean(h):.1f}±{100 * curve.spread(h):.0f}" for h in horizons))
        # published figures are for windows whose last frame is clear, and for sensors only
        measured = [published_blockage(predictor, horizon / rate_hz) for horizon in horizons]
        if published and any(measured):
            table.add_row("  published", *map(_share, measured), style="dim")
    return table


def _share(share: PublishedShare | None) -> str:
    if share is None:
        return ""
    if share.lowest == share.highest:
        return f"about {100 * share.mean:.0f}"
    return f"{100 * share.mean:.1f}\n({100 * share.lowest:.0f}-{100 * share.highest:.0f})"  # of single scenarios


def _print_figures(console: Console, calibration: StreetCalibration) -> None:
    figures = calibration.figures
    table = data_table("statistics of the recording")
    for heading in ("", "ours", "expected"):
        table.add_column(heading)
    table.add_row(
        "power loss of the best beam behind a vehicle, dB", f"{figures.vehicle_fall_db:.1f}", EXPECTED["vehicle"]
    )
    table.add_row(
        "power loss of the best beam behind a pedestrian, dB",
        f"{figures.pedestrian_fall_db:.1f}",
        EXPECTED["pedestrian"],
    )
    shares = f"{100 * figures.lowest_share:.1f} to {100 * figures.highest_share:.1f}"
    table.add_row("frames blocked, %", f"{100 * figures.blocked_share:.1f} ({shares})", EXPECTED["blocked"])
    table.add_row("frames whose power and geometry labels differ, %", f"{100 * figures.disagreement:.2f}", "")
    table.add_row(
        "blockages, and their median duration",
        f"{figures.n_events:,}, {figures.median_event_s:.1f} s",
        "",
    )
    console.print(table)


def print_sky_figures(console: Console, figures: SkyFigures) -> None:
    """Prints tables of top-1 and top-3 accuracy, of beam persistence, and of the effect of GPS error."""
    for table in (_beam_table(figures), _lasting_table(figures), _noise_table(figures)):
        console.print(table)


def _beam_table(figures: SkyFigures) -> Table:
    table = _table(
        "best of 32 beams: mean ± standard deviation over base stations, %",
        ("held out", "input", "top-1", "published", "top-3", "published"),
        n_texts=2,
    )
    for split in SPLITS:
        for predictor in PREDICTORS:
            published = PUBLISHED_TOP1.get((split, predictor), ())
            table.add_row(
                split,
                SKY_NAMES.get(predictor, predictor),
                _percent(figures.top(split, predictor)),
                ", ".join(f"{100 * one.top1:.1f}" for one in published) or "-",
                _percent(figures.top(split, predictor, 3)),
                ", ".join(f"{100 * one.top3:.1f}" for one in published if one.top3 is not None) or "-",
            )
        table.add_section()
    return table


def _lasting_table(figures: SkyFigures) -> Table:
    table = _table(
        "beam persistence: share of best beams that are still the best after so many frames, %",
        ("frames", "ours", "published"),
    )
    for lag in LAGS:
        table.add_row(str(lag), _percent(figures.persistence(lag)), f"{100 * PUBLISHED_PERSISTENCE[lag]:.1f}")
    return table


def _noise_table(figures: SkyFigures) -> Table:
    table = _table(
        "top-1 on held-out flights against GPS error, %",
        ("drifting GPS error [m]", "image", "GPS", "both", "GPS neighbors"),
    )
    for point in figures.noise:
        values = [f"{100 * point.top1[name]:.1f}" for name in ("image", "gps", "both", "neighbors")]
        table.add_row(f"{point.bias_m:g}" if point.bias_m else "RTK", *values)
    return table


def _table(title: str, columns: tuple[str, ...], n_texts: int = 0) -> Table:
    table = data_table(title)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < n_texts else "right")
    return table


def _percent(mean_and_std: tuple[float, float]) -> str:
    mean, std = mean_and_std
    return f"{100 * mean:.1f} ± {100 * std:.1f}"
