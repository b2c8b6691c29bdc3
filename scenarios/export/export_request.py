"""Request for an export: clients, precision, and the accuracy that a quantized model may lose."""

from __future__ import annotations

from dataclasses import dataclass

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.edge.precisions import TRAINED, precision_named
from ...models.export.quantize import CalibrationName


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Request for the models of some clients in one precision.

    Attributes:
        clients: clients whose models are exported; None: all.
        precision: name of a row of `PRECISIONS`; an alias becomes the name.
        calibration: how activation ranges follow from training windows, where the precision is calibrated.
        calibration_windows: number of these windows, spread over the client's own training rows.
        min_agreement: share of held-out samples decided as by the trained model, below which a warning is due.
        max_loss: of the first score, on held-out or shifted rows, above which nothing is written.
        archives: also as one `.zip` each.

    Raises:
        ConfigError: no such precision, a limit outside [0, 1], or no window.
    """

    clients: tuple[NodeId, ...] | None = None
    precision: str = TRAINED
    calibration: CalibrationName = "minmax"
    calibration_windows: int = 256
    min_agreement: float = 0.98
    max_loss: float = 0.02
    archives: bool = True

    def __post_init__(self) -> None:
        # the way to set a field of a frozen dataclass in __post_init__
        object.__setattr__(self, "precision", precision_named(self.precision).name)
        for option, value in (("--min-agreement", self.min_agreement), ("--max-loss", self.max_loss)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{option} must lie in [0, 1], got {value:g}; 0.98 and 0.02 are usual")
        if self.calibration_windows < 1:
            raise ConfigError(f"--windows must be at least 1, got {self.calibration_windows}; 256 are usual")
