"""TOML blocks and commands of the pages: blocks are accepted as they stand, commands need nothing but `make`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from doubles.plugin_page import write_examples
from sheafedge.scenarios.compare.comparison import loaded_tables, validated_comparison
from sheafedge.scenarios.compare.plan import planned_runs
from sheafedge.scenarios.plugins.loading import load_plugin, unload
from sheafedge.scenarios.schema.scenario import load_scenario

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for pattern in ("docs/*.md", "README.md", "CONTRIBUTING.md") for page in ROOT.glob(pattern))
pytestmark = pytest.mark.checkout
#: A link trace of Mahimahi: the milliseconds at which a packet can be sent.
TRACE = "1\n2\n3\n"


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """(Page and line, text) of the fenced blocks in this language."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        # all blocks, because the end of one of another language looks like the beginning of one without any
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if found[1] == language:
                yield f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}", found[2]


def test_there_are_blocks() -> None:
    """Else the tests below would pass for nothing."""
    assert len(list(blocks("toml"))) >= 7
    assert len(list(blocks(""))) >= 20


@pytest.mark.parametrize("text", [pytest.param(text, id=where) for where, text in blocks("toml")])
def test_every_documented_block_is_accepted(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r'"([\w.-]+\.(?:up|down))"', text):
        (tmp_path / name).write_text(TRACE)
    tables = tomllib.loads(text)
    if "plugins" in tables:
        write_examples(tmp_path)
        for name in tables["plugins"]:
            load_plugin(name)
            request.addfinalizer(lambda name=name: unload(name))  # type: ignore[misc]  # its own name each
    if {"scenario", "set"} & tables.keys():
        # the page has the file that others build on, under this name
        (tmp_path / "views.toml").write_text(next(one for _, one in blocks("toml") if "scenario" in tomllib.loads(one)))
        path = tmp_path / "documented.toml"
        path.write_text(text)
        assert planned_runs(validated_comparison(loaded_tables(str(path))))
    elif {"task", "base"} & tables.keys():
        path = tmp_path / "documented.toml"
        path.write_text(text)
        assert load_scenario(str(path)).name == tables.get("name", "documented")
    else:  # some fields of a scenario, here of `blockage`
        assert load_scenario("blockage").edited(dict(_fields(tables))) != load_scenario("blockage")


def _fields(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Section and field -> value."""
    for section, value in tables.items():
        if isinstance(value, dict):
            yield from ((f"{section}.{name}", field) for name, field in value.items())
        else:
            yield section, value


def test_a_block_that_a_scenario_refuses_is_noticed() -> None:
    """Negative control."""
    with pytest.raises(Exception, match=r"links\.edges"):
        load_scenario("blockage").edited({"links.edges": [{"clients": [0, 400], "rate_bps": 1e6}]})


def test_documented_commands_need_no_activated_environment() -> None:
    """`make` builds .venv and activates nothing: what is printed must find its programs."""
    program = r"(sheafedge|pytest|pip|python) "
    fenced = [f"{where}: {line}" for where, text in blocks("") for line in text.splitlines() if re.match(program, line)]
    indented = [
        f"{page.name}: {line}"
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(" {4,}" + program, line)
    ]
    assert fenced + indented == []
