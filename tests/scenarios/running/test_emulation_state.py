"""A saved emulation that does not fit is refused by the place that does not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from integration.tiny import tiny, wired
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.saved_state import SavedState
from sheafedge.scenarios.running.emulation_state import emulation_state, restore_emulation
from sheafedge.scenarios.wiring.emulation import Emulation

WRONG: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "a stream": (("clock", "streams"), {}, r"clock\.streams must have a part"),
    "a counter": (("recorder", "traffic", "bytes"), 1.5, r"recorder\.traffic\.bytes must be a whole number"),
    "a chain of hashes": (("recorder", "trace"), None, r"recorder\.trace must be text, got nothing"),
    "messages on air": (("network", "flights"), {}, r"network\.flights must be a list"),
    "a queue": (("senders", 0, "free_at_s"), "now", r"senders\[0\]\.free_at_s must be a number"),
    "queues": (("senders",), [], r"senders must be a list of \d+, got 0"),
    "an inbox": (("inboxes", "0"), {}, r"inboxes\.0 must have a part 'policy'"),
    "learners": (("learners",), [], r"learners must be a list of \d+, got 0"),
}


@pytest.fixture(scope="module")
def emulation() -> Iterator[Emulation]:
    built = wired(tiny({"link.loss_probability": 0.1})).emulation
    yield built
    built.close()


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_named(emulation: Emulation, what: str) -> None:
    place, value, sentence = WRONG[what]
    tree: Any = copy.deepcopy(emulation_state(emulation))
    part = tree
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    with pytest.raises(ConfigError, match=f"^state of a run: {sentence}"):
        restore_emulation(emulation, SavedState(tree, owner="a run"), 0)


def test_what_fits_is_restored(emulation: Emulation) -> None:
    restore_emulation(emulation, SavedState(emulation_state(emulation), owner="a run"), 0)
