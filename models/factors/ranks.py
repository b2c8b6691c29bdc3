"""How many rank-one terms a weight keeps, and what its factors then count."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Bytes of a float32.
VALUE_BYTES = 4


def factorizes(dims: Sequence[int]) -> bool:
    """Whether a parameter is a weight that factors can make smaller: a single rank-one term has fewer numbers.

    >>> factorizes((100, 784)), factorizes((100,)), factorizes((2, 2))
    (True, False, False)
    """
    return len(dims) >= 2 and math.prod(dims) > sum(dims)


def rank_for(dims: Sequence[int], ratio: float) -> int:
    """Rank of a weight whose factors have a share 1 / ratio of its numbers, as nearly as ranks allow; at least 1.

    Args:
        dims: sizes of the modes.
        ratio: how many times fewer numbers.

    >>> rank_for((784, 100), 1.5), rank_for((784, 100), 2.0)
    (59, 44)

    Source: equations (23) and (24) of Wang et al., rounded; all ranks of their table follow.
    """
    return max(1, round(math.prod(dims) / (ratio * sum(dims))))


def n_factor_values(dims: Sequence[int], ratio: float) -> int:
    """Numbers of a parameter that is exchanged as factors, R * sum of its sizes; as it is where it does not factorize.

    >>> n_factor_values((100, 784), 2.0), n_factor_values((100,), 2.0)
    (38896, 100)
    """
    return rank_for(dims, ratio) * sum(dims) if factorizes(dims) else math.prod(dims)


def exchanged_bytes(shapes: Sequence[Sequence[int]], ratio: float | None = None) -> int:
    """Bytes of a model's parameters in float32 on their way to the server, headers excluded.

    Args:
        shapes: of all parameters.
        ratio: see `rank_for`; None: the dense model.
    """
    counts = (math.prod(dims) if ratio is None else n_factor_values(dims, ratio) for dims in shapes)
    return VALUE_BYTES * sum(counts)
