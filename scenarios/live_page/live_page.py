"""`LivePage`: a page on loopback that shows a run while it goes on, and the callbacks that tell it what happens.

What it tells the process of the page, as lines of JSON: first the facts of the run, then tables whose `what` is
"counting" (phase, done, total), "noted" (sentence), "started" (nodes and edges), "round" (rows of `metrics.jsonl`,
scores of groups, traffic, now and then counters of edges) and "ended" (state, sentence).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ...emulator.regular_file import is_regular, read_regular
from ...version import __version__
from ..running.metric_rows import METRICS, has_columns
from ..running.progress import RunProgress
from ..schema.fault_section import SERVER
from ..schema.scenario import Scenario
from ..tasks.task_spec import Task
from .page_feed import PageFeed

if TYPE_CHECKING:
    from ..wiring.emulation import Emulation

#: Least time between two readings of the counters of all edges in s: short rounds do not pay for each.
EDGES_EVERY_S = 0.2
#: Curves of a run that is resumed begin at its checkpoint where its earlier rounds take more than this.
MOST_EARLIER_BYTES = 32 << 20


class LivePage:
    """The page of one run, from before it is built until it has ended; a context manager.

    The page is drawn and served by another process, which is only told what happens: a page that fails, hangs or is
    visited by many costs the run a note.

    Args:
        listening: socket of the page, from `open_port`; it belongs to the page from now on.
        scenario: scenario of the run.
        target: run folder.
        report: path of the report that follows the run; None: none does.
        resumed: folder of the run that goes on, whose rounds are shown too; None: it begins.

    Attributes:
        address: where the page is.
    """

    def __init__(
        self,
        listening: socket.socket,
        scenario: Scenario,
        target: Path,
        report: Path | None = None,
        resumed: Path | None = None,
    ) -> None:
        host, port = listening.getsockname()
        self.address = f"http://{host}:{port}/"
        self._scenario, self._target = scenario, target.absolute()
        self._report = None if report is None else report.absolute()
        self._rounds_done = 0
        self._feed = PageFeed(listening, page_facts(scenario, self._target, self._report, resumed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        state, sentence = self._end(error)
        self._feed.tell({"what": "ended", "state": state, "sentence": sentence})
        self._feed.close()

    def following(self, shown: RunProgress) -> RunProgress:
        """Callbacks of the run: each is passed on to `shown`, and told to the page."""
        return _FollowedRun(self, shown)

    def tell(self, what: str, **values: Any) -> None:
        """Tell the page something; see the top of this module."""
        self._feed.tell({"what": what, **values})

    def counted(self, rounds_done: int) -> None:
        """So many rounds are complete."""
        self._rounds_done = rounds_done

    @property
    def announcement(self) -> str:
        """Line for the user."""
        return f"live page at {self.address} until the run ends"

    @property
    def task(self) -> Task:
        """Task of the run."""
        return self._scenario.task_spec

    @property
    def n_rounds(self) -> int:
        """Rounds of the whole run."""
        return self._scenario.rounds

    @property
    def failure(self) -> str:
        """Why the page shows nothing more; empty while it does."""
        return self._feed.failure

    def _end(self, error: BaseException | None) -> tuple[str, str]:
        if error is None:
            where = f"its results are in {self._target}"
            if self._report is not None and is_regular(self._report):
                where = f"its report is {self._report}"
            return "complete", f"The run has ended: {self._rounds_done} rounds are complete; {where}"
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        if isinstance(error, KeyboardInterrupt):
            return "interrupted", f"The run was interrupted after {self._rounds_done} rounds{notes}"
        reason = " ".join(str(error).split()) or type(error).__name__
        return "failed", f"The run failed after {self._rounds_done} rounds: {reason}{notes}"


def page_facts(scenario: Scenario, target: Path, report: Path | None, resumed: Path | None) -> dict[str, Any]:
    """First thing that the process of a page is told; for the arguments see `LivePage`."""
    task = scenario.task_spec
    changed = scenario.model_dump(mode="json", exclude_defaults=True)
    return {
        "scenario": scenario.name,
        "task": task.title,
        "algorithm": scenario.algorithm,
        "seed": scenario.seed,
        "rounds": scenario.rounds,
        "scored": scenario.data.scored,
        "columns": [asdict(column) for column in task.columns],
        "changed": changed,
        "folder": str(target),
        "report": "" if report is None else str(report),
        "sheafedge": __version__,
        "shown": {
            "scenario": f"{scenario.name} – {scenario.summary}" if scenario.summary else scenario.name,
            "task": task.title,
            "algorithm": scenario.algorithm,
            "seed": str(scenario.seed),
            "network": scenario.network.mode,
            "run folder": str(target),
            "software": f"sheafedge {__version__}",
        },
        "earlier": [] if resumed is None else _rows_before(resumed),
    }


class _FollowedRun:
    """Callbacks of a run, see `RunProgress`: passed on, and told to a page, whose failure is a note."""

    def __init__(self, page: LivePage, shown: RunProgress) -> None:
        self._page, self._shown = page, shown
        self._emulation: Emulation | None = None
        self._read_s = 0.0
        self._failed = False

    def recording(self, done: int, total: int) -> None:
        self._shown.recording(done, total)
        self._tell(lambda: self._page.tell("counting", phase="recording", done=done, total=total))

    def noted(self, sentence: str) -> None:
        self._shown.noted(sentence)
        self._tell(lambda: self._page.tell("noted", sentence=sentence))

    def started(self, emulation: Emulation) -> None:
        self._shown.started(emulation)
        self._emulation = emulation
        self._tell(partial(self._begin, emulation))

    def round_recorded(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._shown.round_recorded(rows)
        self._tell(partial(self._round, rows))

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        self._shown.round_ended(round_index, now_s, score)

    def stopping(self) -> None:
        self._shown.stopping()
        self._tell(lambda: self._page.tell("noted", sentence="The run stops after this round, and can be resumed."))

    def worker_lost(self, sentence: str) -> None:
        self._shown.worker_lost(sentence)
        text = f"{sentence}; continuing from the last checkpoint with new workers"
        self._tell(lambda: self._page.tell("noted", sentence=text))

    def exporting(self, done: int, total: int) -> None:
        self._shown.exporting(done, total)
        self._tell(lambda: self._page.tell("counting", phase="exporting", done=done, total=total))

    def _tell(self, act: Callable[[], None]) -> None:
        if self._failed:
            return
        failure = ""
        try:
            act()
            failure = self._page.failure
        except Exception as error:  # noqa: BLE001 - a page must not cost the run anything
            failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if failure:
            self._failed = True
            self._shown.noted(f"the live page failed and shows no more of this run ({failure})")

    def _begin(self, emulation: Emulation) -> None:
        groups = [client.group for client in emulation.clients]
        groups += [SERVER] * (emulation.server is not None)
        for sentence in emulation.warnings:
            self._page.tell("noted", sentence=sentence)
        edges = [(one, other) for one, other in emulation.links]
        members = {group: len(clients) for group, clients in emulation.groups.items()}
        self._page.tell("started", groups=groups, members=members, edges=edges)

    def _round(self, rows: Sequence[Mapping[str, Any]]) -> None:
        assert self._emulation is not None, "started before its first round"
        now_s = time.monotonic()
        rounds_done = rows[0]["round"] + 1
        is_due = now_s - self._read_s >= EDGES_EVERY_S or rounds_done == self._page.n_rounds
        self._page.counted(rounds_done)
        self._page.tell(
            "round",
            rows=rows,
            scored=self._scored(rows, self._emulation),
            traffic=self._emulation.recorder.traffic_figures,
            edges=self._edges() if is_due else None,
        )
        if is_due:
            self._read_s = now_s

    def _edges(self) -> list[list[float]]:
        assert self._emulation is not None, "started before this"
        edges = self._emulation.recorder.edges.items()
        return [[sender, receiver, *one.state()] for (sender, receiver), one in edges]

    def _scored(self, rows: Sequence[Mapping[str, Any]], emulation: Emulation) -> dict[str, Any]:
        """Scores of every group, as in a summary; none in rounds without scores."""
        from ..wiring.evaluation import best_model, by_group  # torch is there by now

        task = self._page.task
        scores = {row["client"]: row["models"] for row in rows if "models" in row}
        members = emulation.groups_without([node for node in range(len(emulation.clients)) if node not in scores])
        groups = by_group(task, members, scores)
        reported = {group: best_model(task, models) for group, models in groups.items()}
        return {
            group: {"clients": len(members[group]), "model": best, **groups[group][best]}
            for group, best in reported.items()
        }


def _rows_before(folder: Path) -> list[str]:
    """Lines of the rounds that a resumed run has behind it; those after its checkpoint are replaced when they come."""
    path = folder / METRICS
    if has_columns(folder) or not is_regular(path) or path.stat().st_size > MOST_EARLIER_BYTES:
        return []
    whole, _, _ = read_regular(path, MOST_EARLIER_BYTES).decode(errors="replace").rpartition("\n")
    return whole.splitlines()
