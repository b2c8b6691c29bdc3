"""The file `links.jsonl` of a run over radio links: what each link was like while it carried a message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ...emulator.network.channels.link_state import LinkState

_DECIMALS = 6


def link_line(state: LinkState) -> str:
    """Line of the file: the fields of `LinkState` as JSON, floats to six decimals."""
    return json.dumps({name: round(value, _DECIMALS) for name, value in state._asdict().items()}) + "\n"


def read_link_states(path: Path) -> Iterator[LinkState]:
    """States of a file in the order of its lines, one at a time, because a long run has many; none if there is no file.

    Args:
        path: of the file.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield LinkState(**json.loads(line))
