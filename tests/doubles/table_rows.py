"""Rows of the table of algorithms for test batteries: those that repeat another row are marked slow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS

#: Pairs of a rule and an exchange that stand for all others, rules have references of their own; and a server that
#: generates models.
STAND_FOR_ALL = frozenset({"ditto_decentralized", "fedavg", "fedsheafhn"})
REPEATED = (
    frozenset(name for name, spec in ALGORITHMS.items() if spec.server or name.endswith("_decentralized"))
    - STAND_FOR_ALL
)
#: Variants of an algorithm with a phase, a message or a state that no algorithm has by itself.
QUICK_VARIANTS = frozenset(
    {
        "sheaf_dmfl single exchange",
        "sheaf_dmfl trust per edge",
        "sheaf_dmfl rotating index",
        "sheaf_dmfl personal encoders",
        "sheaf_dmfl eight bits",
        "sheaf_diffusion listening for an order",
        "sheaf_fmtl Hadamard maps",
        "sheaf_fmtl weight decay",
        "sheaf_dmfl_att with dropout",
        "dpsgd with statistics of its own",
    }
)


def rows(names: Iterable[str] = ALGORITHMS, of: Mapping[str, Any] | None = None) -> list[Any]:
    """Parameters of a test.

    Args:
        names: of algorithms, or of cases.
        of: case -> its algorithm; None: the names are those of algorithms.
    """
    return [
        pytest.param(name, marks=pytest.mark.slow) if is_slow((of or {}).get(name, name), name) else name
        for name in names
    ]


def is_slow(algorithm: str, case: str) -> bool:
    """Whether an algorithm, or one of its variants, repeats what others show."""
    is_variant = case not in ALGORITHMS
    return algorithm in REPEATED or (is_variant and case not in QUICK_VARIANTS)
