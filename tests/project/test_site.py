"""The documentation site: every page is in its navigation, every link leads somewhere, its reference is complete.

`make docs` builds it with all warnings as errors; these tests need nothing but the pages.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import sheafedge
from sheafedge import plugins
from sheafedge.datasets.recordings.recording_layout import FIELDS
from sheafedge.emulator.contracts import SheafedgeError
from sheafedge.emulator.network.channels.link_state import LinkState
from sheafedge.emulator.recorder import Traffic
from sheafedge.scenarios.catalog.field_catalog import scenario_fields
from sheafedge.scenarios.tasks.task_table import TASKS

pytestmark = pytest.mark.checkout  # docs are not shipped

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/clients/README.md")
PAGES = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in ELSEWHERE)]
#: Pages that are made when the site is built.
MADE = {"index.md", "contributing.md", "changelog.md", "clients.md"}
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module")
def made_pages() -> dict[str, str]:
    """Pages of the script that makes them from the code; scripts are no package."""
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "site" / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["reference_pages"] = found
    spec.loader.exec_module(found)
    pages: dict[str, str] = found.pages()
    return pages


def in_navigation() -> list[str]:
    return re.findall(r"^ +- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and the site make them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    slugs: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        found.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return found


def words(name: str) -> set[str]:
    """What a page under `docs/` says in code."""
    return set(re.findall(r"`([^`\s]+)`", (DOCS / name).read_text(encoding="utf-8")))


def test_templates_are_where_the_site_leaves_them_out() -> None:
    assert {*DOCS.rglob("*.md")} == {*DOCS.glob("*.md"), *DOCS.glob("*/*.md")}
    assert "\n  /*/*.md\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_once(made_pages: dict[str, str]) -> None:
    expected = {page.name for page in DOCS.glob("*.md")} | MADE | made_pages.keys()
    assert Counter(in_navigation()) == Counter(expected)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for target, anchor in _LINK.findall(text):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{page.name}: {target}#{anchor}"


def test_the_reference_has_every_command_every_field_and_every_public_name(made_pages: dict[str, str]) -> None:
    commands = re.findall(r"^## sheafedge (.+)$", made_pages["reference/command_line.md"], re.MULTILINE)
    assert {"run", "compare", "export", "serve", "import deepsense"} <= set(commands)
    assert "`--set KEY=VALUE`" in made_pages["reference/command_line.md"]
    assert "--bind" in made_pages["reference/command_line.md"], "options of commands for devices"
    fields = re.findall(r"^\| `(\w+)` \|", made_pages["reference/fields.md"], re.MULTILINE)
    assert Counter(fields) == Counter(one.name.rpartition(".")[2] for one in scenario_fields() if not one.is_table)
    names = set(re.findall(r"heading: sheafedge\.(\S+)$", made_pages["reference/python.md"], re.MULTILINE))
    assert names == {*sheafedge.__all__, *(f"plugins.{name}" for name in plugins.__all__)} - {"__version__", "plugins"}


def test_the_page_of_errors_has_every_class() -> None:
    for package in ("emulator", "models", "datasets", "scenarios"):  # classes are known once their modules are imported
        for path in (ROOT / package).rglob("*.py"):
            if "Error):" in path.read_text(encoding="utf-8"):
                importlib.import_module(".".join(["sheafedge", *path.relative_to(ROOT).with_suffix("").parts]))
    known, found = {SheafedgeError}, set()
    while known:
        found |= {one.__name__ for one in known if one.__module__.startswith("sheafedge.")}
        known = {child for one in known for child in one.__subclasses__()}
    assert len(found) > 15
    assert found <= words("errors.md")


def test_the_pages_of_files_and_metrics_have_every_column() -> None:
    assert {*LinkState._fields, *FIELDS, *Traffic.__dataclass_fields__} <= words("files.md")
    scores = {column.key for task in TASKS.values() for column in task.columns if not column.over_clients}
    assert scores | TASKS.keys() <= words("metrics.md")
