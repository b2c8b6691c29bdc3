"""Every command of every page runs as it is printed, in the order of its page.

Shipped scenarios are cut short: fewer rounds, base stations and seconds of recording; comparisons have two seeds.
`test_printed_commands.py` runs the commands of the front page in full.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from doubles import page_session
from doubles.bundles import tiny_bundle
from doubles.deepsense_layout import official_layout
from doubles.drone_folder import drone_folder
from doubles.plugin_page import write_examples
from doubles.printed_commands import PAGES, ROOT, Printed, printed
from sheafedge.scenarios.schema.scenario import load_scenario, shipped_scenarios

pytestmark = [pytest.mark.checkout, pytest.mark.pages, pytest.mark.timeout(3000)]

#: What makes runs of a scenario short, beside fewer rounds.
SHORT: dict[str, dict[str, Any]] = {
    "blockage": {
        "training.local_steps": 1,
        "world.n_sites": 4,
        "world.duration_s": 100,
        "clients.n_clients": 4,
        "model.width": 0.1,
    },
    "beam_tracking": {
        "training.local_steps": 1,
        "world.duration_s": 300,
        "clients.n_clients": 12,
        "model.hidden_dim": 8,
    },
    "drone_beam": {
        "training.local_steps": 1,
        "world.n_sites": 4,
        "world.duration_s": 600,
        "clients.n_clients": 4,
        "model.width": 0.1,
    },
    "radar_corner": {"training.local_steps": 1, "world.duration_s": 60, "model.width": 0.1},
}
ROUNDS = {"rounds": 2, "evaluate_every": 1, "topology.kind": "complete"}
#: Part of a command -> why it is not run here.
LEFT_OUT = {
    "calibrate ": "records for minutes, which no scenario shortens; tests/scenarios/calibration has small ones",
    "NAME.interrupted": "needs a run that was interrupted; the tests of resuming make some",
    "--sign ": "needs a run of the reader's; tests/emulator/edge/test_signatures.py signs",
    "--trusted": "needs a bundle that was signed; the same",
    ".ci/": "the checks of the wheel, which CI runs",
    "-m build": "the same",
    "benchmarks/": "measures for minutes; tests/project/test_benchmarks.py has short ones",
    "docs/learned_orders": "compares for minutes; tests/integration/test_learned_orders.py has short runs",
    "docs/theory/make.py": "trains for hours; the rule and its verdicts have tests in tests/project",
    "data.position_axes=array": "trains for minutes; tests/scenarios/running/test_started_models.py starts short runs",
}
#: Files that pages link to and commands read, from the folder of the checkout.
OF_CHECKOUT = ("docs/*.toml", "examples/*.py", "scenarios/shipped/*.toml")


def short(name: str, path: str | Path | None = None) -> str:
    """TOML text of a scenario, cut short."""
    return tomli_w.dumps(load_scenario(path or name).edited({**ROUNDS, **SHORT.get(name, {})}).tables())


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def comparison_of_the_page() -> None:
    Path("views.toml").write_text(blocks("comparing.md", "toml")[0])


def tables_of_the_page() -> None:
    for block in blocks("own_data.md", "python")[:2]:
        exec(block, {})  # noqa: S102 - writes mine.npz and graph.npz
    draws = np.random.default_rng(1)
    rows = [f"{50 + 3 * rooms},{town},{rooms},{20 * rooms}" for town in "abcde" for rooms in draws.integers(1, 9, 30)]
    Path("houses.csv").write_text("\n".join(["price,town,rooms,area", *rows]))


def recordings_of_the_page() -> None:
    exec(blocks("own_recordings.md", "python")[0], {"print": lambda *_: None})  # noqa: S102 - writes mine.h5


def worlds_of_the_page() -> None:
    traffic, street = blocks("bring_your_world.md", "toml")
    Path("traffic.toml").write_text(traffic)
    Path("traffic.toml").write_text(short("blockage_traffic", "traffic.toml"))
    Path("street.toml").write_text(street)
    exec(blocks("bring_your_world.md", "python")[0], {})  # noqa: S102 - writes mine.csv


def drones_of_the_page() -> None:
    Path("data").mkdir()
    drone_folder(Path("data"), 480, 8, range(0, 480, 2))


def plugins_of_the_page() -> None:
    write_examples(Path())
    Path("weather").mkdir()
    draws = np.random.default_rng(4)
    for station in range(3):
        x = draws.normal(size=(40, 3))
        np.savetxt(f"weather/{station}.csv", np.column_stack([x, x.sum(axis=1) + station]), delimiter=",")


def scenario_of_the_page() -> None:
    (text,) = (block for block in blocks("scenario_files.md", "toml") if 'name = "radar_corner"' in block)
    Path("radar_corner.toml").write_text(text)
    Path("radar_corner.toml").write_text(short("radar_corner", "radar_corner.toml"))


def bundle_and_keys() -> None:
    tiny_bundle(Path("BUNDLE"))
    tiny_bundle(Path("VERSIONS") / "v1")
    command = "from sheafedge.scenarios.entry import main; main()"
    subprocess.run([sys.executable, "-P", "-c", command, "keys", "keys"], check=True, capture_output=True)


#: What the reader of a page has at hand.
AT_HAND: dict[str, Callable[[], None]] = {
    "bring_your_world.md": worlds_of_the_page,
    "comparing.md": comparison_of_the_page,
    "data_sources.md": drones_of_the_page,
    "own_data.md": tables_of_the_page,
    "own_recordings.md": recordings_of_the_page,
    "transfer.md": recordings_of_the_page,
    "plugins.md": plugins_of_the_page,
    "scenario_files.md": scenario_of_the_page,
    "serving.md": bundle_and_keys,
}


def runnable(page: Path) -> Iterator[Printed]:
    """Commands of a page, less those that this machine cannot run."""
    for one in printed(page):
        text = " ".join(one.words)
        needs_ray = "--engine ray" in text and importlib.util.find_spec("ray") is None
        needs_sionna = "radio_engine=sionna" in text and importlib.util.find_spec("drjit") is None
        if not needs_ray and not needs_sionna and not any(part in f"{text} " for part in LEFT_OUT):
            yield one


def of_page(page: Path) -> Any:
    """A page as a parameter; those whose commands listen at fixed ports are of one group, which one worker takes."""
    listens = any(one.words[0] == "serve" or "--outside" in one.words for one in runnable(page))
    return pytest.param(page, id=page.name, marks=[pytest.mark.xdist_group("listening")] if listens else [])


def few_seeds(words: Sequence[str]) -> list[str]:
    """Words of a command, with two seeds where it asks for more."""
    return ["2" if before == "--seeds" and word != "1" else word for before, word in pairwise(["", *words])]


def without_numbers(text: str) -> str:
    """How far a run came depends on its length."""
    return re.sub(r"\d+", "N", text)


@pytest.fixture(scope="module")
def shortened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the shipped scenarios, cut short."""
    folder = tmp_path_factory.mktemp("shipped")
    for name in shipped_scenarios():
        (folder / f"{name}.toml").write_text(short(name))
    return folder


@pytest.fixture
def data(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], None]:
    """Puts measured data where the pages have placeholders."""

    def put() -> None:
        source = request.getfixturevalue("deepsense_root")
        Path("DIR").symlink_to(source)
        Path("ROOT").mkdir()
        official_layout(Path("ROOT"), source, slice(0, 1200))

    return put


@pytest.mark.parametrize("page", [of_page(page) for page in PAGES if any(runnable(page))])
def test_the_commands_of_a_page_run_in_their_order(
    page: Path,
    shortened: Path,
    data: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for pattern in OF_CHECKOUT:
        for path in ROOT.glob(pattern):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text(encoding="utf-8").replace("seeds = [0, 1, 2, 3, 4]", "seeds = [0, 1]"))
    AT_HAND.get(page.name, lambda: None)()
    commands = [(one.program, few_seeds(one.words)) for one in runnable(page)]
    if any({"data.root=DIR", "ROOT"} & set(words) for _, words in commands):
        data()
    session = subprocess.run(
        [sys.executable, "-P", page_session.__file__, str(shortened)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert not session.returncode, session.stderr[-3000:]
    said = [json.loads(line) for line in session.stdout.splitlines()]
    assert len(said) == len(commands)
    refusals = {" ".join(few_seeds(one.words)): one.refusal for one in runnable(page)}
    assert [one for one in said if one[1] != (2 if refusals[one[0]] else 0)] == []
    for command, _, output in said:
        assert without_numbers(refusals[command]) in without_numbers(output)


def test_a_command_that_fails_is_noticed(shortened: Path, tmp_path: Path) -> None:
    """Negative control: of the session."""
    commands = [("sheafedge", ["scenarios"]), ("sheafedge", ["run", "digits", "--set", "rounds=0"])]
    session = subprocess.run(
        [sys.executable, "-P", page_session.__file__, str(shortened)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    said = [json.loads(line) for line in session.stdout.splitlines()]
    assert [status for _, status, _ in said] == [0, 2]
    assert "rounds must be at least 1" in said[1][2]
