"""Streets on which cars are tracked: unlike each other, and alike in how fast the best beam changes."""

from __future__ import annotations

import numpy as np
from sheafedge.emulator.world.sites import TRACKED_OFFSETS_M, tracked_street
from sheafedge.emulator.world.street_settings import MEAN_SPEED_SHARE, StreetSettings

N_SITES = 20
#: Of 64 beams over 90 degrees.
BEAM_WIDTH_RAD = np.pi / 2.0 / 64.0
SWEEPS_PER_S = 10.0
#: A car just ahead of the base station passes so many beams from one sweep to the next: with one, the best beam stays
#: in about none of the sweeps there, and in more of them farther along the street.
BEAMS_PER_SWEEP = (0.6, 0.9)


def test_base_stations_stand_back_from_the_roadway_and_differ() -> None:
    sites = [tracked_street(site, np.random.default_rng(site)) for site in range(N_SITES)]
    nearest_m, farthest_m = TRACKED_OFFSETS_M
    offsets_m = [street.roadway_offset_m for street in sites]
    assert min(offsets_m) >= nearest_m
    assert max(offsets_m) <= farthest_m
    assert np.ptp(offsets_m) > 0.7 * (farthest_m - nearest_m)
    assert len({(s.n_lanes, s.roadway_offset_m, s.facade_height_m, s.speed_limit_m_per_s) for s in sites}) == N_SITES


def test_the_best_beam_changes_about_as_often_at_every_site() -> None:
    for site in range(N_SITES):
        street = tracked_street(site, np.random.default_rng(site))
        speed_m_per_s = MEAN_SPEED_SHARE * street.speed_limit_m_per_s
        beams = speed_m_per_s / np.mean(street.lanes_y_m) / BEAM_WIDTH_RAD / SWEEPS_PER_S
        assert BEAMS_PER_SWEEP[0] <= beams <= BEAMS_PER_SWEEP[1]


def test_what_a_user_says_of_the_street_is_kept_and_draws_decide_the_rest() -> None:
    base = StreetSettings(van_share=0.5, reach_m=60.0)
    street = tracked_street(3, np.random.default_rng(3), base)
    assert (street.van_share, street.reach_m) == (0.5, 60.0)
    assert tracked_street(3, np.random.default_rng(3), base) == street
    assert tracked_street(3, np.random.default_rng(4), base) != street
