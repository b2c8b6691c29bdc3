"""Precisions of exported models, one row each: everything around an exported model reads this table.

A further precision takes a row here, and its maker in `MAKERS` of `models/export/quantize.py`. Devices without figures
for it are modelled as in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..contracts import ConfigError

#: Precision that models are trained in; the others are compared with it.
TRAINED = "float32"


@dataclass(frozen=True, slots=True)
class Precision:
    """Precision of the numbers inside a model; its inputs and outputs are float32 always.

    Attributes:
        name: name in manifests, tables and names of bundles.
        aliases: other spellings that the command line takes, and that names of older bundles end in.
        is_calibrated: whether training windows set the range of its numbers.
    """

    name: str
    aliases: tuple[str, ...] = ()
    is_calibrated: bool = False

    @property
    def is_trained(self) -> bool:
        """Whether it is the precision of training, so that no evidence beside the trained model is needed."""
        return self.name == TRAINED

    @property
    def suffix(self) -> str:
        """Ending of the names of its bundles."""
        return "" if self.is_trained else f"-{self.name}"

    @property
    def suffixes(self) -> tuple[str, ...]:
        """All endings that bundles of it can have, the present one first."""
        return (self.suffix,) if self.is_trained else (self.suffix, *(f"-{alias}" for alias in self.aliases))


_ROWS = (
    Precision(TRAINED, aliases=("none",)),
    Precision("float16", aliases=("fp16",)),
    Precision("int8", is_calibrated=True),
)
#: Name -> precision; the trained one comes first.
PRECISIONS: Mapping[str, Precision] = {row.name: row for row in _ROWS}


def precision_named(text: str) -> Precision:
    """The precision that a user calls so.

    >>> precision_named("fp16").name
    'float16'

    Raises:
        ConfigError: there is none.
    """
    known = {spelling: row for row in _ROWS for spelling in (row.name, *row.aliases)}
    if text not in known:
        also = ", ".join(alias for row in _ROWS for alias in row.aliases)
        raise ConfigError(f"--quantize must be one of {', '.join(PRECISIONS)} (or {also}) or auto, got {text[:40]!r}")
    return known[text]
