"""Build the wheel and check it as its users will meet it: installed, with the sources out of the way.

    python .ci/wheel_check.py types      mypy --strict on the installed wheel, beside this environment's dependencies;
                                         and on a file of a user of an editable install
    python .ci/wheel_check.py install    a clean environment of its own, other people's packages, commands, and tests of
                                         what an installation can spoil
    python .ci/wheel_check.py whole      the same with all tests
    python .ci/wheel_check.py edge       a clean environment with the edge set only, which serves a model without torch

Nothing is left behind: everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", ".editable", ".hypothesis", ".*_cache", "__pycache__", "*.egg-info", "build", "dist", "runs"
)
TEST_TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
#: Our packages, and names that other people's packages have; neither may hide the other.
OURS = ("datasets", "emulator", "models", "scenarios")
#: All that an edge device needs beside the wheel, as the extra [edge] has it, and what it must not have.
EDGE_SET = ("msgpack", "numpy", "onnxruntime", "pyzmq")
NOT_AT_THE_EDGE = ("torch", "onnx", "typer", "rich", "pydantic", "simpy", "networkx", "h5py", "xxhash", "safetensors")
TEST_MARKERS = "not slow and not gpu and not attack and not checkout"
#: Tests of what an installation can spoil: files beside modules, commands, further processes, and imports inside of
#: functions. The wheel has the files of the sources, which `check_layout` compares, and arithmetic is the same in both.
TESTS = (
    "datasets",
    "emulator/edge",
    "models/export",
    *(
        f"scenarios/{room}"
        for room in (
            *("animation", "catalog", "compare", "export", "library", "live_page", "plugins", "recording"),
            *("replay", "report", "running", "terminal", "tracking", "workers"),
        )
    ),
)


class CheckFailedError(Exception):
    """The wheel is not what its users need; the message says what is wrong."""


def say(sentence: str) -> None:
    print(f"wheel-check: {sentence}", flush=True)


def ensure(condition: bool, sentence: str) -> None:
    if not condition:
        raise CheckFailedError(sentence)


def run(*command: str | Path, cwd: Path) -> None:
    """Start a command away from the sources, its output in sight."""
    say(" ".join(str(part) for part in command))
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment(), check=True)


def ask(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Start a command away from the sources and read what it says."""
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment(), check=True, capture_output=True, text=True
    )


def environment() -> dict[str, str]:
    """The caller's variables, less those that would let the sources in."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV"}}


def build_wheel(work: Path) -> Path:
    """Build from a copy: a `build/` folder left in the tree would ship modules that were deleted since."""
    copy = work / "copy"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    ask(sys.executable, "-P", "-m", "build", "--wheel", "--outdir", work / "dist", copy, cwd=work)
    shutil.rmtree(copy)
    (wheel,) = (work / "dist").glob("*.whl")
    check_layout(wheel)
    return wheel


def check_layout(wheel: Path) -> None:
    name, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    tops = {file.split("/")[0] for file in files}
    ensure(tops == {name, f"{name}-{version}.dist-info"}, f"{wheel.name} installs more than one top level: {tops}")
    sources = {f"{name}/{path.relative_to(ROOT).as_posix()}" for path in shipped_sources()}
    ensure(sources <= set(files), f"{wheel.name} lacks {sorted(sources - set(files))}")
    beyond = {path for path in files if path.startswith(f"{name}/")} - sources
    ensure(not beyond, f"{wheel.name} also holds {sorted(beyond)}")
    say(f"{wheel.name} holds {len(files)} files below the single top level {name!r}")


def shipped_sources() -> list[Path]:
    """All files of the packages as they lie in the tree, whatever `pyproject.toml` says about them."""
    inside = [path for package in OURS for path in (ROOT / package).rglob("*") if "__pycache__" not in path.parts]
    return [
        *(ROOT / name for name in ("__init__.py", "version.py", "plugins.py", "py.typed")),
        *(path for path in inside if path.is_file()),
    ]


def create_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def purelib(python: Path, cwd: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return Path(ask(python, "-P", "-c", code, cwd=cwd).stdout.strip())


def check_types(work: Path) -> None:
    """Run mypy on the wheel as installed, `py.typed` included; the dependencies are borrowed, not installed again."""
    wheel = build_wheel(work)
    python = create_environment(work / "venv")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=work)
    (purelib(python, work) / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    mypy = (sys.executable, "-P", "-m", "mypy", "--strict", "-p", "sheafedge", "--python-executable", python)
    run(*mypy, "--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache", cwd=work)
    check_editable_types(work)


def check_editable_types(work: Path) -> None:
    """An editable install shows its types to mypy, in a file that lies elsewhere: one mistake, and it is found."""
    copy = work / "tree"
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCE)
    python = create_environment(work / "editable")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", copy, cwd=work)
    (purelib(python, work) / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    user = work / "user.py"
    user.write_text("from sheafedge import load_scenario\n\nrounds: str = load_scenario('blockage').rounds\n")
    command = (sys.executable, "-P", "-m", "mypy", "--strict", "--python-executable", python, user)
    found = subprocess.run(
        [*map(str, command), "--cache-dir", str(ROOT / ".mypy_cache" / "editable")],
        cwd=work, env=environment(), check=False, capture_output=True, text=True,
    )  # fmt: skip
    wanted = 'user.py:3: error: Incompatible types in assignment (expression has type "int", variable has type "str")'
    ensure(wanted in found.stdout, f"mypy sees no types of an editable install: {found.stdout}{found.stderr}")
    ensure("Found 1 error in 1 file" in found.stdout, f"mypy finds more in an editable install: {found.stdout}")
    say("an editable install shows its types to mypy")


def check_install(work: Path, tests: Sequence[str] = TESTS) -> None:
    """Install the wheel beside its dependencies, and try it with these folders of tests."""
    wheel = build_wheel(work)
    python = create_environment(work / "venv")
    site = purelib(python, work)
    for name in OURS:
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("OWNER = 'somebody else'\n", encoding="utf-8")
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "-c", constraints, wheel, *TEST_TOOLS, cwd=work)
    run(python, "-m", "pip", "check", cwd=work)
    check_neighbors(python, site, work)
    check_every_module(python, work)
    check_commands(python, version=wheel.name.split("-")[1], work=work)
    check_behavior(python, work, tests)


def check_neighbors(python: Path, site: Path, work: Path) -> None:
    """`import datasets` is still somebody else's, and `sheafedge.datasets` is ours, in one process."""
    names = [*OURS, *(f"sheafedge.{name}" for name in OURS)]
    code = (
        "import importlib, json, sys\n"
        "modules = {name: importlib.import_module(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({name: [module.__file__, getattr(module, 'OWNER', 'ours')] "
        "for name, module in modules.items()}))\n"
    )
    found = json.loads(ask(python, "-P", "-c", code, *names, cwd=work).stdout)
    for name in names:
        owner = "somebody else" if name in OURS else "ours"
        expected = [str(site.joinpath(*name.split("."), "__init__.py")), owner]
        ensure(found[name] == expected, f"import {name} gives {found[name]}, expected {expected}")
    say(f"{', '.join(OURS)} of somebody else stay importable beside ours")


def check_every_module(python: Path, work: Path) -> None:
    """Each module imports with nothing but the declared dependencies."""
    code = (
        "import importlib, pkgutil, sheafedge\n"
        "names = [found.name for found in pkgutil.walk_packages(sheafedge.__path__, 'sheafedge.')]\n"
        "print(len([importlib.import_module(name) for name in names]))\n"
    )
    say(f"{ask(python, '-P', '-c', code, cwd=work).stdout.strip()} modules import")


def check_commands(python: Path, version: str, work: Path) -> None:
    command = python.with_name("sheafedge")
    told = ask(command, "--version", cwd=work).stdout.split()
    ensure(version in told, f"sheafedge --version says {' '.join(told)!r}, the wheel is {version}")
    helped = ask(python, "-P", "-X", "importtime", command, "--help", cwd=work)
    imported = {line.rpartition("|")[2].strip() for line in helped.stderr.splitlines()}
    ensure("run" in helped.stdout, f"sheafedge --help does not name the command run: {helped.stdout!r}")
    ensure("sheafedge" in imported, "the imports of sheafedge --help could not be read")
    ensure("torch" not in imported, "sheafedge --help imports torch, which takes over a second; import it on first use")
    say(f"sheafedge {version} answers --version and --help, without torch")
    ask(command, "run", "beam_tracking", "--set", "rounds=1", "--out", work / "run", cwd=work)
    models = list((work / "run" / "models").rglob("*.onnx"))
    ensure(bool(models), "sheafedge run beam_tracking left no ONNX model")
    say(f"sheafedge run beam_tracking leaves {len(models)} ONNX models after one round")


def check_behavior(python: Path, work: Path, tests: Sequence[str]) -> None:
    """Tests, with nothing of the source tree in reach but them and their settings."""
    suite = work / "suite"
    shutil.copytree(ROOT / "tests", suite / "tests", ignore=NOT_SOURCE)
    shutil.copy(ROOT / "pyproject.toml", suite)
    places = [suite / "tests" / each for each in tests]
    ensure(all(place.is_dir() for place in places), f"there is no such folder of tests: {' or '.join(tests)}")
    options = ("-n", "auto", "--dist", "loadfile", "-x", "-q", "-m", TEST_MARKERS)
    run(python.with_name("pytest"), *options, *places, cwd=suite)


def check_edge(work: Path) -> None:
    """As a device is set up: four packages, the wheel without its dependencies, and a bundle made elsewhere."""
    wheel = build_wheel(work)
    bundles = [make_bundle(wheel, work, kind) for kind in ("binary", "forecast")]
    python = create_environment(work / "edge")
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *EDGE_SET, cwd=work)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel, cwd=work)
    command = python.with_name("sheafedge")
    for bundle in bundles:
        say(ask(command, "verify", bundle, cwd=work).stdout.strip())
        say(ask(python, "-P", ROOT / ".ci" / "edge_session.py", bundle, *NOT_AT_THE_EDGE, cwd=work).stdout.strip())
    refused = subprocess.run(
        [command, "run", "blockage"], cwd=work, env=environment(), check=False, capture_output=True, text=True
    )
    ensure(refused.returncode == 2, f"sheafedge run ended with {refused.returncode} where torch is not installed")
    ensure("has the edge set only" in refused.stderr, f"sheafedge run did not say what is missing: {refused.stderr!r}")


def make_bundle(wheel: Path, work: Path, kind: str) -> Path:
    """A tiny bundle with this kind of output, by this environment's onnx and the wheel's sheafedge."""
    unpacked, bundle = work / "unpacked", work / kind
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    code = (
        "import sys; from pathlib import Path; sys.path[:0] = sys.argv[3:];"
        " from doubles.bundles import tiny_bundle; tiny_bundle(Path(sys.argv[1]), kind=sys.argv[2])"
    )
    ask(sys.executable, "-P", "-c", code, bundle, kind, unpacked, ROOT / "tests", cwd=work)
    return bundle


def main() -> int:
    checks = {
        "types": check_types,
        "install": check_install,
        "whole": lambda work: check_install(work, tests=["."]),
        "edge": check_edge,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=checks)
    chosen = parser.parse_args().check
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a canceled job leaves no gigabytes behind either
    with tempfile.TemporaryDirectory(prefix="wheel-check-") as folder:
        try:
            checks[chosen](Path(folder).resolve())
        except CheckFailedError as error:
            say(f"FAILED: {error}")
            return 1
        except subprocess.CalledProcessError as error:
            said = f"{error.stdout or ''}{error.stderr or ''}"
            say(f"FAILED with status {error.returncode}: {' '.join(error.cmd)}\n{said}")
            return 1
    say(f"{chosen} passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
