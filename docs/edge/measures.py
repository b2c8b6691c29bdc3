"""What is measured for `docs/edge_results.md`: fewer bits, a sensor lost, a base station that joins late.

Every figure is a row per client, of a finished run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.scenarios.export.bundle_evidence import HELD_OUT, WITHOUT, answers, evidence
from sheafedge.scenarios.export.export_source import ExportRequest, ExportSource, export_sources, in_precision
from sheafedge.scenarios.export.finished_run import FinishedRun
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.members import members_of

Figures = dict[str, Any]


def fewer_bits(run: FinishedRun, variants: Mapping[str, ExportRequest]) -> list[Figures]:
    """Every client in every one of the variants: scores and agreement per condition."""
    rows: list[Figures] = []
    for source in _sources(run):
        whole = len(source.model.SerializeToString())
        for variant, request in variants.items():
            model = in_precision(source, request).SerializeToString()
            found = source.answers(OnnxSession(model))
            shown = evidence(source.member.task, source.data.test, source.output, found, source.trained)
            rows += [
                {
                    "variant": variant,
                    "client": source.member.client_id,
                    "condition": condition,
                    "size": len(model) / whole,
                    "float32": shown.trained[condition][shown.score],
                    "score": shown.scores[condition][shown.score],
                    "agreement": shown.agreement[condition],
                }
                for condition in shown.scores
            ]
    return rows


def lost_sensors(joint: FinishedRun, hidden: FinishedRun, single: Sequence[FinishedRun]) -> list[Figures]:
    """A fused model with one sensor masked, the same trained with hidden sensors, and one trained with the other alone.

    All are scored on the same held-out rows.
    """
    alone = _alone(single)
    robust = {source.member.client_id: _scores(source, source.trained) for source in _sources(hidden)}
    found = []
    for source in _sources(joint):
        owned = source.member.modalities
        if len(owned) == 1:
            continue
        scores = _scores(source, source.trained)
        for lost in owned:
            (kept,) = (modality for modality in owned if modality != lost)
            found.append(
                {
                    "client": source.member.client_id,
                    "lost": lost,
                    "kept": kept,
                    "both": scores[HELD_OUT],
                    "masked": scores[f"{WITHOUT}{lost}"],
                    "hidden_both": robust[source.member.client_id][HELD_OUT],
                    "hidden_masked": robust[source.member.client_id][f"{WITHOUT}{lost}"],
                    "alone": alone[source.member.client_id, kept],
                    "persistence": _persistence(source),
                }
            )
    return found


def late_joiners(joint: FinishedRun, absent: FinishedRun, single: Sequence[FinishedRun]) -> list[Figures]:
    """Neighbours' models at a base station that was not there, against the one that it would have trained."""
    newcomers = newcomers_of(joint.scenario)
    alone, own = _alone(single), {source.member.client_id: source for source in _sources(joint)}
    trained = [source for source in _sources(absent) if source.member.client_id not in newcomers]
    found = []
    for newcomer in newcomers:
        me = own[newcomer]
        mine = _scores(me, me.trained)
        taken = [
            _scores(me, answers(_session(other), me.data.test, me.inputs, joint.scenario.seed, newcomer))
            for other in trained
            if other.member.group == me.member.group
        ]
        for condition in [name for name in mine if name == HELD_OUT or name.startswith(WITHOUT)]:
            lost = condition.removeprefix(WITHOUT)
            (kept,) = [one for one in me.member.modalities if one != lost] if condition != HELD_OUT else [""]
            found.append(
                {
                    "client": newcomer,
                    "group": me.member.group,
                    "lost": "" if condition == HELD_OUT else lost,
                    "neighbours": [scores[condition] for scores in taken],
                    "own": mine[HELD_OUT] if condition == HELD_OUT else alone[newcomer, kept],
                    "persistence": _persistence(me),
                }
            )
    return found


def _sources(run: FinishedRun) -> Iterator[ExportSource]:
    return export_sources(run, [row.client for row in run.summary.exports])


def _session(source: ExportSource) -> OnnxSession:
    return OnnxSession(source.model.SerializeToString())


def _scores(source: ExportSource, found: Mapping[str, Any]) -> dict[str, float]:
    """Condition -> first score on the rows of this client."""
    task = source.member.task
    return {name: task.scores(logits, source.data.test)[task.columns[0].key] for name, logits in found.items()}


def _persistence(source: ExportSource) -> float:
    task = source.member.task
    return task.baselines(source.data.train, source.data.test)["persistence"][task.columns[0].key]


def _alone(single: Sequence[FinishedRun]) -> dict[tuple[int, str], float]:
    """(client, its only modality) -> score of the model that was trained with it."""
    return {
        (source.member.client_id, source.member.modalities[0]): _scores(source, source.trained)[HELD_OUT]
        for run in single
        for source in _sources(run)
    }


def with_one_sensor(scenario: Scenario, index: int) -> Scenario:
    """Every group keeps one of its sensors; groups, rows and seeds stay."""
    groups = scenario.tables()["clients"]["groups"]
    for group in groups:
        owned = [modality for modality in ("lidar", "camera", "rf", "gps") if modality in group["modalities"]]
        group["modalities"] = [owned[min(index, len(owned) - 1)]]
    return scenario.edited({"clients.groups": groups})


def newcomers_of(scenario: Scenario) -> list[int]:
    """The last member of every group."""
    return sorted({member.group: member.client_id for member in members_of(scenario)}.values())


def without_newcomers(scenario: Scenario) -> Scenario:
    """They are off from the first instant to the last: others train as if they were not there."""
    return scenario.edited({"faults": [{"kind": "node_off", "nodes": newcomers_of(scenario)}]})
