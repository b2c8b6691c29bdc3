"""How the source tree is laid out: no circles, small folders, one meaning for a name, tests where their subject is.

Every rule has a negative control: a made-up tree that breaks it and must be caught.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import networkx as nx
import pytest
import sheafedge

ROOT = Path(sheafedge.__file__).resolve().parent
TESTS = Path(__file__).resolve().parent
PACKAGES = ("datasets", "emulator", "models", "scenarios")
#: Folders of tests about several packages, or about what is no package.
ACROSS = frozenset(
    {"attacks", "conformance", "doubles", "golden", "gpu", "integration", "physics", "project", "reference"}
)
MOST_MODULES, MOST_BESIDE_THE_FOLDERS = 24, 2


def shipped_sources() -> dict[str, str]:
    """Path from our root -> source, of every module that ships."""
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}


# --- circles ----------------------------------------------------------------------------------------------------------


def import_graph(sources: Mapping[str, str]) -> nx.DiGraph[str]:
    """Module -> modules that it imports, also those in functions and under TYPE_CHECKING."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in sources}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(modules)
    for module, path in modules.items():
        package = path.split("/")[:-1]
        for node in ast.walk(ast.parse(sources[path])):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            origin = ".".join(part for part in base if part)
            for alias in node.names:
                whole = f"{origin}.{alias.name}".lstrip(".")
                target = whole if whole in modules else origin
                if target in modules and target != module:
                    graph.add_edge(module, target)
    return graph


def circles(sources: Mapping[str, str]) -> list[list[str]]:
    """Modules that import each other, directly or through others."""
    components = nx.strongly_connected_components(import_graph(sources))
    return sorted(sorted(component) for component in components if len(component) > 1)


def test_no_modules_import_each_other() -> None:
    assert circles(shipped_sources()) == []


@pytest.mark.parametrize(
    "back",
    [
        "from .first import one\n",
        "def two():\n    from .first import one\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import first\n",
        "from ..models.third import three\n",
    ],
    ids=["at the top", "in a function", "for types only", "through another package"],
)
def test_a_circle_is_found(back: str) -> None:
    tree = {
        "emulator/first.py": "from .second import two\n",
        "emulator/second.py": back,
        "models/third.py": "from ..emulator.first import one\n",
    }
    (circle,) = circles(tree)
    assert {"emulator.first", "emulator.second"} <= set(circle)


# --- folders ----------------------------------------------------------------------------------------------------------


def crowded(paths: Iterable[str]) -> dict[str, int]:
    """Folder of `scenarios` -> its modules, where these are more than a reader wants to see at once."""
    modules: dict[str, int] = defaultdict(int)
    for path in paths:
        folder, _, name = path.rpartition("/")
        modules[folder] += name != "__init__.py" and folder.split("/")[0] == "scenarios"
    return {
        folder: n
        for folder, n in modules.items()
        if n > (MOST_BESIDE_THE_FOLDERS if folder == "scenarios" else MOST_MODULES)
    }


def test_folders_of_scenarios_are_small() -> None:
    assert crowded(shipped_sources()) == {}


def test_a_crowded_folder_is_found() -> None:
    tree = [*(f"scenarios/wiring/part_{i}.py" for i in range(25)), *(f"scenarios/part_{i}.py" for i in range(3))]
    assert crowded(tree) == {"scenarios/wiring": 25, "scenarios": 3}


# --- names ------------------------------------------------------------------------------------------------------------


def ambiguous_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Public class name -> files that define it, where these are several."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_a_class_name_has_one_meaning() -> None:
    assert ambiguous_classes(shipped_sources()) == {}


def test_a_class_name_with_two_meanings_is_found() -> None:
    tree = {"emulator/a.py": "class Server:\n    pass\n", "models/b.py": "class Server:\n    pass\nclass _Row: ...\n"}
    assert ambiguous_classes(tree) == {"Server": ["emulator/a.py", "models/b.py"]}


# --- tests ------------------------------------------------------------------------------------------------------------


def without_a_subject(folders_of_tests: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Folders of tests that stand where no package folder is."""
    subjects = set(folders)
    return [
        folder
        for folder in sorted(folders_of_tests)
        if folder not in subjects and folder != "." and folder.split("/")[0] not in ACROSS
    ]


@pytest.mark.checkout
def test_tests_mirror_the_packages() -> None:
    of_tests = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    packages = {path.parent.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert without_a_subject(of_tests, packages) == []


def test_tests_of_a_folder_that_is_gone_are_found() -> None:
    assert without_a_subject({"models/sheaf", "models/old", "project"}, {"models", "models/sheaf"}) == ["models/old"]
