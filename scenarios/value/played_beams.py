"""Users on one of many beams under every rule of the ladder, from doing nothing to foresight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...emulator.decisions.service import Service
from ..schema.decision_section import DecisionSection
from ..tasks.task_spec import SensorTask
from .beam_ladder import MODEL, SETTINGS, Tried, at_equal_beams, beam_fronts, beam_ladder, model_less_rivals, tuned
from .followed_users import FollowedUsers
from .served_stations import PlayedUsers, ServedStation, StationValue, halves_of


def play_beams(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation], _seed: int
) -> PlayedUsers:
    """Service of every base station's user under all rules.

    Tuned rules have the setting, of `beam_ladder.SETTINGS`, with the most throughput at the other half of the base
    stations; those on answers at the other half of their group.
    """
    fixed, tried = _played(task, decision, stations)
    groups, halves = [station.client.group for station in stations], halves_of(stations)
    chosen = {rule: tuned(found, halves, groups if rule == MODEL else None) for rule, found in tried.items()}
    services = {**fixed, **{rule: _pick(found, chosen[rule]) for rule, found in tried.items()}}
    shown = {"everybody": list(range(len(stations)))}
    shown |= {group: [place for place, one in enumerate(groups) if one == group] for group in dict.fromkeys(groups)}
    figures = {name: _figures(services, tried, chosen, members) for name, members in shown.items()}
    everybody = figures.pop("everybody")
    values = [
        StationValue(
            station,
            {rule: found[place] for rule, found in services.items()},
            deadline_met=station.slowest_answer_s <= station.link.frame_s,
        )
        for place, station in enumerate(stations)
    ]
    return PlayedUsers(values, {**everybody, "of_groups": figures})


def _played(
    task: SensorTask, decision: DecisionSection, stations: Sequence[ServedStation]
) -> tuple[dict[str, list[Service]], dict[str, list[Sequence[Service]]]]:
    """Rule -> [n_stations] service of those without settings, and [n_stations][n_settings] of the others."""
    alike: dict[tuple[float, int], list[int]] = {}
    for place, station in enumerate(stations):
        alike.setdefault((station.link.frame_s, station.logits.shape[1]), []).append(place)
    fixed: dict[str, dict[int, Service]] = {}
    tried: dict[str, dict[int, Sequence[Service]]] = {}
    for places in alike.values():
        users = FollowedUsers(task, decision, [stations[place] for place in places])
        for rule, found in users.fixed().items():
            fixed.setdefault(rule, {}).update(zip(places, found, strict=True))
        for rule, of_settings in users.tried().items():
            tried.setdefault(rule, {}).update(zip(places, of_settings, strict=True))
    order = range(len(stations))
    return (
        {rule: [found[place] for place in order] for rule, found in fixed.items()},
        {rule: [found[place] for place in order] for rule, found in tried.items()},
    )


def _pick(found: Sequence[Sequence[Service]], chosen: Sequence[int]) -> list[Service]:
    return [of_settings[best] for of_settings, best in zip(found, chosen, strict=True)]


def _figures(
    services: Mapping[str, Sequence[Service]], tried: Tried, chosen: Mapping[str, Sequence[int]], members: Sequence[int]
) -> dict[str, Any]:
    """Figures of the ladder over some base stations."""
    theirs = {rule: [found[place] for place in members] for rule, found in services.items()}
    settings = {rule: [SETTINGS[rule][best[place]] for place in members] for rule, best in chosen.items()}
    tried_there = {rule: [found[place] for place in members] for rule, found in tried.items()}
    return {
        "ladder": beam_ladder(theirs, settings),
        "model_less": model_less_rivals(theirs),
        "fronts": beam_fronts(tried_there),
        "equal_beams": at_equal_beams(tried_there),
    }
