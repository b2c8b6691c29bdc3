"""Edge devices as simulated time sees them."""

from __future__ import annotations

from ..contracts import DeviceProfile

_MODELLED = "modelled: an order of magnitude for small training steps, not a measurement of a product"

#: Named devices of scenarios.
DEVICE_PROFILES: dict[str, DeviceProfile] = {
    profile.name: profile
    for profile in (
        DeviceProfile("edge_cpu", flops_per_s=5e9, overhead_s=0.002, power_w=6.0, source=_MODELLED),
        DeviceProfile("edge_gpu", flops_per_s=2e11, overhead_s=0.005, power_w=15.0, source=_MODELLED),
        DeviceProfile("server_cpu", flops_per_s=5e10, overhead_s=0.001, power_w=65.0, source=_MODELLED),
    )
}
