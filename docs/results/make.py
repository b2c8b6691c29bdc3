"""Makes `docs/results.md` and its figures: tunes, compares, and checks the claims of the paper against the results.

    make results [ARGS="--jobs 2 --only blockage"]

Every comparison is a TOML file in this folder; all share one folder of runs. Stored runs are not repeated, so an
interrupted call can be continued. Measured samples are read from the folder `deepsense` in $SHEAFEDGE_DATA; without
them their sections are marked as not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from claims import CLAIMS, Scores, ours_against_the_best  # noqa: E402 - a script beside its modules
from sheafedge.scenarios.compare.comparing import run_comparison  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison, loaded_tables, validated_comparison  # noqa: E402
from sheafedge.scenarios.compare.comparison_tables import legend, result_tables  # noqa: E402
from sheafedge.scenarios.compare.curves import curves_of  # noqa: E402
from sheafedge.scenarios.compare.figures import draw_curves  # noqa: E402
from sheafedge.scenarios.compare.tuning import tune, tuning_table  # noqa: E402
from sheafedge.scenarios.report.figure_style import save_figure  # noqa: E402
from sheafedge.scenarios.tasks.task_table import TASKS  # noqa: E402
from sheafedge.scenarios.terminal.compare_console import ComparisonLines  # noqa: E402

PAGE, FIGURES = HERE.parent / "results.md", HERE.parent / "figures"
#: Scenario -> the file that says how its step sizes are searched for, and the grid.
TUNED: Mapping[str, tuple[str, Mapping[str, Sequence[Any]]]] = {
    "beam_tracking": (
        "tune_tracking",
        {"training.encoder_step_size": (0.001, 0.003, 0.01), "training.head_step_size": (0.1, 0.3)},
    ),
    "drone_beam": ("tune_drones", {"training.encoder_step_size": (0.001, 0.003)}),
}
#: In the order of the page.
COMPARISONS = (
    "tracking",
    "tracking_options_validation",
    "tracking_options",
    "tracking_scarce",
    "tracking_mirrored",
    "tracking_loss",
    "blockage",
    "drones",
    "drones_occluded",
    "drones_views",
    "drones_permuted",
    "drones_sizes",
)
#: Comparisons in which our method has another name.
OURS = dict.fromkeys(("drones_permuted", "drones_sizes"), "sheaf twin, aligned (ours)")
#: Methods of the curves on the page; more than these cannot be told apart.
PICTURED = (
    "local, best modality",
    "DSGD",
    "DMML-KD (approximation)",
    "head averaging",
    "centralized",
    "Sheaf-DMFL",
    "Sheaf-DMFL-Att",
    "sheaf twin (ours)",
)
CONSOLE = Console(emoji=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/results"))
    parser.add_argument(
        "--only", nargs="*", default=COMPARISONS, metavar="NAME", help="run only these, keep the others"
    )
    parser.add_argument("--keep-stale", action="store_true", help="do not repeat runs that other code made")
    options = parser.parse_args(arguments)
    data = os.environ.get("SHEAFEDGE_DATA")
    for name in options.only:
        comparison = _comparison(name, data)
        if comparison is not None:
            CONSOLE.rule(name)
            tuned, folder = _tuned(comparison, data, options), _folder(options.out, name)
            with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
                run_comparison(tuned, folder, options.jobs, lines, keep_stale=options.keep_stale)
    write_page(options.out)


def _comparison(name: str, data: str | None) -> Comparison | None:
    """A file as a value; None where it needs measured rows and there are none."""
    comparison = validated_comparison(loaded_tables(str(HERE / f"{name}.toml")))
    if comparison.edits.get("data.source") != "deepsense":
        return comparison
    if data is None:
        CONSOLE.print(f"{name} needs measured samples; set SHEAFEDGE_DATA")
        return None
    return comparison.edited({"set": {**comparison.edits, "data.root": str(Path(data) / "deepsense")}})


def _tuned(comparison: Comparison, data: str | None, options: argparse.Namespace) -> Comparison:
    """The comparison with step sizes tuned per algorithm on validation samples, if the scenario is in TUNED."""
    if comparison.scenario not in TUNED:
        return comparison
    name, grid = TUNED[comparison.scenario]
    search = _comparison(name, data)
    assert search is not None, "the comparison itself has its data"
    with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
        folder, keep_stale = _folder(options.out, name), options.keep_stale
        found = tune(search, grid, search.seeds, folder, options.jobs, lines, keep_stale=keep_stale)
    chosen = {method: facts["chosen"] for method, facts in found["arms"].items()}
    methods = {method: {**chosen[edits["algorithm"]], **edits} for method, edits in comparison.methods.items()}
    return comparison.edited({"methods": methods})


def _folder(out: Path, name: str) -> Path:
    """Folders of one family share their runs."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    shared = out / "runs"
    shared.mkdir(exist_ok=True)
    if not (folder / "runs").exists():
        (folder / "runs").symlink_to(shared.absolute())
    return folder


def write_page(out: Path) -> None:
    """Fill the template with what is there."""
    found = {
        name: json.loads(path.read_text()) for name in COMPARISONS if (path := out / name / "results.json").exists()
    }
    scores = {
        name: Scores(results, TASKS[results["task"]].columns[0].key)
        for name, results in found.items()
        if not results["vary"]
    }
    text = (HERE / "page.md").read_text(encoding="utf-8")

    def filled(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if kind == "claims":
            return "\n".join(claim.row(scores) for claim in CLAIMS)
        if kind == "ours":
            return "\n".join(ours_against_the_best(scores, OURS))
        if kind == "tuning":
            return _tuning_text(out / name)
        if kind == "picture":
            return _picture(out, name)
        return _table(found.get(name), name)

    PAGE.write_text(re.sub(r"\{\{(\w+) ?([\w/.-]*)\}\}", filled, text), encoding="utf-8")
    CONSOLE.print(f"wrote {PAGE}")


def _table(results: Mapping[str, Any] | None, name: str) -> str:
    if results is None:
        return f"*Not run here (`docs/results/{name}.toml`).*"
    tables = [table.markdown() for table in result_tables(results) if table.is_main]
    first = {failure["arm"]: failure["sentence"] for failure in reversed(results["failures"])}  # seeds fail alike
    failures = [f"- *{method}* cannot run: {sentence}" for method, sentence in first.items()]
    return "\n\n".join([legend(results), *failures, *tables]).strip().replace("###", "####")


def _tuning_text(folder: Path) -> str:
    path = folder / "tuning.json"
    return (
        tuning_table(json.loads(path.read_text())).markdown().replace("###", "####") if path.exists() else "*Not run.*"
    )


def _picture(out: Path, name: str) -> str:
    """`comparison/curves-AXIS.png`, drawn again with few enough methods to tell apart, or another picture as it is."""
    comparison, _, file = name.partition("/")
    source, target = out / name, FIGURES / f"results-{comparison}-{file}"
    if not source.exists():
        return ""
    axis = file.removeprefix("curves-").removesuffix(".png")
    if axis == file.removesuffix(".png"):
        shutil.copyfile(source, target)
    else:
        results = json.loads((out / comparison / "results.json").read_text())
        methods = {method: edits for method, edits in results["comparison"]["arms"].items() if method in PICTURED}
        few = {
            **results,
            "entries": [entry for entry in results["entries"] if entry["arm"] in methods],
            "comparison": {**results["comparison"], "arms": methods},
        }
        save_figure(draw_curves(few, curves_of(few, out / "runs"), axis), target.with_suffix(""), ("png",))
    return f"![{name}](figures/{target.name})"


if __name__ == "__main__":
    main()
