"""Which executor a run gets, by its models and by where and how its clients are trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from integration.tiny import tiny, wired
from sheafedge.emulator.nodes.compute_pool import BatchedPool, SerialPool, ThreadPool
from sheafedge.models.client_model import ClientModel
from sheafedge.scenarios.wiring.executors import choose_executor
from torch import Tensor, nn

AUTO = {"compute.executor": "auto"}


@pytest.mark.parametrize(
    ("edits", "in_step", "here", "expected"),
    [
        (AUTO, True, True, "batched, 2 threads"),
        (AUTO, False, True, "serial"),
        (AUTO, True, False, "threads, 2 threads"),
        ({"compute.executor": "batched", "compute.threads": 1}, True, True, "batched, 1 thread"),
        ({"compute.executor": "batched"}, False, True, "serial"),
        ({"compute.executor": "batched"}, True, False, "serial"),
        ({"compute.executor": "threads"}, False, True, "threads, 2 threads"),
        ({"compute.executor": "serial"}, True, False, "serial"),
    ],
)
def test_what_is_chosen(edits: dict[str, Any], in_step: bool, here: bool, expected: str) -> None:
    scenario = tiny(edits)
    clients = wired(scenario).emulation.clients
    assert str(choose_executor(scenario.compute, clients, in_step=in_step, here=here)) == expected


@pytest.mark.parametrize(("on_gpu", "expected"), [(False, "threads, 2 threads"), (True, "batched, 2 threads")])
def test_where_an_encoder_convolves_on_a_cpu_clients_are_computed_on_threads(
    monkeypatch: pytest.MonkeyPatch, on_gpu: bool, expected: str
) -> None:
    scenario = tiny(AUTO)
    (client, *_) = wired(scenario).emulation.clients
    encoders = {m: nn.Sequential(nn.Conv1d(2, 2, 1), nn.Flatten()) for m in client.modalities}
    normalizers = {m: nn.Identity() for m in client.modalities}
    model = ClientModel(normalizers, encoders, fusion="mean", embedding_dim=4, n_outputs=2)
    convolving = replace(client, models={"fused": model})
    monkeypatch.setattr(Tensor, "is_cuda", on_gpu)  # as if the models lay there
    chosen = choose_executor(scenario.compute, [client, convolving], in_step=True, here=True)
    assert str(chosen) == expected


@pytest.mark.parametrize(("kind", "pool"), [("batched", BatchedPool), ("threads", ThreadPool), ("serial", SerialPool)])
def test_every_kind_has_its_pool(kind: str, pool: type) -> None:
    emulation = wired(tiny({"compute.executor": kind})).emulation
    assert type(emulation.pool) is pool
    assert emulation.executor.kind == kind
    emulation.close()
