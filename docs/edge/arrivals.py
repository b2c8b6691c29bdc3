"""A base station joins late and tunes a neighbor's model on a few own samples: curves for `docs/edge_results.md`.

The control trains alone, from the start of every model, on the same samples with as many steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.objectives import OBJECTIVES
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.scenarios.export.finished_run import FinishedRun
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.assembly import make_clients
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.evaluation import in_pieces
from sheafedge.scenarios.wiring.members import members_of

Figures = dict[str, Any]

#: Minibatch steps on arrival: a few, and as many as all others took in 20 rounds.
STEPS = (20, 100)
#: Own samples, the first after arrival; 0: none, the neighbor's model as it is; None: all.
SAMPLES = (0, 16, 64, 256, None)


def tuned_on_arrival(joint: Scenario, absent: FinishedRun, newcomers: Sequence[int]) -> list[Figures]:
    """Scores of newcomers that tune every neighbor's model, and of those that train alone.

    Args:
        joint: scenario in which they take part.
        absent: run without them.
        newcomers: numbers of the clients.
    """
    data = load_data(joint).clients
    groups = {member.client_id: member.group for member in members_of(joint)}
    found = []
    for me in newcomers:
        neighbors = [one for one, group in groups.items() if group == groups[me] and one not in newcomers]
        for n in SAMPLES:
            for steps in STEPS:
                row = {"client": me, "group": groups[me], "samples": n, "steps": steps}
                tuned = [_score(joint, data, me, n, steps, _weights(absent, other)) for other in neighbors]
                alone = None if n == 0 else _score(joint, data, me, n, steps, "")
                found.append({**row, "tuned": tuned, "alone": alone})
    return found


def _weights(run: FinishedRun, client: int) -> str:
    return str((run.folder / "weights" / f"client-{client:02d}.safetensors").resolve())


def _score(joint: Scenario, data: Sequence[ClientData], me: int, n: int | None, steps: int, start_from: str) -> float:
    """First score on held-out samples after so many steps on the first n samples, from some weights or from none."""
    edits = {"algorithm": "local", "model.start_from": start_from, "training.local_steps": steps}
    scenario = joint.edited(edits)
    own = data[me].train
    rows = own if n is None or n == 0 else own.take(np.arange(min(n, len(own))))
    mine = [replace(one, train=rows) if number == me else one for number, one in enumerate(data)]
    # normalization is that of the weights where there are some, of the own samples otherwise
    algorithm = scenario.algorithm_spec
    _, fresh = make_clients(scenario, algorithm, mine, torch.device("cpu"), torch.float32, lambda _: {})
    (model,) = fresh(me, {}).values()
    objective = OBJECTIVES[scenario.task_spec.objective]
    draws = named_stream(scenario.seed, "arrival", me, n)
    training = LocalTraining(me, model, rows, objective, scenario.training, draws)
    if n != 0:
        training.train(0)
    task, test = scenario.task_spec, data[me].test
    logits = np.concatenate([training.predict(inputs) for inputs in in_pieces(test)])
    return task.scores(logits, test)[task.columns[0].key]


def arrival_table(found: Mapping[int, Sequence[Figures]]) -> str:
    """Rows: group and number of own samples; columns: steps, tuned and alone."""
    rows = [row for of_seed in found.values() for row in of_seed]
    titles = [f"{steps} steps: {what}" for steps in STEPS for what in ("tuned", "alone")]
    lines = ["| Newcomer's group | own samples | newcomers | " + " | ".join(titles) + " |", "|---" * 7 + "|"]
    for group in dict.fromkeys(row["group"] for row in rows):
        for n in SAMPLES:
            own = [row for row in rows if (row["group"], row["samples"]) == (group, n)]
            if own:
                count = len(own) // len(STEPS)
                name = "all" if n is None else str(n)
                lines.append("| " + " | ".join([group, name, str(count), *_cells(own)]) + " |")
    return "\n".join(lines) if rows else ""


def _cells(rows: Sequence[Figures]) -> Iterator[str]:
    for steps in STEPS:
        of_steps = [row for row in rows if row["steps"] == steps]
        yield _spread([fmean(row["tuned"]) for row in of_steps])
        yield _spread([row["alone"] for row in of_steps if row["alone"] is not None])


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")
