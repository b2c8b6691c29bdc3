"""Settings of arms, chosen on validation rows: the same grid, and so the same budget, for every arm."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...emulator.contracts import ConfigError
from ...emulator.whole_file import write_whole
from ..tasks.task_table import TASKS
from ..workers.ray_cluster import Engine
from .comparing import writing
from .comparison import Comparison, Edits, Tuning, loaded_tables, validated_comparison
from .plan import planned_runs
from .play import ComparisonProgress, play
from .results import ALL_CLIENTS, results_of
from .tables import ResultTable, heading, number, shown_value

#: What decides most about how fast encoders learn, from a third to three times the usual.
DEFAULT_GRID: Mapping[str, Sequence[Any]] = {"training.encoder_step_size": (0.001, 0.003, 0.01)}
#: What every run of a search is scored on.
VALIDATION = {"data.scored": "validation"}


def tune(
    comparison: Comparison,
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    out: Path | None = None,
    jobs: int = 1,
    progress: ComparisonProgress | None = None,
    engine: Engine = "processes",
) -> dict[str, Any]:
    """Try every combination of a grid with every arm, and keep for each arm the best on validation rows.

    Best is the highest mean over all clients of the task's first score, over all seeds; the earlier one of equals. What
    fails with one seed is out.

    Args:
        comparison: whose arms are tuned, where nothing varies.
        grid: key -> values.
        seeds: of the search.
        out: folder; None: `runs/tune-NAME`.
        jobs, progress, engine: see `play`.

    Returns:
        Content of `tuning.json`; `tuned.toml` is the comparison with the chosen values.

    Raises:
        ConfigError: a grid that does not fit, or an arm for which nothing worked.
    """
    searched = Tuning(grid={key: tuple(values) for key, values in grid.items()}, seeds=tuple(seeds))
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    search = _search(comparison, combinations, seeds)
    runs = planned_runs(search)
    folder = out or default_tuning_folder(comparison)
    with writing(folder):
        (folder / "runs").mkdir(parents=True, exist_ok=True)
    results = results_of(search, runs, folder / "runs", play(runs, folder / "runs", jobs, progress, engine))
    arms = _tried(comparison, combinations, results)
    tuned = _with_chosen(comparison, {arm: facts["chosen"] for arm, facts in arms.items()}, searched)
    tuning = {
        **{key: results[key] for key in ("name", "scenario", "task", "split", "scored", "seeds", "environment")},
        "grid": searched.model_dump(mode="json")["grid"],
        "arms": arms,
    }
    with writing(folder):
        write_whole(folder / "tuned.toml", tuned.text())
        write_whole(folder / "tuning.json", json.dumps(tuning, indent=2) + "\n")
        write_whole(folder / "tuning.md", tuning_table(tuning).markdown())
    return tuning


def default_tuning_folder(comparison: Comparison) -> Path:
    """Always the same, so that calling again continues."""
    return Path("runs") / f"tune-{comparison.name}"


def with_tuned_settings(comparison: Comparison, path: Path) -> Comparison:
    """The same comparison with the values that a search has chosen for its arms.

    Raises:
        ConfigError: no file of `tune`, or an arm that it knows nothing, or something else, about.
    """
    tables = loaded_tables(str(path))
    if "tuning" not in tables:
        raise ConfigError(f"--tuned {path} holds no tuned settings; give the tuned.toml that sheafedge tune wrote")
    tuned = validated_comparison(tables)
    assert tuned.tuning is not None, "it is in the tables"
    chosen = {}
    for arm, edits in comparison.arms.items():
        if arm not in tuned.arms:
            raise ConfigError(
                f"--tuned {path} has no arm {arm!r}, only {', '.join(tuned.arms)}; tune it, or leave it out"
            )
        theirs = tuned.arms[arm]
        chosen[arm] = {key: theirs[key] for key in tuned.tuning.grid}
        if again := next((key for key in edits if key in theirs and edits[key] != theirs[key]), None):
            raise ConfigError(
                f"arm {arm!r} has {again} = {edits[again]!r}, but was tuned with {theirs[again]!r} in {path}; name it"
                " differently, or tune it again"
            )
    return _with_chosen(comparison, chosen, tuned.tuning)


def tuning_table(tuning: Mapping[str, Any]) -> ResultTable:
    """Every combination of the grid, with its score for every arm; stars mark what was chosen."""
    column = TASKS[tuning["task"]].columns[0]
    arms = tuning["arms"]
    rows = []
    for index, first in enumerate(next(iter(arms.values()))["tried"]):
        cells = []
        for facts in arms.values():
            tried = facts["tried"][index]
            score = "failed" if tried["score"] is None else number(tried["score"], column)
            cells.append(f"{score} *" if tried["values"] == facts["chosen"] else score)
        rows.append([", ".join(map(shown_value, first["values"].values())), *cells])
    keys = ", ".join(key.rpartition(".")[2] for key in tuning["grid"])
    seeds = f"seed{'s' if len(tuning['seeds']) > 1 else ''} {', '.join(map(str, tuning['seeds']))}"
    return ResultTable(f"{heading(column)} of all clients on validation rows, {seeds}; * chosen", [keys, *arms], rows)


def _search(comparison: Comparison, combinations: Sequence[Edits], seeds: Sequence[int]) -> Comparison:
    """A comparison of every arm with every combination, on validation rows."""
    for arm, edits in comparison.arms.items():
        if again := next((key for key in combinations[0] if key in edits), None):
            raise ConfigError(f"arm {arm!r} sets {again}, which --grid is to choose; leave it out of one of them")
    arms = {
        _label(arm, values): {**edits, **values} for arm, edits in comparison.arms.items() for values in combinations
    }
    return comparison.edited(
        {"set": {**comparison.edits, **VALIDATION}, "arms": arms, "seeds": list(seeds), "vary": {}, "reference": ""}
    )


def _label(arm: str, values: Edits) -> str:
    return f"{arm} [{', '.join(f'{key} = {value}' for key, value in values.items())}]"


def _tried(
    comparison: Comparison, combinations: Sequence[Edits], results: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Arm -> what was tried, and what was chosen."""
    key = TASKS[results["task"]].columns[0].key
    entries = {entry["arm"]: entry for entry in results["entries"]}
    found = {}
    for arm in comparison.arms:
        of_arm = [entries[_label(arm, values)] for values in combinations]
        scores = [
            entry["groups"][ALL_CLIENTS]["scores"][key] if entry["n"] == len(results["seeds"]) else None
            for entry in of_arm
        ]
        means: list[float | None] = [score and score["mean"] for score in scores]
        known = [mean for mean in means if mean is not None]
        if not known:
            labels = {entry["arm"] for entry in of_arm}
            sentence = next(failure["sentence"] for failure in results["failures"] if failure["arm"] in labels)
            raise ConfigError(f"no combination of the grid works for arm {arm!r}: {sentence}")
        best = means.index(max(known))
        found[arm] = {
            "chosen": combinations[best],
            "tried": [
                {"values": values, "score": mean, "seeds": score and score["values"]}
                for values, mean, score in zip(combinations, means, scores, strict=True)
            ],
        }
    return found


def _with_chosen(comparison: Comparison, chosen: Mapping[str, Edits], tuning: Tuning) -> Comparison:
    arms = {arm: {**edits, **chosen[arm]} for arm, edits in comparison.arms.items()}
    return comparison.edited({"arms": arms, "tuning": tuning.model_dump(mode="json")})
