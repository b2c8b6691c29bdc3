"""Named devices: plausible in their units, and slower for more work."""

from __future__ import annotations

import pytest
from sheafedge.emulator.contracts import DeviceProfile
from sheafedge.emulator.edge.device_profiles import DEVICE_PROFILES


def test_work_takes_its_overhead_and_its_operations_at_the_device_s_rate() -> None:
    profile = DeviceProfile("toy", flops_per_s=4.0, overhead_s=0.5, power_w=1.0)
    assert [profile.seconds(flops) for flops in (0.0, 1.0, 8.0)] == [0.5, 0.75, 2.5]


@pytest.mark.parametrize("name", sorted(DEVICE_PROFILES))
def test_a_profile_is_listed_under_its_own_name_and_says_where_its_figures_come_from(name: str) -> None:
    profile = DEVICE_PROFILES[name]
    assert profile.name == name
    assert profile.source.startswith("modelled: ")
    assert 0.0 < profile.seconds(0.0) < profile.seconds(1e9) < 1.0  # a gigaflop within a second on all of them
    assert 1.0 <= profile.power_w <= 400.0


def test_profiles_differ_in_speed_as_their_names_promise() -> None:
    big_step = {name: profile.seconds(1e12) for name, profile in DEVICE_PROFILES.items()}
    assert big_step["edge_gpu"] < big_step["server_cpu"] < big_step["edge_cpu"]
