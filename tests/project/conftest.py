"""Fixtures of tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType

import pytest
from doubles.page_scripts import RESULTS, page_scripts


@pytest.fixture(scope="module")
def scripts() -> Iterator[Mapping[str, ModuleType]]:
    """The scripts behind docs/results.md, by name."""
    with page_scripts([RESULTS], [path.stem for path in RESULTS.glob("*.py")]) as found:
        yield found
