"""Plugins as users write them: one file with a row for every table, and scenarios and packages that need it."""

from __future__ import annotations

from pathlib import Path

#: A rule among neighbors, a task with its loss, a data set that needs no file, and a link model with settings.
ALL_DOORS = """
from dataclasses import dataclass

import numpy as np
from torch.nn import functional

from sheafedge.models.rules.sgd import LocalSgd
from sheafedge.models.sharing.train_then_mix import with_neighbors
from sheafedge.plugins import (
    Algorithm, Column, FederatedRows, IidLoss, LinkModel, MessageKind, PacketChannel, Plugin, Regression, RowDataset
)

SHARE = 0.5


class HalfSteps(LocalSgd):
    def shared(self, weights):
        self.vectors = super().shared(weights)
        return self.vectors

    def train(self, round_index):
        before = [one.vector.clone() for one in self.vectors]
        super().train(round_index)
        for one, start in zip(self.vectors, before):
            one.vector.lerp_(start, SHARE)


def half_steps(setups):
    return with_neighbors(setups, HalfSteps)


def absolute(outputs, labels, class_weights):
    return functional.l1_loss(outputs[:, 0], labels.to(outputs.dtype))


class AbsoluteErrors(Regression):
    columns = (Column("mae", "mae", better="lower"), *Regression.columns)
    objective = "absolute"

    def scores(self, logits, samples):
        return {"mae": float(np.abs(samples.values(logits[:, 0]) - samples.truth).mean())}

    def baselines(self, train, test):
        return {}


def lines(request):
    x = np.linspace(-1.0, 1.0, 120, dtype=np.float32).reshape(60, 2)
    return FederatedRows("lines", x, (3.0 * x[:, 0] - x[:, 1]).astype(np.float32))


@dataclass(frozen=True)
class SlowSettings:
    delay_s: float = 0.125


def slow(settings, of):
    return PacketChannel(of.packets, IidLoss(0.0, of.stream("link")), latency=lambda start_s: settings.delay_s)


KINDS = frozenset({MessageKind.ENCODER, MessageKind.HEAD, MessageKind.ATTENTION})
PLUGIN = Plugin(
    algorithms={"half_steps": Algorithm(half_steps, KINDS, "half of every step, then averages")},
    tasks={"absolute_errors": AbsoluteErrors()},
    row_datasets={"lines": RowDataset(lines, "", "values")},
    link_models={"slow": LinkModel(SlowSettings, slow)},
    objectives={"absolute": absolute},
)
"""

#: A scenario that goes through all four doors.
SCENARIO = """
name = "own"
task = "absolute_errors"
algorithm = "half_steps"
plugins = ["all_doors.py"]
rounds = 2
checkpoint_every = 1

[data]
source = "rows"
dataset = "lines"
split = "auto"

[clients]
n_clients = 3

[[clients.groups]]
name = "all"
modalities = ["table"]
encoder = "identity"
share = 1.0

[topology]
kind = "complete"

[links]
model = "slow"

[links.slow]
delay_s = 0.25

[network]
transport = "memory"
deadline_s = 10.0

[compute]
executor = "serial"

[export]
onnx = false
"""

#: The smallest plugin, without torch.
IDLE = """
from sheafedge.plugins import Algorithm, Plugin

PLUGIN = Plugin(algorithms={"idle": Algorithm(lambda setups: [], frozenset(), "does nothing")})
"""


def write_own(folder: Path) -> tuple[Path, Path]:
    """The plugin of all doors and its scenario in this folder; returns their paths."""
    plugin, scenario = folder / "all_doors.py", folder / "own.toml"
    plugin.write_text(ALL_DOORS)
    scenario.write_text(SCENARIO)
    return plugin, scenario


def install(folder: Path, module: str, source: str, entry: str) -> None:
    """An installed distribution with one module and one entry point, such as "idle = idle_rules:PLUGIN"."""
    (folder / f"{module}.py").write_text(source)
    facts = folder / f"{module}-1.5.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.5\n")
    (facts / "entry_points.txt").write_text(f"[sheafedge.plugins]\n{entry}\n")
