"""What is asked of Ray is checked before anything starts; a stand-in shows that without Ray."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sheafedge.emulator.contracts import ConfigError, SheafedgeError
from sheafedge.scenarios.terminal.shared_options import wanted_engine
from sheafedge.scenarios.workers.ray_cluster import RayShare, checked_engine, one_line, own_address, ray_running
from sheafedge.scenarios.workers.worker_options import Workers, workers_wanted

ONE = RayShare()


class RayWithHosts:
    """The part of Ray that is asked before the first process starts."""

    def __init__(self) -> None:
        self.hosts: list[dict[str, float]] = [{"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0}]
        self.inits: list[dict[str, Any]] = []
        self.n_shutdowns = 0
        self.util = SimpleNamespace(get_node_ip_address=lambda: "192.0.2.7")

    def init(self, **options: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))  # as Ray does
        self.inits.append(options)

    def shutdown(self) -> None:
        self.n_shutdowns += 1

    def nodes(self) -> list[dict[str, Any]]:
        gone = {"Alive": False, "Resources": {"CPU": 100.0}}
        return [gone, *({"Alive": True, "Resources": host} for host in self.hosts)]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[RayWithHosts]:
    stand_in = RayWithHosts()
    monkeypatch.setitem(sys.modules, "ray", stand_in)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield stand_in
    signal.signal(signal.SIGTERM, before)


# --- settings ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_is_none_is_refused() -> None:
    assert checked_engine("ray") == "ray"
    with pytest.raises(ConfigError, match="unknown --engine 'spark'; known: processes, ray"):
        checked_engine("spark")


@pytest.mark.parametrize(
    ("engine", "share", "sentence"),
    [
        ("processes", (1.0, None, None), "add --engine ray, or leave them out"),
        ("ray", (0.0, None, None), r"--ray-cpus must lie in \[0.01, 1024\], got 0"),
        ("ray", (float("nan"), None, None), "--ray-cpus must lie in"),
        ("ray", (None, 2.0, None), r"--ray-gpus must be 0 or lie in \[0.01, 1\], got 2; a process uses one GPU"),
        ("ray", (None, -0.5, None), "--ray-gpus must be 0"),
        ("ray", (None, None, "near"), "unknown --ray-placement 'near'; known: pack, spread"),
    ],
)
def test_a_share_that_cannot_be_is_refused(
    engine: str, share: tuple[float | None, float | None, str | None], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        wanted_engine(engine, *share)


def test_a_share_is_taken_over() -> None:
    assert wanted_engine("ray", None, 0.25, "spread") == ("ray", RayShare(1.0, 0.25, "spread"))
    assert wanted_engine("processes", None, None, None) == ("processes", None)


@pytest.mark.parametrize(
    ("share", "host", "n"),
    [
        (RayShare(1.0), {"CPU": 2.0}, 2),
        (RayShare(0.1), {"CPU": 1.0}, 10),  # 1 / 0.1 rounds down to 10, and 3 * 0.1 is no 0.3
        (RayShare(1.0, 0.25), {"CPU": 16.0, "GPU": 1.0}, 4),
        (RayShare(1.0, 0.3333), {"CPU": 2.0, "GPU": 1.0}, 2),
        (RayShare(1.0, 0.5), {"CPU": 16.0}, 0),
        (RayShare(4.0), {"CPU": 2.0}, 0),
    ],
)
def test_a_host_has_room_for_whole_processes(share: RayShare, host: dict[str, float], n: int) -> None:
    assert share.fit_into(host) == n


def test_ray_starts_as_many_workers_as_it_is_told() -> None:
    with pytest.raises(ConfigError, match="add --workers 2"):
        workers_wanted(None, None, None, 6.0, "ray")


def test_workers_that_ray_starts_need_no_keys_of_the_user() -> None:
    with pytest.raises(ConfigError, match="sheafedge keys"):
        Workers(2, hub="tcp://192.0.2.1:5555")
    engine, worker = Workers(2, hub="tcp://192.0.2.1:5555", engine="ray").key_pairs
    assert engine is not None
    assert worker is not None
    assert (engine.public, engine.other) == (worker.other, worker.public)
    assert len({engine.secret, worker.secret, engine.public, worker.public}) == 4
    again, _ = Workers(2, hub="tcp://192.0.2.1:5555", engine="ray").key_pairs
    assert again is not None
    assert again.secret != engine.secret, "keys are those of one run"
    with pytest.raises(ConfigError, match="hub address must be"):
        Workers(2, hub="192.0.2.1", engine="ray")


# --- a cluster --------------------------------------------------------------------------------------------------------


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="needs Ray; install it here with"), ray_running(2, ONE):
        pass


def test_a_ray_of_this_machine_has_the_processors_that_are_asked_for(ray: RayWithHosts) -> None:
    with ray_running(4, RayShare(0.4)):
        assert (ray.inits[0]["address"], ray.inits[0]["num_cpus"]) == ("local", 2)
    assert ray.n_shutdowns == 1


@pytest.mark.parametrize(
    ("n", "share", "sentence"),
    [
        (5, ONE, "room for 4 of 5 processes with 1 CPU each, on 2 hosts with 4 CPU and 1 GPU together"),
        (3, RayShare(1.0, 0.5), "room for 2 of 3 processes with 1 CPU and 0.5 GPU each"),
    ],
)
def test_more_than_a_cluster_has_is_refused(ray: RayWithHosts, n: int, share: RayShare, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence), ray_running(n, share):
        pass
    with ray_running(n - 1, share):
        pass
    with ray_running(n, share, n_needed=1):  # the others wait
        pass
    assert ray.n_shutdowns == 3


def test_a_cluster_that_is_not_there_is_missed_at_once(ray: RayWithHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"  # nobody listens there
        monkeypatch.setenv("RAY_ADDRESS", address)
        sentence = f"no Ray cluster answers at RAY_ADDRESS = {address} .*refused"
        with pytest.raises(SheafedgeError, match=sentence), ray_running(1, ONE):
            pass
        assert ray.inits == []
        bound.listen()
        with ray_running(1, ONE):
            assert ray.inits[0]["address"] == address


def test_what_ray_says_when_it_does_not_start_is_one_line(ray: RayWithHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise RuntimeError("Version mismatch: the cluster has\n  Ray 2.50\n  Python 3.12")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    sentence = r"Version mismatch: the cluster has Ray 2.50 Python 3.12\); check RAY_ADDRESS"
    with pytest.raises(SheafedgeError, match=sentence), ray_running(1, ONE):
        pass


def test_sigterm_ends_a_run_as_without_ray(ray: RayWithHosts) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ray_running(1, ONE):
        assert signal.getsignal(signal.SIGTERM) is before


def test_workers_come_to_this_host(ray: RayWithHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ray
    assert own_address(module) == "192.0.2.7"
    monkeypatch.setenv("RAY_ADDRESS", "ray://10.0.0.1:10001")
    with pytest.raises(ConfigError, match="run the command on a host of the cluster, or give --hub"):
        own_address(module)


DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: RayWorker
\tip: 192.0.2.2
The actor is dead because its node has died. Node Id: 51. Some common causes include: (1) memory"""


FAILED = """ray::RayWorker.work() (pid=7, ip=192.0.2.2)
  File "/opt/ray/serialization.py", line 7, in loads
ModuleNotFoundError: No module named 'sheafedge'
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DIED, "RuntimeError: The actor is dead because its node has died. Node Id: 51"),
        (FAILED, "RuntimeError: ModuleNotFoundError: No module named 'sheafedge'"),
        ("", "RuntimeError"),
    ],
)
def test_of_a_lost_process_the_reason_is_told(text: str, said: str) -> None:
    assert one_line(RuntimeError(text)) == said
