"""Messages of a film: those of the first round, without the times in which nothing is on the air."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sheafedge.emulator.contracts import DataError
from sheafedge.emulator.network.channels.link_state import LinkState
from sheafedge.scenarios.animation.network_film import Flight, NetworkFilm, network_film

ROUNDING = 1e-6  # of the shares at which a message begins and ends
#: On the air from 1 s to 2 s and, one within the other, from 5 s to 8 s: four seconds in all.
FLIGHTS = (
    Flight((0, 1), 1.0, 2.0, lost=False),
    Flight((1, 2), 5.0, 8.0, lost=True),
    Flight((2, 0), 6.0, 7.0, lost=False),
)
FILM = NetworkFilm({0: "a", 1: "a", 2: "b"}, {}, FLIGHTS)


@pytest.mark.parametrize(
    ("share", "instant_s", "ends"),
    [
        (0.0, 1.0, [(0, 1)]),
        (0.125, 1.5, [(0, 1)]),
        (0.25, 5.0, [(1, 2)]),
        (0.625, 6.5, [(1, 2), (2, 0)]),
        (1.0, 8.0, [(1, 2)]),
    ],
)
def test_a_film_goes_from_message_to_message(share: float, instant_s: float, ends: list[tuple[int, int]]) -> None:
    assert FILM.instant_s(share) == pytest.approx(instant_s, abs=ROUNDING)
    assert [message.ends for message in FILM.on_air(share)] == ends


def test_a_message_on_the_air_is_as_far_as_its_transmission() -> None:
    (message,) = FILM.on_air(0.125)
    assert (message.share, message.lost) == (pytest.approx(0.5), False)
    assert [one.lost for one in FILM.on_air(0.625)] == [True, False]


def test_without_messages_nothing_moves() -> None:
    still = NetworkFilm({0: "a"}, {})
    assert (still.instant_s(0.5), still.on_air(0.5)) == (0.0, [])


def test_nodes_stand_on_a_circle_the_first_at_the_top() -> None:
    assert FILM.places[0].tolist() == [0.0, 1.0]
    np.testing.assert_allclose(np.linalg.norm(FILM.places, axis=1), 1.0)


def written(folder: Path, states: list[dict[str, Any]], diagnostics: dict[str, Any] | None) -> Path:
    rows = [
        {"client": client, "group": "a", "round": n, "time_s": 10.0 * (n + 1)} for n in range(2) for client in (1, 0)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if states:
        every = dict.fromkeys(LinkState._fields, 0)
        (folder / "links.jsonl").write_text("".join(json.dumps({**every, **state}) + "\n" for state in states))
    if diagnostics is not None:
        (folder / "diagnostics.json").write_text(json.dumps(diagnostics))
    return folder


def test_messages_are_those_of_the_first_round_and_losses_those_of_the_run(tmp_path: Path) -> None:
    states = [
        {"time_s": 3.0, "sender": 0, "receiver": 1, "airtime_s": 0.5},
        {"time_s": 2.5, "sender": 1, "receiver": 0, "airtime_s": 0.25, "n_lost_packets": 2},
        {"time_s": 12.0, "sender": 0, "receiver": 1, "airtime_s": 0.5},
    ]
    counted = {"messages": 4, "bytes": 400}
    edges = [
        {"sender": 0, "receiver": 1, **counted, "packets": 8, "lost_packets": 2},
        {"sender": 1, "receiver": 0, **counted, "packets": 0, "lost_packets": 0},
    ]
    film = network_film(written(tmp_path, states, {"edges": edges}))
    assert film.flights == (Flight((1, 0), 2.5, 2.75, lost=True), Flight((0, 1), 3.0, 3.5, lost=False))
    assert film.loss == {(0, 1): 0.25, (1, 0): 0.0}
    assert list(film.groups) == [0, 1]


def test_edges_whose_packets_are_not_counted_show_their_lost_messages(tmp_path: Path) -> None:
    edge = {"sender": 0, "receiver": 1, "messages": 4, "bytes": 400, "lost_messages": 1}
    assert network_film(written(tmp_path, [], {"edges": [edge]})).loss == {(0, 1): 0.25}


#: An edge, and a message, as a run writes them.
EDGE = {"sender": 0, "receiver": 1, "messages": 4, "bytes": 400}
STATE = {**dict.fromkeys(LinkState._fields, 0), "receiver": 1, "time_s": 3.0}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("diagnostics.json", "{", r"ValidationError: .*Invalid JSON"),
        ("diagnostics.json", json.dumps({"edges": [{"sender": 0}]}), r"edges\.0\.receiver Field required"),
        ("diagnostics.json", json.dumps({"edges": [{**EDGE, "sender": 9}]}), "node 9 has no row in metrics.jsonl"),
        ("links.jsonl", '{"time_s": 3.0', "JSONDecodeError"),
        ("links.jsonl", json.dumps({"time_s": 3.0}), "TypeError: .* missing"),
        ("links.jsonl", json.dumps({**STATE, "time_s": "then"}), "TypeError"),
        ("links.jsonl", json.dumps({**STATE, "receiver": 9}), "node 9 has no row in metrics.jsonl"),
        ("metrics.jsonl", "[]", "a line is no object"),
    ],
)
def test_a_damaged_file_is_named_in_a_sentence(name: str, content: str, said: str, tmp_path: Path) -> None:
    folder = written(tmp_path, [STATE], {"edges": [EDGE]})
    network_film(folder)  # as it was written, it can be read
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=rf"{name} cannot be read \(.*{said}.*\); run the scenario again"):
        network_film(folder)


def test_a_run_that_kept_neither_messages_nor_edges_has_nodes_alone(tmp_path: Path) -> None:
    film = network_film(written(tmp_path, [], None))
    assert (film.flights, film.loss, film.groups) == ((), {}, {0: "a", 1: "a"})
