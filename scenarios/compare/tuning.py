"""Grid search for the settings of every method on validation samples, with the same grid for all methods."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...emulator.contracts import ConfigError
from ...emulator.ownership import owned
from ...emulator.whole_file import write_whole
from ..report.shown_scores import heading
from ..schema.former_names import FORMER_NAMES
from ..tasks.task_table import TASKS
from ..workers.ray_cluster import Engine, RayShare
from .comparison import Comparison, Edits, Tuning, loaded_tables, validated_comparison
from .comparison_report import ELSEWHERE, writing
from .execution import ComparisonProgress, execute
from .plan import PlannedRun, planned_runs
from .result_table import ResultTable, number, shown_value
from .results import ALL_CLIENTS, results_of

#: The setting with most influence on learning speed, from a third to three times its default.
DEFAULT_GRID: Mapping[str, Sequence[Any]] = {"training.encoder_step_size": (0.001, 0.003, 0.01)}
#: Edits of every run of a search: never scored on test samples.
VALIDATION = {"data.scored": "validation"}


def tune(
    comparison: Comparison,
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    out: Path | None = None,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
    *,
    keep_stale: bool = False,
    share: RayShare | None = None,
) -> dict[str, Any]:
    """Grid search: tries every combination with every method and keeps the best on validation samples.

    The best combination has the best mean of the task's first score over all clients and seeds; of equal ones the
    first. A combination that fails with one seed is excluded.

    Args:
        comparison: the methods to tune; its `vary` is ignored, and may vary no field of the grid.
        grid: dotted key -> values; the fields of a key "a+b" take the same value.
        seeds: seeds of the search.
        out: folder; None: `runs/tune-NAME`.
        jobs, progress, engine, keep_stale, share: see `execute`.

    Returns:
        Content of `tuning.json`. `tuned.toml` in the folder is the comparison with the chosen values.

    Raises:
        OwnedError: another process searches in this folder.
        ConfigError: an invalid grid, samples other than those of validation, or a method for which every combination
            failed.
    """
    searched = Tuning(grid={key: tuple(values) for key, values in grid.items()}, seeds=tuple(seeds))
    combinations = _combinations(searched.grid)
    search = _search(comparison, combinations, seeds)
    runs = planned_runs(search)
    _check_scored(runs)
    folder = out or default_tuning_folder(comparison)
    with owned(folder, ELSEWHERE, inside=True):
        with writing(folder):
            (folder / "runs").mkdir(exist_ok=True)
        failed = execute(runs, folder / "runs", jobs, progress, engine, keep_stale=keep_stale, share=share)
        results = results_of(search, runs, folder / "runs", failed)
        methods = _tried(comparison, combinations, results)
        tuned = _with_chosen(comparison, {method: facts["chosen"] for method, facts in methods.items()}, searched)
        tuning = _documented(results, searched, methods)
        with writing(folder):
            write_whole(folder / "tuned.toml", tuned.text())
            write_whole(folder / "tuning.json", json.dumps(tuning, indent=2) + "\n")
            write_whole(folder / "tuning.md", tuning_table(tuning).markdown())
    return tuning


def _documented(results: Mapping[str, Any], searched: Tuning, methods: Mapping[str, Any]) -> dict[str, Any]:
    """Content of `tuning.json`."""
    return {
        # the keys of tuning.json never change, so that "arms" still stands for methods
        **{key: results[key] for key in ("name", "scenario", "task", "split", "scored", "seeds", "environment")},
        "grid": searched.model_dump(mode="json")["grid"],
        "arms": methods,
    }


def default_tuning_folder(comparison: Comparison) -> Path:
    """Default folder; fixed, so that the same command continues an interrupted search."""
    return Path("runs") / f"tune-{comparison.name}"


def tuned_comparison(path: Path) -> Comparison:
    """Comparison of a `tuned.toml`: its methods with the settings that a search chose.

    Raises:
        ConfigError: not a file of `tune`, or not as that wrote it.
    """
    tables = loaded_tables(str(path))
    if "tuning" not in tables:
        raise ConfigError(f"--tuned {path} holds no tuned settings; give the tuned.toml that sheafedge tune wrote")
    tuned = validated_comparison(tables)
    # a search of an earlier version may have written it
    methods = {
        method: {_present_name(field): value for field, value in edits.items()}
        for method, edits in tuned.methods.items()
    }
    for method, edits in methods.items():
        if lacking := next((field for field in _searched_fields(tuned) if field not in edits), None):
            raise ConfigError(
                f"--tuned {path} has no {lacking} for method {method!r}, though it is in its grid; tune again, and"
                " leave the file as it is"
            )
    return tuned.edited({"methods": methods})


def _searched_fields(tuned: Comparison) -> list[str]:
    """Present names of the fields that the search of a tuned comparison chose."""
    assert tuned.tuning is not None, "a tuned.toml says how it was made"
    return [_present_name(field) for key in tuned.tuning.grid for field in _fields(key)]


def with_tuned_settings(comparison: Comparison, path: Path) -> Comparison:
    """The comparison with the settings that a search chose for its methods.

    Raises:
        ConfigError: not a file of `tune`, or a method that it lacks or that was tuned with other edits.
    """
    tuned = tuned_comparison(path)
    assert tuned.tuning is not None, "a tuned.toml says how it was made"
    chosen = {}
    # plain values, such as texts for paths, as in the file
    for method, edits in comparison.tables()["methods"].items():
        if method not in tuned.methods:
            raise ConfigError(
                f"--tuned {path} has no method {method!r}, only {', '.join(tuned.methods)}; tune it, or leave it out"
            )
        theirs = tuned.methods[method]
        chosen[method] = {field: theirs[field] for field in _searched_fields(tuned)}
        # the values were chosen under the other edits of the method, and may be bad ones under these
        mine = {**chosen[method], **edits}
        if other := next((key for key in {**mine, **theirs} if not _agree_on(key, mine, theirs)), None):
            has, had = (f"{other} = {of[other]!r}" if other in of else f"no {other}" for of in (mine, theirs))
            raise ConfigError(
                f"method {method!r} has {has}, but was tuned with {had} in {path}; name it differently, or tune it"
                " again"
            )
    return _with_chosen(comparison, chosen, tuned.tuning)


def _agree_on(key: str, mine: Edits, theirs: Edits) -> bool:
    """Whether both set a field to the same value, or neither sets it."""
    return (key in mine) == (key in theirs) and mine.get(key) == theirs.get(key)


def tuning_table(tuning: Mapping[str, Any]) -> ResultTable:
    """Table of all combinations with their scores per method; a star marks the chosen one."""
    column = TASKS[tuning["task"]].columns[0]
    methods = tuning["arms"]
    rows = []
    for index, first in enumerate(next(iter(methods.values()))["tried"]):
        cells = []
        for facts in methods.values():
            tried = facts["tried"][index]
            score = "failed" if tried["score"] is None else number(tried["score"], column)
            cells.append(f"{score} *" if tried["values"] == facts["chosen"] else score)
        values = (first["values"][_fields(key)[0]] for key in tuning["grid"])
        rows.append([", ".join(map(shown_value, values)), *cells])
    keys = ", ".join("+".join(field.rpartition(".")[2] for field in _fields(key)) for key in tuning["grid"])
    seeds = f"seed{'s' if len(tuning['seeds']) > 1 else ''} {', '.join(map(str, tuning['seeds']))}"
    return ResultTable(
        f"{heading(column)} of all clients on validation samples, {seeds}; * chosen", [keys, *methods], rows
    )


def _fields(key: str) -> list[str]:
    """Fields of a key of a grid, which take the same value."""
    return [field.strip() for field in key.split("+")]


def _present_name(field: str) -> str:
    """Present name of a field that was renamed, where its values are the same."""
    now = FORMER_NAMES.get(field)
    return field if now is None or now.advice else now.field


def _combinations(grid: Mapping[str, Sequence[Any]]) -> list[Edits]:
    """All combinations of the values of a grid.

    Raises:
        ConfigError: a key without values.
    """
    for key, values in grid.items():
        if not values:
            raise ConfigError(f"--grid {key} needs at least one value, got none; give its values, or leave it out")
    return [
        {field: value for key, value in zip(grid, values, strict=True) for field in _fields(key)}
        for values in itertools.product(*grid.values())
    ]


def _search(comparison: Comparison, combinations: Sequence[Edits], seeds: Sequence[int]) -> Comparison:
    """Comparison of every method with every combination, scored on validation samples."""
    # refused here: with the chosen values in its methods the comparison would be invalid, after the whole search
    if again := next((key for key in comparison.vary if key in combinations[0]), None):
        raise ConfigError(f"vary changes {again}, which --grid changes too; leave it out of one of them")
    for method, edits in comparison.methods.items():
        if again := next((key for key in combinations[0] if key in edits), None):
            raise ConfigError(f"method {method!r} sets {again}, which --grid changes too; leave it out of one of them")
    methods = {
        _label(method, values): {**edits, **values}
        for method, edits in comparison.methods.items()
        for values in combinations
    }
    return comparison.edited(
        {
            # the methods of the search have names of their own: a reference among the old ones would be refused
            "set": {**comparison.edits, **VALIDATION},
            "methods": methods,
            "seeds": list(seeds),
            "vary": {},
            "reference": "",
        }
    )


def _check_scored(runs: Iterable[PlannedRun]) -> None:
    """Refuse a search on other samples than those of validation: methods and grid are applied after `VALIDATION`.

    Raises:
        ConfigError: naming the method.
    """
    for run in runs:
        if (scored := run.scenario.data.scored) != VALIDATION["data.scored"]:
            raise ConfigError(
                f"data.scored must be 'validation' in a search, got {scored!r} for the method {run.method!r}; leave it"
                " out of the methods and of --grid"
            )


def _label(method: str, values: Edits) -> str:
    return f"{method} [{', '.join(f'{key} = {value}' for key, value in values.items())}]"


def _tried(
    comparison: Comparison, combinations: Sequence[Edits], results: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Method -> all tried combinations with their scores, and the chosen one."""
    first = TASKS[results["task"]].columns[0]
    entries = {entry["arm"]: entry for entry in results["entries"]}
    found = {}
    for method in comparison.methods:
        of_method = [entries[_label(method, values)] for values in combinations]
        scores = [
            # a mean over fewer seeds than that of the others could win by easy seeds
            entry["groups"][ALL_CLIENTS]["scores"][first.key] if entry["n"] == len(results["seeds"]) else None
            for entry in of_method
        ]
        means: list[float | None] = [score and score["mean"] for score in scores]
        known = [mean for mean in means if mean is not None]
        if not known:
            labels = {entry["arm"] for entry in of_method}
            sentence = next(failure["sentence"] for failure in results["failures"] if failure["arm"] in labels)
            raise ConfigError(f"no combination of the grid works for method {method!r}: {sentence}")
        best = means.index(max(known, key=first.rank))
        found[method] = {
            "chosen": combinations[best],
            "tried": [
                {"values": values, "score": mean, "seeds": score and score["values"]}
                for values, mean, score in zip(combinations, means, scores, strict=True)
            ],
        }
    return found


def _with_chosen(comparison: Comparison, chosen: Mapping[str, Edits], tuning: Tuning) -> Comparison:
    methods = {method: {**edits, **chosen[method]} for method, edits in comparison.methods.items()}
    return comparison.edited({"methods": methods, "tuning": tuning.model_dump(mode="json")})
