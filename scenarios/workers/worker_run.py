"""Worker process: builds and scores its share of the clients with the same code as a run in one process."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.network.transport.curve_keys import read_keys
from ...emulator.network.transport.errors import TransportError
from ...emulator.nodes.worker_calls import LearnerCalls
from ...emulator.nodes.worker_client import EngineAddress, ParentGoneError, WorkerClient, forget_address, process_name
from ...emulator.state_tree import state_digest
from ...version import __version__
from ..plugins.loading import PluginSource, load_plugin_sources, load_plugins
from ..schema.scenario import validated
from ..wiring.assembly import assemble
from ..wiring.data import load_data
from ..wiring.evaluation import Evaluator
from ..wiring.torch_setup import one_torch_thread, set_gpu_arithmetic


def build_learners(text: str, clients: Sequence[NodeId]) -> tuple[LearnerCalls, list[str]]:
    """Calls to the learners of some clients of a scenario, and the digests of their initial states.

    Args:
        text: scenario as TOML.
        clients: numbers of the clients.

    Raises:
        SheafedgeError: as of any run; data may be missing on this host.
    """
    scenario = validated(tomllib.loads(text))
    set_gpu_arithmetic(tf32=scenario.compute.tf32)  # a worker serves one run
    data = load_data(scenario).clients
    # all clients are built, learners only for these: initial maps need both ends of an edge
    assembly = assemble(scenario, data, only=frozenset(clients))
    mine = [client for client in assembly.clients if client.client_id in clients]
    evaluator = Evaluator(scenario.task_spec, mine, scenario.rounds, scenario.evaluate_every)
    learners = {learner.client_id: learner for learner in assembly.learners}
    gc.freeze()  # as in a run of one process: what is there now stays
    starts = [state_digest(learners[client].state()) for client in clients]
    return LearnerCalls(learners, assembly.algorithm.kinds, evaluator.observe), starts


def live(engine: EngineAddress, plugins: Sequence[str] = ()) -> NoReturn:
    """Serve an engine until it is done, then end the process with code 0, 2 with a sentence, or 130 if interrupted.

    Args:
        engine: where it is.
        plugins: files, or names of installed plugins; nothing of them comes from the engine.
    """
    code = _worked(engine, plugins)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a step that is still being computed must not keep the process


def served(engine: EngineAddress, plugins: Sequence[PluginSource]) -> str:
    """Serve an engine until it is done; returns why that ended early, empty where the engine stopped this worker.

    Args:
        engine: where it is.
        plugins: sources that the engine has read; they come by the way on which this process was started.
    """
    try:
        load_plugin_sources(plugins)
        _serve(engine)
    except (TransportError, ConfigError) as error:
        return str(error)
    return ""


def _serve(engine: EngineAddress) -> None:
    with one_torch_thread():
        WorkerClient(engine, build_learners).serve()


def _worked(engine: EngineAddress, plugins: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    is_alone = engine.parent is None  # else the engine reports
    try:
        load_plugins(plugins)
        _serve(engine)
    except ParentGoneError:
        forget_address(engine.address, plugins)  # no other process can, and none reads a sentence
        return 2
    except (TransportError, ConfigError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        if is_alone:
            sys.stderr.write("interrupted\n")
        return 130
    if is_alone:
        sys.stdout.write("the run is over\n")
    return 0


if __name__ == "__main__":  # started by an engine, whose end of a pipe is the standard input
    address, seat, keys, *files = sys.argv[1:]
    given = read_keys(Path(keys), "worker") if keys else None
    live(EngineAddress(address, __version__, process_name(), int(seat), given, parent=sys.stdin.fileno()), files)
