"""Hook of MkDocs: pages that are made when the site is built, and links out of `docs/` into the repository."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads this file by itself, without its folder

import reference_pages

ROOT = Path(__file__).resolve().parents[2]
#: Pages outside of `docs/` -> their place in the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/clients/README.md": "clients.md",
}
#: Files that pages link to, outside of `docs/`, lie in this folder of the site.
REPOSITORY = "repository"
_IMPORTABLE = tempfile.TemporaryDirectory(prefix="sheafedge-docs-")  # removed when the process ends
#: A search for a field or an option means the page that explains it, not the note of its change.
_FOUND_LAST = "---\nsearch:\n  boost: 0.2\n---\n\n"
_LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\bsrc=["']?(?:https?:)?//|<link[^>]*\bhref=["']?(?:https?:)?//""")
#: The text of a link that is the file name of its target: good in a checkout, not in a site.
_NAMED_BY_FILE = re.compile(r"\[([\w./]+\.md)\](?=\(\1[)#])")
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")


@event_priority(100)  # before mkdocstrings reads its settings
def on_config(config: Any) -> Any:
    """Let mkdocstrings read this checkout, which is a package only under the name `sheafedge`."""
    package = Path(_IMPORTABLE.name) / "sheafedge"
    if not package.exists():
        package.symlink_to(ROOT, target_is_directory=True)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [_IMPORTABLE.name]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add pages of the root, pages made from the code, and files that pages link to."""
    texts = {
        place: site_links((ROOT / name).read_text(encoding="utf-8"), Path(name).parent.as_posix())
        for name, place in PAGES.items()
    }
    texts["changelog.md"] = f"{_FOUND_LAST}{texts['changelog.md']}"
    texts.update(reference_pages.pages())
    for place, text in texts.items():
        files.append(File.generated(config, place, content=text))
    linked = {target for text in texts.values() for target in repository_files(text)}
    for file in files.documentation_pages():
        if file.generated_by is None:
            linked |= repository_files(site_links(file.content_string, "docs"))
    for target in sorted(linked):
        files.append(File.generated(config, f"{REPOSITORY}/{target}", abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links of a page under `docs/` as links inside the site."""
    return markdown if page.file.generated_by is not None else site_links(markdown, "docs")


def on_post_build(*, config: Any) -> None:
    """Refuse a site that loads anything from elsewhere: it is read from files, and without network.

    Raises:
        PluginError: naming the pages.
    """
    pages = sorted(Path(config.site_dir).rglob("*.html"))
    found = [page.name for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))]
    if found:
        raise PluginError(f"these pages load something over the network: {', '.join(found)}")


def site_links(text: str, folder: str) -> str:
    """Text of a page that lies in this folder of the repository, with links as they are in the site."""
    titled = _NAMED_BY_FILE.sub(lambda found: f"[{_title(ROOT / folder / found[1])}]", text)
    return _LINK.sub(lambda found: _site_link(found[1], folder), titled)


def _title(page: Path) -> str:
    """First heading of a page; its file name where it has none."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) if page.exists() else None
    return heading[1] if heading else page.name


def _site_link(target: str, folder: str) -> str:
    path = (ROOT / folder / target).resolve()
    if not path.exists() or not path.is_relative_to(ROOT):
        return target  # MkDocs says that it is not there
    name = path.relative_to(ROOT).as_posix()
    if name in PAGES:
        return PAGES[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else f"{REPOSITORY}/{name}"


def repository_files(text: str) -> set[str]:
    """Files outside of `docs/` that a page of the site links to."""
    links = set(_LINK.findall(text))
    return {link.removeprefix(f"{REPOSITORY}/") for link in links if link.startswith(f"{REPOSITORY}/")}
