"""The emulator computes the paper: every number of every round, over real base stations, links and transports."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from integration.cases import Case, emulated, random_case
from integration.played import Played, Setting, largest_difference, of_reference, over_zmq
from reference import sheaf_dmfl as reference
from reference.sheaf_dmfl import Edge, ReferenceProblem, run_reference
from sheafedge.emulator.network.channels.packet_channel import LinkSettings
from torch import Tensor

SAME = 1e-10  # float64, numbers of order 1, sums in another order; rounding grows a little with every round
WRONG = 1e-4  # a wrong equation shows at least this much within a few rounds: a million tolerances

VARIANTS: list[dict[str, Any]] = [
    {"fusion": fusion, "local_steps": steps, "clamp_map_step": clamp, "map_start": start, "map_storage": storage}
    for fusion, steps, clamp, start, storage in product(
        ("attention", "concat"), (1, 3), (False, True), ("random", "structured"), ("factored", "dense")
    )
]
#: The map step at which the clamp bites on some edges and not on others, in the cases below.
MAP_STEP = 0.35

A_LINK = LinkSettings(rate_bps=1e6, propagation_s=0.002, processing_s=0.001, packet_bytes=64, retry_interval_s=0.004)
"""A real link: 64-byte packets, so that an encoder takes several of them."""


def said(variant: dict[str, Any]) -> str:
    return " ".join(str(value) for value in variant.values())


def bit_identical(one: Played, other: Played) -> bool:
    return largest_difference(one.states, other.states) == 0.0


# --- the plain protocol ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "variant"), list(enumerate(VARIANTS)), ids=map(said, VARIANTS))
def test_the_emulator_walks_the_reference_trajectory(seed: int, variant: dict[str, Any]) -> None:
    """Heads, encoders, scoring vectors and maps of every client after every round; each seed its own network."""
    case = random_case(seed, n_clients=4 + seed % 3, n_rounds=3, map_step_size=MAP_STEP, **variant)
    expected = of_reference(run_reference(case.problem))
    played = emulated(case)
    assert largest_difference(played.states, expected) < SAME
    over_sockets = emulated(case, Setting(transport=over_zmq))
    assert bit_identical(over_sockets, played)
    assert over_sockets.recorder.trace_hash == played.recorder.trace_hash


@pytest.mark.parametrize("map_storage", ["factored", "dense"])
def test_rounding_stays_small_over_many_rounds(map_storage: Any) -> None:
    """Long enough for factored maps to fold their history, several times over."""
    case = random_case(3, n_clients=4, n_rounds=30, map_step_size=0.05, map_storage=map_storage)
    assert largest_difference(emulated(case).states, of_reference(run_reference(case.problem))) < SAME


def test_the_clamp_bites_on_some_edges_and_not_on_others() -> None:
    """Otherwise the clamped variants above would compare nothing, or nothing but the clamp."""
    n_clamped, n_edges = 0, 0
    for seed, variant in enumerate(VARIANTS):
        if not variant["clamp_map_step"] or variant["local_steps"] > 1:
            continue
        problem = random_case(seed, n_clients=4 + seed % 3, n_rounds=3, map_step_size=MAP_STEP, **variant).problem
        end = run_reference(problem).states[-1]
        for i, j in problem.edges:
            norms = float(end.heads[i] @ end.heads[i] + end.heads[j] @ end.heads[j])
            n_clamped += reference.edge_step_size(problem, norms) < MAP_STEP
            n_edges += 1
    assert 0 < n_clamped < n_edges


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_encoders_stay_at_home_without_mixing_edges_in_both(fusion: str) -> None:
    case = random_case(5, fusion=fusion, mixing="identity", n_rounds=4)
    played = emulated(case)
    assert largest_difference(played.states, of_reference(run_reference(case.problem))) < SAME
    assert played.recorder.traffic.by_kind["encoder"].messages == 0


# --- where it runs changes nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_threads_and_sockets_and_slow_devices_change_no_bit(fusion: str) -> None:
    """One trace for serial and threads, memory and ZeroMQ; unequal devices and slow links change times only."""
    case = random_case(8, fusion=fusion, local_steps=3, clamp_map_step=True, n_rounds=4)
    plain = emulated(case)
    for setting in (Setting(n_threads=2), Setting(transport=over_zmq), Setting(n_threads=3, transport=over_zmq)):
        elsewhere = emulated(case, setting)
        assert bit_identical(elsewhere, plain)
        assert elsewhere.recorder.trace_hash == plain.recorder.trace_hash
    slow = emulated(case, Setting(link=A_LINK, flops_per_s={0: 1e5, 3: 3e5}, n_threads=2))
    assert bit_identical(slow, plain)
    assert slow.ended_s > plain.ended_s
    assert slow.recorder.trace_hash != plain.recorder.trace_hash


# --- single exchange ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("map_storage", ["factored", "dense"])
def test_the_single_exchange_walks_the_same_way_for_half_the_head_traffic(clamp: bool, map_storage: Any) -> None:
    """Section "exact shortcut": P^{r+1} w^{r+1} follows from what both ends know after the second exchange."""
    n_rounds = 25
    options: dict[str, Any] = {"clamp_map_step": clamp, "map_step_size": MAP_STEP if clamp else 0.02}
    double = random_case(11, n_clients=4, n_rounds=n_rounds, map_storage=map_storage, **options)
    single = replace(double, exchange="single")
    plain, short = emulated(double), emulated(single, Setting(transport=over_zmq))
    assert largest_difference(short.states, plain.states) < SAME
    before, after = plain.recorder.traffic.by_kind, short.recorder.traffic.by_kind
    n_directions = 2 * len(double.problem.edges)
    assert before["projection"].messages == before["reprojection"].messages == n_rounds * n_directions
    assert after["projection"].messages == n_directions  # the first round only
    assert after["reprojection"].messages == n_rounds * n_directions
    assert after["encoder"] == before["encoder"]


# --- everything is lost ---------------------------------------------------------------------------------------------

DEAF: list[dict[str, Any]] = [{"missing": "skip"}, {"missing": "stale"}]


@pytest.mark.parametrize(("optimizer", "dtype"), [("sgd", torch.float64), ("adam", torch.float32)], ids=["sgd", "adam"])
@pytest.mark.parametrize("fusion", ["attention", "concat"])
@pytest.mark.parametrize("policy", DEAF, ids=said)
def test_a_network_that_loses_everything_is_training_alone(
    policy: dict[str, Any], fusion: str, optimizer: Any, dtype: torch.dtype
) -> None:
    """Bit for bit: a coupling that hears nobody must not even round differently."""
    case = random_case(13, fusion=fusion, local_steps=2, n_rounds=3, clamp_map_step=True)
    deaf = Setting(link=A_LINK, loss=1.0, deadline_s=0.1, **policy)
    together = emulated(case, deaf, dtype=dtype, optimizer=optimizer)
    alone = emulated(case, algorithm="local", dtype=dtype, optimizer=optimizer)
    assert together.recorder.traffic.lost_messages == together.recorder.traffic.messages > 0
    assert largest_difference(without_maps(together), alone.states) == 0.0
    assert largest_difference(without_maps(emulated(case, dtype=dtype, optimizer=optimizer)), alone.states) > WRONG
    start = {f"{i} {j}": torch.as_tensor(case.problem.maps[i, j]).to(dtype) for i, j in case.starts}
    kept = {f"{i} {j}": together.states[-1][i][f"map to {j}"] for i, j in case.starts}
    assert all(torch.equal(kept[ends], start[ends]) for ends in start)


@pytest.mark.parametrize(("optimizer", "dtype"), [("sgd", torch.float64), ("adam", torch.float32)], ids=["sgd", "adam"])
@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_without_coupling_and_mixing_everybody_trains_alone(fusion: str, optimizer: Any, dtype: torch.dtype) -> None:
    case = random_case(17, fusion=fusion, coupling=0.0, mixing="identity", local_steps=2, n_rounds=4)
    together = emulated(case, dtype=dtype, optimizer=optimizer)
    alone = emulated(case, algorithm="local", dtype=dtype, optimizer=optimizer)
    assert together.recorder.traffic.messages == 0
    assert bit_identical(together, alone)


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_without_coupling_heads_are_alone_and_encoders_still_mix(fusion: str) -> None:
    case = random_case(19, fusion=fusion, coupling=0.0, n_rounds=4)
    played = emulated(case)
    assert largest_difference(played.states, without(of_reference(run_reference(case.problem)), "map to")) < SAME
    kinds = played.recorder.traffic.by_kind
    assert (kinds["projection"].messages, kinds["reprojection"].messages) == (0, 0)
    assert kinds["encoder"].messages > 0


def without(states: Any, prefix: str) -> Any:
    return [
        {i: {name: v for name, v in state.items() if not name.startswith(prefix)} for i, state in of_round.items()}
        for of_round in states
    ]


def without_maps(played: Played) -> Any:
    return without(played.states, "map to")


# --- some is lost ---------------------------------------------------------------------------------------------------

LOSSY = Setting(link=A_LINK, loss=0.3, deadline_s=0.1)


@pytest.fixture(scope="module")
def case_on_bad_links() -> Case:
    return random_case(23, n_clients=5, n_rounds=5, clamp_map_step=True)


@pytest.fixture(scope="module")
def lossless(case_on_bad_links: Case) -> Played:
    return emulated(case_on_bad_links)


@pytest.mark.parametrize("missing", ["skip", "stale"])
def test_losses_change_the_run_by_seed(case_on_bad_links: Case, lossless: Played, missing: str) -> None:
    setting = replace(LOSSY, missing=missing)
    once, again = emulated(case_on_bad_links, setting), emulated(case_on_bad_links, replace(setting, n_threads=2))
    traffic = once.recorder.traffic
    assert 0 < traffic.partial_messages < traffic.messages
    assert largest_difference(once.states, lossless.states) > WRONG
    assert again.recorder.trace_hash == once.recorder.trace_hash
    assert bit_identical(again, once)
    over_sockets = emulated(case_on_bad_links, replace(setting, transport=over_zmq))
    assert over_sockets.recorder.trace_hash == once.recorder.trace_hash
    other = emulated(case_on_bad_links, replace(setting, seed=1))
    assert other.recorder.trace_hash != once.recorder.trace_hash
    assert not bit_identical(other, once)


def test_the_last_words_of_a_neighbor_are_not_its_silence(case_on_bad_links: Case) -> None:
    skip, stale = (emulated(case_on_bad_links, replace(LOSSY, missing=missing)) for missing in ("skip", "stale"))
    assert largest_difference(skip.states[:1], stale.states[:1]) == 0.0  # nothing was said yet
    assert largest_difference(skip.states, stale.states) > WRONG


@pytest.mark.parametrize("exchange", ["double", "single"])
def test_waiting_costs_time_and_no_accuracy(case_on_bad_links: Case, lossless: Played, exchange: Any) -> None:
    case = replace(case_on_bad_links, exchange=exchange)
    waited = emulated(case, replace(LOSSY, missing="wait"))
    assert waited.recorder.traffic.lost_messages == 0
    assert waited.recorder.traffic.retransmissions > 0
    assert bit_identical(waited, lossless if exchange == "double" else emulated(case))
    assert waited.ended_s > emulated(case, Setting(link=A_LINK)).ended_s


@pytest.mark.parametrize("fusion", ["attention", "concat"])
def test_words_that_always_come_too_late_are_no_words_unless_last_words_count(fusion: str) -> None:
    case = random_case(41, fusion=fusion, n_rounds=4)
    slow = replace(A_LINK, propagation_s=0.05)
    skip, stale = (
        emulated(case, Setting(link=slow, deadline_s=0.03, missing=missing)) for missing in ("skip", "stale")
    )
    assert skip.recorder.traffic.lost_messages == 0
    assert skip.recorder.traffic.late_messages > 0
    alone = emulated(case, algorithm="local").states
    assert largest_difference(without_maps(skip), alone) == 0.0
    assert largest_difference(without_maps(stale), alone) > WRONG


# --- names mean nothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", ["attention", "concat"])
@pytest.mark.parametrize("exchange", ["double", "single"])
def test_relabeled_clients_get_the_same_results_under_their_new_names(fusion: str, exchange: Any) -> None:
    case = random_case(29, fusion=fusion, local_steps=2, clamp_map_step=True, exchange=exchange, n_rounds=5)
    new = dict(enumerate([12, 3, 40, 5, 0, 7]))
    renamed = relabeled(case, new)
    assert sorted(new, key=new.__getitem__) != sorted(new)  # neighbors stand in another order now
    played, played_renamed = emulated(case), emulated(renamed)
    back = [
        {old: {in_old_names(name, new): value for name, value in of_round[new[old]].items()} for old in new}
        for of_round in played_renamed.states
    ]
    assert largest_difference(back, played.states) < SAME


def in_old_names(name: str, new: dict[int, int]) -> str:
    """Name of a part of a state: maps are named by their other end."""
    old = {fresh: before for before, fresh in new.items()}
    return f"map to {old[int(name.rsplit(maxsplit=1)[-1])]}" if name.startswith("map to") else name


def relabeled(case: Case, new: dict[int, int]) -> Case:
    problem = case.problem
    starts: dict[Edge, Tensor] = {(new[i], new[j]): start for (i, j), start in case.starts.items()}
    return replace(case, starts=starts).changed(
        modalities={new[i]: owned for i, owned in problem.modalities.items()},
        edges=[(new[j], new[i]) for i, j in problem.edges],
        encoders={new[i]: value for i, value in problem.encoders.items()},
        attention={new[i]: value for i, value in problem.attention.items()},
        heads={new[i]: value for i, value in problem.heads.items()},
        maps={(new[i], new[j]): value for (i, j), value in problem.maps.items()},
        batches=[[{new[i]: batch for i, batch in step.items()} for step in steps] for steps in problem.batches],
    )


# --- the comparison has teeth ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest() -> tuple[Case, Played]:
    case = random_case(31, local_steps=2, n_rounds=4, map_step_size=0.02, attention_step_size=0.3)
    return case, emulated(case)


def test_the_control_case_itself_is_equal(honest: tuple[Case, Played]) -> None:
    case, played = honest
    assert largest_difference(played.states, of_reference(run_reference(case.problem))) < SAME


@pytest.mark.parametrize(
    "mistake",
    [
        {"coupling": 0.2},  # every edge counted twice, as (9) and (10) of the paper do
        {"mixing": "identity"},
        {"map_step_size": 0.0},
        {"attention_step_size": 0.0},
        {"clamp_map_step": True, "map_step_size": 0.2},
    ],
    ids=str,
)
def test_a_reference_with_other_settings_is_not_equal(honest: tuple[Case, Played], mistake: dict[str, Any]) -> None:
    case, played = honest
    wrong = run_reference(replace(case.problem, **mistake))
    assert largest_difference(played.states, of_reference(wrong)) > WRONG


def test_one_edge_or_one_batch_more_or_less_is_not_equal(honest: tuple[Case, Played]) -> None:
    case, played = honest
    problem = case.problem
    turned = replace(problem, batches=[steps[::-1] for steps in problem.batches])
    assert largest_difference(played.states, of_reference(run_reference(turned))) > WRONG
    i, j = problem.edges[0]
    moved = replace(problem, maps=dict(problem.maps) | {(i, j): np.asarray(problem.maps[i, j])[::-1].copy()})
    assert largest_difference(played.states, of_reference(run_reference(moved))) > WRONG


class MapsBeforeTheSecondExchange:
    """The wrong step F: what the old heads looked like, as if the projections of step B were still good."""

    def __init__(self, problem: ReferenceProblem) -> None:
        self._heads = reference.starting_state(problem).heads

    def __call__(self, maps: Any, heads: Any) -> Any:
        before, self._heads = self._heads, heads
        return reference.step_b_project(maps, before)


def one_end_after_the_other(problem: Any, maps: Any, heads: Any, reprojections: Any) -> Any:
    """The wrong step G: the second end of an edge already sees the new map of the first."""
    stepped = dict(maps)
    for i, j in maps:
        residual = stepped[i, j] @ heads[i] - stepped[j, i] @ heads[j]
        stepped[i, j] = stepped[i, j] - problem.map_step_size * problem.coupling * torch.outer(residual, heads[i])
    return stepped


def peers_of_now(heads: Any, maps: Any) -> Any:
    """The wrong later local steps: the neighbors' projections as if they were sent again in each of them."""
    return {(j, i): projection for (i, j), projection in reference.step_b_project(maps, heads).items()}


def test_maps_that_step_before_the_second_exchange_are_not_equal(
    honest: tuple[Case, Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, played = honest
    monkeypatch.setattr(reference, "step_f_reproject", MapsBeforeTheSecondExchange(case.problem))
    assert largest_difference(played.states, of_reference(run_reference(case.problem))) > WRONG


def test_ends_that_step_one_after_the_other_are_not_equal(
    honest: tuple[Case, Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, played = honest
    monkeypatch.setattr(reference, "step_g_maps", one_end_after_the_other)
    assert largest_difference(played.states, of_reference(run_reference(case.problem))) > WRONG


def test_projections_that_are_sent_again_in_every_local_step_are_not_equal(
    honest: tuple[Case, Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    case, played = honest
    right = reference.step_e_heads

    def wrong(problem: Any, heads: Any, maps: Any, gradients: Any, own: Any, received: Any) -> Any:
        return right(problem, heads, maps, gradients, own, peers_of_now(heads, maps))

    monkeypatch.setattr(reference, "step_e_heads", wrong)
    assert largest_difference(played.states, of_reference(run_reference(case.problem))) > WRONG
