"""Mean and spread of a figure over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: seed, as JSON has it -> value
Values = Mapping[str, float]


def spread(values: Values) -> dict[str, Any]:
    """Mean, sample standard deviation (None for one seed), number of seeds, and the values themselves."""
    listed = list(values.values())
    return {
        "mean": float(np.mean(listed)) if listed else None,
        "sd": float(np.std(listed, ddof=1)) if len(listed) > 1 else None,
        "n": len(listed),
        "values": dict(values),
    }


def differences(values: Values, reference: Values) -> dict[str, float]:
    """Per seed, over the seeds that both have: what the two share, such as an easy split, cancels."""
    return {seed: value - reference[seed] for seed, value in values.items() if seed in reference}
