"""A table of a scenario or world file."""

from __future__ import annotations

from typing import Annotated

import pydantic
from pydantic import Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]


class Section(pydantic.BaseModel):
    """Frozen; unknown keys are errors, and so are numbers that are not finite."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
