"""Rows of the table of algorithms for test batteries: those that repeat another row are marked slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS

#: Pairs of a rule and an exchange that stand for all others: rules have references of their own.
STAND_FOR_ALL = frozenset({"ditto_decentralized", "fedavg"})
REPEATED = (
    frozenset(name for name, spec in ALGORITHMS.items() if spec.server or name.endswith("_decentralized"))
    - STAND_FOR_ALL
)


def rows(names: Iterable[str] = ALGORITHMS, of: Mapping[str, Any] | None = None) -> list[Any]:
    """Parameters of a test.

    Args:
        names: of algorithms, or of cases.
        of: case -> its algorithm; None: the names are those of algorithms.
    """
    return [
        pytest.param(name, marks=pytest.mark.slow) if (of or {}).get(name, name) in REPEATED else name for name in names
    ]
