"""Best beams of samples that have a label and no powers, all of a table or some beside others.

Labels of a table without any powers count from 1 in a codebook of 64, as DeepSense does; beside samples with powers,
these show how labels count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from ...emulator.regular_file import shown
from .deepsense_labels import BeamNumbering, detect_beam_numbering, meanings_of
from .deepsense_samples import EMPTY, UsableSamples
from .deepsense_sources import Sources
from .deepsense_table import DeepSenseTable

#: Beams of the codebook that labels without powers count.
LABELED_BEAMS = 64


def labels_alone(
    table: DeepSenseTable, sources: Sources, samples: UsableSamples, asked: Sequence[str]
) -> tuple[Sources, NDArray[np.bool_]]:
    """Sources, without powers where the table names none; and [n_rows] samples with a beam label and no powers.

    Blockage labels are checked with the powers of all samples, so that none goes without in tables that have them. Nor
    does any where powers are among the sensors that were `asked` for by name.
    """
    everywhere, nowhere = np.ones(len(table), dtype=np.bool_), np.zeros(len(table), dtype=np.bool_)
    if sources.power is None:
        return sources, everywhere
    if sources.beam is None or sources.blockage is not None or "rf" in asked:
        return sources, nowhere
    alone = samples.lacking(sources.power)
    if not alone.all():
        return sources, alone
    # with names of files an archive part is missing, which is refused
    named = {cell.lower() for cell in table.columns[sources.power]} - EMPTY
    return (sources, nowhere) if named else (replace(sources, power=None), everywhere)


def beams_of_labels(
    table: DeepSenseTable, column: str, labels: NDArray[np.int64], n_beams: int, notes: list[str]
) -> NDArray[np.int64]:
    """[n_rows] best beams from 0, from labels alone: counted from 1, as DeepSense does, unless one of them is 0.

    Raises:
        DataError: a label outside of the codebook of 64 beams; or fewer beams are wanted, which needs their powers.
    """
    first = 0 if (labels == 0).any() else 1
    beams = labels - first
    odd = np.flatnonzero((beams < 0) | (beams >= LABELED_BEAMS))
    if len(odd):
        raise DataError(
            f"{table.where(odd[0])}: {column} must be a beam from {first} to {LABELED_BEAMS - 1 + first}, got"
            f" {labels[odd[0]]}"
        )
    if n_beams != LABELED_BEAMS:
        raise DataError(
            f"{shown(table.path)}: the best of {n_beams} beams is known from powers alone, and none are read;"
            f" import with {LABELED_BEAMS} beams"
        )
    notes.append(
        f"no powers: best_beam is {column}, counted from {first}; which beams come close, how much power a wrong beam"
        " costs, and whether the labels are shifted cannot be told"
    )
    return beams


def best_beams_alone(
    table: DeepSenseTable,
    column: str,
    labels: NDArray[np.int64],
    powers: NDArray[np.float64],
    alone: NDArray[np.bool_],
    samples: UsableSamples,
    n_beams: int,
    notes: list[str],
) -> NDArray[np.int64]:
    """[n_rows] beams that labels without powers mean, numbered as those that have them."""
    kept = samples.kept()
    swept = kept[~alone[kept]]
    if not len(swept):
        raise DataError(f"{table.path.name}: no sample with powers is left that shows how {column} counts beams")
    numbering = detect_beam_numbering(table.take(swept), column, labels[swept], powers[swept])
    beams = _beams_meant(column, labels, alone, numbering, n_beams, samples)
    if n_alone := int(alone[samples.rows()].sum()):
        notes.append(
            f"{n_alone} samples have no powers: their best beam is {column}, {numbering.name} as in the others; how"
            " much power a wrong beam costs is known of the others alone"
        )
    return beams


def _beams_meant(
    column: str,
    labels: NDArray[np.int64],
    alone: NDArray[np.bool_],
    numbering: BeamNumbering,
    n_beams: int,
    samples: UsableSamples,
) -> NDArray[np.int64]:
    """[n_rows] beams from 0 that labels mean by the numbering that sweeps of other samples have shown.

    Args:
        column: column of the labels.
        labels: [n_rows] as in the table.
        alone: [n_rows] samples without powers; those whose label is no beam of the codebook are dropped.
        numbering: of the samples with powers.
        n_beams: beams that are kept.
        samples: gets what is dropped.
    """
    n_labeled, beams = meanings_of(labels, LABELED_BEAMS)[numbering.name]
    why = f"{column}: no powers, and a label of {n_labeled} beams" if n_labeled != n_beams else f"{column}: no beam"
    fits = (n_labeled == n_beams) & (beams >= 0) & (beams < n_beams)
    samples.leave_out(np.flatnonzero(alone & ~fits).tolist(), why)
    return beams
