"""The table of all rules about what does not go together, and the two moments at which it is consulted.

A combination is refused before anything is loaded or recorded. What the scenario alone decides is checked whenever a
scenario is made or edited (`complaints`); what depends on files, or on options of the command line, when a run starts
(`run_complaints`). What only the data can tell is left to the code that reads them, before the first round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...emulator.contracts import NodeId, ScenarioError, TopologyError
from .neighborhood import neighborhood_of
from .rules.data_rules import DATA_RULES
from .rules.head_rules import HEAD_RULES
from .rules.learning_rules import LEARNING_RULES
from .rules.network_rules import EDGE_RULES, NETWORK_RULES, is_drawn_early
from .rules.place_rules import FILE_RULES, OUTSIDE_RULES, WORKER_RULES, OutsideUse, WorkerUse
from .rules.row_rules import ROW_RULES
from .rules.rule import Rule
from .scenario_fields import ScenarioFields


class IncompatibleError(ScenarioError):
    """Every field of the scenario is possible in itself, but not together with the others."""


SCENARIO_RULES = (*DATA_RULES, *ROW_RULES, *LEARNING_RULES, *NETWORK_RULES)
NEIGHBOR_RULES = (*HEAD_RULES, *EDGE_RULES)
#: All of them; each module that they come from holds those of one subject.
RULES: tuple[Rule[Any], ...] = (*SCENARIO_RULES, *NEIGHBOR_RULES, *FILE_RULES, *WORKER_RULES, *OUTSIDE_RULES)


def complaints(scenario: ScenarioFields) -> tuple[str, ...]:
    """One sentence for everything that the scenario alone shows cannot work."""
    found = [*_broken(SCENARIO_RULES, scenario)]
    if is_drawn_early(scenario):
        found += _among_neighbors(scenario)
    return tuple(dict.fromkeys(found))


def run_complaints(
    scenario: ScenarioFields, n_workers: int | None = None, outside: Iterable[NodeId] = ()
) -> tuple[str, ...]:
    """One sentence for everything because of which a valid scenario cannot run here and in this way.

    Args:
        scenario: valid.
        n_workers: processes that share its clients; None: there are none.
        outside: clients that programs outside of this process play.
    """
    found = [*_broken(FILE_RULES, scenario)]
    if not is_drawn_early(scenario):
        try:
            neighborhood_of(scenario)
        except TopologyError as error:
            found.append(str(error))
        found += _among_neighbors(scenario)
    if n_workers is not None:
        found += _broken(WORKER_RULES, WorkerUse(scenario, n_workers))
    if clients := tuple(outside):
        found += _broken(OUTSIDE_RULES, OutsideUse(scenario, clients))
    return tuple(dict.fromkeys(found))


def _among_neighbors(scenario: ScenarioFields) -> list[str]:
    try:
        neighborhood = neighborhood_of(scenario)
    except TopologyError:  # which has been said
        return []
    return [*_broken(NEIGHBOR_RULES, neighborhood)]


def _broken(rules: Iterable[Rule[Any]], subject: object) -> Iterator[str]:
    for rule in rules:
        yield from rule.complaints(subject)
