"""Radio links of a run: one channel per direction, from settings, a graph and recorded blockages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
import numpy as np

from ...emulator.contracts import Channel, NodeId, State
from ...emulator.engine import EmulatorEnvironment
from ...emulator.network.channels.air import Air, Direction
from ...emulator.network.channels.link_state import LinkState
from ...emulator.network.channels.packet_channel import RepeatedChannel
from ...emulator.network.channels.radio import Fade, RadioChannel
from ...emulator.network.channels.radio_settings import RadioSettings
from ...emulator.network.channels.recorded_blockage import BlockedTimes, RecordedFade
from ...emulator.radio.link_budget import distances_m, lattice_places_m, station_loss_db
from ...emulator.radio.waves import Array
from ...emulator.saved_state import SavedState
from ...emulator.world.weather import CLEAR, Weather

#: States that a run writes down, some 200 bytes each; later ones are dropped.
MOST_STATES = 200_000


class LinkStateLog:
    """Log of link states, one per message, up to `MOST_STATES`; it holds those that were not taken yet."""

    def __init__(self) -> None:
        self._states: list[LinkState] = []
        self._n_taken = 0

    def __call__(self, state: LinkState) -> None:
        if self._n_taken + len(self._states) < MOST_STATES:
            self._states.append(state)

    def take(self) -> list[LinkState]:
        """States since this was called last, in the order of their transmissions."""
        taken, self._states = self._states, []
        self._n_taken += len(taken)
        return taken

    def state(self) -> State:
        return {"taken": self._n_taken, "states": [list(state) for state in self._states]}

    def restore(self, saved: SavedState) -> None:
        if isinstance(saved.state, list):  # of before states were taken while the run goes on
            self._n_taken, states = 0, saved.listed()
        else:
            self._n_taken, states = saved.part("taken").count(), saved.part("states").listed()
        self._states = [LinkState(*values.state) for values in states]


@dataclass(frozen=True, slots=True, eq=False)
class RadioLinks:
    """Radio links of a run on one band.

    Attributes:
        settings: settings of every link.
        air: band that they share.
        channels: sender and receiver -> channel.
        log: log of link states.
    """

    settings: RadioSettings
    air: Air
    channels: Mapping[Direction, RadioChannel]
    log: LinkStateLog

    def channel(self, sender: NodeId, receiver: NodeId, *, until_delivered: bool) -> Channel:
        """Channel of one direction; with `until_delivered`, lost packets are repeated without limit."""
        channel = self.channels[sender, receiver]
        return RepeatedChannel(channel, self.settings.retry_interval_s) if until_delivered else channel

    def state(self) -> State:
        """State of the band and the log; every channel keeps its own state."""
        return {"air": self.air.state(), "log": self.log.state()}

    def restore(self, saved: SavedState) -> None:
        """Restore the state of the band and the log."""
        self.air.restore(saved.part("air"))
        self.log.restore(saved.part("log"))


def make_radio_links(
    settings: RadioSettings,
    graph: nx.Graph[NodeId],
    env: EmulatorEnvironment,
    blocked: Mapping[NodeId, BlockedTimes | None],
    weather: Weather = CLEAR,
) -> RadioLinks:
    """One channel per direction of every edge, all on one band.

    Args:
        settings: settings of every link.
        graph: graph with nodes numbered from 0.
        env: source of the random streams of places, losses between them, and block errors.
        blocked: node -> instants and depth of its blockages; None: it is never blocked.
        weather: rain and fog between all stations.

    Raises:
        ConfigError: neighbors are too far apart for the path loss model.
    """
    # nodes are row numbers of the matrices below
    n_stations = max(graph.nodes) + 1
    places_m = lattice_places_m(n_stations, settings.inter_site_distance_m, env.stream("radio", "places"))
    apart_m = distances_m(places_m)
    in_sight = np.zeros(apart_m.shape, dtype=np.bool_)
    if settings.neighbors_in_sight:
        for one, other in graph.edges:
            in_sight[one, other] = in_sight[other, one] = True
    draws = env.stream("radio", "losses")
    loss_db = station_loss_db(
        apart_m, settings.carrier_hz, in_sight, draws, shadowing=settings.shadowing, weather=weather
    )
    # sorted: the order of directions is that of link numbers in the band, and so of checkpoints
    directions = sorted([*graph.edges, *((b, a) for a, b in graph.edges)])
    air, rates, log = Air(settings, places_m, loss_db, directions), settings.block_rates(), LinkStateLog()
    fades = {node: fade_of(blocked[node], settings) for node in graph}
    channels = {
        (sender, receiver): RadioChannel(
            settings,
            rates,
            air,
            link,
            (sender, receiver),
            float(apart_m[sender, receiver]),
            (fades[sender], fades[receiver]),
            env.stream("radio", "link", sender, receiver),
            log,
        )
        for link, (sender, receiver) in enumerate(directions)
    }
    return RadioLinks(settings, air, channels, log)


def fade_of(blocked: BlockedTimes | None, settings: RadioSettings) -> Fade:
    """Loss in dB over time at a station: the recorded one, or a fixed one during blockages if none is recorded."""
    if blocked is None:
        return no_fade
    loss_db = blocked.loss_db
    if loss_db is None:
        loss_db = np.where(blocked.blocked, settings.vehicle_loss_db, 0.0)
    return RecordedFade(blocked, loss_db, settings.deepest_fade_db)


def no_fade(time_s: Array) -> Array:
    """Loss of 0 dB at every instant [n] in s."""
    return np.zeros(np.shape(time_s))
