"""Examples in docstrings do what they show, and every name of the Python API has one."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import sheafedge
from sheafedge import compare, load_scenario, run_scenario
from sheafedge.scenarios.compare import comparing

ROOT = Path(sheafedge.__file__).resolve().parent
PACKAGES = ("datasets", "emulator", "models", "scenarios")
PROMPT = ">>> "
#: Word of an example -> package of an extra that it needs; the wheel is tested without extras.
NEEDED = {'"digits"': "sklearn", ".metrics()": "pandas", ".scores()": "pandas"}


def modules_with_examples() -> list[str]:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    with_prompt = [path for path in paths if PROMPT in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in with_prompt]


def failures(name: str, docstring: str, names: dict[str, object]) -> list[str]:
    """What is printed of every example of a docstring that does not do what it shows."""
    found = doctest.DocTestParser().get_doctest(docstring, names, name, None, None)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(found, out=said.append)
    return said


@pytest.fixture(scope="module", autouse=True)
def _without_figures() -> Iterator[None]:
    """Drawing takes longer than all runs here; tests/scenarios/compare and tests/scenarios/report look at figures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "write_figures", lambda results, folder: None)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the runs that examples say were made before."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("made") / "runs"
    edits = {"rounds": 5, "training.local_steps": 1, "export.report": False, "export.pictures": 0}
    run_scenario(load_scenario("digits").edited(edits), folder / "digits")
    compare(
        "digits", ["local", "fedavg"], 2, edits={"rounds": 1, "clients.n_clients": 4}, out=folder / "compare-digits"
    )
    return folder


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_do_what_they_show(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    for word, package in NEEDED.items():
        if word in source:
            pytest.importorskip(package)
    if any(f'"runs/{name}"' in source for name in ("digits", "compare-digits")):
        shutil.copytree(request.getfixturevalue("runs"), tmp_path / "runs")
    monkeypatch.chdir(tmp_path)  # runs leave their folders where they are started
    found = [test for test in doctest.DocTestFinder().find(import_module(f"sheafedge.{module}")) if test.examples]
    assert found, "the examples are in no docstring"
    said: list[str] = []
    for test in found:
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert "".join(said) == ""


def test_an_example_that_shows_something_else_is_found() -> None:
    assert failures("right", ">>> 1 + 1\n2\n", {}) == []
    assert "Got:\n    2" in "".join(failures("wrong", ">>> 1 + 1\n3\n", {}))


@pytest.mark.parametrize("name", [name for name in sheafedge.__all__ if name != "__version__"])
def test_every_name_of_the_python_api_has_an_example(name: str) -> None:
    assert PROMPT in (inspect.getdoc(getattr(sheafedge, name)) or "")
