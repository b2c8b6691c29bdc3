"""What inputs and answers of a client looked like in training, with limits at a stated level of false alarms.

Samples of a drive follow one another, so that a window of them says less than as many independent ones. Limits of
windows are therefore taken from windows: figures of inputs by a prediction interval of Student's t over the means of
the client's training windows, distances of shares of labels by simulation with their design effect (Rao and Scott
1984), the variance of shares as a multiple of that of independent answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ...datasets.windows.samples import Samples
from ...emulator.contracts import Modality
from ...emulator.edge.drift_watch import DriftWatch
from ...emulator.edge.input_summaries import input_summaries, summary_names
from ...emulator.edge.label_probabilities import decided_labels
from ...emulator.edge.manifest import DriftReference, FigureBounds, InputSpec, LabelShares, OutputSpec
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.random_streams import named_stream
from ..wiring.evaluation import in_pieces
from ..wiring.live import LiveRows
from .export_source import ExportSource

#: Share of windows like those of training that a test calls drifted.
FALSE_ALARMS = 1e-3
#: Answers in a window of inputs and of labels; blockages are rare, so that their shares need longer.
INPUT_WINDOW, LABEL_WINDOW = 32, 128
#: Fewer training windows are no base of an interval.
FEWEST_WINDOWS = 8
#: Single frames may lie so far beyond those of training, as a part of their span.
MARGIN = 0.5
#: Smallest span of a figure, as a share of its size: figures that training never saw change are rounded differently.
_LEAST_SPAN = 1e-3
_DRAWS = 10_000

Figures = Mapping[Modality, NDArray[np.float64]]


def sample_figures(samples: Samples, specs: Sequence[InputSpec]) -> dict[Modality, NDArray[np.float64]]:
    """Modality -> [n, n_figures] figures about the newest frame of every sample."""
    pieces: dict[Modality, list[NDArray[np.float64]]] = {spec.modality: [] for spec in specs}
    for gathered in in_pieces(samples):
        for spec in specs:
            pieces[spec.modality].append(input_summaries(gathered[spec.modality], spec))
    return {modality: np.concatenate(rows) for modality, rows in pieces.items()}


def drift_reference(
    specs: Sequence[InputSpec], figures: Figures, labels: NDArray[np.int64], n_labels: int, stride: int
) -> DriftReference | None:
    """Limits from training samples in the order of time; None: too few of them.

    Args:
        specs: inputs of the model.
        figures: modality -> [n, n_figures], see `sample_figures`.
        labels: [n] labels that the model answers to them.
        n_labels: number of labels.
        stride: instants from one sample to the next.
    """
    window = min(INPUT_WINDOW, len(labels) // FEWEST_WINDOWS)
    if window < 2:
        return None
    level = FALSE_ALARMS / sum(rows.shape[1] for rows in figures.values())  # Bonferroni
    bounds = {
        str(spec.modality): {
            name: _bounds(figures[spec.modality][:, column], window, level)
            for column, name in enumerate(summary_names(spec))
        }
        for spec in specs
    }
    return DriftReference(stride, window, FALSE_ALARMS, bounds, _shares(labels, n_labels, window))


def client_drift(
    source: ExportSource, output: OutputSpec, session: OnnxSession, logits: NDArray[np.float32]
) -> tuple[DriftReference | None, DriftCounts | None]:
    """What training looked like to the model of a client, and what is said of its held-out samples.

    Args:
        source: client and run.
        output: meaning of the logits, as it is served.
        session: its model.
        logits: [n, n_outputs] what it answers to the held-out samples.
    """
    train, test, specs = source.data.train, source.data.test, source.inputs
    assert not isinstance(train, LiveRows), "exported from replayed rows"
    names = [spec.modality for spec in specs]
    answered = [session.run_all({str(name): gathered[name] for name in names}) for gathered in in_pieces(train)]
    stride = max(1, int(np.median(np.diff(train.end)))) if len(train) > 1 else 1
    labels = decided_labels(np.concatenate(answered), output)
    reference = drift_reference(specs, sample_figures(train, specs), labels, len(output.labels), stride)
    if reference is None:
        return None, None
    return reference, drift_counts(reference, specs, sample_figures(test, specs), decided_labels(logits, output))


@dataclass(frozen=True, slots=True)
class DriftCounts:
    """What a watch says of samples that follow one another.

    Attributes:
        answers, outside: samples, and those of which a figure lies outside of training.
        windows, drifted: full windows of inputs and answers, and those that drifted.
    """

    answers: int
    outside: int
    windows: int
    drifted: int

    def as_metrics(self) -> dict[str, int]:
        """`Manifest.metrics["drift"]`."""
        return asdict(self)


def drift_counts(
    reference: DriftReference, specs: Sequence[InputSpec], figures: Figures, labels: NDArray[np.int64]
) -> DriftCounts:
    """What a server would say of these samples; arguments as of `drift_reference`."""
    watch = DriftWatch(reference, specs, 1)
    n_outside = n_windows = n_drifted = 0
    for row, label in enumerate(labels):
        now = {modality: rows[row] for modality, rows in figures.items()}
        verdict = watch.judge("held out", row * reference.stride, now, int(label))
        n_outside += bool(verdict.outside)
        n_windows += len(verdict.judged)
        n_drifted += sum(name in verdict.drifted for name in verdict.judged)
    return DriftCounts(len(labels), n_outside, n_windows, n_drifted)


def _bounds(values: NDArray[np.float64], window: int, level: float) -> FigureBounds:
    from scipy.special import stdtrit

    low, high = float(values.min()), float(values.max())
    least = _LEAST_SPAN * max(abs(low), abs(high), _LEAST_SPAN)
    beyond = max(MARGIN * (high - low), least)
    means = _by_window(values, window).mean(axis=1)
    # of a further mean around the mean of n others
    width = float(stdtrit(len(means) - 1, 1.0 - level / 2.0) * means.std(ddof=1) * np.sqrt(1.0 + 1.0 / len(means)))
    width = max(width, least)
    middle = float(means.mean())
    return FigureBounds(*(_short(one) for one in (low - beyond, high + beyond, middle - width, middle + width)))


def _shares(labels: NDArray[np.int64], n_labels: int, window: int) -> LabelShares:
    """Shares of labels, and the distance that windows of them exceed by chance as seldom as the level says."""
    one_hot = np.eye(n_labels)[labels]
    shares = one_hot.mean(axis=0)
    draws = named_stream(0, "drift", "shares")
    # the design effect is known from as many windows as there are: its posterior, as that of a variance
    freedom = len(labels) // window - 1
    effects = np.maximum(1.0, _design_effect(one_hot - shares) * freedom / draws.chisquare(freedom, _DRAWS))
    # shares of training are known from so many independent answers: a Dirichlet posterior, after Jeffreys' prior
    weights = draws.standard_gamma(len(labels) / effects[:, None] * shares + 0.5)
    n_independent = np.maximum(1, np.round(LABEL_WINDOW / effects)).astype(np.int64)
    counts = draws.multinomial(n_independent, weights / weights.sum(axis=1, keepdims=True))
    distances = 0.5 * np.abs(counts / n_independent[:, None] - shares).sum(axis=1)
    return LabelShares(
        tuple(_short(float(one)) for one in shares),
        LABEL_WINDOW,
        _short(float(np.quantile(distances, 1.0 - FALSE_ALARMS))),
    )


def _design_effect(centered: NDArray[np.float64]) -> float:
    """Variance of the mean of rows [n, n_labels] around 0 that follow one another, as a multiple of independent ones'.

    1 + twice the sum of the autocorrelations, up to the first pair of neighbors whose sum is not positive.

    Source: C. J. Geyer, Practical Markov Chain Monte Carlo, 1992, the initial positive sequence.
    """
    n = len(centered)
    spectrum = np.abs(np.fft.rfft(centered, 2 * n, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum.sum(axis=1))[:n]
    if covariance[0] <= 0.0:  # one label alone
        return 1.0
    correlation = covariance / covariance[0]
    pairs = correlation[: n - n % 2].reshape(-1, 2).sum(axis=1)
    n_positive = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else len(pairs)
    return max(1.0, float(2.0 * pairs[:n_positive].sum() - 1.0))


def _by_window(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """[n_windows, window, ...] of values [n, ...]; what fills no window is left out."""
    n = len(values) // window
    return values[: n * window].reshape(n, window, *values.shape[1:])


def _short(value: float) -> float:
    return float(f"{value:.6g}")
