"""Samples of a base station in its own numbering of beams.

An array may be mounted upside down, its codebook may begin elsewhere or be listed in any order: only the base station
knows its numbers, and nothing that it measures changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .samples import Samples
from .sensor_windows import BeamWindows


def renumbered(samples: Samples, numbering: NDArray[np.int64]) -> Samples:
    """Samples with renumbered beams, in labels, powers and input sweeps.

    Labels are found before beams get new numbers, so that a tie between two beams is broken as ever.

    Args:
        samples: samples of beams, in the order of the codebook.
        numbering: [n_beams] beam that each new number stands for; every beam once.

    Returns:
        Samples that put their sweeps in this order when inputs are gathered; frames stay shared.
    """
    assert isinstance(samples, BeamWindows), "there are no beams in other samples"
    if np.array_equal(numbering, np.arange(len(numbering))):
        return samples
    # the argsort of a permutation is its inverse: beam -> new number
    number_of = np.argsort(numbering)
    return replace(
        samples,
        numbering=numbering,
        label=number_of[samples.label],
        previous_beam=number_of[samples.previous_beam],
    )
