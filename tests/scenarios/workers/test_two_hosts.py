"""A Ray cluster of two hosts, which the test starts on this machine: what a run or a comparison loses there, and finds.

Both hosts have processors and a cache of worlds each, and the second one has a GPU in the books of Ray alone.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import xxhash
from sheafedge.scenarios.compare import comparing
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison
from sheafedge.scenarios.compare.tuning import tune
from sheafedge.scenarios.library.run_result import RunResult
from sheafedge.scenarios.recording.recording_cache import found_recording
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.data import recording_paths
from sheafedge.scenarios.workers.ray_cluster import RayShare
from sheafedge.scenarios.workers.worker_options import Workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-ray"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc"),
    pytest.mark.timeout(600),
]

#: Real patience with processes of Ray, which end a busy machine's half a minute later.
PATIENCE_S = 120.0
STORE_BYTES = 80 << 20
SPREAD = RayShare(placement="spread")
ON_SECOND = RayShare(gpus=0.5)


class TwoHosts:
    """Two raylets with one address and different caches.

    Attributes:
        caches: folder of recordings of the first and of the second host; this process is on the first.
    """

    def __init__(self, folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_raylet_start_wait_time_s", str(int(PATIENCE_S)))  # read when Ray is imported
            from ray.cluster_utils import Cluster

        self.caches = (folder / "first", folder / "second")
        self._cluster: Any = Cluster()
        self._hosts = [self._added(0), self._added(1)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def restored(self) -> None:
        """The second host is there, again if need be."""
        if len(self._hosts) == 1:
            self._hosts.append(self._added(1))

    def remove_second(self) -> None:
        """Kill it, and wait until its processes have noticed: Ray's look now and then whether their host lives."""
        workers = self.processes(1)
        self._cluster.remove_node(self._hosts.pop(), allow_graceful=False)
        until_s = time.monotonic() + PATIENCE_S
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until_s:
            time.sleep(0.02)

    def processes(self, host: int, title: str = "ray::") -> list[int]:
        """Processes of tasks and actors of a host."""
        (raylet,) = self._hosts[host].all_processes["raylet"]
        return [pid for pid, parent, command in processes() if parent == raylet.process.pid and title in command]

    def close(self) -> None:
        self._cluster.shutdown()

    def _added(self, host: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SHEAFEDGE_CACHE", str(self.caches[host]))
            patch.setenv("OMP_NUM_THREADS", "1")
            patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
            gpus = {"num_gpus": 1} if host == 1 else {}
            quiet = {"include_dashboard": False} if host == 0 else {}
            return self._cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES, **gpus, **quiet)


def processes() -> Iterator[tuple[int, int, str]]:
    """Id, parent and command line of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            yield int(folder.name), int(parent), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it is gone


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    hosts = TwoHosts(tmp_path_factory.mktemp("caches"))
    try:
        yield hosts
    finally:
        hosts.close()


@pytest.fixture
def hosts(started: TwoHosts, monkeypatch: pytest.MonkeyPatch) -> TwoHosts:
    started.restored()
    monkeypatch.setenv("RAY_ADDRESS", started.address)
    monkeypatch.setenv("SHEAFEDGE_CACHE", str(started.caches[0]))
    return started


# --- a run ------------------------------------------------------------------------------------------------------------

WORKER = "ray::RayWorker"


@pytest.fixture
def scenario(tiny: Scenario) -> Scenario:
    """Six rounds with losses; a checkpoint every second, so that rounds are played twice."""
    return tiny.edited(
        {
            "rounds": 6,
            "algorithm": "dsgd",
            "link.loss_probability": 0.2,
            "checkpoint_every": 2,
            "compute.lost_worker": "restart",
            "compute.executor": "serial",  # batches, which workers do not make, round differently
        }
    )


class Losing(NoRunProgress):
    """Loses a worker at the end of the third round, which is in no checkpoint, and so is played twice.

    Attributes:
        lost: sentences about lost workers.
        rounds: rounds that ended.
        places: hosts of the workers, at the end of the third round, of the third round again, and of the last.
    """

    def __init__(self, hosts: TwoHosts) -> None:
        self.hosts = hosts
        self.lost: list[str] = []
        self.rounds: list[int] = []
        self.places: list[list[int]] = []

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        self.rounds.append(round_index)
        if round_index in {2, 5}:
            self.places.append(
                [host for host in range(len(self.hosts._hosts)) for _ in self.hosts.processes(host, WORKER)]
            )
        if round_index == 2 and not self.lost:
            self.lose()

    def lose(self) -> None:
        os.kill(self.hosts.processes(1, WORKER)[0], signal.SIGKILL)

    def worker_lost(self, sentence: str) -> None:
        self.lost.append(sentence)


class LosingAHost(Losing):
    def lose(self) -> None:
        self.hosts.remove_second()


def results(run: RunResult) -> tuple[object, ...]:
    """What must not depend on where clients live."""
    return (run.summary["trace_hash"], (run.folder / "metrics.jsonl").read_bytes(), run.summary["groups"])


def test_a_worker_that_is_killed_is_started_again_from_the_last_checkpoint(
    hosts: TwoHosts, scenario: Scenario, tmp_path: Path
) -> None:
    """Two workers share the one GPU, which the second host has; no address, no port and no key are given."""
    losing = Losing(hosts)
    workers = Workers(2, engine="ray", share=ON_SECOND)
    there = run_scenario(scenario, tmp_path / "there", losing, workers=workers)
    assert losing.places == [[1, 1], [1, 1], [1, 1]]
    assert losing.rounds == [0, 1, 2, 2, 3, 4, 5]
    (sentence,) = losing.lost
    assert "Ray has lost it (ActorDiedError: The actor is dead because its worker process has died" in sentence
    assert there.warnings == ()
    assert results(there) == results(run_scenario(scenario, tmp_path / "here"))


def test_workers_of_a_host_that_is_gone_find_places_on_the_other(
    hosts: TwoHosts, scenario: Scenario, tmp_path: Path
) -> None:
    losing = LosingAHost(hosts)
    there = run_scenario(scenario, tmp_path / "there", losing, workers=Workers(2, engine="ray", share=SPREAD))
    assert losing.places == [[0, 1], [0, 0], [0, 0]]
    assert losing.rounds == [0, 1, 2, 2, 3, 4, 5]
    assert len(losing.lost) == 1
    assert results(there) == results(run_scenario(scenario, tmp_path / "here"))


# --- comparisons ------------------------------------------------------------------------------------------------------

JOB = "ray::make_run"


@contextmanager
def first_job_killed(hosts: TwoHosts) -> Iterator[list[int]]:
    """Kills the first run of a comparison that the second host makes; the list then holds its process."""
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        while not killed and not is_over.wait(0.02):
            for pid in hosts.processes(1, JOB)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


@pytest.fixture
def comparison(tiny_edits: dict[str, Any]) -> Comparison:
    return validated_comparison(
        {
            "name": "two",
            "scenario": "beam_tracking",
            "seeds": [0, 1],
            "set": tiny_edits,
            "methods": {"together": {"algorithm": "dsgd"}, "alone": {"algorithm": "local"}},
        }
    )


def known_by_its_bytes(scenario: Scenario) -> Path:
    """The recording of a world in the cache of this process, with bytes that no other host would record."""
    (path,) = recording_paths(scenario)
    content = path.read_bytes() + b"\0"
    path.unlink()
    named = path.with_name(f"{path.stem.rpartition('-')[0]}-{xxhash.xxh3_128(content).hexdigest()}.h5")
    named.write_bytes(content)
    assert found_recording(scenario.recorded_world, scenario.seed) == named
    return named


def scores(results: Mapping[str, Any]) -> list[Any]:
    return [(entry["arm"], entry["runs"], entry["groups"]) for entry in results["entries"]]


def test_a_comparison_on_two_hosts_finds_what_one_process_finds(
    hosts: TwoHosts, comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs are made on the other host, which shares no folder, lacks a world that is here, and loses a process."""
    monkeypatch.setattr(comparing, "write_figures", lambda results, folder: None)
    recording = known_by_its_bytes(comparison.base().edited({"seed": 0}))
    for known in hosts.caches[1].glob("*.h5"):
        known.unlink()
    with first_job_killed(hosts) as killed:
        there = run_comparison(comparison, tmp_path / "there", 2, engine="ray", share=ON_SECOND)
    assert len(killed) == 1
    assert there["failures"] == []
    (fetched,) = hosts.caches[1].glob(recording.name)
    assert fetched.read_bytes() == recording.read_bytes()
    here = run_comparison(comparison, tmp_path / "here")
    assert scores(there) == scores(here)
    for path in sorted((tmp_path / "here" / "runs").glob("*/metrics.jsonl")):
        found = tmp_path / "there" / path.relative_to(tmp_path / "here")
        assert found.read_bytes() == path.read_bytes()
    names = [sorted(path.name for path in (tmp_path / at / "runs").iterdir()) for at in ("there", "here")]
    assert names[0] == names[1], "nothing else is left beside the runs"
    again = run_comparison(comparison, tmp_path / "there")
    assert scores(again) == scores(there)


def test_a_search_on_two_hosts_chooses_what_one_process_chooses(
    hosts: TwoHosts, comparison: Comparison, tmp_path: Path
) -> None:
    grid = {"training.encoder_step_size": (0.001, 0.03)}
    alone = comparison.edited({"methods": {"alone": {"algorithm": "local"}}})
    there = tune(alone, grid, [0], tmp_path / "there", 2, engine="ray", share=SPREAD)
    here = tune(alone, grid, [0], tmp_path / "here")
    assert there["arms"] == here["arms"]
    assert (tmp_path / "there" / "tuned.toml").read_bytes() == (tmp_path / "here" / "tuned.toml").read_bytes()
