"""`compare` and `tune` from Python, and their results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import is_regular
from ..compare import tuning
from ..compare.comparing import default_folder, run_comparison
from ..compare.comparison import Comparison, Edits, combined_comparison
from ..compare.comparison_report import write_comparison_report
from ..compare.comparison_tables import markdown
from ..compare.execution import ComparisonProgress
from ..compare.results import complete_runs
from ..compare.stored_results import RESULTS, stored_results
from ..schema.scenario import Scenario, load_scenario, shipped_scenarios
from .data_frames import frame_of
from .run_result import load_run
from .shown_progress import lines_console

if TYPE_CHECKING:
    import pandas as pd

#: Methods: names of algorithms, or name -> edits of the scenario.
Methods = Sequence[str] | Mapping[str, Edits]


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonResult:
    """Methods over seeds: their scores, tables and figures; `compare` makes it. A notebook shows its tables.

    Attributes:
        folder: folder with the runs, `results.json`, tables and figures.
        results: content of `results.json`.

    Examples:
        >>> from sheafedge import load_comparison
        >>> found = load_comparison("runs/compare-digits")  # after the example of compare
        >>> found
        ComparisonResult(runs/compare-digits: local, fedavg; seeds 0, 1)
        >>> scores = found.scores()
        >>> scores[scores["group"] == "all clients"].groupby("method")["accuracy"].count().to_dict()
        {'fedavg': 2, 'local': 2}
    """

    folder: Path
    results: Mapping[str, Any]

    def __repr__(self) -> str:
        methods = ", ".join(dict.fromkeys(entry["arm"] for entry in self.results["entries"]))
        return f"ComparisonResult({self.folder}: {methods}; seeds {', '.join(map(str, self.results['seeds']))})"

    def _repr_markdown_(self) -> str:
        """Tables in a notebook."""
        return markdown(self.results)

    def scores(self) -> pd.DataFrame:
        """One row per method, varied value, seed and group: all scores, each seed for itself.

        Returns:
            Columns `method`, `value` (of the varied field, if one varies), `seed`, `group` ("all clients" is the mean
            over the clients of all groups), then the scores of the task.

        Raises:
            ConfigError: pandas is not installed.
        """
        return frame_of(self._rows())

    def metrics(self, model: str | None = None) -> pd.DataFrame:
        """Rows of all runs as of `RunResult.metrics`, with `method`, `value` (if a field varies) and `seed` in front.

        Failed runs have none.

        Args:
            model: as for `RunResult.metrics`.

        Raises:
            ConfigError: pandas is not installed, or no client has a model of this name.
            DataError: a file of a run is damaged.
        """
        rows = []
        for entry in self.results["entries"]:
            varied = {"value": entry["varied"]} if self.results["vary"] else {}
            for seed, name in complete_runs(entry).items():
                frame = load_run(self.folder / "runs" / name).metrics(model)
                said = {"method": entry["arm"], **varied, "seed": int(seed)}
                rows += [{**said, **row} for row in frame.to_dict("records")]
        return frame_of(rows)

    def report(self) -> Path:
        """Write tables, figures and page of the comparison again from its `results.json`; returns the path of the page.

        Raises:
            ConfigError: the folder cannot be written.
            DataError: a file of it is damaged.
        """
        return write_comparison_report(self.folder)

    def _rows(self) -> Iterator[dict[str, Any]]:
        varies = bool(self.results["vary"])
        for entry in self.results["entries"]:
            for group, figures in entry["groups"].items():
                seeds = dict.fromkeys(seed for score in figures["scores"].values() for seed in score["values"])
                for seed in seeds:
                    yield {
                        "method": entry["arm"],
                        **({"value": entry["varied"]} if varies else {}),
                        "seed": int(seed),
                        "group": group,
                        **{key: score["values"].get(seed) for key, score in figures["scores"].items()},
                    }


@dataclass(frozen=True, slots=True, repr=False)
class TuningResult:
    """Settings that a grid search chose for every method; `tune` makes it, and `compare(tuned=...)` takes it.

    Attributes:
        folder: folder of the search; its `tuned.toml` is the comparison with the chosen settings.
        tuning: content of `tuning.json`.

    Examples:
        >>> from sheafedge import TuningResult
        >>> chosen = {"local": {"chosen": {"training.head_step_size": 0.1}}}
        >>> TuningResult(Path("runs/tune-digits"), {"arms": chosen}).chosen["local"]
        {'training.head_step_size': 0.1}
    """

    folder: Path
    tuning: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"TuningResult({self.folder}: {', '.join(f'{name}: {edits}' for name, edits in self.chosen.items())})"

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """Method -> its chosen settings, by dotted key."""
        return {name: dict(facts["chosen"]) for name, facts in self.tuning["arms"].items()}

    @property
    def path(self) -> Path:
        """File of the comparison with the chosen settings."""
        return self.folder / "tuned.toml"


def compare(
    scenario: Scenario | str | os.PathLike[str],
    methods: Methods | None = None,
    seeds: int | Sequence[int] | None = None,
    *,
    edits: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    reference: str | None = None,
    tuned: TuningResult | str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    keep_stale: bool = False,
    progress: ComparisonProgress | bool | None = None,
) -> ComparisonResult:
    """Run several methods with several seeds; runs that are stored in the folder are not repeated.

    Args:
        scenario: name of a shipped scenario, path of a scenario or comparison file, or a shipped scenario with edits.
        methods: names of algorithms, or name -> edits of the scenario; None: those of the file, or of `tuned`, or all
            algorithms.
        seeds: how many, from 0 on, or which; None: those of the file, or 0 to 2.
        edits: dotted key -> value, for all methods.
        vary: one dotted key -> its values; every method is run with each.
        reference: method that the others are compared with, seed by seed.
        tuned: result or `tuned.toml` of `tune` for these methods.
        out: folder; None: `runs/compare-NAME`.
        jobs: number of parallel runs, each in its own process; 1: in this process.
        keep_stale: do not repeat stored runs that other code or another torch made.
        progress: True: lines as on the command line; callbacks: these are called; None: no progress.

    Raises:
        OwnedError: another process makes a comparison in this folder.
        ConfigError: an invalid comparison. A run that fails is no error, but part of the results.

    Examples:
        >>> from sheafedge import compare
        >>> small = {"rounds": 1, "clients.n_clients": 4}
        >>> found = compare("digits", ["local", "fedavg"], seeds=2, edits=small)
        >>> [entry["n"] for entry in found.results["entries"]]
        [2, 2]
    """
    path = None if tuned is None else tuned.path if isinstance(tuned, TuningResult) else Path(tuned)
    otherwise = None if path is None else tuning.tuned_comparison(path).methods
    wanted = _comparison(scenario, methods, edits, seeds, vary, reference, otherwise)
    if path is not None:
        wanted = tuning.with_tuned_settings(wanted, path)
    folder = default_folder(wanted) if out is None else Path(out)
    with _shown(progress, keep_stale) as callbacks:
        return ComparisonResult(folder, run_comparison(wanted, folder, jobs, callbacks, keep_stale=keep_stale))


def load_comparison(folder: str | os.PathLike[str]) -> ComparisonResult:
    """Result of a comparison of before, from its folder.

    Args:
        folder: path of the folder.

    Raises:
        ConfigError: it is not the folder of a comparison, or its task is one of a plugin that is not loaded.
        DataError: its results are damaged.

    Examples:
        >>> from sheafedge import load_comparison
        >>> load_comparison("runs/compare-digits").results["seeds"]  # after the example of compare
        [0, 1]
    """
    path = Path(folder)
    if not is_regular(path / RESULTS):
        raise ConfigError(f"{path} is not the folder of a comparison ({RESULTS} is missing); give one under runs/")
    return ComparisonResult(path, stored_results(path))


def tune(
    scenario: Scenario | str | os.PathLike[str],
    methods: Methods | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] = 1,
    *,
    edits: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    keep_stale: bool = False,
    progress: ComparisonProgress | bool | None = None,
) -> TuningResult:
    """Choose settings of every method by grid search on validation samples, never on test samples.

    Args:
        scenario, methods, edits, jobs, keep_stale, progress: as for `compare`.
        grid: dotted key -> values, tried in all combinations; None: three values of training.encoder_step_size.
        seeds: how many, from 0 on, or which.
        out: folder; None: `runs/tune-NAME`.

    Raises:
        OwnedError: another process searches in this folder.
        ConfigError: an invalid grid, or a method for which every combination failed.

    Examples:
        >>> from sheafedge import tune
        >>> grid = {"training.head_step_size": [0.01, 0.1]}
        >>> best = tune("digits", ["local"], grid, edits={"rounds": 1, "clients.n_clients": 4})
        >>> best.chosen["local"]["training.head_step_size"] in grid["training.head_step_size"]
        True
    """
    wanted = _comparison(scenario, methods, edits)
    folder = tuning.default_tuning_folder(wanted) if out is None else Path(out)
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    with _shown(progress, keep_stale) as callbacks:
        searched = grid or tuning.DEFAULT_GRID
        found = tuning.tune(wanted, searched, listed, folder, jobs, callbacks, keep_stale=keep_stale)
        return TuningResult(folder, found)


def _comparison(
    scenario: Scenario | str | os.PathLike[str],
    methods: Methods | None,
    edits: Mapping[str, Any] | None,
    seeds: int | Sequence[int] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    reference: str | None = None,
    otherwise: Mapping[str, Edits] | None = None,
) -> Comparison:
    """Comparison of the arguments, which replace fields of a file; `otherwise`: methods where nothing names any."""
    name, own_edits = _named(scenario) if isinstance(scenario, Scenario) else (os.fspath(scenario), {})
    replaced: dict[str, Any] = {}
    if methods is not None:
        by_name = dict(methods) if isinstance(methods, Mapping) else {one: {"algorithm": one} for one in methods}
        replaced["methods"] = by_name
    if seeds is not None:
        replaced["seeds"] = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if vary is not None:
        replaced["vary"] = {key: list(values) for key, values in vary.items()}
    if reference is not None:
        replaced["reference"] = reference
    return combined_comparison(name, replaced, {**own_edits, **(edits or {})}, otherwise)


def _named(scenario: Scenario) -> tuple[str, Edits]:
    """A comparison names its scenario, so that its folder can be read later: name, and what was edited.

    Raises:
        ConfigError: it is none of the shipped scenarios with edits.
    """
    if scenario.name in shipped_scenarios():
        shipped = load_scenario(scenario.name)
        edits = dict(_changes(shipped.tables(), scenario.tables()))
        if shipped.edited(edits) == scenario:
            return scenario.name, edits
    raise ConfigError(f"scenario {scenario.name!r} is no shipped one with edits; give the path of its file")


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of what differs."""
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            yield from _changes(old, value, f"{prefix}{key}.")
        elif value != old:
            yield f"{prefix}{key}", value


def _shown(
    progress: ComparisonProgress | bool | None, keep_stale: bool
) -> AbstractContextManager[ComparisonProgress | None]:
    """Context with the callbacks of a comparison."""
    if progress is True:
        from ..terminal.compare_console import ComparisonLines

        return ComparisonLines(lines_console(), keep_stale=keep_stale)
    return nullcontext(progress or None)
