"""Tables that show our figures beside published ones."""

from __future__ import annotations

import os
import platform

import torch
from rich.console import Console
from rich.table import Table

from ..calibration.published_blockage import PUBLISHED, PublishedShare
from ..calibration.street_calibration import StreetCalibration, Warner, WarningCurve

#: Rows of the table, and how a reader calls them; those of sensors have published figures.
WARNERS: dict[Warner, str] = {
    "lidar": "LiDAR",
    "camera": "camera",
    "rf": "power",
    "persistence": "persistence",
    "majority": "majority",
}
#: What single frames show in measured streets, or are specified to.
EXPECTED = {"vehicle": "15 to 25", "pedestrian": "7 to 15", "blocked": "5 to 15"}


def print_street_calibration(console: Console, calibration: StreetCalibration) -> None:
    """Warnings by how far ahead, figures that need no learning, and what they were made on."""
    for protocol, title in (
        ("clear now", "balanced accuracy in % where the last frame is clear, mean ± spread over base stations"),
        ("all", "the same over all windows: sensors trained on all, for information"),
    ):
        curves = [curve for curve in calibration.curves if curve.protocol == protocol]
        if curves:
            console.print(_curve_table(curves, calibration.rate_hz, title, published=protocol == "clear now"))
    _print_figures(console, calibration)
    console.print(
        f"seed {calibration.seed}, {len(calibration.station_names)} base stations x {calibration.n_frames:,} frames,"
        f" last 30 % held out; {hardware()}",
        soft_wrap=True,
        highlight=False,
    )


def hardware() -> str:
    """What the figures were made on; they differ in the last digits between machines."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads"
    return f"{machine}, torch {torch.__version__}, {platform.system()}"


def _curve_table(curves: list[WarningCurve], rate_hz: float, title: str, *, published: bool) -> Table:
    horizons = curves[0].horizons
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("ahead", no_wrap=True)
    for horizon in horizons:
        table.add_column(f"{horizon / rate_hz:g} s", justify="right")
    of_warner = {curve.warner: curve for curve in curves}
    for warner, name in WARNERS.items():
        if warner not in of_warner:
            continue
        curve = of_warner[warner]
        # spreads without decimals: a row must fit 80 columns
        table.add_row(name, *(f"{100 * curve.mean(h):.1f}±{100 * curve.spread(h):.0f}" for h in horizons))
        if published and (measured := PUBLISHED.get(warner)):
            cells = [_share(measured[horizon]) if horizon in measured else "" for horizon in horizons]
            table.add_row("  published", *cells, style="dim")
    return table


def _share(share: PublishedShare) -> str:
    if share.lowest == share.highest:
        return f"about {100 * share.mean:.0f}"
    return f"{100 * share.mean:.1f}\n({100 * share.lowest:.0f}-{100 * share.highest:.0f})"  # of single scenarios


def _print_figures(console: Console, calibration: StreetCalibration) -> None:
    figures = calibration.figures
    table = Table(title="without learning", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("", "ours", "expected"):
        table.add_column(heading)
    table.add_row("fall of the best beam behind a vehicle, dB", f"{figures.vehicle_fall_db:.1f}", EXPECTED["vehicle"])
    table.add_row(
        "fall of the best beam behind a pedestrian, dB", f"{figures.pedestrian_fall_db:.1f}", EXPECTED["pedestrian"]
    )
    shares = f"{100 * figures.lowest_share:.1f} to {100 * figures.highest_share:.1f}"
    table.add_row("frames blocked, %", f"{100 * figures.blocked_share:.1f} ({shares})", EXPECTED["blocked"])
    table.add_row("labels by power and by geometry differ, %", f"{100 * figures.disagreement:.2f}", "")
    table.add_row(
        "blockages, and how long half of them last at least",
        f"{figures.n_events:,}, {figures.median_event_s:.1f} s",
        "",
    )
    console.print(table)
