"""The sheaf of all clients: energy, Laplacian, spectrum and holonomy against small cases that are known exactly."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from doubles.random_maps import random_starts
from hypothesis import given
from reference.sheaf_dmfl import sheaf_laplacian
from reference.sheaves import Sheaf, any_case, sheaves
from sheafedge.models.head import HeadLayout
from sheafedge.models.sheaf import spectrum, whole_sheaf
from sheafedge.models.sheaf.equations import structured_starts
from sheafedge.models.sheaf.holonomy import MOST_EXACT, holonomy_defect
from sheafedge.models.sheaf.map_starts import MapStart
from sheafedge.models.sheaf.restriction_maps import DenseMaps, FactoredMaps
from sheafedge.models.sheaf.spectrum import laplacian_spectrum
from sheafedge.models.sheaf.whole_sheaf import DAMPING, WholeSheaf
from torch import Tensor

EXACT = 1e-9
#: What least squares leave, in float64.
SOLVED = 1e-5
DOUBLE = torch.zeros(1, dtype=torch.float64)
Starts = dict[int, dict[int, MapStart]]


def sheaf_of(starts: Starts, dims: dict[int, int]) -> WholeSheaf:
    return WholeSheaf({i: DenseMaps(starts[i], dims[i], dtype=torch.float64) for i in starts}, dims)


def identity_sheaf(graph: nx.Graph[int], dim: int) -> WholeSheaf:
    every = torch.arange(dim)
    return sheaf_of({i: dict.fromkeys(graph[i], every) for i in graph}, dict.fromkeys(graph, dim))


def rotation(angle: float) -> Tensor:
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)


def test_two_clients_by_hand() -> None:
    """P_01 = [1 0], P_10 = [0 2]: an edge compares the first coordinate of one end with twice the other's second."""
    starts: Starts = {0: {1: torch.tensor([[1.0, 0.0]])}, 1: {0: torch.tensor([[0.0, 2.0]])}}
    sheaf = sheaf_of(starts, {0: 2, 1: 2})
    heads = {0: torch.tensor([3.0, 7.0], dtype=torch.float64), 1: torch.tensor([5.0, 1.0], dtype=torch.float64)}
    assert sheaf.energy(heads) == pytest.approx(1.0)  # (3 - 2)^2
    found = sheaf.laplacian(heads)
    assert found[0].tolist() == [1.0, 0.0]
    assert found[1].tolist() == [0.0, -2.0]
    ends = laplacian_spectrum(sheaf, DOUBLE)
    assert (ends.largest, ends.smallest, ends.sections) == pytest.approx((5.0, 5.0, 3))
    assert sheaf.seen(0, heads[0]).tolist() == pytest.approx([3.0 / (1.0 + DAMPING**2), 0.0], abs=SOLVED)
    assert sheaf.transported(0, 1, heads[0]).tolist() == pytest.approx([0.0, 1.5], abs=SOLVED)


@given(sheaf=sheaves())
@any_case
def test_energy_laplacian_and_spectrum_are_those_of_the_dense_matrix(sheaf: Sheaf) -> None:
    graph, sizes = sheaf.graph, sheaf.sizes
    starts: Starts = {i: {j: sheaf.maps[i, j] for j in graph.neighbors(i)} for i in range(graph.n_nodes)}
    whole, dense = sheaf_of(starts, sizes), sheaf_laplacian(graph.edges, sheaf.maps, sizes)
    draws = np.random.default_rng(3)
    heads = {i: torch.from_numpy(draws.normal(size=sizes[i])) for i in sorted(sizes)}
    stacked = np.concatenate([heads[i].numpy() for i in sorted(sizes)])
    assert whole.energy(heads) == pytest.approx(float(stacked @ dense @ stacked), rel=EXACT, abs=EXACT)
    found = whole.laplacian(heads)
    np.testing.assert_allclose(np.concatenate([found[i].numpy() for i in sorted(sizes)]), dense @ stacked, atol=1e-8)
    if whole.edges:
        values = np.linalg.eigvalsh(dense)
        ends = laplacian_spectrum(whole, DOUBLE)
        assert ends.largest == pytest.approx(float(values[-1]), rel=1e-6)
        assert ends.sections == int((values <= spectrum.ZERO_SHARE * values[-1]).sum())


@given(sheaf=sheaves())
@any_case
def test_the_laplacian_is_the_gradient_of_half_the_energy(sheaf: Sheaf) -> None:
    graph, sizes = sheaf.graph, sheaf.sizes
    starts: Starts = {i: {j: sheaf.maps[i, j] for j in graph.neighbors(i)} for i in range(graph.n_nodes)}
    draws = np.random.default_rng(4)
    heads = {i: torch.from_numpy(draws.normal(size=sizes[i])).requires_grad_() for i in sizes}
    energy = sum(
        (
            (sheaf.maps[i, j].double() @ heads[i] - sheaf.maps[j, i].double() @ heads[j]).square().sum()
            for i, j in graph.edges
        ),
        torch.zeros((), dtype=torch.float64),
    )
    if not energy.requires_grad:
        return
    (0.5 * energy).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    found = sheaf_of(starts, sizes).laplacian({i: head.detach() for i, head in heads.items()})
    for i, head in heads.items():
        torch.testing.assert_close(found[i], torch.zeros_like(found[i]) if head.grad is None else head.grad)


@pytest.mark.parametrize("dense", [True, False], ids=["as a matrix", "by coordinates"])
def test_identity_maps_have_the_eigenvalues_of_the_graph(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, dim = nx.random_labeled_tree(9, seed=1), 7
    graph.add_edges_from([(0, 8), (2, 5)])
    if not dense:
        monkeypatch.setattr(spectrum, "MOST_DENSE", 10)
    values = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float))
    ends = laplacian_spectrum(identity_sheaf(graph, dim), DOUBLE)
    assert ends.largest == pytest.approx(values[-1])
    assert ends.smallest == pytest.approx(values[1])
    assert ends.sections == dim  # all clients agree


def test_rows_of_the_identity_need_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn coordinates make parts of several shapes, those of one client alone among them."""
    layouts = [HeadLayout(3, (("rf", 3),) if i % 2 else (("rf", 3), ("gps", 2))) for i in range(6)]
    graph, draws = nx.cycle_graph(6), np.random.default_rng(2)
    starts: Starts = {i: {} for i in graph}
    for i, j in graph.edges:
        starts[i][j], starts[j][i] = structured_starts(layouts[i], layouts[j], 0.5, draws)
    sheaf = sheaf_of(starts, {i: layout.dim for i, layout in enumerate(layouts)})
    exact = laplacian_spectrum(sheaf, DOUBLE)
    monkeypatch.setattr(spectrum, "MOST_DENSE", 30)
    found = laplacian_spectrum(sheaf, DOUBLE)
    assert (found.largest, found.smallest, found.sections) == pytest.approx(
        (exact.largest, exact.smallest, exact.sections)
    )


def test_maps_that_have_learned_are_no_rows_of_the_identity_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    every = torch.arange(40)
    maps = {i: FactoredMaps({1 - i: every}, 40, dtype=torch.float64) for i in (0, 1)}
    sheaf = WholeSheaf(maps, {0: 40, 1: 40})
    monkeypatch.setattr(spectrum, "MOST_DENSE", 30)
    assert laplacian_spectrum(sheaf, DOUBLE).smallest == pytest.approx(2.0)
    maps[0].step(torch.full((40,), 1e-3, dtype=torch.float64), torch.ones(40, dtype=torch.float64))
    learned = laplacian_spectrum(sheaf, DOUBLE)
    assert learned.smallest is None
    assert learned.largest == pytest.approx(float(np.linalg.norm(sheaf.coboundary(), 2) ** 2), rel=2e-3)


# --- holonomy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi])
def test_a_cycle_of_rotations_turns_by_their_sum(angle: float) -> None:
    """|R(a) - I|_F / |I|_F = 2 |sin(a / 2)|."""
    eye = torch.eye(2, dtype=torch.float64)
    parts = (0.5 * angle, 0.2 * angle, 0.3 * angle)
    starts: Starts = {i: {} for i in range(3)}
    for i, part in enumerate(parts):  # P_ji^+ P_ij = R(part)
        j = (i + 1) % 3
        starts[i][j], starts[j][i] = rotation(part), eye
    sheaf = sheaf_of(starts, dict.fromkeys(range(3), 2))
    assert holonomy_defect(sheaf, [0, 1, 2], DOUBLE) == pytest.approx(2.0 * abs(math.sin(angle / 2.0)), abs=SOLVED)


def test_one_frame_per_client_has_no_holonomy() -> None:
    """P_ij = Q_i for an orthogonal Q_i of every client: around every cycle all turns cancel."""
    frames = [rotation(1.7 * i) for i in range(4)]
    graph = nx.cycle_graph(4)
    sheaf = sheaf_of({i: dict.fromkeys(graph[i], frames[i]) for i in graph}, dict.fromkeys(graph, 2))
    assert holonomy_defect(sheaf, [0, 1, 2, 3], DOUBLE) == pytest.approx(0.0, abs=SOLVED)


def test_what_maps_leave_out_counts_as_defect() -> None:
    """Maps that show a quarter of the coordinates lose three quarters of |x|^2: sqrt(3 / 4), exactly for +-1 probes."""
    dim = 4 * MOST_EXACT
    graph, shown = nx.cycle_graph(3), torch.arange(MOST_EXACT)
    sheaf = sheaf_of({i: dict.fromkeys(graph[i], shown) for i in graph}, dict.fromkeys(graph, dim))
    assert holonomy_defect(sheaf, [0, 1, 2], DOUBLE) == pytest.approx(math.sqrt(0.75), abs=SOLVED)


@pytest.mark.parametrize("compression", [0.2, 1.0])
def test_without_damping_what_neighbors_see_is_a_projection(
    compression: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_sheaf, "DAMPING", 0.0)
    layout, draws = HeadLayout(3, (("rf", 3),)), np.random.default_rng(6)
    starts: Starts = {0: {}, 1: {}, 2: {}}
    for i, j in ((0, 1), (0, 2)):
        starts[i][j], starts[j][i] = random_starts(layout, layout, compression, draws)
    sheaf = sheaf_of(starts, dict.fromkeys(range(3), layout.dim))
    vector = torch.from_numpy(draws.normal(size=layout.dim))
    seen = sheaf.seen(0, vector)
    torch.testing.assert_close(sheaf.project(0, seen), sheaf.project(0, vector), atol=1e-4, rtol=1e-4)
    assert float(seen @ (vector - seen)) == pytest.approx(0.0, abs=1e-3)


def test_a_small_step_of_maps_does_not_show_the_whole_vector() -> None:
    """One row of ten: a step tilts it towards the vector by a thousandth, and the other nine tenths stay unseen."""
    maps = {i: FactoredMaps({1 - i: torch.tensor([0])}, 10, dtype=torch.float64) for i in (0, 1)}
    sheaf, vector = WholeSheaf(maps, {0: 10, 1: 10}), torch.ones(10, dtype=torch.float64)
    before = float(vector @ sheaf.seen(0, vector)) / 10.0
    assert before == pytest.approx(0.1, rel=2e-3)
    maps[0].step(torch.tensor([1e-3], dtype=torch.float64), vector)
    assert float(vector @ sheaf.seen(0, vector)) / 10.0 == pytest.approx(before, rel=0.05)
