"""Tables without plugins after every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sheafedge.emulator.plugin_sources import LOADED
from sheafedge.scenarios.plugins.loading import unload


@pytest.fixture(autouse=True)
def _no_plugin_stays() -> Iterator[None]:
    yield
    for name in list(LOADED):
        unload(name)
