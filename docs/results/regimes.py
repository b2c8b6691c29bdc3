"""The regimes of the page: comparison files of this folder, and the searches for the step sizes of their arms."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare.comparison import Comparison, loaded_tables, validated_comparison
from steps import ENCODER, HEAD, Search, StepTable  # a script beside its modules

HERE = Path(__file__).parent
_NETWORKS = {ENCODER: (0.001, 0.003, 0.01), HEAD: (0.03, 0.1, 0.3)}
#: Small steps of heads beside large ones of encoders are a second optimum of arms with a common initial head.
_MEASURED = {ENCODER: (0.003, 0.01, 0.03), HEAD: (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}
#: Few samples per client.
_FEW = {ENCODER: (0.003, 0.01), HEAD: (0.01, 0.03, 0.1, 0.3)}
#: Encoders without Adam: about the step sizes that were chosen for plain images.
_PLAIN = {ENCODER: (0.03, 0.1, 0.3), HEAD: (0.03, 0.1, 0.3)}
_HALF = {"rounds": 30, "evaluate_every": 30}
#: Runs of these take many times as long: more rounds, and dense maps.
_LONGER = {"centralized, three times the rounds": "centralized"}
_RANDOM = {
    "random maps, gamma .1": "gamma .1",
    "as in the paper, random maps": "as in the paper, gamma .1",
}
#: Heads compared among the same sensors alone, with the step sizes of the same among all.
_SAME_SENSORS = {"learned orders, same sensors (ours)": "learned orders (ours)"}
#: A part of the method is taken away, all else is as it is.
_WITHOUT_LISTENING = {"learned orders, nobody listens": "learned orders (ours)"}
_OPTIONS = {"same sensors": "Sheaf-DMFL-Att", "sheaf diffusion, same sensors": "sheaf diffusion (ours)"}
SEARCHES: Mapping[str, Search] = {
    "measured": Search("tracking", _MEASURED, (100, 101, 102), _HALF, until=24, alike=_RANDOM | _OPTIONS),
    "mirrored": Search("tracking_mirrored", _MEASURED, (100, 101, 102), _HALF, until=24, alike=_SAME_SENSORS),
    "permuted": Search(
        "tracking_permuted", _MEASURED, (100, 101, 102), _HALF, until=24, alike=_SAME_SENSORS | _WITHOUT_LISTENING
    ),
    # with few clients all arms that share are close to what this task allows, so that any step sizes would be chosen
    "digits": Search("digits_clients", _FEW, (100, 101, 102), {"clients.n_clients": 100}, until=48),
    "street": Search("blockage", _NETWORKS, edits={"rounds": 10, "evaluate_every": 10}, until=8, alike=_LONGER),
    "sky": Search("drones", _NETWORKS, until=16, alike=_LONGER),
    "views": Search("drones_views_tuned", _NETWORKS),
    # a second seed, as runs with plain steps diverge in some worlds and not in others
    "views_sgd": Search("drones_views_sgd", _PLAIN, (100, 101)),
    "orders": Search("drones_permuted", _NETWORKS, (100, 101, 102), until=16, alike=_WITHOUT_LISTENING),
    # as many samples are trained on as in the regime, where nothing is kept aside for validation: orders need them
    "vendors": Search(
        "drones_sizes_scarce",
        _FEW,
        seeds=(101, 102, 103, 104),
        finalists=6,  # a seed of so few validation samples puts the same combination up to .03 higher or lower
        edits={"data.train_fraction": 0.135},
        until=16,
        alike={
            "learned orders, trust per edge (ours)": "learned orders (ours)",
            "encoders only, learned orders, same sensors": "encoders only, learned orders",
            **_SAME_SENSORS,
        },
    ),
}
#: Regime, in the order of the page -> the search for its step sizes.
REGIMES: Mapping[str, str] = {
    "tracking": "measured",
    "tracking_scarce": "measured",
    "tracking_mirrored": "mirrored",
    "tracking_permuted": "permuted",
    "tracking_options": "measured",
    "tracking_rounds": "measured",
    "tracking_loss": "measured",
    "tracking_graphs": "measured",
    "tracking_clients": "measured",
    "tracking_samples": "measured",
    "digits_clients": "digits",
    "blockage": "street",
    "blockage_long": "street",
    "blockage_rounds": "street",
    "blockage_pooled": "street",
    "drones": "sky",
    "drones_occluded": "sky",
    "drones_views": "sky",
    "drones_long": "sky",
    "drones_long_sgd": "sky",
    "drones_occluded_long": "sky",
    "drones_views_long": "sky",
    "drones_views_tuned": "views",
    "drones_views_sgd": "views_sgd",
    "drones_views_80": "sky",
    "drones_rounds": "sky",
    "drones_occluded_rounds": "sky",
    "drones_views_rounds": "sky",
    "drones_pooled": "sky",
    "drones_occluded_pooled": "sky",
    "drones_views_pooled": "sky",
    "drones_permuted": "orders",
    "drones_permuted_fresh": "orders",
    "drones_permuted_long": "orders",
    "drones_sizes": "orders",
    "drones_sizes_long": "orders",
    "drones_sizes_recut": "orders",
    "drones_sizes_scarce": "vendors",
    "drones_sizes_fresh": "vendors",
    "drones_sizes_trust": "vendors",
    "drones_sizes_same": "vendors",
}

#: Regimes of measured samples.
MEASURED = tuple(name for name in REGIMES if name.startswith("tracking"))


def comparison_of(name: str) -> Comparison:
    """A file of this folder as a value."""
    return validated_comparison(loaded_tables(str(HERE / f"{name}.toml")))


def with_data(comparison: Comparison, sites: Sequence[int] = ()) -> Comparison | None:
    """The comparison with its data; None where they are not here.

    Args:
        comparison: of a regime.
        sites: scenarios of measured samples; none: those of the scenario file.
    """
    if comparison.edits.get("data.source") != "deepsense":
        return comparison
    data = os.environ.get("SHEAFEDGE_DATA")
    if data is None:
        return None
    chosen = {"data.scenarios": list(sites)} if sites else {}
    return comparison.edited({"set": {**comparison.edits, **chosen, "data.root": str(Path(data) / "deepsense")}})


def arms_of_search(search: str) -> Comparison:
    """The regime of a search with all arms of all regimes that it is for; those of one name are the same everywhere.

    An arm is searched with the settings of the first regime that has it: some need orders of their own, or sizes.
    """
    base, of_search = comparison_of(SEARCHES[search].regime), SEARCHES[search].edits or {}
    named: dict[str, Mapping[str, object]] = {}
    methods: dict[str, Mapping[str, object]] = {}
    for name in (name for name, own in REGIMES.items() if own == search):
        regime = comparison_of(name)
        there = {key: value for key, value in regime.edits.items() if base.edits.get(key) != value}
        for arm, edits in regime.methods.items():
            if named.setdefault(arm, edits) != edits:
                raise SystemExit(f"arm {arm!r} of {name} has other edits elsewhere; give it another name")
            methods.setdefault(arm, {**{key: value for key, value in there.items() if key not in of_search}, **edits})
    return base.edited({"methods": methods, "reference": ""})


def steps_of(search: str, steps: StepTable) -> dict[str, dict[str, float]]:
    """Arm -> its step sizes."""
    chosen = steps.chosen(search)
    return chosen | {arm: chosen[other] for arm, other in SEARCHES[search].alike.items() if other in chosen}


def with_steps(comparison: Comparison, chosen: Mapping[str, Mapping[str, float]]) -> Comparison:
    """The comparison with the step sizes that were found for its arms.

    Raises:
        ConfigError: none were found for one of them.
    """
    if lacking := comparison.methods.keys() - chosen.keys():
        raise ConfigError(f"{comparison.name}: no step sizes of {', '.join(sorted(lacking))}, as all its runs failed")
    return comparison.edited({"methods": {arm: {**edits, **chosen[arm]} for arm, edits in comparison.methods.items()}})
