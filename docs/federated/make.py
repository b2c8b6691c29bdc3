"""Makes `docs/federated.md`: tunes, compares, and fills the tables of Sheaf-FMTL, its controls and its rivals.

    make federated [ARGS="--jobs 2 --only wisdm"]

Every comparison is a TOML file in this folder. Step sizes are chosen per method on validation rows, from one list of
values for all methods of a comparison, and the page shows them all, so that a reader sees whether the choice lies
inside the list. Stored runs are not repeated, so an interrupted call can be continued. School, WISDM and MNIST are read
from the folders `school`, `wisdm` and `mnist` in $SHEAFEDGE_DATA; without them their sections are marked as not run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, loaded_tables, validated_comparison
from sheafedge.scenarios.compare.comparison_tables import legend, result_tables
from sheafedge.scenarios.compare.tuning import tune, tuning_table
from sheafedge.scenarios.terminal.compare_console import ComparisonLines

HERE = Path(__file__).parent
PAGE = HERE.parent / "federated.md"
#: Fields of step sizes: of methods that step a model as one vector; of those that step the head by itself, which is the
#: whole of a linear model; of the latter on networks, whose encoders take the same steps.
MODEL_STEP, HEAD_STEP = "training.model_step_size", "training.head_step_size"
NETWORK_STEP = f"{HEAD_STEP}+training.encoder_step_size"


@dataclass(frozen=True)
class Search:
    """How a comparison is tuned.

    Attributes:
        step_sizes: tried with every method.
        data: folder in $SHEAFEDGE_DATA; None: the data come with a package.
        own_step: field of the step size of methods that do not step a model as one vector.
        edits: of the runs of the search alone.
    """

    step_sizes: Sequence[float]
    data: str | None = None
    own_step: str = HEAD_STEP
    edits: Mapping[str, Any] = field(default_factory=dict)

    def step(self, edits: Mapping[str, Any]) -> str:
        """Field of the step size of a method."""
        return MODEL_STEP if ALGORITHMS[edits["algorithm"]].couples_models else self.own_step


#: Comparison, in the order of the page.
SEARCHES: Mapping[str, Search] = {
    "school": Search((0.003, 0.01, 0.03, 0.1, 0.3), "school"),
    "wisdm": Search((0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), "wisdm"),
    "digits": Search((0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)),
    "rotated_mnist": Search((0.01, 0.03, 0.1, 0.3), "mnist", NETWORK_STEP, {"rounds": 15}),
    "rotated_mnist_sizes": Search((0.01, 0.03, 0.1, 0.3), "mnist", NETWORK_STEP, {"rounds": 15}),
}
TUNING_SEED = 0
CONSOLE = Console(emoji=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/federated"))
    parser.add_argument("--only", nargs="*", default=tuple(SEARCHES), metavar="NAME", help="run only these")
    parser.add_argument("--keep-stale", action="store_true", help="do not repeat runs that other code made")
    options = parser.parse_args(arguments)
    for name in options.only:
        comparison = with_data(comparison_of(name), name)
        if comparison is not None:
            CONSOLE.rule(name)
            _run(comparison, name, options)
    write_page(options.out)


def comparison_of(name: str) -> Comparison:
    """A file of this folder as a value."""
    return validated_comparison(loaded_tables(str(HERE / f"{name}.toml")))


def with_data(comparison: Comparison, name: str) -> Comparison | None:
    """The comparison with its data; None where they are not here."""
    data = SEARCHES[name].data
    if data is None:
        return comparison
    folder = os.environ.get("SHEAFEDGE_DATA")
    if folder is None:
        CONSOLE.print(f"{name} needs its data; set SHEAFEDGE_DATA")
        return None
    return comparison.edited({"set": {**comparison.edits, "data.root": str(Path(folder) / data)}})


def _run(comparison: Comparison, name: str, options: argparse.Namespace) -> None:
    methods: dict[str, Mapping[str, Any]] = {}
    search = SEARCHES[name]
    for step in (MODEL_STEP, search.own_step):
        stepped = {method: edits for method, edits in comparison.methods.items() if search.step(edits) == step}
        edits = {**comparison.edits, **search.edits}
        tuned = comparison.edited({"set": edits, "methods": stepped, "seeds": [TUNING_SEED], "reference": ""})
        folder = _search_folder(options.out, name, step)
        with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
            grid = {step: search.step_sizes}
            found = tune(tuned, grid, tuned.seeds, folder, options.jobs, lines, keep_stale=options.keep_stale)
        methods |= {method: {**edits, **found["arms"][method]["chosen"]} for method, edits in stepped.items()}
    ordered = {method: methods[method] for method in comparison.methods}
    with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
        tuned = comparison.edited({"methods": ordered})
        run_comparison(tuned, options.out / name, options.jobs, lines, keep_stale=options.keep_stale)


def _search_folder(out: Path, name: str, step: str) -> Path:
    return out / f"tune-{name}-{step.rpartition('.')[2]}"


def write_page(out: Path) -> None:
    """Fill the template with what is there."""

    def filled(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        return tuning_text(out, name) if kind == "tuning" else result_text(out / name / "results.json", name)

    text = (HERE / "page.md").read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\{\{(\w+) (\w+)\}\}", filled, text), encoding="utf-8")
    CONSOLE.print(f"wrote {PAGE}")


def result_text(path: Path, name: str) -> str:
    """Legend, failures and tables of a comparison."""
    if not path.exists():
        return f"*Not run here (`docs/federated/{name}.toml`).*"
    results = json.loads(path.read_text())
    first = {failure["arm"]: failure["sentence"] for failure in reversed(results["failures"])}  # seeds fail alike
    failures = [f"- *{method}* cannot run: {sentence}" for method, sentence in first.items()]
    tables = [table.markdown().strip() for table in result_tables(results) if table.is_main]
    return "\n\n".join([legend(results), *failures, *tables]).strip()


def tuning_text(out: Path, name: str) -> str:
    """Scores of all step sizes on validation rows."""
    steps = (MODEL_STEP, SEARCHES[name].own_step)
    paths = [_search_folder(out, name, step) / "tuning.json" for step in steps]
    tables = [tuning_table(json.loads(path.read_text())).markdown().strip() for path in paths if path.exists()]
    return "\n\n".join(tables) or "*Not run here.*"


if __name__ == "__main__":
    main()
