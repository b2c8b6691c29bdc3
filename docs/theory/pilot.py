"""Pilots: ten rounds of the arms that need no sheaf, and what their heads say about averages and maps.

Everything is scored on validation samples, which are parts of the training samples, and on seeds that no arm is scored
with. A pilot of averaged encoders trains heads that stay personal; behind it heads are averaged once, over a client and
its neighbors, by number or through maps, and are asked about the client's own samples.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import torch
from panel import EARLY, ENCODERS, LOCAL, TOLD_START, Regime  # a script beside its modules
from sheafedge.emulator.contracts import NodeId, SheafedgeError
from sheafedge.models.sheaf.map_starts import add_pull, project_start
from sheafedge.scenarios.compare.plan import NO_EXPORTS
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.edge_maps import EdgeMaps
from sheafedge.scenarios.wiring.emulation import build, emulate
from sheafedge.scenarios.wiring.evaluation import predicted
from torch import Tensor

#: Seeds of a pilot; none of them is scored.
SEEDS = (100, 101)


@dataclass(frozen=True, slots=True)
class Pilot:
    """What the pilots of one seed have found; scores are means over clients, of the first score of the task.

    Attributes:
        regime, seed: of the pilots.
        samples: training samples of a client, mean.
        local: score of clients that train alone.
        own: of averaged encoders with the client's own head; nan where there are no encoders.
        neighbor: the same with a neighbor's head, mean over neighbors.
        mixed: the same with the mean of the client's head and its neighbors', by number; nan where sizes differ.
        told_own, told_neighbor, told_mixed: the same, heads started and read through maps; as above where maps are the
            identity.
        alike, told_alike: cosine of what training has changed the heads of neighbors by, mean over edges, by number and
            through maps.
    """

    regime: str
    seed: int
    samples: float
    local: float
    own: float
    neighbor: float
    mixed: float
    alike: float
    told_own: float
    told_neighbor: float
    told_mixed: float
    told_alike: float


def pilots(chosen: Sequence[Regime], path: Path) -> Iterator[Pilot | str]:
    """Run the pilots that a file lacks, and write it after each; a sentence where a regime can have none."""
    found = read_pilots(path)
    for regime in chosen:
        for seed in SEEDS:
            if any((one.regime, one.seed) == (regime.name, seed) for one in found):
                continue
            try:
                found.append(pilot(regime, seed))
            except SheafedgeError as error:
                yield f"{regime.name}, seed {seed}: no pilot: {error}"
                continue
            with path.open("w", encoding="utf-8", newline="") as file:
                rows = csv.DictWriter(file, [field.name for field in fields(Pilot)], lineterminator="\n")
                rows.writeheader()
                rows.writerows({name: _cell(value) for name, value in asdict(one).items()} for one in found)
            yield found[-1]


def read_pilots(path: Path) -> list[Pilot]:
    """Pilots of a file; none where there is no file yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Pilot(row.pop("regime"), int(row.pop("seed")), **{name: float(text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def pilot(regime: Regime, seed: int) -> Pilot:
    """The pilots of one seed."""
    local = _Played(regime, LOCAL, seed)
    samples = float(np.mean([len(client.data.train) for client in local.emulation.clients]))
    by_number = _judged(_Played(regime, ENCODERS, seed) if ENCODERS in regime.arms else local)
    told = _judged(_Played(regime, TOLD_START, seed)) if TOLD_START in regime.arms else by_number
    return Pilot(regime.name, seed, samples, local.score(), *by_number, *told)


class _Played:
    """The clients of an arm after the rounds of a pilot.

    Args:
        regime, arm, seed: what is played.
    """

    def __init__(self, regime: Regime, arm: str, seed: int) -> None:
        edits = {**regime.edits, **regime.arms[arm], **NO_EXPORTS, **EARLY, "seed": seed}
        self.scenario = load_scenario(regime.scenario).edited(edits)
        data = load_data(self.scenario).clients
        self.emulation = build(self.scenario, data, lambda *_: {}, lambda *_: None)
        self.starts = {client.client_id: self.head(client.client_id).clone() for client in self.emulation.clients}
        try:
            emulate(self.emulation, self.scenario.rounds)
        finally:
            self.emulation.close()
        self.maps = EdgeMaps(self.scenario.sheaf, seed, self.emulation.clients, whole_models=False).of_graph(
            self.emulation.graph
        )

    def head(self, client: NodeId) -> Tensor:
        """[d_i] the head itself."""
        return self.emulation.clients[client].models["fused"].head.data

    def score(self) -> float:
        """Mean first score of the clients, as ranked: more is better."""
        return float(np.mean([self._score_of(client.client_id) for client in self.emulation.clients]))

    def score_with(self, heads: Mapping[NodeId, Tensor]) -> float:
        """The same with other heads, for those clients that have one."""
        kept = {client: self.head(client).clone() for client in heads}
        for client, head in heads.items():
            self.head(client).copy_(head)
        score = float(np.mean([self._score_of(client) for client in heads]))
        for client, head in kept.items():
            self.head(client).copy_(head)
        return score

    def seen_through_maps(self, client: NodeId, neighbor: NodeId, vectors: Mapping[NodeId, Tensor]) -> Tensor:
        """[d_i] what a neighbor's vector differs by from the client's, on what the maps compare: P_ij^T (v_j - v_i)."""
        own, peer = self.maps[client][neighbor], self.maps[neighbor][client]
        gap = torch.zeros_like(vectors[client])
        add_pull(gap, own, project_start(peer, vectors[neighbor]) - project_start(own, vectors[client]))
        return gap

    def _score_of(self, client: NodeId) -> float:
        task, samples = self.scenario.task_spec, self.emulation.clients[client].data.test
        (logits,) = predicted(self.emulation.client_learners[client], samples).values()
        column = task.columns[0]
        return float(column.rank(task.scores(logits, samples)[column.key]))


def _judged(played: _Played) -> tuple[float, float, float, float]:
    """Scores with own, neighbors' and mean heads, and how alike neighbors' heads have changed."""
    graph = played.emulation.graph
    heads = {client: played.head(client).clone() for client in graph}
    changed = {client: heads[client] - played.starts[client] for client in graph}
    neighbors = [
        played.score_with({client: heads[client] + played.seen_through_maps(client, peer, heads)})
        for client in graph
        for peer in graph[client]
    ]
    mixed = {
        client: heads[client]
        + sum((played.seen_through_maps(client, peer, heads) for peer in graph[client]), torch.zeros(()))
        / (1 + len(graph[client]))
        for client in graph
    }
    alike = [
        float(torch.cosine_similarity(project_start(one, changed[i]), project_start(other, changed[j]), dim=0))
        for i, j in graph.edges
        for one, other in [(played.maps[i][j], played.maps[j][i])]
    ]
    return played.score(), float(np.mean(neighbors)), played.score_with(mixed), float(np.mean(alike))


def _cell(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
