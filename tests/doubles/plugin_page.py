"""The examples of `docs/plugins.md`: files and commands as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


def examples() -> dict[str, str]:
    """Name of every file of the page -> its content."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return {text.removeprefix("# ").split(":", 1)[0]: text for text in blocks}


def write_examples(folder: Path) -> None:
    """All files of the page in one folder."""
    for name, text in examples().items():
        (folder / name).write_text(text)


def commands() -> list[list[str]]:
    """Arguments of every command of the page, in order."""
    text = PAGE.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("    .venv/bin/sheafedge ")]
