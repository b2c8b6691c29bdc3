"""The regimes of `regimes.toml`, and the arms that compete in each of them.

An arm belongs to one of three kinds by what its clients exchange. Diffusion of heads along maps that are the identity
is head averaging, so where all clients number their classes alike it is not run a second time.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison

HERE = Path(__file__).parent
ALONE, AVERAGING, SHEAF = "alone", "averaging", "sheaf"
#: The cheapest first, by what is sent: nothing, one exchange per round, two or as much with maps to agree upon.
KINDS = (ALONE, AVERAGING, SHEAF)
#: The two rules.
PILOTS, RACE = "pilots", "race"
#: Step sizes: the best of encoders .001, .003, .01 and heads .1, .3 on validation samples of `tracking`, seed 100.
_SLOW = {"training.encoder_step_size": 0.01, "training.head_step_size": 0.1}
_FAST = {"training.encoder_step_size": 0.01, "training.head_step_size": 0.3}
#: What pilots and races change of a regime: few rounds, scored on validation samples.
EARLY: Mapping[str, Any] = {"rounds": 10, "evaluate_every": 10, "data.scored": "validation"}
LOCAL, ENCODERS, HEADS = "local", "encoders only", "head averaging"
TOLD_START, TOLD_PULL, TOLD_DIFFUSION = "encoders only, aligned start", "Sheaf-DMFL-Att, aligned", "diffusion, aligned"
_ALIGNED = {"sheaf.map_start": "aligned"}
#: Arm -> its kind and its edits.
ARMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    LOCAL: (ALONE, {"algorithm": "local", **_SLOW}),
    ENCODERS: (AVERAGING, {"algorithm": "sheaf_dmfl_att", "sheaf.coupling": 0.0, **_SLOW}),
    HEADS: (AVERAGING, {"algorithm": "head_averaging", **_FAST}),
    "Sheaf-DMFL-Att": (SHEAF, {"algorithm": "sheaf_dmfl_att", **_FAST}),
    # knows the orders, and couples nothing: what is due to its start is no gain of maps
    TOLD_START: (AVERAGING, {"algorithm": "sheaf_dmfl_att", "sheaf.coupling": 0.0, **_ALIGNED, **_SLOW}),
    TOLD_PULL: (SHEAF, {"algorithm": "sheaf_dmfl_att", **_ALIGNED, **_FAST}),
    TOLD_DIFFUSION: (SHEAF, {"algorithm": "sheaf_diffusion", **_ALIGNED, **_FAST}),
}
_TOLD = (TOLD_START, TOLD_PULL, TOLD_DIFFUSION)


@dataclass(frozen=True, slots=True)
class Regime:
    """One of the places where arms compete.

    Attributes:
        name: of the regime.
        scenario: that it builds on.
        edits: of that scenario.
        known_to: rules whose author had seen its outcome before they were frozen.
        measured: whether seeds split the same samples anew.
        n_seeds: number of seeds that are scored, from 0 on; 0: it is not run.
    """

    name: str
    scenario: str
    edits: Mapping[str, Any]
    known_to: tuple[str, ...]
    measured: bool
    n_seeds: int

    @property
    def arms(self) -> dict[str, Mapping[str, Any]]:
        """Arm -> its edits, of those that differ and can run here."""
        same_order = self.edits.get("data.beam_order", "same") == "same"
        sizes = any("n_beams" in group for group in self.edits.get("clients.groups", ()))
        left_out = set(_TOLD) if same_order and not sizes else set()
        if sizes:  # heads of several sizes cannot be averaged by number, nor compared by it
            left_out |= {HEADS, "Sheaf-DMFL-Att"}
        if self.scenario == "wisdm":  # its encoder is the identity, so that nothing is left to average
            left_out |= {ENCODERS}
        return {arm: edits for arm, (_, edits) in ARMS.items() if arm not in left_out}

    def comparison(self, seeds: Sequence[int], edits: Mapping[str, Any] | None = None) -> Comparison:
        """All arms on these seeds, with further edits of the scenario."""
        tree = {
            "scenario": self.scenario,
            "seeds": list(seeds),
            "set": {**self.edits, **(edits or {})},
            "methods": {arm: dict(edits) for arm, edits in self.arms.items()},
        }
        return validated_comparison({"name": self.name, **tree})


def regimes() -> dict[str, Regime]:
    """Name -> regime, in the order of the file."""
    tables = tomllib.loads((HERE / "regimes.toml").read_text(encoding="utf-8"))
    data = Path(os.environ.get("SHEAFEDGE_DATA", "."))
    roots = {"measured": data / "deepsense", "phones": data / "wisdm"}
    found = {}
    for name, table in tables["regimes"].items():
        edits = dict(tables["data"][table["data"]])
        scenario = edits.pop("scenario")
        edits |= {"evaluate_every": edits["rounds"], **table.get("set", {})}
        if table["data"] in roots:
            edits["data.root"] = str(roots[table["data"]])
        shared = table["data"] in ("measured", "phones", "digits")
        known_to, n_seeds = tuple(table.get("known_to", ())), table.get("n_seeds", 5)
        found[name] = Regime(name, scenario, edits, known_to, shared, n_seeds)
    return found
