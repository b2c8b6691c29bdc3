"""A table of a scenario or world file."""

from __future__ import annotations

import reprlib
from typing import Annotated

import pydantic
from pydantic import AfterValidator, Field

from ...emulator.contracts import ConfigError

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]
#: Folder names of this length fit every file system, with an ending.
MAX_NAME_LENGTH = 100


def _names_a_folder(name: str) -> str:
    printable = all(character.isprintable() and character not in "/\\" for character in name)
    leads_out = name.startswith(".") or ".." in name
    if not name.strip() or leads_out or not printable or len(name) > MAX_NAME_LENGTH:
        raise ConfigError(
            f"name must be able to name a run folder, got {reprlib.repr(name)}; use up to {MAX_NAME_LENGTH} letters,"
            " digits, '-' and '_'"
        )
    return name


FolderName = Annotated[str, AfterValidator(_names_a_folder)]


class Section(pydantic.BaseModel):
    """Frozen; unknown keys are errors, and so are numbers that are not finite."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
