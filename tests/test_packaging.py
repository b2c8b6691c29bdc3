"""What is built, pinned and shipped agrees with what lies in the source tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("datasets", "emulator", "models", "scenarios")
BUILT = frozenset({".editable", ".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "runs"})
#: Paths and words that mean something on one machine only, put together here so that this file does not hold them.
MACHINE_BOUND = [
    "/" + "work/",
    "/" + "tmp/pp",
    "/" + "tmp/probe",
    "/" + "tmp/scaffold",
    "BRIEF" + "_COMMON",
    "issues" + " show",
]


def project_file() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def setuptools_table() -> dict[str, Any]:
    table: dict[str, Any] = project_file()["tool"]["setuptools"]
    return table


def requirements() -> list[Requirement]:
    project = project_file()["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(line) for line in [*project["dependencies"], *(line for extra in extras for line in extra)]]


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert len({canonicalize_name(pin.name) for pin in pins}) == len(pins), "constraints.txt names a package twice"
    return {canonicalize_name(pin.name): pin for pin in pins}


def source_files() -> list[Path]:
    """Files of the tree that are, or would be, committed."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        if listed.returncode == 0:
            names = filter(None, listed.stdout.decode().split("\0"))
            return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not is_built(path.relative_to(ROOT))]


def is_built(path: Path) -> bool:
    """Git-ignored, where there is no git to ask."""
    return any(part in BUILT or part.endswith((".egg-info", "_cache")) for part in path.parts[:-1])


def folder_of(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:])


def test_every_folder_with_code_is_listed_as_a_package() -> None:
    roots = [path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")]
    dotted = {".".join(("sheafedge", *folder.relative_to(ROOT).parts)) for folder in [ROOT, *roots]}
    assert set(setuptools_table()["packages"]) == dotted


def test_every_python_file_lies_in_a_package() -> None:
    """A folder without `__init__.py` works in a checkout and is missing in the wheel."""
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_pattern_finds_a_file() -> None:
    table = setuptools_table()["package-data"]
    patterns = [(package, pattern) for package in table for pattern in table[package]]
    assert [found for found in patterns if not any(folder_of(found[0]).glob(found[1]))] == []


def test_every_data_file_inside_the_packages_is_shipped() -> None:
    table = setuptools_table()["package-data"]
    shipped = {path for package in table for pattern in table[package] for path in folder_of(package).glob(pattern)}
    inside = [path for path in source_files() if path.relative_to(ROOT).parts[0] in PACKAGES and path.suffix != ".py"]
    assert [path for path in inside if path not in shipped] == []


def test_the_version_has_one_source() -> None:
    project = project_file()
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sheafedge.version.__version__"}
    assigned = [
        path for path in source_files() if path.suffix == ".py" and re.search(r"^__version__ *=", read(path), re.M)
    ]
    assert assigned == [ROOT / "version.py"]


def test_the_changelog_knows_the_version() -> None:
    version = re.search(r'^__version__ = "(.+)"$', read(ROOT / "version.py"), re.M)
    assert version
    assert re.search(rf"^## {re.escape(version[1])}\b", read(ROOT / "CHANGELOG.md"), re.M)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_constraints_pin_every_dependency_exactly_and_within_its_bounds() -> None:
    pins = constraints()
    assert str(pins["torch"]) == "torch==2.13.0"
    for pin in pins.values():
        assert [part.operator for part in pin.specifier] == ["=="], pin
    for requirement in requirements():
        (pinned,) = pins[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(pinned.version), f"{requirement} refuses the pinned {pinned.version}"


@pytest.mark.parametrize(
    ("system", "machine", "wheel"),
    [
        ("linux", "x86_64", "onnxruntime-gpu"),
        ("linux", "aarch64", "onnxruntime"),
        ("darwin", "arm64", "onnxruntime"),
        ("darwin", "x86_64", "onnxruntime"),
        ("win32", "AMD64", "onnxruntime"),
    ],
)
def test_each_machine_gets_exactly_one_onnxruntime(system: str, machine: str, wheel: str) -> None:
    """The wheels share a folder: with both installed, whichever came last wins."""
    here = {"sys_platform": system, "platform_machine": machine}
    project = project_file()["project"]
    for lines in (project["dependencies"], project["optional-dependencies"]["edge"]):
        runtimes = [found for found in map(Requirement, lines) if found.name.startswith("onnxruntime")]
        assert [found.name for found in runtimes if found.marker and found.marker.evaluate(here)] == [wheel]


def test_the_edge_set_is_a_part_of_all_and_the_one_that_is_tried() -> None:
    """`wheel_check.py edge` installs it by name; on a device the plain onnxruntime does."""
    project = project_file()["project"]
    edge = project["optional-dependencies"]["edge"]
    assert set(edge) <= set(project["dependencies"])
    tried = re.search(r"^EDGE_SET = \((.+)\)$", read(ROOT / ".ci" / "wheel_check.py"), re.M)
    assert tried
    names = {Requirement(line).name for line in edge} - {"onnxruntime-gpu"}
    assert set(re.findall(r'"(.+?)"', tried[1])) == names


def machine_bound_words(text: str) -> list[str]:
    elsewhere = re.findall(r"\.\./" + r"shared/(?!datasets)\w*", text)
    return [word for word in MACHINE_BOUND if word in text] + elsewhere


def test_nothing_names_the_machine_it_was_written_on() -> None:
    found = {path: machine_bound_words(path.read_bytes().decode("utf-8", errors="replace")) for path in source_files()}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize("word", [*MACHINE_BOUND, "../" + "shared/papers"])
def test_a_machine_bound_word_is_noticed(word: str) -> None:
    assert machine_bound_words(f"see {word} for more")


def test_the_recordings_beside_the_checkout_may_be_named() -> None:
    assert machine_bound_words("../" + "shared/datasets/deepsense") == []
