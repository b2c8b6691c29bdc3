"""Checks at the start of a run, before any data are read or recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...emulator.contracts import ConfigError, MessageKind, ScenarioError
from ...emulator.network.transport.wire import Wire
from ..schema.compatibility import run_complaints
from ..schema.network_section import NetworkSection
from ..schema.scenario import Scenario
from ..wiring.emulation import make_transport
from ..wiring.encoders import check_weights
from ..wiring.real_time_options import RealTime
from ..wiring.torch_setup import choose_device
from ..workers.worker_options import Workers


def check_run(scenario: Scenario, workers: Workers | None = None, real_time: RealTime | None = None) -> None:
    """Refuse a run that is impossible on this machine or with these options.

    Args:
        scenario: scenario to run.
        workers: processes that share its clients; None: there are none.
        real_time: pacing of its clock in real time; None: as fast as possible.

    Raises:
        ScenarioError: all complaints, one sentence each.
    """
    n_workers = None if workers is None else workers.n_workers
    found = [*run_complaints(scenario, n_workers, () if real_time is None else real_time.outside)]
    if not found:  # the next are slower, and some read files that may be missing
        kinds = scenario.algorithm_spec.kinds
        checks: tuple[Callable[[], object], ...] = (
            lambda: choose_device(scenario.compute.device),
            lambda: check_weights(scenario.model),
            lambda: _check_address(scenario.network, kinds),
        )
        found += [sentence for check in checks for sentence in _refused(check)]
    if found:
        raise ScenarioError(found)


def _check_address(network: NetworkSection, kinds: frozenset[MessageKind]) -> None:
    """Bind the address of the network once and close it, to find an address that cannot be used."""
    if network.transport == "zmq" and network.address:
        make_transport(network, Wire(kinds)).close()


def _refused(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except ConfigError as error:
        yield str(error)
