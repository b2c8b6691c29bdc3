"""From a scenario to its links: which model, which queue, which stream, and what is refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from doubles.links import fate_of
from numpy.testing import assert_array_equal
from sheafedge.emulator.contracts import ConfigError, DataError, Delivery, Link
from sheafedge.emulator.engine import EmulatorEnvironment
from sheafedge.emulator.network.channels.recorded_blockage import BlockedTimes
from sheafedge.emulator.network.fifo import FifoLink
from sheafedge.emulator.network.port import PortLink
from sheafedge.emulator.random_streams import named_stream
from sheafedge.scenarios.links.link_maker import LinkEnd, make_links, radio_of
from sheafedge.scenarios.schema.link_models import LINK_MODELS
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

STANDARD_ERRORS = 5.0  # beyond them once in two million tests
ROUNDING = 1e-9  # seconds
PRESET_TOLERANCE = 0.15  # relative; five standard errors of the rarest losses, which remember themselves

Edge = tuple[int, int]
TRIANGLE: list[Edge] = [(0, 1), (1, 2), (0, 2)]


@pytest.fixture(scope="module")
def plain() -> Scenario:
    """Lossless links of 1 MB/s without delays."""
    numbers = {
        "rate_bps": 8e6,
        "propagation_s": 0.0,
        "processing_s": 0.0,
        "loss_probability": 0.0,
        "packet_bytes": 1000,
    }
    every_pair = {"topology.kind": "complete", "sheaf.coupling": 0.01}
    return load_scenario("blockage").edited({f"link.{field}": value for field, value in numbers.items()} | every_pair)


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, str]:
    """A made-up trace of every format."""
    (tmp_path / "mahimahi").write_text("10\n20\n100\n")
    (tmp_path / "pensieve").write_text("0 0\n1 0.008\n3 0.016\n")
    header = (
        "pub_time(ms) sub_time(ms) delay(ms) utmX(m) utmY(m) heading(rad) velocity(m/s) cellid(db) sinr(db) rsrp(db)"
    )
    (tmp_path / "cicv5g").write_text(f"{header}\n1000 1 60 0 0 0 0 x 1 1\n2000 1 20 0 0 0 0 x 1 1\n")
    received = np.random.default_rng(0).random((6, 50)) < 0.7
    stamps = ("2019.12.16_13.40.00", "2019.12.16_13.40.01", "2019.12.16_13.40.03")
    (tmp_path / "gnettrack").write_text(
        "Timestamp,DL_bitrate,UL_bitrate\n" + "".join(f"{stamp},{8 * at},80\n" for at, stamp in enumerate(stamps))
    )
    with (tmp_path / "reception").open("wb") as file:
        np.savez(file, received=received)
    return {path.name: str(path) for path in tmp_path.iterdir()}


def links_of(
    scenario: Scenario,
    edges: list[Edge] = TRIANGLE,
    *,
    env: EmulatorEnvironment | None = None,
    ends: Mapping[int, LinkEnd] | None = None,
    until_delivered: bool = False,
) -> dict[Edge, Link]:
    env = env or EmulatorEnvironment(scenario.seed)
    ends = ends or {node: LinkEnd("camera+rf") for node in range(4)}
    graph = nx.Graph(edges)
    radio = radio_of(scenario.links, graph, env, ends)
    live = scenario.live
    return make_links(
        scenario.links,
        scenario.link,
        graph,
        env,
        ends,
        radio,
        until_delivered=until_delivered,
        run_s=live.warm_up_s + scenario.rounds * live.round_every_s,
    )


def traced(files: Mapping[str, str], kind: str = "mahimahi") -> dict[str, Any]:
    return {"links.model": "trace", "links.trace.format": kind, "links.trace.files": [files[kind]]}


def test_each_direction_draws_its_losses_from_the_stream_of_its_sender_and_receiver(plain: Scenario) -> None:
    """Names of streams are part of what a seed means: other names are other runs."""
    scenario = plain.edited({"link.loss_probability": 0.5, "link.retry_limit": 0})
    made = links_of(scenario, [(0, 1)])
    for sender, receiver in ((0, 1), (1, 0)):
        draws = named_stream(scenario.seed, "link", sender, receiver)
        expected = np.flatnonzero(draws.random(100) < 0.5)
        assert_array_equal(fate_of(made[sender, receiver], 100_000).lost_packets, expected)


@pytest.mark.parametrize("missing", ["skip", "wait"])
@pytest.mark.parametrize("model", LINK_MODELS)
def test_every_model_carries_messages_and_the_same_seed_carries_the_same(
    model: str, missing: str, plain: Scenario, files: Mapping[str, str]
) -> None:
    edits = traced(files) if model == "trace" else {"links.model": model}
    scenario = plain.edited({**edits, "network.missing": missing, "link.loss_probability": 0.1})

    def fates(seed: int) -> list[tuple[float, list[int]]]:
        env, delivered = EmulatorEnvironment(seed), list[Delivery]()
        made = links_of(scenario.edited({"seed": seed}), env=env, until_delivered=missing == "wait")
        for _, link in sorted(made.items()):
            link.offer(100_000, 0, delivered.append)
        env.run()
        return [(fate.arrival_s, fate.lost_packets.tolist()) for fate in delivered]

    assert len(fates(0)) == 6
    assert fates(0) == fates(0)
    assert (fates(0) != fates(1)) == (model not in {"ideal", "fibre"})  # nothing is drawn there
    if missing == "wait":
        assert all(not lost for _, lost in fates(0))


# --- losses -----------------------------------------------------------------------------------------------------------


def lost_transmissions(scenario: Scenario, n_packets: int) -> np.ndarray:
    """[n_packets] which transmissions a link loses, without retransmission."""
    links = links_of(scenario.edited({"link.retry_limit": 0}), [(0, 1)])
    assert set(links) == {(0, 1), (1, 0)}
    lost = np.zeros(n_packets, dtype=bool)
    lost[fate_of(links[0, 1], n_packets * scenario.link.packet_bytes).lost_packets] = True
    return lost


def test_bursts_lose_the_same_share_in_the_long_run_and_last_as_long_as_they_should(plain: Scenario) -> None:
    n_packets, share, burst = 200_000, 0.2, 5.0
    edits = {"links.model": "gilbert_elliott", "link.loss_probability": share, "link.mean_burst_packets": burst}
    lost = lost_transmissions(plain.edited(edits), n_packets)
    leave_good = share / (1 - share) / burst
    memory = (2 - leave_good - 1 / burst) / (leave_good + 1 / burst)  # variance inflation of a two-state chain
    standard_error = np.sqrt(share * (1 - share) * memory / n_packets)
    assert abs(lost.mean() - share) < STANDARD_ERRORS * standard_error

    n_bursts = int((np.diff(lost.astype(int)) == 1).sum())
    assert abs(lost.sum() / n_bursts - burst) < STANDARD_ERRORS * burst / np.sqrt(n_bursts)


def test_independent_losses_come_in_short_bursts(plain: Scenario) -> None:
    """The negative control of the test above: 1 / (1 - 0.2) packets."""
    lost = lost_transmissions(plain.edited({"link.loss_probability": 0.2}), 200_000)
    assert lost.sum() / (np.diff(lost.astype(int)) == 1).sum() == pytest.approx(1.25, abs=0.03)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_bursts_of_nothing_and_of_everything_are_exact(share: float, plain: Scenario) -> None:
    edits = {"links.model": "gilbert_elliott", "link.loss_probability": share}
    assert (lost_transmissions(plain.edited(edits), 1000) == bool(share)).all()


@pytest.mark.parametrize(
    ("edits", "share"),
    [
        ({"preset": "light"}, 0.01 * 0.5 / 0.26),
        ({"preset": "mobile"}, 0.02 / 0.27),
        ({"p": 0.3, "r": 0.1, "loss_bad": 0.8, "loss_good": 0.1}, 0.75 * 0.8 + 0.25 * 0.1),
    ],
)
def test_bursts_can_be_given_in_the_words_of_netem(edits: dict[str, Any], share: float, plain: Scenario) -> None:
    table = {f"links.gilbert_elliott.{field}": value for field, value in edits.items()}
    lost = lost_transmissions(plain.edited({"links.model": "gilbert_elliott", **table}), 200_000)
    assert lost.mean() == pytest.approx(share, rel=PRESET_TOLERANCE)


def test_who_waits_gets_links_that_repeat_until_delivered(plain: Scenario) -> None:
    links = links_of(plain.edited({"link.loss_probability": 0.9, "link.retry_limit": 0}), until_delivered=True)
    assert len(fate_of(links[0, 1], 100_000).lost_packets) == 0


# --- exceptions -------------------------------------------------------------------------------------------------------


def arrivals(links: Mapping[Edge, Link], size_bytes: int = 1000) -> dict[Edge, float]:
    return {edge: fate_of(link, size_bytes).arrival_s for edge, link in links.items()}


def test_models_mix_by_pair_of_clients_and_by_pair_of_groups(plain: Scenario) -> None:
    """1 ms for 1000 bytes; a fibre of 200 km takes one too, and 0.8 us; half the rate takes 2 ms."""
    exceptions = [
        {"groups": ["camera+rf", "lidar+rf"], "rate_bps": 4e6},
        {"clients": [2, 0], "model": "fibre", "fibre": {"length_km": 200.0}},
    ]
    scenario = plain.edited({"links.edges": exceptions})
    ends = {0: LinkEnd("lidar+rf"), 1: LinkEnd("camera+rf"), 2: LinkEnd("camera+rf")}
    found = arrivals(links_of(scenario, ends=ends))
    expected = {(0, 1): 0.002, (1, 0): 0.002, (1, 2): 0.001, (2, 1): 0.001, (0, 2): 0.0010008, (2, 0): 0.0010008}
    assert found == pytest.approx(expected, abs=ROUNDING)


def test_the_last_exception_that_names_an_edge_counts(plain: Scenario) -> None:
    exceptions = [{"clients": [0, 1], "rate_bps": 4e6}, {"clients": [1, 0], "rate_bps": 2e6}]
    assert arrivals(links_of(plain.edited({"links.edges": exceptions})))[0, 1] == pytest.approx(0.004, abs=ROUNDING)


def test_a_written_scenario_has_the_same_exceptions(plain: Scenario) -> None:
    exceptions = [{"clients": [0, 1], "loss_probability": 0.5}, {"groups": ["lidar+rf", "lidar+rf"], "model": "xn"}]
    scenario = plain.edited({"links.edges": exceptions, "links.model": "sidelink"})
    assert scenario.edited({}) == scenario
    assert scenario.tables()["links"]["edges"][0]["clients"] == [0, 1]


# --- queues, radios, media --------------------------------------------------------------------------------------------


def test_by_default_every_direction_sends_when_it_likes(plain: Scenario) -> None:
    assert set(arrivals(links_of(plain)).values()) == {0.001}


def test_one_radio_per_node_sends_one_thing_at_a_time_and_a_fibre_beside_it(plain: Scenario) -> None:
    exceptions = [{"clients": [2, 0], "model": "fibre"}]
    found = arrivals(links_of(plain.edited({"links.transmitter": "per_node", "links.edges": exceptions})))
    assert found[0, 1] == found[1, 0] == found[2, 1] == pytest.approx(0.001)
    assert found[1, 2] == pytest.approx(0.002)
    assert found[0, 2] == found[2, 0] < 1e-5


@pytest.mark.parametrize(("medium", "last_s"), [("own", 0.001), ("processor_sharing", 0.006), ("round_robin", 0.006)])
def test_radios_share_a_medium_where_they_are_to(medium: str, last_s: float, plain: Scenario) -> None:
    env = EmulatorEnvironment(0)
    links = links_of(plain.edited({"links.medium": medium, "links.priorities": True}), env=env)
    fates: list[float] = []
    for link in links.values():
        assert isinstance(link, PortLink)
        link.offer(1000, 0, lambda fate: fates.append(fate.arrival_s))
    env.run()
    assert len(fates) == 6
    assert max(fates) == pytest.approx(last_s, abs=ROUNDING)


def test_priorities_let_a_projection_pass_an_encoder(plain: Scenario) -> None:
    """An encoder of 100 ms in chunks of 16 ms."""
    found = {}
    for priorities in (True, False):
        env = EmulatorEnvironment(0)
        link = links_of(plain.edited({"links.priorities": priorities}), env=env)[0, 1]
        link.offer(100_000, 1, lambda fate: None)
        link.offer(1000, 0, lambda fate, key=priorities: found.update({key: fate.arrival_s}))
        env.run()
    assert found == pytest.approx({True: 0.017, False: 0.101}, abs=ROUNDING)


def test_a_queue_of_so_many_bytes_drops_what_does_not_fit(plain: Scenario) -> None:
    link = links_of(plain.edited({"links.queue_bytes": 1500}))[0, 1]
    assert isinstance(link, FifoLink)
    assert [fate_of(link, 1000).dropped for _ in range(4)] == [False, False, True, True]


# --- traces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected_s"), [("mahimahi", 0.02), ("pensieve", 2.0), ("cicv5g", 0.003 + 0.03), ("reception", 0.003)]
)
def test_a_trace_of_every_format_is_replayed(
    kind: str, expected_s: float, plain: Scenario, files: Mapping[str, str]
) -> None:
    """3000 bytes: two opportunities; 1000 in the first and 2000 at 2000 per second, ...; half a round trip of 60 ms."""
    scenario = plain.edited({**traced(files, kind), "link.retry_limit": 0})
    assert list(arrivals(links_of(scenario), 3000).values()) == pytest.approx([expected_s] * 6, abs=ROUNDING)


def test_a_log_of_both_directions_is_replayed_in_the_one_that_is_asked_for(
    plain: Scenario, files: Mapping[str, str]
) -> None:
    """1000 bytes from the beginning: at 8 kbit/s, and at 80."""
    down = plain.edited({**traced(files, "gnettrack"), "link.retry_limit": 0})
    up = down.edited({"links.trace.direction": "uplink"})
    for scenario, expected_s in ((down, 1.0), (up, 0.1)):
        assert arrivals(links_of(scenario), 1000)[0, 1] == pytest.approx(expected_s, abs=ROUNDING)
    with pytest.raises(ConfigError, match=r"trace.direction = 'uplink' needs trace.format = 'gnettrack'"):
        plain.edited({**traced(files, "pensieve"), "links.trace.direction": "uplink"})


def test_directions_replay_rows_of_their_own(plain: Scenario, files: Mapping[str, str]) -> None:
    scenario = plain.edited({**traced(files, "reception"), "link.retry_limit": 0})
    fates = {edge: tuple(fate_of(link, 50_000).lost_packets) for edge, link in links_of(scenario).items()}
    assert len(set(fates.values())) > 1
    more = {
        edge: tuple(fate_of(link, 50_000).lost_packets)
        for edge, link in links_of(scenario, [*TRIANGLE, (0, 3)]).items()
    }
    assert fates == {edge: more[edge] for edge in fates}, "an edge more changes no other"


def test_a_trace_is_stretched_or_starts_anywhere(plain: Scenario, files: Mapping[str, str]) -> None:
    stretched = plain.edited({**traced(files), "links.trace.at_end": "stretch", "links.trace.stretch_to_s": 0.2})
    assert arrivals(links_of(stretched), 3000)[0, 1] == pytest.approx(0.02, abs=ROUNDING)  # two of the four at 0.02
    assert arrivals(links_of(stretched), 6000)[0, 1] == pytest.approx(0.04, abs=ROUNDING)
    assert arrivals(links_of(plain.edited(traced(files))), 6000)[0, 1] == pytest.approx(0.11, abs=ROUNDING)
    anywhere = plain.edited({**traced(files), "links.trace.random_start": True})
    assert len(set(arrivals(links_of(anywhere), 1000).values())) == 6


def test_a_live_run_knows_for_how_long_to_stretch(plain: Scenario, files: Mapping[str, str]) -> None:
    live = {"data.mode": "live", "data.split": "time", "world.n_sites": plain.clients.n_clients}
    length = {"live.warm_up_s": 60.0, "live.round_every_s": 4.0, "rounds": 10}
    scenario = plain.edited({**traced(files, "cicv5g"), **live, **length, "links.trace.at_end": "stretch"})
    env = EmulatorEnvironment(0)
    link = links_of(scenario, env=env)[0, 1]
    late = []
    for now_s in (49.0, 51.0, 99.0, 101.0):  # two rows over 100 s
        env.run(until=now_s)
        late.append(fate_of(link, 1000).arrival_s - now_s - 0.001)
    assert late == pytest.approx([0.03, 0.01, 0.01, 0.03], abs=ROUNDING)


def test_a_trace_that_cannot_be_read_is_named(plain: Scenario, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("1\nx\n")
    for name, sentence in (("bad", "bad row 2: milliseconds"), ("nowhere", "nowhere cannot be read")):
        scenario = plain.edited({"links.model": "trace", "links.trace.files": [str(tmp_path / name)]})
        with pytest.raises(DataError, match=sentence):
            links_of(scenario)


def test_real_traces_carry_messages(plain: Scenario, link_traces_root: Path) -> None:
    for kind, pattern in {
        "mahimahi": "mahimahi/Verizon-LTE-short.*",
        "pensieve": "pensieve/*",
        "cicv5g": "cicv5g_urban/*/v20/*01.txt",
        "reception": "*.npz",
    }.items():
        found = sorted(str(path) for path in link_traces_root.glob(pattern))[:8]
        edits = {"links.model": "trace", "links.trace.format": kind, "links.trace.files": found}
        links = links_of(plain.edited(edits))
        assert all(0.0 < arrival_s < 10.0 for arrival_s in arrivals(links, 100_000).values())


# --- what is refused --------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown model": ({"links.model": "telepathy"}, "unknown links.model 'telepathy'; known: ideal, constant"),
    "half a chain": ({"links.gilbert_elliott.p": 0.1}, r"links\.gilbert_elliott\.p and gilbert_elliott\.r belong"),
    "a chain and a preset": (
        {"links.gilbert_elliott": {"p": 0.1, "r": 0.1, "preset": "light"}},
        "preset = 'light' has its own p and r",
    ),
    "a chain that stands": ({"links.gilbert_elliott": {"p": 0, "r": 0}}, "both 0, so it never moves"),
    "a negative fibre": ({"links.fibre.length_km": -1}, r"links\.fibre\.length_km must lie in"),
    "a misspelt fibre": ({"links.fibre.lenght_km": 1}, r"did you mean links\.fibre\.length_km"),
    "an exception of whom": ({"links.edges": [{"model": "xn"}]}, r"links\.edges needs clients = \[i, j\] or groups"),
    "an exception of three": ({"links.edges": [{"clients": [1, 2, 3]}]}, r"links\.edges\.0\.clients"),
    "an exception of one with itself": ({"links.edges": [{"clients": [1, 1]}]}, r"clients = \[1, 1\] is no edge"),
    "a stretch to nowhere": (
        {"links.model": "trace", "links.trace.files": ["x"], "links.trace.at_end": "stretch"},
        r"set links\.trace\.stretch_to_s to simulated seconds",
    ),
    "a stretch of packets": (
        {"links.trace": {"at_end": "stretch", "format": "reception", "stretch_to_s": 5}},
        r"links\.trace\.at_end = 'stretch' needs a trace with times",
    ),
    "a loop of given length": ({"links.trace.stretch_to_s": 5}, r"stretch_to_s = 5 has no meaning"),
    "waiting out of range": (
        {"network.missing": "wait", "links.model": "sidelink", "links.sidelink.distance_m": 500},
        r"distance_m = 500 beyond range_m = 150",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_in_one_sentence(case: str, plain: Scenario) -> None:
    edits, sentence = WRONG[case]
    with pytest.raises(ConfigError, match=sentence) as caught:
        plain.edited(edits)
    assert "\n" not in str(caught.value)


# --- links that follow the world --------------------------------------------------------------------------------------


def blocked_at(*seconds: int) -> LinkEnd:
    """A minute at one frame per second."""
    blocked = np.zeros(60, dtype=np.bool_)
    blocked[list(seconds)] = True
    return LinkEnd("camera+rf", BlockedTimes(np.arange(60.0), blocked))


@pytest.mark.parametrize("model", ["constant", "sidelink", "gilbert_elliott"])
def test_a_link_is_dark_while_the_sight_of_either_end_is_blocked(model: str, plain: Scenario) -> None:
    env = EmulatorEnvironment(0)
    ends = {0: blocked_at(10), 1: blocked_at(20), 2: blocked_at()}
    scenario = plain.edited({"links.model": model, "link.blocked_loss_probability": 1.0, "link.retry_limit": 0})
    links = links_of(scenario, env=env, ends=ends)
    dark: dict[int, set[Edge]] = {}
    for now_s in (5, 10, 20, 30):
        env.run(until=now_s + 0.5)
        dark[now_s] = {edge for edge, link in links.items() if len(fate_of(link, 10_000).lost_packets) == 10}
    assert dark == {5: set(), 10: {(0, 1), (1, 0), (0, 2), (2, 0)}, 20: {(0, 1), (1, 0), (1, 2), (2, 1)}, 30: set()}


def test_wires_do_not_care_who_stands_in_the_way(plain: Scenario) -> None:
    ends = {node: blocked_at(*range(60)) for node in range(3)}
    for model in [name for name, model in LINK_MODELS.items() if model.is_wired and name != "xn"]:
        scenario = plain.edited({"links.model": model, "link.blocked_loss_probability": 1.0})
        assert all(fate_of(link, 10_000).lost_packets.size == 0 for link in links_of(scenario, ends=ends).values())


def test_links_cannot_follow_a_world_that_nobody_labeled(plain: Scenario) -> None:
    ends = {0: blocked_at(), 1: LinkEnd("camera+rf")}
    scenario = plain.edited({"link.blocked_loss_probability": 0.5})
    expected = r"link\.blocked_loss_probability needs recordings that say when .* that of client 1"
    with pytest.raises(ConfigError, match=expected):
        links_of(scenario, [(0, 1)], ends=ends)
