"""`scenarios`, `algorithms`, `fields` and help: answers on a terminal, in a pipe, and to a name that is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import typer
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.catalog.field_catalog import scenario_fields
from sheafedge.scenarios.terminal.cli import app, main

WIDTH = 80
#: Commands whose help comes from the parser of devices.
OF_DEVICES = {"serve", "bench", "verify"}

Ask = Callable[..., str]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Output of a command; on a terminal of 80 columns if wanted."""

    def answer(*arguments: str, terminal: bool = False, code: int = 0) -> str:
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr("sys.argv", ["sheafedge", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code
        seen = capsys.readouterr()
        return seen.err if code else seen.out

    return answer


def plain(text: str) -> list[str]:
    """Lines without colors."""
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in text.splitlines()]


def test_algorithms_are_listed_one_per_line_in_a_pipe(ask: Ask) -> None:
    lines = ask("algorithms").splitlines()
    assert [line.split()[0] for line in lines] == list(ALGORITHMS)


def test_an_algorithm_is_described(ask: Ask) -> None:
    said = ask("algorithms", "fedprox")
    for words in ("a server", "attention, encoder, head", "personalization.proximal", "--set algorithm=fedprox"):
        assert words in said
    assert "did you mean fedprox" in ask("algorithms", "fedprx", code=2)


def test_fields_have_one_line_each_in_a_pipe(ask: Ask) -> None:
    lines = ask("fields", "link").splitlines()
    assert all(re.match(r"link(\.\w+)?: ", line) for line in lines)
    (rate,) = [line for line in lines if line.startswith("link.rate_bps: ")]
    assert "number in bit/s, default 1e+08, above 0; bits per second" in rate


def test_without_a_prefix_there_are_single_fields_and_all_tables(ask: Ask) -> None:
    listed = {line.split(":")[0] for line in ask("fields").splitlines()}
    assert listed >= {"rounds", "algorithm", "link", "world.street", "decision.handover"}
    assert "link.rate_bps" not in listed


@pytest.mark.parametrize("arguments", [["fields"], ["fields", "world"], ["algorithms"], ["scenarios"]])
def test_a_terminal_of_80_columns_is_enough(arguments: list[str], ask: Ask) -> None:
    lines = plain(ask(*arguments, terminal=True))
    assert lines
    assert [line for line in lines if len(line) > WIDTH] == []
    assert not any("…" in line for line in lines)


def test_every_command_has_a_panel_and_examples() -> None:
    group = typer.main.get_command(app)
    panels = {"Run", "Compare", "World", "Edge"}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert command.rich_help_panel.split(":")[0] in panels, name
        has_examples = "Examples" in (command.epilog or "") or hasattr(command, "commands")
        assert has_examples or name in OF_DEVICES | {"scenarios"}, name


def test_help_names_the_panels_in_order(ask: Ask) -> None:
    said = ask("--help")
    places = [said.index(panel) for panel in ("Run: ", "Compare: ", "World: ", "Edge: ")]
    assert places == sorted(places)
    assert "sheafedge run beam_tracking" in said


def test_examples_name_fields_that_there_are() -> None:
    known = {one.name for one in scenario_fields()}
    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    epilogs = [app.info.epilog, *(one.epilog for one in commands)]
    named = re.findall(r"(?:--set|--vary|--grid) ([\w.]+)=", " ".join(filter(None, map(str, epilogs))))
    assert named
    assert set(named) - known == set()
