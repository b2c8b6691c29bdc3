"""Rain and fog over a site, the same for all sensors and for the radio."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..contracts import ConfigError
from ..ranges import check_ranges

#: Contrast that is left of a black object at the distance that is called visibility.
#: Source: WMO-No. 8, meteorological optical range.
VISIBLE_CONTRAST = 0.05
#: Visibility in m and liquid water in g/m^3 of medium and of thick fog.
#: Source: ITU-R P.840, section 3.
MEDIUM_FOG, THICK_FOG = (300.0, 0.05), (50.0, 0.5)
#: Attenuation of light in rain, dB/km: factor and exponent of the rain rate in mm/h.
#: Source: ITU-R P.1814, section on rain (Carbonneau).
RAIN_ON_LIGHT = (1.076, 0.67)
#: Least visibility that counts as thin air; fog begins below.
LEAST_VISIBILITY_M, MOST_VISIBILITY_M = 10.0, 1000.0


@dataclass(frozen=True, slots=True)
class Weather:
    """Weather of a world, constant in time and space.

    Attributes:
        rain_mm_per_h: rain rate; 5 is moderate, 25 heavy, 100 a cloudburst.
        fog_visibility_m: visibility in fog, 10 to 1000; 0: no fog.

    Raises:
        ConfigError: a value outside its range.
    """

    rain_mm_per_h: float = 0.0
    fog_visibility_m: float = 0.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("weather", self, {"rain_mm_per_h": (0.0, 250.0)})
        if not (self.fog_visibility_m == 0.0 or LEAST_VISIBILITY_M <= self.fog_visibility_m <= MOST_VISIBILITY_M):
            raise ConfigError(
                f"weather.fog_visibility_m must be 0, for no fog, or lie in [{LEAST_VISIBILITY_M:g},"
                f" {MOST_VISIBILITY_M:g}], got {self.fog_visibility_m}"
            )

    @property
    def liquid_water_g_per_m3(self) -> float:
        """Density of the water in fog: the power law through medium and thick fog of the recommendation."""
        if self.fog_visibility_m == 0.0:
            return 0.0
        (far_m, thin), (near_m, thick) = MEDIUM_FOG, THICK_FOG
        exponent = math.log(thick / thin) / math.log(far_m / near_m)
        return thin * math.pow(far_m / self.fog_visibility_m, exponent)

    @property
    def extinction_per_m(self) -> float:
        """Share of visible and near infrared light that is lost per metre: e^-1 is left after its inverse.

        Source: fog by its visibility, the same for all these wavelengths (Mie scattering by drops that are larger than
        them); rain by ITU-R P.1814.
        """
        fog = -math.log(VISIBLE_CONTRAST) / self.fog_visibility_m if self.fog_visibility_m else 0.0
        factor, exponent = RAIN_ON_LIGHT
        db_per_m = factor * math.pow(self.rain_mm_per_h, exponent) / 1000.0 if self.rain_mm_per_h else 0.0
        return fog + db_per_m * math.log(10.0) / 10.0


#: Neither rain nor fog.
CLEAR = Weather()
