"""Report of a replay: numbers for programs, lines for people; the same while it runs and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.decisions.warning_events import WarningEvents, together
from ...emulator.edge.manifest import Manifest
from ..tasks.task_spec import Scores, Task, mean_scores
from .session import Session
from .stream_book import FrameOutcome, StreamBook

_REQUESTS = (
    FrameOutcome.ANSWERED,
    FrameOutcome.DROPPED,
    FrameOutcome.REFUSED,
    FrameOutcome.UNANSWERED,
    FrameOutcome.AWAITED,
)


def report(session: Session, manifest: Manifest, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Full report of a replay in types of JSON; figures that are not known are left out.

    Scores are the mean over base stations, as in a run's summary; `docs/replay.md` names every field.
    """
    books = session.books
    found = glance(session, manifest)
    if answered := [book for book in books if len(book.answered)]:
        found["persistence"] = mean_scores([_persistence(book) for book in answered])
    found["streams"] = {
        book.stream.name: {"station": book.stream.station, "questions": questions([book]), **_judgement([book])}
        for book in books
    }
    return {**found, "notes": list(notes)}


def glance(session: Session, manifest: Manifest) -> dict[str, Any]:
    """Report so far, without figures that take long to compute, which would delay frames and answers."""
    books, pace = session.books, session.pace
    # of all answers together: a mean of percentiles over base stations would be no percentile
    latency_s = np.concatenate([book.latency_s[book.answered] for book in books])
    spent_s = np.concatenate([book.spent_s[book.answered] for book in books])
    found: dict[str, Any] = {
        "server": session.address,
        "bundle": manifest.name,
        "precision": manifest.precision,
        "task": manifest.task,
        "speed": "max" if pace.speed is None else pace.speed,
        "recording_s": round(session.since_s, 6),
        "wall_s": round(session.wall_s, 3),
        "late_ms": {"mean": 1e3 * session.lag.mean_s, "max": 1e3 * session.lag.largest_s},
        "frames": {"sent": session.n_frames, "lost": session.faults.n_lost, "broken": session.faults.n_broken},
        "questions": questions(books),
        "refusals": {"by_code": dict(session.refusals), "first": session.first_refusal},
        "latency_ms": _spread_ms(latency_s),
        "server_ms": _spread_ms(spent_s),
        # counters add up key by key
        "missing": dict(sum((book.n_missing for book in books), Counter())),
        "held": sum(book.n_held for book in books),
        "drift": {
            "known": manifest.drift is not None,
            "outside": dict(sum((book.n_outside for book in books), Counter())),
            "drifted": dict(sum((book.n_drifted for book in books), Counter())),
        },
        "answers_by_digest": dict(session.digests),
        **_judgement(books),
    }
    return found


def questions(books: Sequence[StreamBook]) -> dict[str, int]:
    """Outcomes of the requests for an answer: every one has exactly one."""
    counted = {outcome.name.lower(): sum(book.count(outcome) for book in books) for outcome in _REQUESTS}
    withheld = sum(book.count(FrameOutcome.WITHHELD) for book in books)
    unasked = sum(book.n_unasked for book in books)
    return {"asked": sum(counted.values()), **counted, "withheld": withheld, "unasked_replies": unasked}


def _judgement(books: Sequence[StreamBook]) -> dict[str, Any]:
    answered = [book for book in books if len(book.answered)]
    found: dict[str, Any] = {}
    if answered:
        found["scores"] = mean_scores(
            [book.stream.task.scores(book.logits, book.answered_samples) for book in answered]
        )
    if watched := [one for book in books if (one := book.warning_events()) is not None]:
        found["foresight"] = _events(together(watched))
    return found


def _persistence(book: StreamBook) -> Scores:
    """Scores of repeating the last beam or state on the same instants."""
    samples = book.answered_samples
    return book.stream.task.baselines(samples, samples)["persistence"]


def _events(seen: WarningEvents) -> dict[str, Any]:
    usable_s = seen.usable_s
    return {
        "onsets": len(seen.onsets),
        # the key keeps its former name, because programs read it
        "foretold": seen.n("in_time"),
        "late": seen.n("late"),
        "standing": seen.n_beyond_horizon,
        "missed": seen.n("missed"),
        "unanswered": seen.n("unanswered"),
        "lead_ms": _middle_ms(seen.leads_s),
        "usable_ms": _middle_ms(usable_s[np.isfinite(usable_s)]),
        "alarms": seen.n_alarms,
        "false_alarms": seen.n_false_alarms,
        "false_alarms_per_min": seen.false_alarms_per_min,
        "clear_s": seen.clear_s,
    }


def _middle_ms(values_s: NDArray[np.float64]) -> dict[str, float]:
    if not len(values_s):
        return {}
    low, middle, high = (1e3 * float(value) for value in np.percentile(values_s, (0, 50, 100)))
    return {"min": low, "median": middle, "max": high}


def _spread_ms(values_s: NDArray[np.float64]) -> dict[str, float]:
    # some servers say nothing about the time that an answer took
    known = values_s[np.isfinite(values_s)]
    if not len(known):
        return {}
    p50, p99, most = (1e3 * float(value) for value in np.percentile(known, (50, 99, 100)))
    return {"p50": p50, "p99": p99, "max": most}


def report_lines(found: Mapping[str, Any], task: Task) -> dict[str, str]:
    """Heading -> one line of a report."""
    lines = {
        "frames": _frames_line(found),
        "answers": _answers_line(found["questions"]),
        "latency": _latency_line(found),
    }
    if found["missing"] or found["held"]:
        without = ", ".join(f"{n:,} without {modality}" for modality, n in found["missing"].items())
        held = f"{found['held']:,} with frames held over a gap" if found["held"] else ""
        lines["of these"] = "; ".join(part for part in (without, held) if part)
    if drift := _drift_line(found["drift"], found["questions"]["answered"]):
        lines["drift"] = drift
    if found["refusals"]["first"]:
        lines["refused"] = found["refusals"]["first"]
    if "scores" in found:
        lines["scores"] = _scores_line(found["scores"], task)
    if "persistence" in found:
        lines["baseline"] = f"{_scores_line(found['persistence'], task)} (persistence)"
    if events := found.get("foresight"):
        lines["onsets"] = _onsets_line(events)
        lines["alarms"] = (
            f"{events['alarms']}, of which {events['false_alarms']} false:"
            f" {events['false_alarms_per_min']:.2f} per minute of clear line of sight"
        )
    return lines


def _frames_line(found: Mapping[str, Any]) -> str:
    frames, late_ms = found["frames"], found["late_ms"]
    line = f"{frames['sent']:,} sent"
    if late_ms["max"]:
        line += f", {late_ms['mean']:.1f} ms late on average, {late_ms['max']:.0f} ms at most"
    if frames["lost"]:
        line += f"; {frames['lost']:,} lost at random"
    if frames["broken"]:
        line += f"; {frames['broken']:,} missing because of sensor failures"
    return line


def _answers_line(asked: Mapping[str, int]) -> str:
    return f"{asked['answered']:,} of {asked['asked']:,} requests; " + ", ".join(
        f"{asked[outcome]:,} {outcome}"
        for outcome in ("awaited", "dropped", "refused", "unanswered", "withheld")
        if asked[outcome] or outcome in {"dropped", "refused"}
    )


def _drift_line(drift: Mapping[str, Any], n_answers: int) -> str:
    if not drift["known"]:
        return "unknown: the bundle does not say what training looked like"
    if not drift["outside"] and not drift["drifted"]:
        return "none" if n_answers else ""
    frames = ", ".join(f"{n:,} of {name}" for name, n in drift["outside"].items())
    streams = ", ".join(f"{name} for {n:,} answers" for name, n in drift["drifted"].items())
    return "; ".join(
        part for part in (frames and f"frames outside of training: {frames}", streams and f"drifted: {streams}") if part
    )


def _latency_line(found: Mapping[str, Any]) -> str:
    latency, spent = found["latency_ms"], found["server_ms"]
    if not latency:
        return "unknown"
    line = f"p50 {latency['p50']:.1f} ms, p99 {latency['p99']:.1f} ms"
    return line + (f"; in the server {spent['p50']:.1f} and {spent['p99']:.1f} ms" if spent else "")


def _scores_line(scores: Scores, task: Task) -> str:
    known = [column for column in task.columns if column.key in scores]
    return ", ".join(f"{column.title} {column.form.format(scores[column.key])}" for column in known)


def _onsets_line(events: Mapping[str, Any]) -> str:
    line = f"{events['onsets']}: {events['foretold']} predicted in time, {events['missed']} missed"
    for outcome, said in (("late", "predicted too late"), ("unanswered", "without an answer before")):
        line += f", {events[outcome]} {said}" if events[outcome] else ""
    if lead := events["lead_ms"]:
        beyond = f", {events['standing']} beyond the horizon" if events["standing"] else ""
        line += f"; median lead {lead['median']:.0f} ms ({lead['min']:.0f} to {lead['max']:.0f}{beyond})"
    if usable := events["usable_ms"]:
        line += f", {usable['median']:.0f} ms after the answer latency"
    return line
