"""Radio in a scenario: links that know the blockers of both ends, what they leave in the run folder, and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from doubles.radio_scenes import street
from numpy.testing import assert_allclose
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.network.channels.link_state import LinkState
from sheafedge.emulator.network.channels.radio_settings import RadioSettings
from sheafedge.emulator.network.channels.recorded_blockage import BlockedTimes
from sheafedge.emulator.saved_state import SavedState
from sheafedge.emulator.world.scene import Kind
from sheafedge.scenarios.links.radio_links import LinkStateLog, RadioLinks, make_radio_links
from sheafedge.scenarios.recording.pictures import save_picture
from sheafedge.scenarios.running.link_pictures import Blocker, LinkTrack, draw_links
from sheafedge.scenarios.running.link_tracks import faded_links
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario

PNG_BEGINS_WITH = b"\x89PNG\r\n"
#: Of 5 s: the third is blocked.
WHEN = np.arange(50) / 10.0
THIRD = (WHEN >= 2.0) & (WHEN < 3.0)


def links_of(blocked: dict[int, BlockedTimes | None], seed: int = 0, **settings: Any) -> RadioLinks:
    env = EmulatorEnvironment(seed)
    return make_radio_links(RadioSettings(**settings), nx.path_graph(len(blocked)), env, blocked)


def test_every_direction_has_a_channel_and_both_see_the_same_air() -> None:
    links = links_of({0: None, 1: None, 2: None})
    assert sorted(links.channels) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    now_s = np.array(0.0)
    assert_allclose(links.channels[0, 1].snr_db(now_s), links.channels[1, 0].snr_db(now_s), rtol=1e-12)


def test_a_blocker_at_either_end_darkens_both_directions_and_no_other_link() -> None:
    links = links_of({0: BlockedTimes(WHEN, THIRD), 1: None, 2: None})
    fall_db = {
        ends: float(np.diff(channel.snr_db(np.array([2.5, 1.0])))[0]) for ends, channel in links.channels.items()
    }
    assert fall_db[0, 1] == fall_db[1, 0] > 15.0
    assert fall_db[1, 2] == fall_db[2, 1] == 0.0


def test_a_recorded_loss_is_used_where_there_is_one() -> None:
    known = BlockedTimes(WHEN, THIRD, loss_db=np.where(THIRD, 12.0, 0.0))
    told, guessed = (links_of({0: times, 1: None}) for times in (known, BlockedTimes(WHEN, THIRD)))
    falls_db = [np.diff(links.channels[0, 1].snr_db(np.array([2.5, 1.0])))[0] for links in (told, guessed)]
    assert 11.0 < falls_db[0] < 12.0
    assert 18.0 < falls_db[1] < 20.0  # RadioSettings.vehicle_loss_db, filled a little by reflections


def test_stations_keep_their_places_for_a_seed_and_move_with_it() -> None:
    same, again, other = (links_of({0: None, 1: None}, seed=seed).channels[0, 1].distance_m for seed in (3, 3, 4))
    assert same == again != other


def test_a_log_holds_one_state_for_every_message() -> None:
    links = links_of({0: None, 1: None})
    links.channels[0, 1].transmit(0.5, 5_000)
    links.channels[1, 0].transmit(0.7, 480)
    assert [(state.time_s, state.sender, state.size_bytes) for state in links.log.take()] == [
        (0.5, 0, 5_000),
        (0.7, 1, 480),
    ]
    assert links.log.take() == []


def test_a_log_takes_over_the_states_of_a_checkpoint_of_before() -> None:
    """It held all states of the run until then."""
    log = LinkStateLog()
    states = [_state(0, 1, 3.0), _state(1, 0, 4.0)]
    log.restore(SavedState([list(state) for state in states]))
    assert log.take() == states
    assert log.state() == {"taken": 2, "states": []}


def test_a_run_over_radio_leaves_its_links_and_a_picture(tiny: Scenario, tmp_path: Path) -> None:
    scenario = tiny.edited({"links.model": "radio", "export.pictures": 1})
    result = run_scenario(scenario, tmp_path / "run")
    rows = [json.loads(line) for line in (result.folder / "links.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == result.summary["traffic"]["messages"]
    assert set(rows[0]) == set(LinkState._fields)
    assert sum(row["n_lost_packets"] for row in rows) == result.summary["traffic"]["lost_packets"]
    assert "pictures/links.png" in result.summary["pictures"]
    assert (result.folder / "pictures" / "links.png").read_bytes().startswith(PNG_BEGINS_WITH)


def test_one_edge_can_be_a_fibre_among_radios(tiny: Scenario, tmp_path: Path) -> None:
    ends = []
    for index, exceptions in enumerate(([], [{"clients": [0, 1], "model": "fibre"}])):
        edits = {"links.model": "radio", "links.edges": exceptions}
        folder = run_scenario(tiny.edited(edits), tmp_path / str(index)).folder
        rows = [json.loads(line) for line in (folder / "links.jsonl").read_text(encoding="utf-8").splitlines()]
        ends.append({frozenset((row["sender"], row["receiver"])) for row in rows})
    assert ends[0] - ends[1] == {frozenset((0, 1))}


def test_runs_without_radio_leave_nothing_of_it(tiny: Scenario, tmp_path: Path) -> None:
    assert not (run_scenario(tiny, tmp_path / "constant").folder / "links.jsonl").exists()


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"links.radio.bandwidth_hz": 0}, r"links\.radio\.bandwidth_hz must lie in \[1e\+06, 1e\+10\], got 0"),
        ({"links.radio.colour": 3}, r"links\.radio\.colour"),
        ({"links.radio.transmissions": 0}, r"links\.radio\.transmissions must lie in \[1, 16\], got 0"),
    ],
)
def test_wrong_settings_are_a_sentence(tiny: Scenario, edits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tiny.edited(edits)


def test_the_same_seed_plays_the_same_radio_and_another_power_does_not(tiny: Scenario, tmp_path: Path) -> None:
    radio = tiny.edited({"links.model": "radio"})
    weaker = radio.edited({"links.radio.tx_power_dbm": 0.0})
    hashes = [
        run_scenario(scenario, tmp_path / str(index)).summary["trace_hash"]
        for index, scenario in enumerate((radio, radio, weaker))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_where_everybody_waits_nothing_is_lost(tiny: Scenario, tmp_path: Path) -> None:
    """Weak enough that without waiting packets are missing."""
    weak = tiny.edited({"links.model": "radio", "links.radio.tx_power_dbm": -8.0, "links.radio.transmissions": 1})
    skipped, waited = (
        run_scenario(weak.edited({"network.missing": policy}), tmp_path / policy).summary["traffic"]
        for policy in ("skip", "wait")
    )
    assert skipped["lost_packets"] > 0
    assert waited["lost_packets"] == 0


def _state(sender: int, receiver: int, fade_db: float, n_lost_packets: int = 0, time_s: float = 1.0) -> LinkState:
    return LinkState(
        time_s, sender, receiver, 1_000, 0.001, 10.0, fade_db, 0.0, 0.0, 8.0, 1e8, 3, 1, 0, 1, n_lost_packets
    )


def test_links_that_suffered_come_first_and_no_station_is_shown_twice() -> None:
    states = [_state(0, 1, 0.0), _state(2, 3, 20.0), _state(4, 5, 20.0, n_lost_packets=1), _state(3, 6, 9.0)]
    assert [link.ends for link in faded_links(states)] == [(4, 5), (2, 3), (0, 1)]


@pytest.mark.parametrize("has_scene", [True, False])
def test_a_picture_shows_blockers_and_lost_packets(tmp_path: Path, has_scene: bool) -> None:
    scene = street([(Kind.CAR, 0.0, 6.0)])
    track = LinkTrack(
        sender=3,
        receiver=7,
        distance_m=120.0,
        time_s=WHEN,
        snr_db=np.where(THIRD, 5.0, 25.0),
        states=[_state(3, 7, 0.0), _state(3, 7, 20.0, n_lost_packets=1, time_s=2.5)],
        blockers=([Blocker(2.0, 3.0, Kind.CAR)], [Blocker(4.0, 4.2, None)]),
        moment_s=2.5,
        moment_station=3,
        scene=scene if has_scene else None,
    )
    figure = draw_links([track], RadioSettings().block_rates(), "a run")
    assert len(figure.subfigs[0].axes) == 3 + has_scene
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "car in the way" in labels
    assert "van in the way" not in labels
    save_picture(figure, tmp_path / "links.png")
    assert (tmp_path / "links.png").read_bytes().startswith(PNG_BEGINS_WITH)
