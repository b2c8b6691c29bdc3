"""The page of a run that goes on: what is known by now, in the sections of its report."""

from __future__ import annotations

import json
import re

import pytest
from sheafedge.scenarios.live_page.live_drawing import LiveDrawer
from sheafedge.scenarios.live_page.run_so_far import RunSoFar

from .conftest import Told, started, told_round


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([^"]+)">', page)


def sentence(page: str) -> str:
    found = re.search(r'<p role="status">([^<]*)', page)
    assert found
    return found[1]


def test_before_the_first_round_the_page_says_what_is_going_on(facts: Told) -> None:
    run, drawer = RunSoFar(facts), LiveDrawer()
    assert sentence(drawer.page(run, 1)) == "Loading"
    run.take({"what": "counting", "phase": "recording", "done": 120, "total": 3000})
    page = drawer.page(run, 2)
    assert sentence(page) == "Recording the world: 120 of 3,000 frames"
    assert 'style="width: 4.0%"' in page
    run.take(started())
    page = drawer.page(run, 3)
    assert sentence(page) == "Training: 0 of 3 rounds are complete"
    assert "clients: 2 gps, 2 rf</p>" in page
    assert sections(page) == ["faults", "what-is-run", "settings"]
    assert "node off" in page


def test_rounds_are_shown_as_the_report_shows_them(facts: Told) -> None:
    run, drawer = RunSoFar(facts), LiveDrawer()
    for told in (started(), told_round(0, lost=1), told_round(1, lost=1)):
        run.take(told)
    page = drawer.page(run, 7, budget_s=60.0)
    assert sentence(page) == "Training: 2 of 3 rounds are complete"
    assert 'data-version="7"' in page
    assert sections(page)[:4] == ["scores", "network-and-traffic", "time-and-energy", "faults"]
    names = ("score", "step-loss", "clients", "network", "fading-loss", "timeline", "round-parts")
    assert all(f'id="{name}-' in page for name in names)
    assert "Rounds 1 to 2 alone." in page
    assert ">0 – 1</td>" in page
    assert '<td class="number">5.00</td>' in page  # 2 of 40 packets
    assert not drawer.is_behind


def test_without_time_for_all_figures_the_oldest_are_drawn_first(facts: Told) -> None:
    run, drawer = RunSoFar(facts), LiveDrawer()
    run.take(started())
    run.take(told_round(0))
    counts = []
    for _ in range(30):
        counts.append(drawer.page(run, 1, budget_s=0.0).count("<svg"))
        if not drawer.is_behind:
            break
    assert counts == list(range(1, len(counts) + 1))
    assert 4 < len(counts) < 30
    before = drawer.page(run, 1, budget_s=0.0)
    run.take(told_round(1))
    after = drawer.page(run, 1, budget_s=0.0)
    figures = [re.findall(r"<svg.*?</svg>", page, re.DOTALL) for page in (before, after)]
    assert [one != other for one, other in zip(*figures, strict=False)].count(True) == 1
    assert drawer.is_behind


def test_groups_are_there_before_they_are_scored(facts: Told) -> None:
    run = RunSoFar(facts)
    run.take(started())
    run.take({**told_round(0), "scored": {}})
    page = LiveDrawer().page(run, 1, budget_s=60.0)
    assert 'id="step-loss-' in page
    assert "<td>gps (2)</td>" not in page


def test_a_resumed_run_shows_the_rounds_that_it_has_behind_it(facts: Told) -> None:
    earlier = [json.dumps(row) for index in range(3) for row in told_round(index)["rows"]]
    run = RunSoFar({**facts, "earlier": earlier})
    run.take(started())
    assert run.records() is None
    run.take(told_round(1))  # its checkpoint was after round 1; what was written after it is replaced
    records = run.records()
    assert records is not None
    assert records.n_rounds == 2
    assert records.scores[3].tolist() == pytest.approx([0.4, 0.5])
    assert run.pace.per_s == 0.0  # the rounds before say nothing about the pace


def test_what_is_shown_is_escaped(facts: Told) -> None:
    run = RunSoFar({**facts, "scenario": "<script>alert(1)</script>"})
    run.take({"what": "noted", "sentence": "<img src=x>"})
    page = LiveDrawer().page(run, 1)
    assert page.count("<script>") == 1
    assert "<img" not in page


@pytest.mark.parametrize(
    ("state", "tone"), [("complete", "complete"), ("interrupted", "stopped"), ("failed", "stopped")]
)
def test_the_end_is_said_and_nothing_is_left_to_wait_for(facts: Told, state: str, tone: str) -> None:
    run = RunSoFar(facts)
    for told in (started(), *map(told_round, range(3)), {"what": "ended", "state": state, "sentence": "it has ended"}):
        run.take(told)
    page = LiveDrawer().page(run, 9, budget_s=0.0)
    assert sentence(page) == "it has ended"
    assert f'class="status {tone}"' in page
    assert "data-left" not in page.replace("[data-left]", "")
    assert facts["report"] in page  # for a page that got no answer any more
