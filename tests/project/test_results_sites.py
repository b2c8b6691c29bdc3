"""A page of results on measured sites of a user's own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doubles.page_scripts import RESULTS, SEEDS, kept, score_row
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.plan import planned_runs

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")


def test_sites_of_a_user_have_a_page_and_files_of_their_own(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = scripts["make"]
    monkeypatch.setenv("SHEAFEDGE_DATA", str(tmp_path))
    for name in make.MEASURED:
        runs = planned_runs(make.with_data(make.comparison_of(name), (1, 9)).edited({"seeds": [0]}))
        assert {run.scenario.data.scenarios for run in runs} == {(1, 9)}
    edition = make.edition_of([9, 1, 9], tmp_path)
    scores = {"local": 0.4, "encoders only": tuple(0.5 + 0.01 * (seed % 3) for seed in SEEDS)}

    def made(name: str, edition: Any, _: object) -> None:  # what runs have scored, in place of days of training
        edition.folder.mkdir(parents=True)
        kept(scripts, edition.folder / "scores.csv", name, scores).write()

    monkeypatch.setattr(make, "_make", made)
    make.main(["--sites", "9", "1", "--out", str(tmp_path), "--only", "tracking"])
    text = edition.page.read_text(encoding="utf-8")
    assert edition.page == tmp_path / "sites-1-9" / "results.md"
    assert text.startswith("# Results on measured sites 1 9\n")
    assert "| local | 6 | .402" in text
    assert "{{" not in text
    assert "| local | .400 | .402 | .404 | .401 | .403 | .400 |" in edition.by_seed.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "data", "sentence"),
    [
        pytest.param(
            ["--sites", "1", "9", "--only", "blockage"], "x", "names no regime of measured", id="no such regime"
        ),
        pytest.param(["--sites"], "x", "expected at least one argument", id="no site"),
        pytest.param(["--sites", "1"], "", "set SHEAFEDGE_DATA", id="no data"),
        pytest.param(["--sites", "1", "9", "--only", "tracking"], "x", "scenario1_", id="no files of a site"),
        pytest.param(["--sites", "0"], "x", "data.scenarios", id="a site that cannot be"),
    ],
)
def test_sites_that_cannot_be_run_are_refused_in_a_sentence_and_nothing_is_kept(
    scripts: Mapping[str, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    data: str,
    sentence: str,
) -> None:
    monkeypatch.setenv("SHEAFEDGE_DATA", str(tmp_path / data))
    if not data:
        monkeypatch.delenv("SHEAFEDGE_DATA")
    (tmp_path / data / "deepsense").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        scripts["make"].main([*arguments, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_first_run_on_sites_of_a_user_is_kept_whatever_code_made_it(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = scripts["make"]
    monkeypatch.setenv("SHEAFEDGE_DATA", str(tmp_path))
    edition = make.edition_of([1, 9], tmp_path)
    options = argparse.Namespace(out=tmp_path, seeds=[0], jobs=1, here=False, again=False)
    asked: list[bool] = []

    def searched(search: str, _: object, comparison: Comparison, steps: Any, *__: object) -> None:
        sizes = {arm: edits.get("sharing.until", 0) for arm, edits in comparison.methods.items()}
        steps.put(scripts["steps"].Step(search, arm, 0.01, 0.1, 100, 0.5, "c0de") for arm in sizes)
        steps.write()

    def ran(runs: Any, is_kept: Any, *_: object) -> None:
        asked.append(is_kept(runs[0]))
        row = score_row(scripts, "tracking", runs[0].method, 0, 0.4)
        edition.ledger.put([row])
        edition.ledger.write()

    monkeypatch.setattr(make, "search_steps", searched)
    monkeypatch.setattr(make, "run_and_keep", ran)
    for again in (False, False, True):
        options.again = again
        make._make("tracking", edition, options)
    assert asked == [False, True, False]
