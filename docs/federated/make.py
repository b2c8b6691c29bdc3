"""Makes `docs/federated.md`, `docs/two_digits.md` and `docs/cora.md`: tunes, compares, and fills their tables.

    make federated [ARGS="--jobs 2 --only wisdm"]

Every comparison is a TOML file in this folder. Step sizes are chosen per method on validation rows, from one list of
values for all methods of a comparison, and the page shows them all, so that a reader sees whether the choice lies
inside the list. Stored runs are not repeated, so an interrupted call can be continued. Data are read from the folders
`school`, `wisdm`, `mnist` and `cora` in $SHEAFEDGE_DATA; without them their sections are marked as not run.
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
#: Template in this folder -> page that it becomes.
PAGES = {
    "page.md": HERE.parent / "federated.md",
    "two_digits.md": HERE.parent / "two_digits.md",
    "cora.md": HERE.parent / "cora.md",
}
#: Fields of step sizes: of methods that step a model as one vector; of those that step the head by itself, which is the
#: whole of a linear model; of the latter on networks, whose encoders take the same steps.
MODEL_STEP, HEAD_STEP = "training.model_step_size", "training.head_step_size"
NETWORK_STEP = f"{HEAD_STEP}+training.encoder_step_size"


#: Of `tdpfed`: of the personal model, whose momentum makes of a step ten, and of the factors.
PERSONAL_STEP, FACTOR_STEP = "personalization.personal_step_size", "factors.step_size"

#: Dotted field -> values.
Grid = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Search:
    """How a comparison is tuned.

    Attributes:
        step_sizes: tried with every method.
        data: folder in $SHEAFEDGE_DATA; None: the data come with a package.
        own_step: field of the step size of methods that do not step a model as one vector.
        edits: of the runs of the search alone.
        of_factors: grid of methods that exchange factors, which have two step sizes.
    """

    step_sizes: Sequence[float]
    data: str | None = None
    own_step: str = HEAD_STEP
    edits: Mapping[str, Any] = field(default_factory=dict)
    of_factors: Grid = field(default_factory=dict)

    @property
    def grids(self) -> list[Grid]:
        """Grids that methods may have."""
        of_steps: list[Grid] = [{step: self.step_sizes} for step in dict.fromkeys((MODEL_STEP, self.own_step))]
        return [*of_steps, self.of_factors] if self.of_factors else of_steps

    def grid(self, edits: Mapping[str, Any]) -> Grid:
        """Grid of a method."""
        row = ALGORITHMS[edits["algorithm"]]
        if row.factored:
            return self.of_factors
        return {MODEL_STEP if row.couples_models else self.own_step: self.step_sizes}


#: Comparison, in the order of the page.
SEARCHES: Mapping[str, Search] = {
    "school": Search((0.003, 0.01, 0.03, 0.1, 0.3), "school"),
    "wisdm": Search((0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0), "wisdm"),
    "digits": Search((0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)),
    "rotated_mnist": Search((0.01, 0.03, 0.1, 0.3), "mnist", NETWORK_STEP, {"rounds": 15}),
    "rotated_mnist_sizes": Search((0.01, 0.03, 0.1, 0.3), "mnist", NETWORK_STEP, {"rounds": 15}),
    "two_digits": Search(
        (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
        "mnist",
        NETWORK_STEP,
        {"rounds": 6, "evaluate_every": 6},
        {PERSONAL_STEP: (0.003, 0.01, 0.03), FACTOR_STEP: (0.001, 0.003)},
    ),
    # one Adam steps all of a model; plain SGD takes longer steps
    "cora": Search((0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03), "cora", MODEL_STEP),
    "cora_hyper": Search((0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03), "cora", MODEL_STEP),
    # the steps around those that were chosen at ten parts
    "cora_20": Search((0.0001, 0.0003, 0.001, 0.003), "cora", MODEL_STEP),
    "cora_overlap_30": Search((0.0001, 0.0003, 0.001, 0.003), "cora", MODEL_STEP),
    "cora_sgd": Search((0.03, 0.1, 0.3, 1.0), "cora", MODEL_STEP),
}
TUNING_SEED = 0
#: What a template leaves to be filled: a table of results or of a search, and the comparison.
FIELD = re.compile(r"\{\{(\w+) (\w+)\}\}")
CONSOLE = Console(emoji=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the pages."""
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
    write_pages(options.out, options.only)


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
    for grid in search.grids:
        stepped = {method: edits for method, edits in comparison.methods.items() if search.grid(edits) == grid}
        if not stepped:
            continue
        edits = {**comparison.edits, **search.edits}
        tuned = comparison.edited({"set": edits, "methods": stepped, "seeds": [TUNING_SEED], "reference": ""})
        folder = _search_folder(options.out, name, grid)
        with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
            found = tune(tuned, grid, tuned.seeds, folder, options.jobs, lines, keep_stale=options.keep_stale)
        methods |= {method: {**edits, **found["arms"][method]["chosen"]} for method, edits in stepped.items()}
    ordered = {method: methods[method] for method in comparison.methods}
    with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
        tuned = comparison.edited({"methods": ordered})
        run_comparison(tuned, options.out / name, options.jobs, lines, keep_stale=options.keep_stale)


def _search_folder(out: Path, name: str, grid: Grid) -> Path:
    first, *_ = grid
    return out / f"tune-{name}-{first.rpartition('.')[2]}"


def write_pages(out: Path, names: Sequence[str]) -> None:
    """Fill the templates of the pages on which these comparisons are; other pages stay as they are."""

    def filled(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        return tuning_text(out, name) if kind == "tuning" else result_text(out / name / "results.json", name)

    for template, page in PAGES.items():
        text = (HERE / template).read_text(encoding="utf-8")
        if not {name for _, name in FIELD.findall(text)}.isdisjoint(names):
            page.write_text(FIELD.sub(filled, text), encoding="utf-8")
            CONSOLE.print(f"wrote {page}")


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
    paths = [_search_folder(out, name, grid) / "tuning.json" for grid in SEARCHES[name].grids]
    tables = [tuning_table(json.loads(path.read_text())).markdown().strip() for path in paths if path.exists()]
    return "\n\n".join(tables) or "*Not run here.*"


if __name__ == "__main__":
    main()
