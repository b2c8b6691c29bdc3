"""The scores behind `docs/results.md`: a line per regime, arm, seed and group, kept with the page.

Runs are made on whatever machine is at hand, and thrown away; what they scored is kept here. So a call continues where
any earlier one stopped, and a verdict of the page changes only when this file does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sheafedge.scenarios.compare.plan import PlannedRun
from sheafedge.scenarios.compare.results import groups_with_all
from sheafedge.scenarios.running.run_environment import processor_name
from sheafedge.scenarios.tasks.task_table import TASKS
from tables import read_rows, write_rows  # a script beside its modules

#: The mean over the clients of all groups.
ALL = "all clients"
#: Regime, arm, varied value and seed.
RunKey = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """What one run scored in one group.

    Attributes:
        regime: name of a comparison file.
        arm: method of it.
        varied: value of its varied field; empty: nothing varies.
        seed: of the run.
        group: of clients, or `ALL`.
        clients: number of them.
        score: first score of the task, mean over them.
        n_train, n_test: samples of all clients of the run.
        megabytes: that all nodes sent.
        virtual_s: simulated time of the run.
        joules: that computing and radios took.
        encoder, head: step sizes of the run.
        code: of the software that made the run.
        processor: that it ran on, with its widest vectors, which decide how torch's kernels round; empty: not noted.
    """

    regime: str
    arm: str
    varied: str
    seed: int
    group: str
    clients: int
    score: float
    n_train: int
    n_test: int
    megabytes: float
    virtual_s: float
    joules: float
    encoder: float
    head: float
    code: str
    processor: str

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What is there once."""
        return self.regime, self.arm, self.varied, self.seed, self.group


class Ledger:
    """Rows of a file `scores.csv`.

    Args:
        path: of the file; it may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[tuple[str, str, str, int, str], Row] = {}
        self.put(read_rows(path, Row))

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Iterable[Row]) -> None:
        """Add rows, in the place of those of the same run and group."""
        self._rows.update((row.key, row) for row in rows)

    def replaced(self, row: Row) -> Row | None:
        """What a row takes the place of; None: nothing."""
        return self._rows.get(row.key)

    def made(self, key: RunKey, sizes: tuple[float, float]) -> Row | None:
        """Row of a run over all clients; None: it was not made with these step sizes.

        Args:
            key: regime, arm, varied value and seed.
            sizes: of the steps of encoders, and of heads.
        """
        row = self._rows.get((*key, ALL))
        return row if row is not None and (row.encoder, row.head) == sizes else None

    def of(self, regime: str, varied: str = "") -> RegimeScores:
        """Scores of a regime."""
        return RegimeScores(
            regime, [row for row in self._rows.values() if (row.regime, row.varied) == (regime, varied)]
        )

    def runs(self, regime: str) -> list[Row]:
        """A row per run of a regime: that of all clients."""
        return [row for row in self._rows.values() if (row.regime, row.group) == (regime, ALL)]

    def regimes(self) -> list[str]:
        """Regimes with scores."""
        return list(dict.fromkeys(row.regime for row in self._rows.values()))

    def keep_only(self, regime: str, arms: Iterable[str]) -> None:
        """Forget arms of a regime that its file does not have any more."""
        known = set(arms)
        self._rows = {key: row for key, row in self._rows.items() if row.regime != regime or row.arm in known}

    def write(self) -> None:
        """Write the file as a whole, ordered."""
        order = sorted(self._rows.values(), key=lambda one: (one.regime, one.arm, one.varied, one.seed, one.group))
        write_rows(self.path, Row, order)


class RegimeScores:
    """Scores of one regime.

    Args:
        name: of the regime.
        rows: of it.
    """

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name, self._rows = name, rows
        self._values: dict[tuple[str, str], dict[int, float]] = {}
        for row in rows:
            self._values.setdefault((row.arm, row.group), {})[row.seed] = row.score
        self._processors = {(row.arm, row.seed): row.processor for row in rows}

    def of_seeds(self, first: int, last: int) -> RegimeScores:
        """The same of some seeds alone."""
        return RegimeScores(self.name, [row for row in self._rows if first <= row.seed <= last])

    @property
    def arms(self) -> list[str]:
        """Arms with scores."""
        return list(dict.fromkeys(row.arm for row in self._rows))

    @property
    def groups(self) -> list[str]:
        """Groups of clients, `ALL` last."""
        return [*dict.fromkeys(row.group for row in self._rows if row.group != ALL), ALL] if self._rows else []

    @property
    def test_per_train(self) -> float:
        """Held-out samples per training sample, over all runs."""
        whole = [row for row in self._rows if row.group == ALL]
        return sum(row.n_test for row in whole) / max(1, sum(row.n_train for row in whole))

    @property
    def codes(self) -> list[str]:
        """Versions of the code that made the runs."""
        return sorted({row.code for row in self._rows})

    def sizes(self, arm: str) -> list[tuple[float, float]]:
        """Step sizes of an arm, of encoders and heads; more than one pair: of different searches."""
        return list(dict.fromkeys((row.encoder, row.head) for row in self._rows if row.arm == arm))

    def is_mixed(self, arm: str, other: str, seed: int) -> bool:
        """Whether the runs of two arms with a seed are of different kinds of processors."""
        return self._processors[arm, seed] != self._processors[other, seed]

    def values(self, arm: str, group: str) -> Mapping[int, float]:
        """Seed -> score."""
        return self._values.get((arm, group), {})

    def costs(self, arm: str) -> Mapping[str, float]:
        """Means over seeds of what a run costs."""
        whole = [row for row in self._rows if (row.arm, row.group) == (arm, ALL)]
        names = ("megabytes", "virtual_s", "joules")
        return {name: sum(getattr(row, name) for row in whole) / len(whole) for name in names}


def varied_text(value: object) -> str:
    """Value of a varied field as rows have it; empty: nothing varies."""
    return "" if value is None else str(value)


def run_key(regime: str, run: PlannedRun) -> RunKey:
    """Which run of a regime it is."""
    return regime, run.method, varied_text(run.value), run.seed


def sizes_of(run: PlannedRun) -> tuple[float, float]:
    """Step sizes of encoders, and of heads."""
    return run.scenario.training.encoder_step_size, run.scenario.training.head_step_size


def processor_here() -> str:
    """This machine's processor, with the widest vectors that torch finds, as rows have it."""
    return f"{processor_name()}, {torch.backends.cpu.get_cpu_capability()}"


def rows_of_run(regime: str, run: PlannedRun, summary: Mapping[str, Any]) -> list[Row]:
    """Rows of a finished run: one per group of clients, and one of all clients.

    Args:
        regime: of the run.
        run: as it was planned.
        summary: content of its `summary.json`, written on this machine.
    """
    traffic, code, processor = summary["traffic"], summary["environment"]["code"], processor_here()
    score = TASKS[run.scenario.task].columns[0].key
    return [
        Row(
            *run_key(regime, run),
            group,
            figures["clients"],
            figures[score],
            summary["train_windows"],
            summary["test_windows"],
            traffic["bytes"] / 1e6,
            summary["virtual_time_s"],
            summary["energy_j"],
            *sizes_of(run),
            code,
            processor,
        )
        for group, figures in groups_with_all(summary).items()
    ]
