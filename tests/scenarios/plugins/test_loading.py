"""Loading of plugins: rows appear in the tables, or one sentence says why none does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from doubles.plugin_files import ALL_DOORS, IDLE, install
from sheafedge.datasets.rows.row_datasets import ROW_DATASETS
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.plugin_sources import LOADED
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.models.objectives import OBJECTIVES
from sheafedge.scenarios.plugins.loading import load_installed, load_plugin, load_plugins, loaded_sources, unload
from sheafedge.scenarios.schema.link_models import LINK_MODELS
from sheafedge.scenarios.tasks.task_table import TASKS


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(path: Path | str) -> str:
    """The sentence in which a plugin is refused; the tables are then as they were."""
    before = {**ALGORITHMS, **TASKS, **ROW_DATASETS, **LINK_MODELS, **OBJECTIVES}
    with pytest.raises(ConfigError) as caught:
        load_plugin(path)
    assert before == {**ALGORITHMS, **TASKS, **ROW_DATASETS, **LINK_MODELS, **OBJECTIVES}
    assert not LOADED
    assert caught.value.__cause__ is None
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_plugin_adds_rows_to_every_table_and_takes_them_along_again(tmp_path: Path) -> None:
    plugin = load_plugin(written(tmp_path, ALL_DOORS))
    assert ALGORITHMS["half_steps"].summary == "half of every step, then averages"
    assert TASKS["absolute_errors"].objective == "absolute"
    assert "lines" in ROW_DATASETS
    assert "slow" in LINK_MODELS
    assert "absolute" in OBJECTIVES
    assert plugin.provides == {
        ("algorithm", "half_steps"),
        ("task", "absolute_errors"),
        ("data set", "lines"),
        ("link model", "slow"),
        ("objective", "absolute"),
    }
    unload("mine.py")
    own = {"half_steps", "absolute_errors", "lines", "slow", "absolute"}
    assert not own & {*ALGORITHMS, *TASKS, *ROW_DATASETS, *LINK_MODELS, *OBJECTIVES}
    assert "sheafedge_plugin_mine" not in sys.modules


def test_a_plugin_is_compiled_as_the_file_that_it_is(tmp_path: Path) -> None:
    """Annotations are values there, unless it says otherwise."""
    load_plugin(written(tmp_path, IDLE + "\ndef asked(value: 3): ...\n"))
    assert sys.modules["sheafedge_plugin_mine"].asked.__annotations__ == {"value": 3}


def test_the_same_source_is_run_once(tmp_path: Path) -> None:
    path = written(tmp_path, IDLE + f"\nwith open({str(tmp_path / 'runs')!r}, 'a') as stream:\n    stream.write('.')\n")
    load_plugin(path)
    load_plugins([str(path), str(path)])
    assert (tmp_path / "runs").read_text() == "."


def test_an_edited_file_takes_the_place_of_what_it_was(tmp_path: Path) -> None:
    load_plugin(written(tmp_path, IDLE))
    first = ALGORITHMS["idle"]
    load_plugin(written(tmp_path, IDLE.replace("does nothing", "sleeps").replace('"idle"', '"asleep"')))
    assert "idle" not in ALGORITHMS
    assert ALGORITHMS["asleep"].summary == "sleeps"
    assert first.summary == "does nothing"
    assert [source.name for source in loaded_sources()] == ["mine.py"]


def test_an_edited_file_that_is_broken_leaves_what_was_there(tmp_path: Path) -> None:
    load_plugin(written(tmp_path, IDLE))
    module = sys.modules["sheafedge_plugin_mine"]
    for broken in ("x = \n", IDLE.replace('"idle"', '"dsgd"')):
        with pytest.raises(ConfigError, match=r"mine\.py"):
            load_plugin(written(tmp_path, broken))
        assert ALGORITHMS["idle"].summary == "does nothing"
        assert sys.modules["sheafedge_plugin_mine"] is module


def test_two_files_of_one_name_are_not_told_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    load_plugin(written(tmp_path, IDLE))
    with pytest.raises(ConfigError, match=r"two different plugins are called mine\.py: .*; load one of them"):
        load_plugin(written(tmp_path / "other", IDLE.replace("idle", "other")))
    load_plugin(written(tmp_path / "other", IDLE))  # the same source


A_ROW = "from sheafedge.plugins import *\nfrom types import SimpleNamespace as Other\nPLUGIN = Plugin({})"
#: Why -> source, and parts of the sentence.
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "a line that is no Python": ("x = 1\nif x\n", ("mine.py, line 2: SyntaxError: expected ':'",)),
    "an exception": ("\n\nx = [][3]\n", ("mine.py, line 3: IndexError: list index out of range",)),
    "an exception in a library": ("import json\njson.loads('{')\n", ("mine.py, line 2: JSONDecodeError: ",)),
    "a module that is missing": ("import no_such_module\n", ("line 1: ModuleNotFoundError: No module named",)),
    "the end of the program": ("import sys\nsys.exit(3)\n", ("line 2: SystemExit: 3",)),
    "no plugin": ("x = 1\n", ("mine.py: defines no PLUGIN; end it with PLUGIN = Plugin(...)",)),
    "something else": ("PLUGIN = {}\n", ("mine.py: PLUGIN must be a Plugin, got dict",)),
    "an empty plugin": (A_ROW.format(""), ("PLUGIN adds nothing; give it algorithms",)),
    "a table that is a list": (A_ROW.format("algorithms=[1]"), ("line 3: algorithms must be a dict of names",)),
    "an impossible name": (A_ROW.format("tasks={'My task': 1}"), ("tasks has a row named 'My task'; name it in",)),
    "no algorithm": (A_ROW.format("algorithms={'a': len}"), ("algorithms['a'] must be an Algorithm, got builtin",)),
    "learners that are none": (
        A_ROW.format("algorithms={'a': Algorithm([], frozenset(), '')}"),
        ("algorithms['a'] must begin with the function that makes its learners",),
    ),
    "kinds in words": (
        A_ROW.format("algorithms={'a': Algorithm(len, frozenset({'head'}), '')}"),
        ("algorithms['a'] must have kinds = frozenset({MessageKind...})",),
    ),
    "the class of a task": (A_ROW.format("tasks={'t': Regression}"), ("got the class Regression; call it: Regr",)),
    "half a task": (A_ROW.format("tasks={'t': Other(title='')}"), ("tasks['t'] must be a Task,", "lacks baselines, c")),
    "half a task about sensors": (
        A_ROW.format("tasks={'t': Other(needs=())}"),
        ("tasks['t'] must be a SensorTask, got SimpleNamespace, which lacks baselines, check, color",),
    ),
    "a reader alone": (A_ROW.format("row_datasets={'d': len}"), ("row_datasets['d'] must be a RowDataset",)),
    "labels that are none": (
        A_ROW.format("row_datasets={'d': RowDataset(len, '', 'numbers')}"),
        ("row_datasets['d'] must have labels 'classes', 'values' or 'any', got 'numbers'",),
    ),
    "no link model": (A_ROW.format("link_models={'l': PacketChannel}"), ("link_models['l'] must be a LinkModel",)),
    "a field of links": (
        A_ROW.format("link_models={'medium': LinkModel(type(None), len)}"),
        ("link_models['medium'] has the name of a field of [links]",),
    ),
    "settings without defaults": (
        A_ROW.format("link_models={'l': LinkModel(RowDataset, len)}"),
        ("link_models['l'] needs settings whose fields all have types and defaults (TypeError: ",),
    ),
    "a loss that is none": (A_ROW.format("objectives={'o': 1.0}"), ("objectives['o'] must be a function of outputs",)),
    "a name of the package": (
        A_ROW.format("row_datasets={'fresh': RowDataset(len, '', 'any'), 'mnist': RowDataset(len, '', 'any')}"),
        ("mine.py: adds the data set 'mnist', which exists already; give it another name",),
    ),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(why: str, tmp_path: Path) -> None:
    text, parts = WRONG[why]
    sentence = refusal(written(tmp_path, text))
    assert sentence.startswith(f"plugin {tmp_path / 'mine.py'}")
    assert [part for part in parts if part not in sentence] == [], sentence
    assert "sheafedge_plugin_mine" not in sys.modules


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "gone.py",
            None,
            "cannot be read (No such file or directory); give a Python file, or the name of an installed",
        ),
        ("idle", b"", "cannot be read (it has no name that ends in .py)"),
        ("latin.py", b"# \xe4\n", "cannot be read ('utf-8' codec can't decode byte 0xe4"),
        ("huge.py", b"#" * (1 << 21), "at most 1048576 are read"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert expected in refusal(tmp_path / name)


def test_ctrl_c_is_no_error_of_a_plugin(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_plugin(written(tmp_path, "raise KeyboardInterrupt\n"))


# --- installed plugins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["idle_rules:PLUGIN", "idle_rules"])
def test_an_installed_plugin_is_there_without_a_word(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "idle_rules", raising=False)
    install(tmp_path, "idle_rules", IDLE, f"lazy = {value}")
    load_installed()
    load_plugins(["lazy"])  # by name too
    assert "idle" in ALGORITHMS
    assert (LOADED["lazy"].place, LOADED["lazy"].text) == ("idle-rules 1.5", None)
    assert not loaded_sources()  # other processes of this host find it themselves


def test_an_installed_plugin_that_is_broken_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_rules", raising=False)
    install(tmp_path, "broken_rules", "PLUGIN = 1\n", "worn = broken_rules:PLUGIN")
    with pytest.raises(ConfigError, match=r"installed plugin 'worn' of broken-rules 1\.5: PLUGIN must be a Plugin"):
        load_installed()
