"""What crosses the links: as many bytes as the formulas say, and nothing that has to stay at home."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from integration.audit import Frames, RecordingTransport, leaks, runs
from integration.cases import Case, emulated, random_case, rows_of
from integration.played import Played, Setting, of_reference
from reference.sheaf_dmfl import run_reference
from sheafedge.emulator.contracts import MessageKind
from sheafedge.emulator.network.channels.packet_channel import LinkSettings
from sheafedge.emulator.network.transport.wire import message_bytes
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS

N_ROUNDS = 4


def overheard(case: Case, dtype: torch.dtype = torch.float64, **options: Any) -> tuple[Played, Frames]:
    seen: Frames = []
    setting = Setting(transport=lambda wire: RecordingTransport(wire, seen))
    return emulated(case, setting, dtype=dtype, **options), seen


PROTOCOLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "clamped": {"clamp_map_step": True},
    "single exchange": {"exchange": "single"},
    "clamped single exchange": {"clamp_map_step": True, "exchange": "single"},
    "concat": {"fusion": "concat", "map_start": "structured"},
    "many local steps": {"local_steps": 3},
}


def a_case(**options: Any) -> Case:
    """Heads of 27 to 51 numbers and windows of inputs long enough to be recognized."""
    chosen: dict[str, Any] = {"embedding_dim": 8, "batch_size": 9, "n_rounds": N_ROUNDS} | options
    return random_case(37, **chosen)


# --- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_bytes_of_every_kind_follow_the_formula(protocol: str) -> None:
    """Per edge and round 4 d_ij floats for heads, 2 sum |phi_k| for encoders, and one more where a norm is sent."""
    case = a_case(**PROTOCOLS[protocol])
    problem, played = case.problem, emulated(case, dtype=torch.float32)
    has_norm = problem.clamp_map_step or case.exchange == "single"
    rounds_with_projection = 1 if case.exchange == "single" else N_ROUNDS
    wanted = dict.fromkeys(("projection", "reprojection", "encoder"), 0)
    for i, j in problem.edges:
        stalk = len(problem.maps[i, j])
        first = message_bytes(MessageKind.PROJECTION, "project", None, stalk)
        second = message_bytes(MessageKind.REPROJECTION, "reproject", None, stalk + has_norm)
        wanted["projection"] += 2 * rounds_with_projection * first
        wanted["reprojection"] += 2 * N_ROUNDS * second
        for k in set(problem.modalities[i]) & set(problem.modalities[j]):
            n_parameters = sum(weight.size + bias.size for weight, bias in problem.encoders[i][k])
            modality: Any = k
            wanted["encoder"] += 2 * N_ROUNDS * message_bytes(MessageKind.ENCODER, "mix", modality, n_parameters)
    traffic = played.recorder.traffic
    assert {kind: counted.bytes for kind, counted in traffic.by_kind.items()} == wanted
    assert traffic.bytes == sum(wanted.values()) == sum(played.recorder.bytes_sent.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_payloads_of_the_plain_protocol_are_the_references_floats(dtype: torch.dtype) -> None:
    case = a_case()
    _, frames = overheard(case, dtype)
    floats: Counter[str] = Counter()
    for message, _, numbers in frames:
        assert numbers.itemsize == dtype.itemsize
        floats[message.kind] += numbers.size
    reference = run_reference(case.problem)
    assert dict(floats) == {kind: sum(count[kind] for count in reference.floats) for kind in reference.floats[0]}
    if dtype == torch.float32:
        assert {kind: 4 * n for kind, n in floats.items()} == reference.bytes_by_kind


def test_the_single_exchange_halves_the_floats_for_heads() -> None:
    """From the second round on 2 d_ij + 2 per edge instead of 4 d_ij."""
    plain, single = overheard(a_case())[1], overheard(a_case(exchange="single"))[1]
    case = a_case()
    stalks = sum(len(case.problem.maps[edge]) for edge in case.problem.edges)
    for round_index in range(1, N_ROUNDS):
        counted = [
            sum(x.size for m, _, x in frames if m.round_index == round_index and m.kind is not MessageKind.ENCODER)
            for frames in (plain, single)
        ]
        assert counted == [4 * stalks, 2 * stalks + 2 * len(case.problem.edges)]


def test_the_recorder_counts_each_frame_once_with_losses_too() -> None:
    """Bytes are those offered to links; what a link repeats or loses is counted apart."""
    seen: Frames = []
    setting = Setting(
        link=LinkSettings(rate_bps=1e6, packet_bytes=64, retry_limit=1),
        loss=0.3,
        deadline_s=1.0,
        transport=lambda wire: RecordingTransport(wire, seen),
    )
    traffic = emulated(a_case(), setting).recorder.traffic
    assert traffic.lost_packets > 0
    assert traffic.messages == len(seen)
    assert traffic.bytes == sum(len(header) + numbers.nbytes for _, header, numbers in seen)


# --- content --------------------------------------------------------------------------------------------------------


def private(case: Case, played: Played) -> dict[str, set[bytes]]:
    """Runs of everything that must stay at home: at the start, after every round, and the data of all rounds."""
    problem = case.problem
    found: dict[str, set[bytes]] = {name: set() for name in ("inputs", "labels", "head", "attention", "map")}
    for client in problem.modalities:
        rows = rows_of(problem, client)
        found["labels"] |= runs(rows.label)
        for observed in rows.arrays.values():
            found["inputs"] |= runs(observed) | runs(observed.T)
    start = {i: {"head": torch.as_tensor(head)} for i, head in problem.heads.items()}
    for (i, j), restriction in problem.maps.items():
        start[i][f"map to {j}"] = torch.as_tensor(restriction)
    for i, of_client in problem.attention.items():
        start[i] |= {f"attention {k}": torch.as_tensor(beta) for k, beta in of_client.items()}
    for of_round in [start, *played.states]:
        for state in of_round.values():
            for name, values in state.items():
                if not name.startswith("encoder"):
                    found[name.split()[0]] |= runs(values.numpy())
                if name.startswith("map"):
                    found["map"] |= runs(values.numpy().T)
    return found


@pytest.mark.parametrize("map_start", ["random", "structured"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_message_holds_data_labels_heads_attention_or_maps(protocol: str, map_start: str) -> None:
    """At compression 0.3: structured maps pick coordinates, so at 1.0 the first projection is the head by nature."""
    case = a_case(**{**PROTOCOLS[protocol], "map_start": map_start, "compression": 0.3})
    played, frames = overheard(case)
    secrets = private(case, played)
    assert all(secrets[name] for name in secrets if not (name == "attention" and case.problem.fusion == "concat"))
    assert {message.kind for message, _, _ in frames} == ALGORITHMS["sheaf_dmfl"].kinds
    assert leaks(secrets, frames) == set()


def test_the_audit_finds_the_head_where_every_coordinate_is_compared() -> None:
    """The reason for 0.3 above, and the proof that the search finds what is there."""
    case = a_case(map_start="structured", compression=1.0)
    played, frames = overheard(case)
    assert ("head", "projection") in leaks(private(case, played), frames)


def test_the_audit_finds_every_secret_that_is_slipped_into_an_encoder() -> None:
    case = a_case()
    played, frames = overheard(case)
    secrets = private(case, played)
    message, header, numbers = next(frame for frame in frames if frame[0].kind is MessageKind.ENCODER)
    rows, state = rows_of(case.problem, 0), played.states[1][0]
    stolen = {
        "inputs": next(iter(rows.arrays.values()))[:3].ravel(),
        "labels": rows.label.astype(np.float64),
        "head": state["head"].numpy(),
        "attention": next(v for name, v in state.items() if name.startswith("attention")).numpy(),
        "map": next(v for name, v in state.items() if name.startswith("map")).numpy()[1],
    }
    for name, values in stolen.items():
        tampered = numbers.copy()
        tampered[5 : 5 + len(values)] = values[: len(tampered) - 5]
        assert (name, "encoder") in leaks(secrets, [(message, header, tampered)])


def test_what_crosses_as_an_encoder_is_the_senders_encoder_before_mixing() -> None:
    """The audit above would also pass if noise were sent."""
    case = a_case(coupling=0.0)
    _, frames = overheard(case)
    expected = of_reference(run_reference(replace(case.problem, mixing="identity", n_rounds=1)))[0]
    for message, _, numbers in frames:
        if message.round_index == 0:
            encoder = f"encoder {message.modality}"
            parts = [v for name, v in expected[message.sender].items() if name.startswith(encoder)]
            assert np.abs(numbers - torch.cat([part.flatten() for part in parts]).numpy()).max() < 1e-12


def test_headers_tell_who_and_what_but_no_numbers() -> None:
    """A header's length depends on kind, phase and modality alone, so nothing can hide in it."""
    _, frames = overheard(a_case(clamp_map_step=True))
    lengths = {(m.kind, m.phase, m.modality, len(header)) for m, header, _ in frames}
    assert len(lengths) == len({(m.kind, m.phase, m.modality) for m, _, _ in frames})
    assert all(len(header) == message_bytes(m.kind, m.phase, m.modality, 0) for m, header, _ in frames)
