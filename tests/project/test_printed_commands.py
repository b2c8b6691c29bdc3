"""Every command that a page prints can be typed: its options exist, its scenario and settings are valid.

Most commands take minutes, so that these tests stop before anything is recorded; `test_the_commands_of_the_front_page`
runs those of the README to their end.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from doubles.plugin_page import write_examples
from sheafedge.emulator.edge.commands.command_options import SUMMARIES, bench_options, serve_options
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.schema.scenario import load_scenario, parse_assignment, shipped_scenarios
from sheafedge.scenarios.terminal.cli import app

pytestmark = pytest.mark.checkout  # docs are not shipped

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PROGRAM = ".venv/bin/sheafedge "
#: A device that a user has measured.
PROFILE = 'name = "box"\nflops_per_s = 1e9\noverhead_s = 0.001\npower_w = 12.0\n'
#: Parsers of devices, which have no typer.
OF_DEVICES = {"bench": bench_options, "serve": serve_options}


def printed(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and words of every command of a page, those in running text left out."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        refused = number < len(lines) and lines[number].startswith("error: ")  # shown with the sentence that answers it
        if not line.strip().startswith(PROGRAM) or refused:
            continue
        text, following = line.strip(), number
        while text.endswith("\\") or text.count("'") % 2:  # commands and quoted values go on in the next line
            text, following = text.removesuffix("\\") + lines[following].strip(), following + 1
        yield number, shlex.split(text.removeprefix(PROGRAM), comments=True)


COMMANDS = [
    pytest.param(words, id=f"{page.name}:{line}") for page in PAGES if page.exists() for line, words in printed(page)
]


shipped = cache(load_scenario)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and its arguments."""
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        name, *words = words
        assert name in found.commands, f"there is no command {name}"
        found = found.commands[name]
    return found, words


def values_of(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


def test_there_are_commands() -> None:
    """Else the tests below would pass for nothing."""
    assert len(COMMANDS) > 60


@pytest.mark.parametrize("words", COMMANDS)
def test_a_printed_command_can_be_typed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    command, arguments = command_of(words)
    if command.name in OF_DEVICES:
        OF_DEVICES[command.name](arguments)
        return
    if command.name not in SUMMARIES:
        command.make_context(command.name, list(arguments))
    write_examples(tmp_path)
    (tmp_path / "box.toml").write_text(PROFILE)
    for name in values_of(arguments, "--plugin"):
        load_plugin(name)
        request.addfinalizer(lambda name=name: unload(name))  # type: ignore[misc]  # its own name each
    if arguments and arguments[0] in shipped_scenarios():
        edits = dict(parse_assignment(text) for text in values_of(arguments, "--set"))
        grid = [one.partition("=") for one in [*values_of(arguments, "--grid"), *values_of(arguments, "--vary")]]
        scenario = shipped(arguments[0]).edited(edits) if edits else shipped(arguments[0])
        for key, _, values in grid:
            for value in values.split(","):
                assert scenario.edited(dict([parse_assignment(f"{key}={value}")]))


def test_a_command_with_a_wrong_option_or_field_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Negative control."""
    for words in (["run", "blockage", "--sets", "a=1"], ["run", "blockage", "--set", "link.los=1"], ["runs"]):
        with pytest.raises(Exception, match=r"(?i)no such option|link\.los|no command"):
            test_a_printed_command_can_be_typed(words, tmp_path, monkeypatch, request)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_the_front_page_run_as_printed(tmp_path: Path) -> None:
    """In their order; `make run` is `sheafedge run blockage`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake run " in text
    commands = [["run", "blockage"], *(words for _, words in printed(ROOT / "README.md"))]
    assert len(commands) > 1
    program = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()"]
    for words in commands:
        subprocess.run([*program, *words], cwd=tmp_path, check=True, capture_output=True)
    assert len(list((tmp_path / "runs").glob("*/summary.json"))) == len(commands)
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, check=True, capture_output=True)
