"""Users between two cells under every rule of the ladder, from doing nothing to foresight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...emulator.decisions.handover import A3Event
from ...emulator.decisions.two_cells import stay
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import SensorTask
from .forecasts import forecasts
from .handed_users import Users
from .handover_ladder import COMPARED_WITH, EVENTS, ladder, reaction_fronts, tuned
from .planned_handovers import at_equal_throughput, planned_users
from .served_stations import PlayedUsers, ServedStation, halves_of


def play_handovers(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], seed: int
) -> PlayedUsers:
    """Service of every base station's user under all rules; the next other base station is the neighboring cell.

    The neighbor's frames are of another street, which serves as well as any: it has blockages of its own. They are
    played one for one beside the user's, from its first held-out frame on, again where they end.

    Tuned rules have the event, of `EVENTS`, with the least outage at the other half of the base stations.
    """
    users = Users(task, decision, stations, seed)
    halves = halves_of(stations)
    services = {"nothing": users.summed([[stay(one.user.cells)] for one in users.stretches])}
    rule = decision.handover
    services["reactive"] = users.played([A3Event(rule.offset_db, rule.offset_db, rule.time_to_trigger_s)], users.never)
    warned = users.prepared_on(users.warned())
    tried = {
        "reactive_tuned": users.played(EVENTS, users.never),
        "way_back_prepared": users.played(EVENTS, users.never, back=True),
        "prepare_on_snr_history": users.played(EVENTS, users.prepared_like(warned, halves), back=True),
        "always_prepared": users.played(EVENTS, [np.ones_like(one) for one in users.never], back=True),
        "prepare_on_warning": users.played(EVENTS, warned, back=True),
    }
    events = {rule: tuned(found, halves) for rule, found in tried.items()}
    services |= {
        rule: [[found[index][best]] for index, best in enumerate(events[rule])] for rule, found in tried.items()
    }
    services["oracle"] = users.summed([[users.foreseen(one.user.cells)] for one in users.stretches])
    of_rule = {rule: [of_station[0] for of_station in found] for rule, found in services.items()}
    reaction = [EVENTS[best] for best in events["reactive_tuned"]]
    known = forecasts(task, decision, stations, users.stretches, seed)
    planned = planned_users(users, decision, stations, known, reaction)
    floor = of_rule[COMPARED_WITH]
    of_rule |= {rule: one.chosen(one.tuned(reaction, floor, halves)) for rule, one in planned.items()}
    return PlayedUsers(
        [users.value(index, {rule: found[index] for rule, found in of_rule.items()}) for index in range(len(stations))],
        {
            "ladder": ladder(of_rule, {rule: [EVENTS[best] for best in chosen] for rule, chosen in events.items()}),
            "fronts": reaction_fronts(tried) | {rule: one.front() for rule, one in planned.items()},
            **at_equal_throughput(planned, of_rule, reaction, halves),
            "powers_hz": min(station.link.n_steps / station.link.frame_s for station in stations),
        },
    )
