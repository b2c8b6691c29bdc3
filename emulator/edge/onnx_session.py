"""Session of the ONNX runtime, on a CPU or a GPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from ..contracts import PRESENT_NAME

#: A run of a served model that takes longer is stopped; a model that a stream waits for answers in milliseconds.
LONGEST_RUN_S = 5.0
#: Rows of a piece where there are many. Activations of 32 windows of images stay in the cache of a core; more take the
#: runtime half as long again, most of it for memory that it asks for.
ROWS_AT_ONCE = 32
# Nothing on stderr: what went wrong is raised, and whether there is a GPU is reported through `provider`. The
# runtime's own lines quote names of the model, which may come from a stranger and hold what steers a terminal.
_FATAL_ONLY = 4


class _Run(NamedTuple):
    options: onnxruntime.RunOptions
    begun_s: float


class OnnxSession:
    """An ONNX model that is loaded and ready to answer.

    Args:
        model: path of the file, or its content.
        cuda: run it on a GPU if that can be.
        threads: inside one answer, on a CPU.

    Attributes:
        provider: the execution provider that really runs it, as the session reports; a request for one is no proof.
        gives_shares: whether it says how much each modality counts.
        input_names: names of the inputs that must be given, in order.
        optional_names: names of those that may be left out: `present`, which is then 1 for every modality.
    """

    def __init__(self, model: Path | bytes, *, cuda: bool = False, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads  # the default takes all cores, which a device may need elsewhere
        options.log_severity_level = _FATAL_ONLY
        # Not the runtime's own format, which it would recognize by itself and hardly checks.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        wanted: list[Any] = ["CPUExecutionProvider"]
        if cuda and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            wanted.insert(0, ("CUDAExecutionProvider", {"use_tf32": 0}))  # TF32 alone would cost 1e-3 of accuracy
        if cuda and hasattr(onnxruntime, "preload_dlls"):
            # Finds the CUDA libraries of pip packages, which are on no library path.
            onnxruntime.preload_dlls()
        source = model if isinstance(model, bytes) else str(model)
        self._session = onnxruntime.InferenceSession(source, options, providers=wanted)
        self._running: _Run | None = None
        self.provider: str = self._session.get_providers()[0]
        self.gives_shares: bool = len(self._session.get_outputs()) > 1
        arguments = self._session.get_inputs()
        self.input_names: list[str] = [argument.name for argument in arguments if argument.name != PRESENT_NAME]
        # In files of earlier releases `present` has a default of its own.
        self.optional_names: list[str] = [argument.name for argument in self._session.get_overridable_initializers()]
        self._defaults: dict[str, NDArray[np.float32]] = {}
        if len(arguments) > len(self.input_names):
            self.optional_names.append(PRESENT_NAME)
            self._defaults[PRESENT_NAME] = np.ones((1, len(self.input_names)), np.float32)

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata properties."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [batch, n_outputs] of named inputs in physical units; also `present`, where a modality is missing."""
        return self.answer(inputs)[0]

    def run_all(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """As `run`, of many rows: piece by piece, in pieces that are fast."""
        n = len(next(iter(inputs.values())))
        pieces = range(0, n, ROWS_AT_ONCE)
        return np.concatenate(
            [self.run({name: rows[at : at + ROWS_AT_ONCE] for name, rows in inputs.items()}) for at in pieces]
        )

    def answer(
        self, inputs: Mapping[str, NDArray[np.float32]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Logits [batch, n_outputs], and the share of every modality [batch, n_modalities] where the model has shares.

        Args:
            inputs: physical units, by name; `present` [batch, n_modalities], 1 or 0, may be among them where the
                model has several modalities, and marks which are there. What is missing is 0 everywhere.
        """
        named = [*self.input_names, *(name for name in self.optional_names if name in inputs)]
        feed: dict[str, Any] = {**self._defaults, **{name: inputs[name] for name in named}}
        options = onnxruntime.RunOptions()
        options.log_severity_level = _FATAL_ONLY
        self._running = _Run(options, time.monotonic())
        try:
            logits, *shares = self._session.run(None, feed, options)
        finally:
            self._running = None
        return logits, shares[0] if shares else None

    def stop_longer_than(self, limit_s: float) -> None:
        """Stop a run that has taken so long; it ends with an error before the next node of its graph.

        Any thread may call this. Loops of a graph are stopped as well; a single node that takes long is not.
        """
        run = self._running
        if run is not None and time.monotonic() - run.begun_s >= limit_s:
            run.options.terminate = True
