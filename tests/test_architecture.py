"""The arrows between the packages, read from the imports of every shipped file.

Every rule has a negative control below: a made-up source that breaks it and must be caught.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sheafedge

ROOT = Path(sheafedge.__file__).resolve().parent
TESTS = Path(__file__).resolve().parent
PACKAGES = ("datasets", "emulator", "models", "scenarios")
STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
#: What reads or writes code disguised as data.
PICKLES = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"})
NAMELESS_FILES = frozenset({"utils.py", "util.py", "helpers.py", "helper.py", "misc.py", "common.py"})


@dataclass(frozen=True)
class Arrows:
    """What the files below one path may import, beside the standard library and their own package."""

    third_party: frozenset[str]
    ours: tuple[str, ...] = ()
    own_package: bool = True


CONTRACTS = ("emulator.contracts", "emulator.modalities")
#: Who reads files of others opens them as the emulator does.
FILES = (*CONTRACTS, "emulator.regular_file")
#: Models also read saved states: one reader serves checkpoints of learners and of links. And they say what part of
#: their work can be computed together with that of others.
VOCABULARY = (*CONTRACTS, "emulator.saved_state", "emulator.turns")
EMULATOR = frozenset({"numpy", "simpy", "networkx", "zmq", "msgpack", "xxhash"})
LEARNING = frozenset({"torch", "numpy", "onnx", "onnxscript"})
#: The longest path that matches a file decides.
ALLOWED = {
    "__init__.py": Arrows(frozenset(), ours=("emulator.contracts", "emulator.edge", "plugins", "scenarios", "version")),
    "version.py": Arrows(frozenset(), own_package=False),
    "plugins.py": Arrows(frozenset(), ours=("emulator", "models.algorithms.algorithm", "datasets", "scenarios")),
    "emulator": Arrows(EMULATOR),
    "emulator/radio/diffraction.py": Arrows(frozenset({"numpy", "scipy"})),
    "emulator/edge": Arrows(EMULATOR | {"onnxruntime"}),
    "emulator/edge/signatures.py": Arrows(frozenset({"cryptography"})),
    "emulator/contracts.py": Arrows(frozenset({"numpy"}), ours=("emulator.modalities",), own_package=False),
    "emulator/modalities.py": Arrows(frozenset({"numpy"}), own_package=False),
    "emulator/saved_state.py": Arrows(frozenset({"numpy"}), ours=CONTRACTS, own_package=False),
    "emulator/regular_file.py": Arrows(frozenset(), own_package=False),
    "emulator/turns.py": Arrows(frozenset({"greenlet"}), own_package=False),
    "models": Arrows(LEARNING, ours=VOCABULARY),
    "models/sheaf/whole_sheaf.py": Arrows(LEARNING | {"scipy"}, ours=VOCABULARY),
    "models/sheaf/spectrum.py": Arrows(LEARNING | {"scipy"}, ours=VOCABULARY),
    "models/export/quantize.py": Arrows(LEARNING | {"onnxruntime"}, ours=VOCABULARY),  # its tools for graphs are there
    "models/export/onnx_facts.py": Arrows(LEARNING | {"onnxruntime"}, ours=VOCABULARY),
    "models/encoders/resnet.py": Arrows(LEARNING | {"torchvision"}, ours=VOCABULARY),
    "datasets": Arrows(frozenset({"h5py", "numpy"}), ours=FILES),
    "datasets/deepsense/image_files.py": Arrows(frozenset({"numpy", "PIL"}), ours=FILES),
    "datasets/rows/graph_partition.py": Arrows(frozenset({"numpy", "pymetis"}), ours=FILES),
    "datasets/windows/beam_frames.py": Arrows(frozenset({"numpy", "scipy"})),
    "datasets/rows/digit_rows.py": Arrows(frozenset({"numpy", "sklearn"}), ours=FILES),
    "scenarios/workers/ray_cluster.py": Arrows(frozenset({"ray"}), ours=CONTRACTS),
    "scenarios/recording/sionna_scene.py": Arrows(
        frozenset({"drjit", "mitsuba", "numpy", "sionna"}), ours=("emulator", "datasets")
    ),
    "scenarios/calibration/street_trees.py": Arrows(
        frozenset({"numpy", "sklearn"}), ours=("emulator.contracts", "datasets")
    ),
    "scenarios/compare/statistics.py": Arrows(frozenset({"numpy", "scipy"})),
    "scenarios/export/drift_fit.py": Arrows(frozenset({"numpy", "scipy"}), ours=("emulator", "datasets", "scenarios")),
    "scenarios/tracking/backends.py": Arrows(frozenset({"mlflow", "torch", "wandb"}), ours=("scenarios",)),
    "scenarios/report": Arrows(
        frozenset({"jinja2", "matplotlib", "networkx", "numpy", "pydantic"}),
        ours=("emulator", "datasets", "version", "scenarios"),
    ),
    "scenarios/library": Arrows(
        frozenset({"numpy", "onnx", "pandas", "rich", "torch"}),
        ours=("emulator.contracts", "emulator.edge", "emulator.network", "emulator.regular_file"),
    ),
    "scenarios": Arrows(
        EMULATOR | LEARNING | {"h5py", "matplotlib", "pydantic", "rich", "safetensors", "tomli_w", "typer"},
        ours=("emulator", "models", "datasets", "version"),
    ),
}


@dataclass(frozen=True)
class Import:
    """One imported name: `target` is dotted, and counted from our root where `is_ours`."""

    target: str
    line: int
    is_ours: bool


def imports_of(path: str, tree: ast.AST) -> Iterator[Import]:
    """Every import of a file, also those inside functions and under TYPE_CHECKING."""
    package = Path(path).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, is_ours=False)
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(package) + 1:
                yield Import("outside of the package", node.lineno, is_ours=False)
                continue
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield Import(".".join((*base, *module, alias.name)), node.lineno, is_ours=node.level > 0)


def arrows_of(path: str) -> Arrows:
    fitting = [prefix for prefix in ALLOWED if path == prefix or path.startswith(f"{prefix}/")]
    return ALLOWED[max(fitting, key=len)]


def is_inside(target: str, prefix: str) -> bool:
    return target == prefix or target.startswith(f"{prefix}.")


def forbidden_arrows(path: str, tree: ast.AST) -> Iterator[str]:
    arrows = arrows_of(path)
    own = Path(path).parts[0]
    ours = (*arrows.ours, own) if arrows.own_package else arrows.ours
    for found in imports_of(path, tree):
        where = f"{path}:{found.line}"
        top = found.target.split(".")[0]
        if found.target.endswith(".*"):
            yield f"{where} imports everything of {found.target[:-2]}; name what is used"
        if top in PICKLES:
            yield f"{where} imports {top}; nothing here is pickled"
        elif found.is_ours and not any(is_inside(found.target, prefix) for prefix in ours):
            yield f"{where} imports our {found.target}, an arrow that the design forbids"
        elif not found.is_ours and top == "sheafedge":
            yield f"{where} imports {found.target}; inside the packages our imports are relative"
        elif not found.is_ours and top not in STANDARD_LIBRARY | arrows.third_party:
            yield f"{where} imports {found.target}, which is not for {Path(path).parent.as_posix()}"


def forbidden_calls(path: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"import_module", "__import__"} and path != "__init__.py":
            yield f"{path}:{node.lineno} imports by string; no reader or type checker can follow it"
        for keyword in node.keywords:
            if keyword.arg == "allow_pickle" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield f"{path}:{node.lineno} allows pickle in a data file"


def forbidden_names(path: str, tree: ast.AST) -> Iterator[str]:
    if Path(path).name in NAMELESS_FILES:
        yield f"{path} says nothing about what it holds; name the thing"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Manager", "Handler")):
            yield f"{path}:{node.lineno} class {node.name} says nothing about what it does; name the thing"


def code_in_a_package_root(path: str, tree: ast.Module) -> Iterator[str]:
    if path == "__init__.py" or Path(path).name != "__init__.py":
        return
    if ast.get_docstring(tree) is None or len(tree.body) != 1:
        yield f"{path} must hold a docstring and nothing else"


def offences(path: str, source: str) -> list[str]:
    """What is wrong with a file, one sentence each; `path` counts from our root."""
    tree = ast.parse(source)
    return [
        *forbidden_arrows(path, tree),
        *forbidden_calls(path, tree),
        *forbidden_names(path, tree),
        *code_in_a_package_root(path, tree),
    ]


def shipped_files() -> list[str]:
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return ["__init__.py", "version.py", "plugins.py", *sorted(path.relative_to(ROOT).as_posix() for path in found)]


def test_every_shipped_file_keeps_to_the_arrows() -> None:
    found = {path: offences(path, (ROOT / path).read_text(encoding="utf-8")) for path in shipped_files()}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_every_package_is_read() -> None:
    assert {Path(path).parts[0] for path in shipped_files()} == {"__init__.py", "version.py", "plugins.py", *PACKAGES}


BROKEN = {
    "the emulator imports models": ("emulator/node.py", "from ..models import sheaf", "our models.sheaf"),
    "the emulator imports datasets": ("emulator/node.py", "from .. import datasets", "our datasets"),
    "the emulator imports scenarios": ("emulator/edge/x.py", "from ...scenarios.run import run", "our scenarios.run"),
    "the emulator imports torch": ("emulator/engine.py", "import torch.nn as nn", "torch.nn"),
    "the emulator hides it in a function": (
        "emulator/engine.py",
        "def run():\n    from torch import nn",
        "engine.py:2 imports torch.nn",
    ),
    "the emulator hides it from the run": (
        "emulator/nodes/node.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ...models.sheaf import Edge",
        "our models.sheaf.Edge",
    ),
    "onnxruntime outside of the edge": ("emulator/network/link.py", "import onnxruntime", "onnxruntime"),
    "contracts import one of ours": ("emulator/contracts.py", "from .engine import Engine", "our emulator.engine"),
    "modalities import one of ours": (
        "emulator/modalities.py",
        "from .contracts import ConfigError",
        "our emulator.contracts.ConfigError",
    ),
    "the reader of states imports one of ours": (
        "emulator/saved_state.py",
        "from .engine import E",
        "our emulator.engine",
    ),
    "datasets read states": ("datasets/x.py", "from ..emulator.saved_state import x", "our emulator.saved_state"),
    "models import the emulator": ("models/head.py", "from ..emulator import engine", "our emulator.engine"),
    "models import all of the emulator": ("models/head.py", "from .. import emulator", "our emulator,"),
    "a name that only begins like contracts": (
        "models/head.py",
        "from ..emulator.contracts_of_links import Link",
        "our emulator.contracts_of_links",
    ),
    "models import a clock": ("models/algorithms/dsgd.py", "import simpy", "simpy"),
    "models import datasets": ("models/algorithms/dsgd.py", "from ...datasets.windows import x", "our datasets"),
    "datasets import torch": ("datasets/baselines.py", "from torch import Tensor", "torch.Tensor"),
    "datasets import models": ("datasets/baselines.py", "from ..models.head import x", "our models.head"),
    "models import scenarios": ("models/head.py", "from ..scenarios import schema", "our scenarios.schema"),
    "the root imports models": ("__init__.py", "from .models import sheaf", "our models.sheaf"),
    "somebody else's datasets": ("datasets/baselines.py", "import datasets", "which is not for datasets"),
    "an undeclared dependency": ("scenarios/running/run.py", "import pandas", "pandas"),
    "ours by an absolute name": ("models/head.py", "from sheafedge.models import head", "relative"),
    "above the root": ("models/head.py", "from ...elsewhere import x", "outside of the package"),
    "everything at once": ("models/head.py", "from .head import *", "imports everything"),
    "pickle": ("scenarios/running/run.py", "import pickle", "nothing here is pickled"),
    "pickle inside numpy files": ("datasets/x.py", "import numpy\nnumpy.load('x', allow_pickle=True)", "allows pickle"),
    "an import by string": ("scenarios/running/run.py", "import importlib\nimportlib.import_module('x')", "by string"),
    "a file without a name": ("models/utils.py", "", "name the thing"),
    "a class without a name": ("emulator/x.py", "class LinkManager:\n    pass", "name the thing"),
    "code in a package root": ("models/__init__.py", '"""Models."""\nfrom .head import x', "nothing else"),
    "a package root without a word": ("models/algorithms/__init__.py", "", "nothing else"),
}


@pytest.mark.parametrize(("path", "source", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_caught(path: str, source: str, expected: str) -> None:
    found = offences(path, source)
    assert len(found) == 1
    assert expected in found[0]


WHOLE = {
    "models use the vocabulary": ("models/algorithms/dsgd.py", "from ...emulator.contracts import Message"),
    "models read states": ("models/head.py", "from ..emulator.saved_state import SavedState"),
    "or the vocabulary as a module": ("models/algorithms/dsgd.py", "from ...emulator import contracts"),
    "models play turns": ("models/joint/turns.py", "from ...emulator.turns import play"),
    "contracts build on modalities": ("emulator/contracts.py", "from .modalities import Modality"),
    "siblings and parents": ("emulator/network/zmq_hub.py", "import zmq\nfrom . import wire\nfrom ..engine import E"),
    "an onnxruntime session at the edge": ("emulator/edge/session.py", "import onnxruntime"),
    "scenarios introduce everybody": (
        "scenarios/wiring/build.py",
        "import typer\nfrom ...version import __version__\nfrom ... import models\nfrom ..schema import y",
    ),
    "the standard library": ("datasets/baselines.py", "import collections.abc\nfrom pathlib import Path"),
}


@pytest.mark.parametrize(("path", "source"), WHOLE.values(), ids=WHOLE.keys())
def test_an_allowed_arrow_is_left_alone(path: str, source: str) -> None:
    assert offences(path, source) == []


def absolute_imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {found.target.split(".")[0] for found in imports_of(path.name, tree) if not found.is_ours}


def test_tests_import_the_packages_by_their_full_name() -> None:
    """`import models` would find whichever package of that name comes first on the path."""
    short = {str(path): absolute_imports(path) & set(PACKAGES) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in short.items() if names} == {}


def test_the_reference_imports_none_of_ours() -> None:
    """What is compared with our code may not be our code."""
    files = [path for path in (TESTS / "reference").glob("*.py") if not path.name.startswith("test_")]
    assert files
    assert [path.name for path in files if "sheafedge" in absolute_imports(path)] == []


def test_no_source_is_imported_under_a_second_name() -> None:
    """The root is a package and a folder of packages; a second copy would have classes and errors of its own."""
    shipped = {str(ROOT / path) for path in shipped_files()}
    loaded = {
        name: str(Path(file).resolve())
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str)
    }
    ours = {name for name, file in loaded.items() if file in shipped}
    assert "sheafedge" in ours
    assert {name for name in ours if name.split(".")[0] != "sheafedge"} == set()


@pytest.mark.checkout
def test_the_tests_run_against_the_sources_beside_them() -> None:
    assert TESTS.parent == ROOT
