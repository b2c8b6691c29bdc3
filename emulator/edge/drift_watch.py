"""Whether a stream still looks like training: its inputs frame by frame and in windows, and shares of its answers.

Every answer is looked at; windows take one of `DriftReference.stride` instants, follow one another without overlap, and
are judged when they are full. So a test is made once per window, and its level is the share of windows that it calls
drifted where nothing changed. Memory is a few sums per stream, whatever comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contracts import Modality
from .input_summaries import summary_names
from .manifest import DriftReference, FigureBounds, InputSpec

#: Name of the answers beside those of the inputs, and of the figure about them.
ANSWERS, SHARES = "answers", "shares"

Named = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DriftVerdict:
    """What is known of a stream after an answer.

    Attributes:
        outside: modality -> figures of this answer's newest frame outside those of training.
        drifted: modality, or `ANSWERS`, -> figures that were outside in its last full window.
        is_new: whether something drifted in a window that this answer completed, and had not before.
        judged: modalities, and `ANSWERS`, of which this answer completed a window.
        is_known: whether it is known what training looked like.
    """

    outside: Named
    drifted: Named
    is_new: bool = False
    judged: tuple[str, ...] = ()
    is_known: bool = True

    def fields(self) -> dict[str, dict[str, list[str]]]:
        """Fields of an answer; none where nothing is known of training."""
        if not self.is_known:
            return {}
        return {
            "outside": {name: list(found) for name, found in self.outside.items()},
            "drifted": {name: list(found) for name, found in self.drifted.items()},
        }


class _Bounds:
    """Bounds of all figures of one input, as arrays."""

    def __init__(self, names: tuple[str, ...], bounds: Mapping[str, FigureBounds]) -> None:
        self._names = names
        rows = [(one.low, one.high, one.window_low, one.window_high) for one in (bounds[name] for name in names)]
        self._low, self._high, self._window_low, self._window_high = np.array(rows, dtype=np.float64).T
        self.size = len(names)

    def outside(self, figures: NDArray[np.float64]) -> tuple[str, ...]:
        return self._named((figures < self._low) | (figures > self._high))

    def drifted(self, means: NDArray[np.float64]) -> tuple[str, ...]:
        return self._named((means < self._window_low) | (means > self._window_high))

    def _named(self, found: NDArray[np.bool_]) -> tuple[str, ...]:
        # nothing is found nearly always
        return tuple(self._names[index] for index in np.flatnonzero(found)) if found.any() else ()


class StreamDrift:
    """Windows of one stream.

    Args:
        reference: what training looked like.
        bounds: modality -> bounds of its figures.
    """

    def __init__(self, reference: DriftReference, bounds: Mapping[Modality, _Bounds]) -> None:
        self._reference, self._bounds = reference, bounds
        self._sums = {modality: np.zeros(one.size) for modality, one in bounds.items()}
        self._counts = dict.fromkeys(bounds, 0)
        self._labels = np.zeros(len(reference.answers.shares))
        self._last: int | None = None
        self._drifted: dict[str, tuple[str, ...]] = {}

    @property
    def is_drifted(self) -> bool:
        """Whether something had drifted in its last full window."""
        return bool(self._drifted)

    def judge(self, index: int, figures: Mapping[Modality, NDArray[np.float64]], label: int) -> DriftVerdict:
        """Take one answer.

        Args:
            index: instant of the question.
            figures: modality -> [n_figures] of its newest frame; those without a frame of their own are left out.
            label: number of the label that was answered.
        """
        outside = {str(name): found for name, row in figures.items() if (found := self._bounds[name].outside(row))}
        # a stream that begins again counts from anywhere
        if self._last is not None and 0 <= index - self._last < self._reference.stride:
            return DriftVerdict(outside, self._drifted)
        self._last = index
        before = self._drifted
        full = self._full_inputs(figures)
        self._labels[label] += 1
        if self._labels.sum() >= self._reference.answers.window:
            full[ANSWERS] = self._judged_answers()
        if full:
            kept = {name: found for name, found in before.items() if name not in full}
            self._drifted = {**kept, **{name: found for name, found in full.items() if found}}
        is_new = any(name not in before for name in self._drifted)
        return DriftVerdict(outside, self._drifted, is_new, tuple(full))

    def _full_inputs(self, figures: Mapping[Modality, NDArray[np.float64]]) -> dict[str, tuple[str, ...]]:
        full: dict[str, tuple[str, ...]] = {}
        for name, row in figures.items():
            self._sums[name] += row
            self._counts[name] += 1
            if self._counts[name] >= self._reference.window:
                full[str(name)] = self._bounds[name].drifted(self._sums[name] / self._counts[name])
                self._sums[name][:] = 0.0
                self._counts[name] = 0
        return full

    def _judged_answers(self) -> tuple[str, ...]:
        answers = self._reference.answers
        distance = 0.5 * np.abs(self._labels / self._labels.sum() - answers.shares).sum()
        self._labels[:] = 0.0
        return (SHARES,) if distance > answers.distance else ()


class DriftWatch:
    """Windows of all streams of a server, the longest unused first; without a reference nothing is ever found.

    Args:
        reference: what training looked like; None: unknown.
        inputs: inputs of the model.
        most: streams at once; one more takes the place of the longest unused.
    """

    def __init__(self, reference: DriftReference | None, inputs: Sequence[InputSpec], most: int) -> None:
        self._reference, self._most = reference, most
        self._streams: OrderedDict[str, StreamDrift] = OrderedDict()
        self._bounds: dict[Modality, _Bounds] = {}
        if reference is not None:
            self._bounds = {
                spec.modality: _Bounds(summary_names(spec), reference.inputs[spec.modality]) for spec in inputs
            }

    @property
    def is_known(self) -> bool:
        """Whether the bundle says what training looked like."""
        return self._reference is not None

    @property
    def drifted(self) -> frozenset[str]:
        """Streams of which something had drifted in its last full window."""
        return frozenset(name for name, one in self._streams.items() if one.is_drifted)

    def judge(
        self,
        stream: str,
        index: int,
        figures: Mapping[Modality, NDArray[np.float64]],
        label: int,
        skipped: Collection[Modality] = (),
    ) -> DriftVerdict:
        """Take one answer of a stream.

        Args:
            stream: name of the stream.
            index, figures, label: see `StreamDrift.judge`.
            skipped: modalities whose newest frame is none of their own: missing, or stood in for.
        """
        if self._reference is None:
            return DriftVerdict({}, {}, is_known=False)
        own = self._streams.get(stream)
        if own is None:
            if len(self._streams) >= self._most:
                self._streams.popitem(last=False)
            own = self._streams[stream] = StreamDrift(self._reference, self._bounds)
        self._streams.move_to_end(stream)
        return own.judge(index, {name: row for name, row in figures.items() if name not in skipped}, label)
