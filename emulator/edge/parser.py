"""How commands of an edge device read what follows their names, and what people are told of them; no heavy imports."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import NoReturn

from ..contracts import ConfigError

#: Command -> what it does, in one line.
SUMMARIES: Mapping[str, str] = {
    "serve": "Serve a bundle: sensor frames in, answers out.",
    "bench": "Measure how fast a bundle answers here, beside its other precisions, torch, and other devices.",
    "verify": "Check that a bundle is whole and answers here as it should.",
}


class OneSentenceParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, as all commands here do.

    Args:
        command: a name of `SUMMARIES`.
    """

    def __init__(self, command: str) -> None:
        super().__init__(prog=f"sheafedge {command}", description=SUMMARIES[command], allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")
