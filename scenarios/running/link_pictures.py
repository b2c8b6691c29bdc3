"""Pictures of radio links over time, with the objects that block them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...emulator.network.channels.link_state import LinkState
from ...emulator.radio.link_adaptation import BlockRates
from ...emulator.world.scene import Array, Kind, Scene
from ..recording.pictures import KIND_COLORS, draw_scene
from ..recording.sensor_panels import BLOCKED, CLEAR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

SIGNAL, FADED = "#3b5b92", "#8f9bb3"
#: Indicators whose thresholds are drawn into the SINR panel.
SHOWN_CQI = (1, 5, 10, 15)
#: An SINR panel shows at least so much, in dB.
LEAST_SPAN_DB = 30.0


@dataclass(frozen=True, slots=True)
class Blocker:
    """Object in the line of sight of a station, from `begin_s` to `end_s`.

    Attributes:
        begin_s, end_s: simulated time in s.
        kind: kind of the object; None where no world is known.
    """

    begin_s: float
    end_s: float
    kind: Kind | None


@dataclass(frozen=True, slots=True, eq=False)
class LinkTrack:
    """One direction of an edge over some time.

    Attributes:
        sender, receiver: numbers of the stations.
        distance_m: distance between them in m.
        time_s: [n] instants in s.
        snr_db: [n] signal-to-noise ratio in dB, without interference.
        states: link states of the messages sent in that time.
        blockers: objects that block the sender, and those that block the receiver.
        moment_s, moment_station: instant and station of the scene that is drawn.
        scene: scene of that station then, one frame; None where no world is known.
    """

    sender: int
    receiver: int
    distance_m: float
    time_s: Array
    snr_db: Array
    states: Sequence[LinkState]
    blockers: tuple[Sequence[Blocker], Sequence[Blocker]]
    moment_s: float
    moment_station: int
    scene: Scene | None


def draw_links(tracks: Sequence[LinkTrack], rates: BlockRates, title: str) -> Figure:
    """Links below each other: SINR, what blocks either end, rate; and the street at the moment of the deepest fade.

    Args:
        tracks: at least one; three fill a page.
        rates: block rates whose CQI thresholds are drawn beside the SINR.
        title: title of the figure.

    Returns:
        A figure; `pictures.save_picture` writes it.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.9 * len(tracks) + 1.2), layout="constrained")
    figure.suptitle(title, fontsize=14, weight="bold")
    parts = figure.subfigures(len(tracks), 1, hspace=0.04, squeeze=False)[:, 0]
    for part, track in zip(parts, tracks, strict=True):
        _draw_track(part, track, rates)
    handles = _legend(tracks)
    figure.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // 2), frameon=False)
    return figure


def _draw_track(part: SubFigure, track: LinkTrack, rates: BlockRates) -> None:
    has_scene = track.scene is not None
    grid = part.add_gridspec(3, 1 + has_scene, height_ratios=(3.0, 0.8, 1.5), width_ratios=(1.9, 1.0)[: 1 + has_scene])
    sinr_ax = part.add_subplot(grid[0, 0])
    lanes_ax = part.add_subplot(grid[1, 0], sharex=sinr_ax)
    rate_ax = part.add_subplot(grid[2, 0], sharex=sinr_ax)
    _draw_sinr(sinr_ax, track, rates)
    _draw_blockers(lanes_ax, track)
    _draw_rate(rate_ax, track)
    for ax in (sinr_ax, lanes_ax):
        ax.tick_params(labelbottom=False)
    for ax in (sinr_ax, rate_ax):
        _shade(ax, track)
        ax.grid(alpha=0.25)
    for ax in (sinr_ax, lanes_ax, rate_ax):
        ax.axvline(track.moment_s, color="black", lw=1.1, ls="--", zorder=3)
    sinr_ax.set_xlim(track.time_s[0], track.time_s[-1])
    rate_ax.set_xlabel("simulated time [s]")
    if track.scene is not None:
        scene_ax = part.add_subplot(grid[:, 1])
        draw_scene(track.scene, 0, scene_ax)
        scene_ax.set_title(
            f"before station {track.moment_station} at {track.moment_s:.2f} s (dashed line)", fontsize=11
        )


def _draw_sinr(ax: Axes, track: LinkTrack, rates: BlockRates) -> None:
    ax.plot(track.time_s, track.snr_db, color=SIGNAL, lw=1.8, zorder=2.5)
    whole = [state for state in track.states if state.n_lost_packets == 0]
    broken = [state for state in track.states if state.n_lost_packets > 0]
    ax.plot([s.time_s for s in whole], [s.sinr_db for s in whole], "o", ms=4, mfc="white", mec=SIGNAL, zorder=4)
    ax.plot([s.time_s for s in broken], [s.sinr_db for s in broken], "X", ms=9, mfc=BLOCKED, mec="white", zorder=5)
    seen_db = np.concatenate([track.snr_db, [state.sinr_db for state in track.states]])
    highest_db = float(seen_db.max()) + 3.0
    ax.set_ylim(min(float(seen_db.min()) - 3.0, highest_db - LEAST_SPAN_DB), highest_db)
    ax.set_ylabel("SINR [dB]")
    for cqi in SHOWN_CQI:
        needed_db = float(rates.needed_db[cqi - 1])
        if ax.get_ylim()[0] < needed_db < ax.get_ylim()[1]:
            ax.axhline(needed_db, color="#9a9a9a", lw=0.9, ls=":", zorder=1)
            ax.annotate(
                f"CQI {cqi}", (1.0, needed_db), xycoords=("axes fraction", "data"), xytext=(4, 0),
                textcoords="offset points", va="center", fontsize=8, color="#6a6a6a",
            )  # fmt: skip
    ax.set_title(
        f"station {track.sender} to station {track.receiver}, {track.distance_m:.0f} m", loc="left", weight="bold"
    )


def _draw_blockers(ax: Axes, track: LinkTrack) -> None:
    """Draws two lanes, one for each end, with a bar for every blockage."""
    for lane, blockers in enumerate(track.blockers):
        for blocker in blockers:
            width_s = blocker.end_s - blocker.begin_s
            color = FADED if blocker.kind is None else KIND_COLORS.get(blocker.kind, FADED)
            ax.broken_barh([(blocker.begin_s, width_s)], (0.62 - lane * 0.5, 0.36), fc=color, ec="black", lw=0.8)
    ax.set_ylim(0.0, 1.1)
    ax.set_yticks([0.8, 0.3], [f"in the way of {station}" for station in (track.sender, track.receiver)], fontsize=8.5)
    ax.tick_params(left=False)


def _draw_rate(ax: Axes, track: LinkTrack) -> None:
    time_s = np.array([state.time_s for state in track.states])
    rate_mbps = np.array([state.rate_bps for state in track.states]) / 1e6
    lost = np.array([state.n_lost_packets > 0 for state in track.states], dtype=np.bool_)
    ax.vlines(time_s[~lost], 1.0, rate_mbps[~lost], color=CLEAR, lw=1.2, zorder=2.5)
    ax.plot(time_s[~lost], rate_mbps[~lost], "o", ms=3, color=CLEAR, zorder=2.7)
    ax.vlines(time_s[lost], 1.0, rate_mbps[lost], color=BLOCKED, lw=2.0, zorder=2.8)
    ax.plot(time_s[lost], rate_mbps[lost], "X", ms=7, mfc=BLOCKED, mec="white", zorder=5)
    ax.set_yscale("log")
    ax.set_ylim(5.0, 4000.0)
    ax.set_yticks([10.0, 100.0, 1000.0], ["10", "100", "1000"])
    ax.set_ylabel("rate [Mbit/s]")


def _shade(ax: Axes, track: LinkTrack) -> None:
    for blocker in (blocker for lane in track.blockers for blocker in lane):
        ax.axvspan(blocker.begin_s, blocker.end_s, fc=BLOCKED, alpha=0.14, lw=0, zorder=0)


def _legend(tracks: Sequence[LinkTrack]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    seen = {blocker.kind for track in tracks for lane in track.blockers for blocker in lane}
    blockers = [Patch(fc=color, ec="black", label=f"{kind.name.lower()} in the way") for kind, color in _kinds(seen)]
    return [
        Line2D([], [], color=SIGNAL, lw=1.8, label="signal over noise"),
        Line2D([], [], ls="", marker="o", mfc="white", mec=SIGNAL, label="message, with interference"),
        Line2D([], [], ls="", marker="X", ms=9, mfc=BLOCKED, mec="white", label="message with lost packets"),
        *blockers,
        Patch(fc=BLOCKED, alpha=0.14, label="an end is blocked"),
    ]


def _kinds(seen: set[Kind | None]) -> list[tuple[Kind, str]]:
    return [(kind, color) for kind, color in KIND_COLORS.items() if kind in seen]
