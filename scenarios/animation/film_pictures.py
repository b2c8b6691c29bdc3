"""Pictures of a film: a street per base station from above, and the network beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...emulator.contracts import NodeId
from ..recording.pictures import draw_scene
from ..recording.sensor_panels import BLOCKED, CLEAR
from ..report.figure_style import COLORS, INK, MUTED, PAPER, series_style
from .network_film import NetworkFilm
from .station_film import StationFilm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Inches of a panel, and of the bottom of the figure, where the legend is.
_PANEL_IN, _LEGEND_IN = (3.6, 3.0), 0.7
#: Half of the angle that a beam is drawn with, in degrees; about that of 16 antennas.
_HALF_BEAM_DEG = 3.2
BEST, CHOSEN, WARNING, LOST, SENT = COLORS[2], COLORS[0], COLORS[1], COLORS[1], COLORS[0]
#: The chosen beam is hatched: pale green and pale blue are one color without blue cones.
BEAM_HATCHES = {BEST: "", CHOSEN: "/////"}


class FilmPictures:
    """Figure that shows one picture of a film after the other.

    Args:
        films: of base stations, one at least; shorter ones end with their last picture.
        network: clients of the run; None: not shown.
        title: heading of all pictures.
    """

    def __init__(self, films: Sequence[StationFilm], network: NetworkFilm | None, title: str) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._films, self._network = films, network
        n_panels = len(films) + (network is not None)
        width_in, height_in = _PANEL_IN
        self.figure: Figure = Figure(figsize=(width_in * n_panels, height_in + _LEGEND_IN), facecolor=PAPER)
        FigureCanvasAgg(self.figure)  # draws without a display
        bottom = (_LEGEND_IN + 0.45) / (height_in + _LEGEND_IN)
        self._axes: list[Axes] = list(
            self.figure.subplots(
                1,
                n_panels,
                squeeze=False,
                gridspec_kw={"left": 0.5 / (width_in * n_panels), "right": 0.985, "bottom": bottom, "top": 0.83},
            )[0]
        )
        self.figure.suptitle(title, color=INK, fontsize=10)
        self.figure.legend(
            handles=_legend(films, network), loc="lower center", ncols=2 * n_panels, frameon=False, fontsize=7
        )

    def __len__(self) -> int:
        return max(map(len, self._films))

    def draw(self, index: int) -> None:
        """Draw the picture of this number, in place of the one before."""
        for film, ax in zip(self._films, self._axes, strict=False):
            ax.clear()
            _draw_station(film, min(index, len(film) - 1), ax)
        if self._network is not None:
            self._axes[-1].clear()
            _draw_network(self._network, index / max(1, len(self) - 1), self._axes[-1])


def _draw_station(film: StationFilm, index: int, ax: Axes) -> None:
    draw_scene(film.scene, index, ax)
    ax.tick_params(labelsize=7)
    ax.set_xlabel(ax.get_xlabel(), fontsize=8)
    ax.set_ylabel(ax.get_ylabel(), fontsize=8, labelpad=1.0)
    for text in ax.texts:
        text.set_fontsize(7)
    for sines, color in ((film.best_sine, BEST), (film.chosen_sine, CHOSEN)):
        if sines is not None:
            _draw_beam(film, index, float(sines[index]), color, ax)
    state = "blocked" if film.blocked[index] else "clear"
    ax.set_title(
        f"client {film.client}: {film.name}\n{film.scene.time_s[index]:.1f} s, line of sight {state}",
        fontsize=8,
        color=INK,
    )
    if film.warned is not None and film.warned[index]:
        ax.text(
            0.98,
            0.97,
            f"WARNING: {film.event} soon",
            transform=ax.transAxes,
            ha="right",
            va="top",
            color=PAPER,
            weight="bold",
            fontsize=8,
            zorder=8,
            bbox={"boxstyle": "round", "facecolor": WARNING, "edgecolor": INK},
        )


def _draw_beam(film: StationFilm, index: int, sine: float, color: str, ax: Axes) -> None:
    """Main lobe of a beam as a wedge, as long as the user is far; the array lies along x and faces +y."""
    from matplotlib.patches import Wedge

    station_m = film.scene.base_station_m[:2]
    reach_m = float(np.linalg.norm(film.scene.user_m[index, :2] - station_m))
    middle_deg = 90.0 - math.degrees(math.asin(max(-1.0, min(1.0, sine))))
    ends_deg = middle_deg - _HALF_BEAM_DEG, middle_deg + _HALF_BEAM_DEG
    ax.add_patch(
        Wedge(
            (float(station_m[0]), float(station_m[1])),
            reach_m,
            *ends_deg,
            fc=color,
            ec=INK,
            hatch=BEAM_HATCHES[color],
            alpha=0.45,
            lw=0.6,
            zorder=2.5,
        )
    )


def _draw_network(network: NetworkFilm, share: float, ax: Axes) -> None:
    places, groups = network.places, list(dict.fromkeys(network.groups.values()))
    number = {node: index for index, node in enumerate(network.groups)}
    for (one, other), lost in _edges(network).items():
        x, y = places[[number[one], number[other]]].T
        ax.plot(
            x,
            y,
            color=LOST if lost > 0.0 else MUTED,
            lw=0.8 + 12.0 * min(lost, 0.3),
            ls="--" if lost > 0.0 else "-",
            alpha=0.7,
            zorder=1,
        )
    for message in network.on_air(share):
        begin, end = (places[number[node]] for node in message.ends)
        # beside the edge, to the right of its direction, so that both directions can be told apart
        side = np.array([end[1] - begin[1], begin[0] - end[0]]) * 0.04
        x, y = begin + (end - begin) * message.share + side
        ax.plot(
            x, y, marker="X" if message.lost else "o", ms=7, mfc=LOST if message.lost else SENT, mec=PAPER, zorder=3
        )
    for (node, group), (x, y) in zip(network.groups.items(), places, strict=True):
        style = series_style(groups.index(group))
        ax.plot(x, y, marker=style.marker, ms=13, mfc=style.color, mec=INK, zorder=2)
        ax.text(1.3 * x, 1.3 * y, str(node), ha="center", va="center", color=INK, fontsize=8)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal")
    ax.axis("off")
    when = (
        f"first round, {1e3 * network.instant_s(share):.3f} ms, slowed down" if network.flights else "edges of the run"
    )
    ax.set_title(f"training among {len(network.groups)} nodes\n{when}", fontsize=8, color=INK)


def _edges(network: NetworkFilm) -> dict[tuple[NodeId, NodeId], float]:
    """Edge -> share lost in its worse direction."""
    ends = {(min(one), max(one)) for one in [*network.loss, *(flight.ends for flight in network.flights)]}
    return {
        (one, other): max(network.loss.get((one, other), 0.0), network.loss.get((other, one), 0.0))
        for one, other in sorted(ends)
    }


def _legend(films: Sequence[StationFilm], network: NetworkFilm | None) -> list[Any]:
    """What occurs in the film."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if any(film.best_sine is not None for film in films):
        handles.append(Patch(fc=BEST, ec=INK, alpha=0.45, label="best beam"))
    if any(film.chosen_sine is not None for film in films):
        handles.append(
            Patch(fc=CHOSEN, ec=INK, alpha=0.45, hatch=BEAM_HATCHES[CHOSEN], label="beam that the model chooses")
        )
    handles.append(Line2D([], [], color=CLEAR, lw=2.0, label="line of sight"))
    if any(film.blocked.any() for film in films):
        handles.append(Line2D([], [], color=BLOCKED, lw=2.0, ls="--", label="blocked"))
    if network is None:
        return handles
    groups = dict.fromkeys(network.groups.values())
    styles = [(group, series_style(index)) for index, group in enumerate(groups)]
    handles += [
        Line2D([], [], ls="", marker=one.marker, ms=7, mfc=one.color, mec=INK, label=group) for group, one in styles
    ]
    if network.flights:
        handles.append(Line2D([], [], ls="", marker="o", ms=6, mfc=SENT, mec=PAPER, label="message"))
    if any(flight.lost for flight in network.flights):
        handles.append(Line2D([], [], ls="", marker="X", ms=6, mfc=LOST, mec=PAPER, label="loses packets"))
    losses = _edges(network).values()
    if any(losses):
        label = f"edge with losses (up to {max(losses):.1%})"
        handles.append(Line2D([], [], color=LOST, ls="--", lw=2.0, label=label))
    if not all(losses):
        handles.append(Line2D([], [], color=MUTED, lw=1.0, label="edge without losses"))
    return handles
