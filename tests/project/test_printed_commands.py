"""Every command that a page prints can be typed: its options exist, its scenario and settings are valid.

Most commands take minutes, so that these tests stop before anything is recorded; `test_the_commands_of_the_front_page`
runs those of the README to their end.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from doubles.plugin_page import write_examples
from doubles.printed_commands import PAGES, ROOT, in_sentences, printed
from sheafedge.emulator.edge.commands.command_options import SUMMARIES, bench_options, serve_options
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.schema.scenario import load_scenario, parse_assignment, shipped_scenarios
from sheafedge.scenarios.terminal.cli import app

pytestmark = pytest.mark.checkout  # docs are not shipped

#: A device that a user has measured.
PROFILE = 'name = "box"\nflops_per_s = 1e9\noverhead_s = 0.001\npower_w = 12.0\n'
#: Parsers of devices, which have no typer.
OF_DEVICES = {"bench": bench_options, "serve": serve_options}
COMMANDS = [
    pytest.param(one.words, id=one.where)
    for page in PAGES
    for one in printed(page)
    if one.program == "sheafedge" and not one.refusal
]
IN_SENTENCES = [pytest.param(one.words, id=one.where) for page in PAGES for one in in_sentences(page)]

shipped = cache(load_scenario)
program = cache(lambda: typer.main.get_command(app))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and its arguments."""
    found: Any = program()
    while hasattr(found, "commands") and words:
        name, *words = words
        assert name in found.commands, f"there is no command {name}"
        found = found.commands[name]
    return found, words


def values_of(words: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(words) if name == option]


def check_settings(arguments: list[str]) -> None:
    """The shipped scenario that a command names takes its settings."""
    if not arguments or arguments[0] not in shipped_scenarios():
        return
    edits = dict(parse_assignment(text) for text in values_of(arguments, "--set"))
    grid = [one.partition("=") for one in [*values_of(arguments, "--grid"), *values_of(arguments, "--vary")]]
    scenario = shipped(arguments[0]).edited(edits) if edits else shipped(arguments[0])
    for key, _, values in grid:
        for value in values.split(","):
            assert scenario.edited(dict([parse_assignment(f"{key}={value}")]))


def test_there_are_commands() -> None:
    """Else the tests below would pass for nothing."""
    assert len(COMMANDS) > 75
    assert len(IN_SENTENCES) > 50


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
    (tmp_path / "box.toml").write_text(PROFILE)
    if plugins := values_of(arguments, "--plugin"):
        write_examples(tmp_path)
    for name in plugins:
        load_plugin(name)
        request.addfinalizer(lambda name=name: unload(name))  # type: ignore[misc]  # its own name each
    check_settings(arguments)


@pytest.mark.parametrize("words", IN_SENTENCES)
def test_a_command_in_a_sentence_exists_with_its_options(words: list[str]) -> None:
    """It may leave out what the sentence is not about, as arguments or with `...`."""
    words = [word for word in words if "..." not in word]
    words = words[:-1] if words[-1] == "--set" else words
    if words == ["--version"]:
        return
    command, arguments = command_of(words)
    if not arguments or "--help" in arguments or hasattr(command, "commands"):
        return
    if command.name in OF_DEVICES:
        OF_DEVICES[command.name](arguments)
    elif command.name not in SUMMARIES:
        needed = sum(one.required and one.param_type_name == "argument" for one in command.params)
        left_out = max(0, needed - sum(not word.startswith("-") for word in arguments[:needed]))
        command.make_context(command.name, [*["NAME"] * left_out, *arguments])
    edits = [value for value in values_of(arguments, "--set") if not re.search(r"=[A-Z]+$", value)]
    check_settings([*arguments[:1], *(part for edit in edits for part in ("--set", edit))])


def test_a_command_with_a_wrong_option_or_field_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Negative control."""
    for words in (["run", "blockage", "--sets", "a=1"], ["run", "blockage", "--set", "link.los=1"], ["runs"]):
        with pytest.raises(Exception, match=r"(?i)no such option|link\.los|no command"):
            test_a_printed_command_can_be_typed(words, tmp_path, monkeypatch, request)
        with pytest.raises(Exception, match=r"(?i)no such option|link\.los|no command"):
            test_a_command_in_a_sentence_exists_with_its_options(words)


@pytest.mark.slow
@pytest.mark.timeout(7200)  # five minutes of computing, on machines that do other things, too
def test_the_commands_of_the_front_page_run_as_printed(tmp_path: Path) -> None:
    """In their order; `make run` is `sheafedge run blockage`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake run " in text
    commands = [["run", "blockage"], *(one.words for one in printed(ROOT / "README.md"))]
    assert len(commands) > 1
    entry = [sys.executable, "-P", "-c", "from sheafedge.scenarios.entry import main; main()"]
    for words in commands:
        subprocess.run([*entry, *words], cwd=tmp_path, check=True, capture_output=True)
    assert len(list((tmp_path / "runs").glob("*/summary.json"))) == len(commands)
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    subprocess.run([sys.executable, "-P", "-c", snippet], cwd=tmp_path, check=True, capture_output=True)
