"""What `make release` asks before something is published."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from sheafedge.version import __version__

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script; scripts are no package."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def write(folder: Path, *, changelog: str, cited: str) -> None:
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {changelog}\n")
    (folder / "CITATION.cff").write_text(f"cff-version: 1.2.0\nversion: {cited}\n")


def test_the_version_is_that_of_the_package(release: ModuleType) -> None:
    assert release.declared_version(ROOT) == __version__
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == __version__


def test_a_release_with_a_date_and_one_version_everywhere_lacks_nothing(release: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, changelog="1.2.0 (2027-01-31)", cited="1.2.0")
    assert release.complaints(tmp_path, "1.2.0") == []


def test_what_is_missing_is_said(release: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, changelog="1.2.0 (unreleased)", cited="1.1.0")
    undated, uncited = release.complaints(tmp_path, "1.2.0")
    assert "put the date" in undated
    assert "names version 1.1.0; set it to 1.2.0" in uncited
    assert "has no section '## 1.3.0 (YYYY-MM-DD)'" in release.complaints(tmp_path, "1.3.0")[0]


def test_changes_that_are_not_committed_and_a_tag_that_exists_are_said(release: ModuleType, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        settings = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    assert release.repository_complaints(tmp_path, "1.2.0") == []
    (tmp_path / "a").write_text("2")
    git("tag", "v1.2.0")
    changed, tagged = release.repository_complaints(tmp_path, "1.2.0")
    assert "1 files differ" in changed
    assert "v1.2.0 exists" in tagged


def test_the_workflow_builds_as_the_makefile_does() -> None:
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    commands = [step.get("run", "") for step in workflow["jobs"]["build"]["steps"]]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    made = [command.split()[1] for command in commands if command.startswith("make ")]
    assert made == ["release", "docs"]
    assert set(made) <= set(targets)
    assert workflow["jobs"]["publish"]["needs"] == "build"
