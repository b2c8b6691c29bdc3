"""Build a release and check it: leaves the files in dist/ and says what to type to publish them (`make release`).

What is built is the last commit, whatever else lies in the folder. Nothing is uploaded and no tag is made.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from wheel_check import CheckFailedError, check_commands, check_layout, create_environment, ensure, run

ROOT = Path(__file__).resolve().parents[1]


def say(sentence: str) -> None:
    print(f"release: {sentence}", flush=True)


def declared_version(root: Path) -> str:
    """The version that `version.py` states."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / "version.py").read_text(encoding="utf-8"), re.MULTILINE)
    ensure(found is not None, 'version.py has no line __version__ = "..."')
    assert found is not None
    return found[1]


def complaints(root: Path, version: str) -> list[str]:
    """What a release of this version still lacks, one sentence each."""
    headings = re.findall(r"^## (\S+) \(([^)]*)\)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    date = dict(headings).get(version)
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    found = []
    if date is None:
        found.append(f"CHANGELOG.md has no section '## {version} (YYYY-MM-DD)'; write one")
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        found.append(f"CHANGELOG.md says '## {version} ({date})'; put the date of the release there, as YYYY-MM-DD")
    if cited is None or cited[1] != version:
        found.append(f"CITATION.cff names version {cited[1] if cited else 'none'}; set it to {version}")
    return found


def repository_complaints(root: Path, version: str) -> list[str]:
    """The same about the repository: changes that are not in it, and a tag that exists."""
    found = []
    if changed := git(root, "status", "--porcelain"):
        found.append(
            f"{len(changed.splitlines())} files differ from the last commit, which is what is built; commit them"
        )
    if git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} exists; raise the version in version.py")
    return found


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def build(root: Path, work: Path, into: Path) -> Path:
    """The source archive, and the wheel built from it, of the last commit; the path of the wheel."""
    archive = work / "commit.tar"
    git(root, "archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as commit:
        commit.extractall(work / "commit", filter="data")
    shutil.rmtree(into, ignore_errors=True)  # files of another version would be uploaded with these
    run(sys.executable, "-P", "-m", "build", "--outdir", into, work / "commit", cwd=work)
    (wheel,) = into.glob("*.whl")
    return wheel


def check(wheel: Path, version: str, work: Path) -> None:
    """Install the wheel in an environment of its own, away from the sources, and use it."""
    check_layout(wheel)
    python = create_environment(work / "venv")
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=work)
    run(python, "-m", "pip", "check", cwd=work)
    check_commands(python, version=version, work=work)


def main() -> int:
    try:
        version = declared_version(ROOT)
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            work = Path(folder).resolve()
            wheel = build(ROOT, work, ROOT / "dist")
            check(wheel, version, work)
    except (CheckFailedError, subprocess.CalledProcessError) as error:
        say(f"FAILED: {error}")
        return 1
    say(f"dist/ holds {', '.join(sorted(path.name for path in (ROOT / 'dist').iterdir()))}; installed and tried")
    lacking = [*complaints(ROOT, version), *repository_complaints(ROOT, version)]
    for sentence in lacking:
        say(f"before publishing: {sentence}")
    say(f"then type:{publishing(version)}" if lacking else f"to publish it, type:{publishing(version)}")
    return 0


def publishing(version: str) -> str:
    """The commands that publish what was built."""
    return f"""
    .ci/run                                         # all checks
    git tag -a v{version} -m "sheafedge {version}"
    git push origin v{version}                         # .github/workflows/release.yml builds again and publishes
  or, without the workflow:
    python3 -m pip install twine && python3 -m twine upload dist/*"""


if __name__ == "__main__":
    sys.exit(main())
