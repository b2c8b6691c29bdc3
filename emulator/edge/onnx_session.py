"""Session of the ONNX runtime, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray


class OnnxSession:
    """An ONNX model that is loaded and ready to answer.

    Args:
        model: path of the file, or its content.
        cuda: run it on a GPU if that can be.
        threads: inside one answer, on a CPU.

    Attributes:
        provider: the execution provider that really runs it, as the session reports; a request for one is no proof.
        input_names: names of the inputs that must be given, in order.
        optional_names: names of those that have a default.
    """

    def __init__(self, model: Path | bytes, *, cuda: bool = False, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads  # the default takes all cores, which a device may need elsewhere
        options.log_severity_level = 3  # errors only: a missing GPU library is reported through `provider`
        wanted: list[Any] = ["CPUExecutionProvider"]
        if cuda:
            wanted.insert(0, ("CUDAExecutionProvider", {"use_tf32": 0}))  # TF32 alone would cost 1e-3 of accuracy
        if cuda and hasattr(onnxruntime, "preload_dlls"):
            # Finds the CUDA libraries of pip packages, which are on no library path.
            onnxruntime.preload_dlls()
        source = model if isinstance(model, bytes) else str(model)
        self._session = onnxruntime.InferenceSession(source, options, providers=wanted)
        self.provider: str = self._session.get_providers()[0]
        self.input_names: list[str] = [argument.name for argument in self._session.get_inputs()]
        self.optional_names: list[str] = [argument.name for argument in self._session.get_overridable_initializers()]

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata properties."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [batch, n_outputs] of named inputs in physical units; also `present`, where a modality is missing."""
        return self.answer(inputs)[0]

    def answer(
        self, inputs: Mapping[str, NDArray[np.float32]]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Logits [batch, n_outputs], and the share of every modality [batch, n_modalities] where the model has shares.

        Args:
            inputs: physical units, by name; `present` [batch, n_modalities], 1 or 0, may be among them where the
                model has several modalities, and marks which are there. What is missing is 0 everywhere.
        """
        named = [*self.input_names, *(name for name in self.optional_names if name in inputs)]
        feed: dict[str, Any] = {name: inputs[name] for name in named}
        logits, *shares = self._session.run(None, feed)
        return logits, shares[0] if shares else None
