"""Maps of all edges: their memory is known before they are drawn, and what they come to is said."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from integration.tiny import tiny, wired
from numpy.testing import assert_allclose
from rich.console import Console
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.model_layout import model_layout
from sheafedge.models.sheaf.map_starts import frobenius_sq
from sheafedge.models.sheaf.stability import sheaf_laplacian_norm
from sheafedge.scenarios.terminal.run_progress import LiveProgress
from sheafedge.scenarios.wiring.edge_maps import EdgeMaps

FMTL: dict[str, Any] = {"algorithm": "sheaf_fmtl", "sheaf.compression": 0.3}


def test_dense_maps_beyond_the_memory_are_refused_with_their_size_and_the_remedy() -> None:
    dense = {**FMTL, "sheaf.map_start": "random"}
    emulation = wired(tiny(dense)).emulation
    dims = [model_layout(client.models["fused"]).dim for client in emulation.clients]
    held_gb = sum(4 * int(0.3 * min(dims[i], dims[j])) * (dims[i] + dims[j]) for i, j in emulation.graph.edges) / 1e9
    wired(tiny({**dense, "compute.map_memory_gb": held_gb * 1.01}))
    said = rf"'random' would hold {held_gb:.3g} GB of maps, and .* use 'hadamard'"
    with pytest.raises(ConfigError, match=said):
        wired(tiny({**dense, "compute.map_memory_gb": held_gb * 0.99}))
    wired(tiny({**FMTL, "sheaf.map_start": "hadamard", "compute.map_memory_gb": held_gb * 0.99}))


@pytest.mark.parametrize("start", ["random", "uniform", "orthonormal", "hadamard"])
@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_the_decay_is_that_of_the_maps_that_are_drawn(start: str, scale: float) -> None:
    scenario = tiny({**FMTL, "sheaf.map_start": start, "sheaf.map_scale": scale, "training.model_step_size": 0.001})
    emulation = wired(scenario).emulation
    maps = EdgeMaps(scenario.sheaf, scenario.seed, emulation.clients, whole_models=True)
    decay, starts = maps.equivalent_decay(emulation.graph), maps.of_graph(emulation.graph)
    for client, own in starts.items():
        dim = model_layout(emulation.clients[client].models["fused"]).dim
        mean = scenario.sheaf.coupling * sum(map(frobenius_sq, own.values())) / dim
        # rows of length 1 leave nothing to chance; of independent entries a client has a few hundred
        tolerance = 1e-6 if start in ("orthonormal", "hadamard") else 0.3
        assert_allclose(decay[client], mean, rtol=tolerance)
    assert "weight decay of" in emulation.notes[1]


@pytest.mark.parametrize("start", ["orthonormal", "hadamard"])
def test_orthogonal_rows_of_scale_1_are_as_long_as_gaussian_ones(start: str) -> None:
    scenario = tiny({**FMTL, "sheaf.map_start": start, "sheaf.map_scale": 1.0, "training.model_step_size": 1e-4})
    emulation = wired(scenario).emulation
    own, *_ = EdgeMaps(scenario.sheaf, 0, emulation.clients, whole_models=True).of_edge(0, 1)
    dim = model_layout(emulation.clients[0].models["fused"]).dim
    assert_allclose(frobenius_sq(own), len(own) * dim, rtol=1e-6)


def test_without_random_maps_no_decay_is_named() -> None:
    for edits in ({}, {"sheaf.map_start": "hadamard", "sheaf.map_share": "edge"}, {"algorithm": "dfedu"}):
        (note,) = wired(tiny({**FMTL, **edits})).emulation.notes
        assert note.startswith("training.model_step_size 0.05 must stay below")
    assert wired(tiny()).emulation.notes == ()


def test_the_head_of_a_run_prints_the_longest_step_and_the_decay_that_the_coupling_comes_to() -> None:
    scenario = tiny({**FMTL, "sheaf.map_start": "hadamard"})
    emulation, printed = wired(scenario).emulation, StringIO()
    LiveProgress(Console(file=printed, width=80), scenario).started(emulation)
    norm, decay = emulation.notes
    found = re.search(r"must stay below (\S+) = 2 / \(sheaf.coupling (\S+) \* (\S+),", printed.getvalue())
    assert found is not None
    below, coupling, largest = map(float, found.groups())
    assert below == pytest.approx(2.0 / (coupling * largest), rel=5e-3)  # three digits of each
    starts = EdgeMaps(scenario.sheaf, scenario.seed, emulation.clients, whole_models=True).of_graph(emulation.graph)
    dims = {client.client_id: model_layout(client.models["fused"]).dim for client in emulation.clients}
    assert largest == pytest.approx(sheaf_laplacian_norm(starts, dims), rel=2e-2)
    assert all(f"  {note}\n" in printed.getvalue() for note in (norm, decay))
    assert "weight decay of" in decay
