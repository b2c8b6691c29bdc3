"""Pool of the workers of a run: started or awaited, given their clients, and stopped with the run."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import tomli_w

from ...emulator.contracts import Learner
from ...emulator.network.transport.curve_keys import CurveKeys
from ...emulator.nodes.learner_host import LearnerHost
from ...emulator.nodes.remote_host import RemoteHost
from ...emulator.nodes.worker_processes import WorkerProcesses
from ...emulator.nodes.worker_server import WorkerServer
from ...emulator.state_tree import state_digest
from ...version import __version__
from ..plugins.loading import named_sources, write_sources
from ..schema.scenario import Scenario
from ..wiring.assembly import Assembly
from ..wiring.emulation import Emulation
from .ray_cluster import is_cluster_given, own_address, ray_running
from .ray_workers import RayWorkers
from .worker_options import Workers

#: Started as a module, so that a worker inherits nothing of this process but its environment.
WORKER_MODULE = f"{__package__}.worker_run"


class WorkerStarter(Protocol):
    """Starts and ends processes of workers; `WorkerProcesses` and `RayWorkers` are two."""

    def start(self, seat: int, address: str) -> None:
        """Start the worker of a seat, which joins at this address; one that is still there is ended first."""
        ...

    def ended(self, seat: int) -> str | None:
        """Why the worker of a seat has ended; None: it has not, or there was none."""
        ...

    def close(self) -> None:
        """End them all; safe to call twice."""
        ...


class WorkerPool:
    """The workers of one run.

    Args:
        scenario: scenario of the run as TOML; workers build their clients from it.
        server: server with a seat for every worker.
        starter: starter of workers; None: they are started on other hosts.

    Attributes:
        server: as given.
        starter: as given.
    """

    def __init__(self, scenario: str, server: WorkerServer, starter: WorkerStarter | None) -> None:
        self._scenario = scenario
        self.server, self.starter = server, starter

    @property
    def n_workers(self) -> int:
        """Number of processes that share the clients."""
        return self.server.n_seats

    def start(self) -> None:
        """Start a process for every vacant seat, unless workers are started on other hosts."""
        if self.starter is not None:
            for seat in self.server.vacant:
                self.starter.start(seat, self.server.address)

    def hosts(self, assembly: Assembly) -> Sequence[LearnerHost]:
        """Host of every client's learner in its worker, for `build`."""
        kinds = assembly.algorithm.kinds
        return [RemoteHost(client.client_id, kinds, self.server) for client in assembly.clients]

    def fill(self) -> None:
        """Wait until every worker has joined and built its clients; errors as of `WorkerServer.fill`.

        After `WorkerLost`, `start` and `fill` bring a new worker in place of the lost one; all learners must then be
        restored, because the others have gone on.
        """
        self.server.fill(self._scenario)

    def stop(self) -> None:
        """Stop all workers, and wait until those that were started here have ended; safe to call twice."""
        self.server.close()
        if self.starter is not None:
            self.starter.close()

    def different_starts(self, learners: Sequence[Learner]) -> tuple[str, ...]:
        """Warning if a worker has built clients with other initial states than this process; empty if none has.

        Args:
            learners: untrained learners of the clients in this process.
        """
        starts = self.server.starts
        different = [
            learner.client_id
            for learner in learners
            if starts[learner.client_id] not in {"", state_digest(learner.state())}
        ]
        if not different:
            return ()
        warning = (
            f"{len(different)} clients, {different[0]} the first of them, do not start in their worker from the numbers"
            " that they start from here: its data, processor or libraries differ, and so will the trace from that of a"
            " run in one process"
        )
        return (warning,)

    def refusals(self) -> tuple[str, ...]:
        """Warning about packets from other senders than workers; empty without any."""
        server = self.server
        if not server.n_refused:
            return ()
        return (f"{server.n_refused} packets among those of workers were refused; the last: {server.last_refusal}",)


@contextmanager
def open_worker_pool(scenario: Scenario, workers: Workers | None) -> Iterator[WorkerPool | None]:
    """The workers of a run, started or waited for; afterwards no process and no file of theirs is left."""
    if workers is None:
        yield None
        return
    clients = range(scenario.clients.n_clients)
    seats = [clients[seat :: workers.n_workers] for seat in range(workers.n_workers)]
    with ExitStack() as stack:
        # entered first, left last: SIGTERM raises KeyboardInterrupt until the workers have stopped
        stack.enter_context(_terminated_as_interrupted())
        address, keys, starter = (
            _started_by_ray(workers, stack) if workers.engine == "ray" else _started(workers, stack)
        )
        ended = starter.ended if starter is not None else lambda _: None
        server = WorkerServer(address, seats, __version__, workers.limits, keys, ended)
        pool = WorkerPool(tomli_w.dumps(scenario.pinned_tables()), server, starter)
        stack.callback(pool.stop)
        pool.start()
        yield pool


#: Address of the hub, keys of the engine, and what starts the workers; None: they are started on other hosts.
_Meeting = tuple[str, CurveKeys | None, WorkerStarter | None]


def _started(workers: Workers, stack: ExitStack) -> _Meeting:
    """Workers in processes of this host, or of others where there is a hub."""
    if workers.hub is not None:
        return workers.hub, workers.key_pairs[0], None
    folder = _private_folder(stack)
    # as they were when this process read them, also for workers that are started hours later
    plugins = write_sources(folder, named_sources())
    starter = WorkerProcesses(
        lambda seat, address: [sys.executable, "-P", "-m", WORKER_MODULE, address, str(seat), "", *plugins]
    )
    stack.callback(starter.close)
    return f"ipc://{folder}/turns", None, starter


def _started_by_ray(workers: Workers, stack: ExitStack) -> _Meeting:
    """Workers in processes of Ray, which hands them the address of the hub, and keys wherever other hosts reach it."""
    ray = stack.enter_context(ray_running(workers.n_workers, workers.share))
    if workers.hub is not None:
        address = workers.hub
    elif is_cluster_given():
        address = f"tcp://{own_address(ray)}:*"
    else:
        address = f"ipc://{_private_folder(stack)}/turns"
    # other users cannot open the file in a private folder
    engine, worker = workers.key_pairs if address.startswith("tcp://") else (None, None)
    starter = RayWorkers(ray, workers.n_workers, workers.share, worker, workers.limits.join_s)
    stack.callback(starter.close)
    return address, engine, starter


def _private_folder(stack: ExitStack) -> Path:
    """A new folder that other users cannot read, for the socket and the plugins; it goes with the pool."""
    folder = Path(tempfile.mkdtemp(prefix="sheafedge-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def collect_learners(emulation: Emulation) -> None:
    """Copy the states of the learners in workers into those of this process."""
    # all are requested before the first is awaited: workers pack their states at the same time
    tickets = [host.state() for host in emulation.hosts]
    for learner, ticket in zip(emulation.learners, tickets, strict=True):
        learner.restore(ticket.result())


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the run like Ctrl-C does, so that workers and files are cleared away."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
