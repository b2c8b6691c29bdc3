"""How many clients one stack holds."""

from __future__ import annotations

#: Parameters in one stack: those of more clients, with gradients and activations, do not stay near the processor
#: from one step to the next, and several stacks are computed side by side.
PARAMETERS_AT_ONCE = 100_000
#: Fewest and most clients of a stack, if there are so many. Below, what a call costs beside its arithmetic is shared by
#: too few; above, nothing of it is left to share.
FEWEST_AT_ONCE, MOST_AT_ONCE = 8, 64


def at_once(n_values: int) -> int:
    """Clients of one stack, each with so many values.

    >>> at_once(100), at_once(9_610), at_once(1_000_000)
    (64, 10, 8)
    """
    return max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, PARAMETERS_AT_ONCE // max(n_values, 1)))
