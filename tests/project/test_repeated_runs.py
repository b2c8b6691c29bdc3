"""Runs behind docs/results.md that were made again: what is kept of it, and which older runs stand."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from doubles.page_scripts import RESULTS, page_of, score_row

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")


def test_runs_that_later_code_makes_again_are_compared(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    repeats = scripts["repeats"].Repeats(tmp_path / "repeats.csv")
    for arm, again in (("local", 0.4), ("DSGD", 0.403), ("APFL", 0.398)):
        for group in ("gps", "all clients"):
            old = score_row(scripts, "drones", arm, 0, 0.4, group)
            repeats.note(old, replace(old, score=again, code="cafe"))
            repeats.note(old, old)  # the same code and processor: nothing to tell
    repeats.write()
    again = scripts["repeats"].Repeats(tmp_path / "repeats.csv")
    assert len(again.rows) == 3
    *_, line = again.markdown(["tracking", "drones"])
    assert line == "| `drones` | c0de | cafe | P, V | 3 | 1 | +0.0005 ± 0.0035 | +.003 | APFL, DSGD |"


def test_a_run_on_another_processor_is_compared_and_says_nothing_about_the_code(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    repeats = scripts["repeats"].Repeats(tmp_path / "repeats.csv")
    old = score_row(scripts, "drones", "local", 0, 0.4)
    repeats.note(old, replace(old, score=0.4, code="cafe"))
    assert repeats.repeated("drones", "local", "c0de", "cafe")
    repeats.note(old, replace(old, score=0.41, code="cafe", processor="Q, W"))
    repeats.note(old, replace(old, score=0.42, processor="Q, W"))  # by the same code
    assert repeats.repeated("drones", "local", "c0de", "cafe")
    _, _, *lines = repeats.markdown(["drones"])
    assert lines == [
        "| `drones` | c0de | c0de | P, V, then Q, W | 1 | 0 | +0.0200 | +.020 | local |",
        "| `drones` | c0de | cafe | P, V | 1 | 1 | 0 | +.000 | none |",
        "| `drones` | c0de | cafe | P, V, then Q, W | 1 | 0 | +0.0100 | +.010 | local |",
    ]


def test_older_runs_stand_where_the_version_of_the_page_repeats_their_arm(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    edition = page_of(scripts, tmp_path, "cafe")
    ledger, repeats = edition.ledger, edition.repeats
    old = {arm: score_row(scripts, "drones", arm, 1, 0.4) for arm in ("local", "DSGD", "APFL")}
    ledger.put(old.values())
    ledger.put([score_row(scripts, "drones", "local", 1, 0.4, "gps")])  # of a run that is there
    for arm, again in (("local", 0.4), ("DSGD", 0.403)):
        first = replace(old[arm], seed=0)
        made = replace(first, score=again, code="cafe")
        ledger.put([made])
        repeats.note(first, made)
    *_, line = edition.standing(["tracking", "drones"])
    assert line == "| `drones` | 5 | 2 | 1 | 2 | DSGD, APFL | P, V: 5 |"
    # a repeat that differs once is none, and neither is that of another version
    repeats.note(old["local"], replace(old["local"], score=0.41, code="cafe"))
    assert not repeats.repeated("drones", "local", "c0de", "cafe")
    assert not repeats.repeated("drones", "local", "c0de", "beef")


def test_runs_that_learn_orders_are_of_no_code_that_cuts_lines_of_beams_otherwise(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    edition = replace(page_of(scripts, tmp_path, "cafe", "c0de"), cut_otherwise=frozenset({"c0de"}))
    assert edition.stands(score_row(scripts, "drones_sizes", "head averaging, told the orders", 3, 0.4))
    recut, same = scripts["edition"].RECUT["drones_sizes"][0], 3
    first, found_again = (
        score_row(scripts, "drones_sizes", "encoders only, learned orders", seed, 0.4) for seed in (recut, same)
    )
    assert found_again.code == "c0de"
    assert not edition.stands(found_again)
    edition.repeats.note(first, replace(first, code="cafe", score=0.5))  # another order, so another run
    edition.repeats.note(found_again, replace(found_again, code="cafe"))
    assert edition.stands(found_again)
    assert not edition.stands(first)
    assert edition.stands(replace(first, code="cafe"))


def test_a_run_is_made_again_where_neither_code_made_its_row_or_repeats_it(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = scripts["make"]
    edition = page_of(scripts, tmp_path, "cafe")
    repeats = edition.repeats
    monkeypatch.setattr(make, "run_code", lambda: "feed")
    monkeypatch.setattr(make, "processor_here", lambda: "P, V")
    plain, again, here = (
        argparse.Namespace(again=again, here=here) for again, here in ((False, False), (True, False), (False, True))
    )
    old = score_row(scripts, "drones", "local", 0, 0.4)
    of_page, of_checkout = (replace(old, code=code) for code in ("cafe", "feed"))
    assert not make._is_kept(None, edition, plain)
    assert not make._is_kept(old, edition, plain)
    repeats.note(old, of_page)
    for row in (old, of_page):
        assert make._is_kept(row, edition, plain)
        assert not make._is_kept(row, edition, again)
    assert make._is_kept(of_checkout, edition, again)
    assert make._is_kept(of_page, edition, here)
    assert not make._is_kept(replace(of_page, processor="Q, W"), edition, here)


def test_a_version_repeats_what_one_in_between_repeats(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    repeats = scripts["repeats"].Repeats(tmp_path / "r.csv")
    first = score_row(scripts, "drones", "local", 0, 0.4)

    def note(code: str, again: str, difference: float) -> None:
        repeats.note(replace(first, code=code), replace(first, code=again, score=0.4 + difference))

    for code, again, difference in (("a", "b", 0.0), ("b", "c", 0.0), ("c", "d", 0.1)):
        note(code, again, difference)
    assert repeats.repeated("drones", "local", "a", "c")
    assert not repeats.repeated("drones", "local", "a", "d")
    assert not repeats.repeated("drones", "local", "c", "a")
    assert not repeats.repeated("drones", "local", "a", "a")
    assert not repeats.repeated("drones", "DSGD", "a", "c")
    note("a", "c", 0.1)  # seen to differ
    assert not repeats.repeated("drones", "local", "a", "c")
