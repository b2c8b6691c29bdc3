"""Runs whose clients live in other processes: the same results, and nothing left behind however they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from doubles.remote_workers import short_folder
from integration.tiny import tiny
from sheafedge.emulator.contracts import ConfigError, DivergedError
from sheafedge.emulator.network.transport.errors import WorkerLost
from sheafedge.emulator.nodes.learner_host import LearnerHost
from sheafedge.emulator.state_tree import state_digest
from sheafedge.scenarios.running import onnx_files as exports
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario
from sheafedge.scenarios.wiring.assembly import assemble
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build
from sheafedge.scenarios.workers.worker_options import Workers
from sheafedge.scenarios.workers.worker_pool import WORKER_MODULE, collect_learners, open_worker_pool

LOSSY = {"link.loss_probability": 0.3, "link.retry_limit": 0, "network.missing": "stale", "rounds": 2}
#: Whoever starts these tests in the background has the keyboard's signal ignored, and children inherit that.
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " from sheafedge.scenarios.entry import main; main()"
)
GIVE_UP_S = 120.0  # only broken code, on a very busy machine, ever takes so long


def ran(folder: Path, edits: dict[str, Any], n_workers: int) -> RunResult:
    return run_scenario(tiny({**LOSSY, **edits}), folder, workers=Workers(n_workers) if n_workers else None)


def results(result: RunResult) -> dict[str, Any]:
    """All of a run but what depends on the machine, and on how often it was asked."""
    machine = {"recording_time_s", "wall_time_s", "value_time_s", "export_time_s", "environment"}
    kept = {key: value for key, value in result.summary.items() if key not in machine}
    models = {path.name: path.read_bytes() for path in (result.folder / "models").glob("*")}
    return {**kept, "rows": (result.folder / "metrics.jsonl").read_text(), "models": models}


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return found


def workers_of(pid: int) -> list[int]:
    """Children that are workers: a process that tests may have others."""
    return [
        child for child in children_of(pid) if WORKER_MODULE.encode() in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def wait_until_gone(pids: Sequence[int]) -> None:
    """Processes whose parent was killed may stay as zombies where nobody collects them; those are gone."""
    until_s = time.monotonic() + GIVE_UP_S
    while any(is_there(pid) for pid in pids):
        assert time.monotonic() < until_s, f"processes {pids} do not end"
        time.sleep(0.05)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


# --- the same results -------------------------------------------------------------------------------------------------


def test_two_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages, scores, rows and exported models, byte for byte; with losses, and words that are used again."""
    exporter = exports.OnnxExporter()  # traces a model once, which takes seconds
    monkeypatch.setattr(exports, "OnnxExporter", lambda: exporter)
    everything = {"export.onnx": True, "clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]}
    # a program in the folder where a user happens to be is not what workers import
    (tmp_path / "simpy.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    here, there = (ran(tmp_path / str(n), everything, n) for n in (0, 2))
    assert here.summary["traffic"]["partial_messages"] > 0
    assert len(results(here)["models"]) == 5
    assert results(there) == results(here)
    assert there.summary["environment"] == {**here.summary["environment"], "workers": 2}
    assert there.warnings == here.warnings == ()


EVERY_KIND_OF_MEMORY = [
    *("fedavg", "sheaf_dmfl", "diffused_and_tuned", "sheaf_prototypes", "dsgd", "dmml_kd", "local"),
    *("sheaf_fmtl", "fedproto_decentralized", "ditto"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_workers", "edits"),
    [
        (1, {}),
        (2, {"network.mode": "asynchronous"}),
        (3, {"network.missing": "skip"}),
        (2, {"network.missing": "wait", "link.retry_limit": 4}),
        (2, {"algorithm": "fedsheafhn", "network.missing": "skip"}),
    ]
    + [(2, {"algorithm": algorithm}) for algorithm in EVERY_KIND_OF_MEMORY],
)
def test_workers_change_nothing(tmp_path: Path, n_workers: int, edits: dict[str, Any]) -> None:
    here, there = (ran(tmp_path / str(n), edits, n) for n in (0, n_workers))
    assert results(there) == results(here)


@pytest.mark.slow
def test_a_worker_that_reads_other_data_is_warned_of(tmp_path: Path) -> None:
    """The negative control of equal results: what a worker builds is compared with what is built here."""
    scenario = tiny(LOSSY)
    with open_worker_pool(scenario, Workers(1)) as pool:
        assert pool is not None
        pool.fill()
        ours = assemble(scenario, load_data(scenario).clients).learners
        assert pool.different_starts(ours) == ()
        other = scenario.edited({"seed": 9})
        theirs = assemble(other, load_data(other).clients).learners
        (warning,) = pool.different_starts(theirs)
    assert warning.startswith("5 clients, 0 the first of them, do not start in their worker")


# --- what cannot be shared --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_workers", "edits", "sentence"),
    [
        (6, {}, "--workers 6 is more than clients.n_clients = 5"),
        (2, {"algorithm": "centralized"}, "trains all clients as one"),
        (2, {"data.mode": "live", "data.split": "time", "world.n_sites": 5}, "senses on the engine's clock"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_any_work(
    n_workers: int, edits: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ran(tmp_path / "run", edits, n_workers)
    assert list(tmp_path.iterdir()) == []


def test_workers_are_asked_for_in_whole() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Workers(0)
    with pytest.raises(ConfigError, match="give --hub"):
        Workers(2, keys=Path("keys"))
    with pytest.raises(ConfigError, match="sheafedge keys"):
        Workers(2, hub="tcp://192.0.2.1:5555")


# --- ends -------------------------------------------------------------------------------------------------------------


class Engine:
    """`sheafedge run` in a process of its own, with a folder for what it leaves about."""

    def __init__(self, folder: Path, temporary: Path, *options: str) -> None:
        scenario = folder / "tiny.toml"
        scenario.write_text(tomli_w.dumps(tiny({**LOSSY, "rounds": 1_000_000}).tables()))
        self.temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "run", str(scenario), "--out", str(folder / "run"), *options],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_it_trains(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "base stations" in line:
                return
        pytest.fail(f"the engine ended early: {self.process.communicate()}")

    def ended(self) -> tuple[int, str]:
        """Exit code, and what it said about it."""
        _, said = self.process.communicate(timeout=GIVE_UP_S)
        return self.process.returncode, said


@contextmanager
def training(folder: Path, *options: str) -> Iterator[tuple[Engine, list[int]]]:
    """An engine that trains, and the ids of its workers."""
    with short_folder() as temporary:
        engine = Engine(folder, temporary, *options)
        try:
            engine.wait_until_it_trains()
            assert list(temporary.glob("sheafedge-*/turns"))  # there is something to clear away
            yield engine, children_of(engine.process.pid)
        finally:
            engine.process.kill()
            engine.process.communicate()


@needs_proc
@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    with training(tmp_path, "--workers", "2") as (engine, workers):
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        code, said = engine.ended()
        assert code == 2
        assert said.startswith("error: worker ")
        assert f"(pid {workers[0]} on " in said
        assert "is lost: it was killed by SIGKILL, perhaps for want of memory; results so far are in" in said
        assert said.count("\n") == 1
        wait_until_gone(workers)
        assert list(engine.temporary.glob("sheafedge-*")) == []


#: One worker takes the same way as two, and a process less is started.
ENDS = [
    pytest.param(1, signal.SIGKILL, -signal.SIGKILL, "", marks=pytest.mark.slow),
    pytest.param(2, signal.SIGKILL, -signal.SIGKILL, "", marks=pytest.mark.slow),
    pytest.param(2, signal.SIGTERM, 130, "interrupted", marks=pytest.mark.slow),
    pytest.param(2, signal.SIGINT, 130, "interrupted", marks=pytest.mark.slow),
]


@needs_proc
@pytest.mark.parametrize(("n_workers", "sent", "code", "sentence"), ENDS)
def test_an_engine_that_is_ended_leaves_no_worker_behind(
    n_workers: int, sent: signal.Signals, code: int, sentence: str, tmp_path: Path
) -> None:
    with training(tmp_path, "--workers", str(n_workers)) as (engine, workers):
        assert len(workers) == n_workers
        engine.process.send_signal(sent)
        returned, said = engine.ended()
        assert returned == code
        assert said.startswith(sentence)
        wait_until_gone(workers)
        assert list(engine.temporary.glob("sheafedge-*")) == []


@needs_proc
@pytest.mark.slow
def test_a_worker_that_stands_still_is_lost(tmp_path: Path) -> None:
    """As one whose host has gone: it exists, and says nothing."""
    with training(tmp_path, "--workers", "2", "--worker-silence-s", "3") as (engine, workers):
        os.kill(workers[1], signal.SIGSTOP)
        code, said = engine.ended()
        assert code == 2
        assert "is lost: it has been silent for 3 s" in said
        wait_until_gone(workers)


@pytest.mark.slow
def test_a_run_that_diverges_in_a_worker_says_so_as_ever(tmp_path: Path) -> None:
    said = []
    for n_workers in (0, 2):
        with pytest.raises(DivergedError) as told:
            ran(
                tmp_path / str(n_workers),
                {"training.encoder_optimizer": "sgd", "training.encoder_step_size": 1e20},
                n_workers,
            )
        said.append(str(told.value))
    assert said[0] == said[1]


@pytest.mark.slow
def test_a_new_worker_goes_on_for_a_lost_one(tmp_path: Path) -> None:
    """What a restart from a checkpoint is made of: start, fill, restore."""
    scenario = tiny(LOSSY)
    with open_worker_pool(scenario, Workers(2)) as pool:
        assert pool is not None
        assert pool.starter is not None
        pool.fill()
        emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None, hosts=pool.hosts)
        before = [host.state().result() for host in emulation.hosts]
        lost = pool.starter.pids[0]
        os.kill(lost, signal.SIGKILL)
        with pytest.raises(WorkerLost, match="SIGKILL"):
            wait_for_loss(emulation.hosts[0])
        pool.start()
        pool.fill()
        for host, state in zip(emulation.hosts, before, strict=True):
            host.restore(state).result()
        collect_learners(emulation)
        after = [learner.state() for learner in emulation.learners]
        assert [state_digest(state) for state in after] == [state_digest(state) for state in before]
        assert lost not in pool.starter.pids.values()
        emulation.close()


class Killing(NoRunProgress):
    """Ends a worker when the second round has ended."""

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if round_index == 1:
            os.kill(min(workers_of(os.getpid())), signal.SIGKILL)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, Workers(1)], ids=["here", "in a worker"])
def test_a_run_that_lost_a_worker_goes_on_wherever_its_clients_live_then(
    workers: Workers | None, tmp_path: Path
) -> None:
    edits = {**LOSSY, "rounds": 5, "checkpoint_every": 1}
    with pytest.raises(WorkerLost, match="SIGKILL") as told:
        run_scenario(tiny(edits), tmp_path / "run", Killing(), workers=Workers(2))
    assert told.value.clients in {(0, 2, 4), (1, 3)}
    resumed = resume_run(tmp_path / "run.failed", workers=workers)
    assert results(resumed) == results(ran(tmp_path / "here", edits, 0))


class KillingOnce(Killing):
    """... and only once; told of new workers."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if not self.said:
            super().round_ended(round_index, now_s, score)

    def worker_lost(self, sentence: str) -> None:
        self.said.append(sentence)


@needs_proc
@pytest.mark.slow
def test_new_workers_take_over_where_the_scenario_says_so(tmp_path: Path) -> None:
    edits = {**LOSSY, "rounds": 5, "checkpoint_every": 1, "compute.lost_worker": "restart"}
    killing = KillingOnce()
    result = run_scenario(tiny(edits), tmp_path / "run", killing, workers=Workers(2))
    assert len(killing.said) == 1
    assert "SIGKILL" in killing.said[0]
    assert result.folder == tmp_path / "run"
    assert results(result) == results(ran(tmp_path / "here", edits, 0))


@needs_proc
@pytest.mark.slow
def test_a_worker_that_always_dies_at_the_same_place_ends_the_run(tmp_path: Path) -> None:
    edits = {**LOSSY, "rounds": 5, "checkpoint_every": 5, "compute.lost_worker": "restart"}
    with pytest.raises(WorkerLost, match="SIGKILL"):
        run_scenario(tiny(edits), tmp_path / "run", Killing(), workers=Workers(2))


def wait_for_loss(host: LearnerHost) -> None:
    until_s = time.monotonic() + GIVE_UP_S
    while time.monotonic() < until_s:
        host.state().result()


# --- other hosts ------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", COMMAND, *arguments]


@pytest.mark.slow
def test_workers_join_from_elsewhere_with_keys(tmp_path: Path) -> None:
    """On any address with the keys; the results are those of one process."""
    hub = f"tcp://127.0.0.1:{free_port()}"
    made = subprocess.run(command("keys", "keys"), cwd=tmp_path, check=True, capture_output=True, text=True)
    assert made.stdout.splitlines()[:4] == [
        f"keys/{end}.{part}" for end in ("engine", "worker") for part in ("public", "secret")
    ]
    joining = [
        subprocess.Popen(
            command("worker", "--hub", hub, "--keys", "keys"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    workers = Workers(2, hub, tmp_path / "keys")
    there = run_scenario(tiny(LOSSY), tmp_path / "there", workers=workers)
    assert [(worker.communicate(timeout=GIVE_UP_S)[1], worker.returncode) for worker in joining] == [("", 0)] * 2
    assert results(there) == results(ran(tmp_path / "here", {}, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["worker", "--hub", "tcp://192.0.2.1:5555"], "so it needs keys"),
        (["run", "beam_tracking", "--workers", "2", "--hub", "tcp://192.0.2.1:5555"], "so it needs keys"),
        (["run", "beam_tracking", "--hub", "tcp://127.0.0.1:5555"], "add --workers 2"),
        (
            ["worker", "--hub", "tcp://127.0.0.1:1", "--join-s", "1"],
            "no engine answered at tcp://127.0.0.1:1 within 1 s",
        ),
        (["worker", "--hub", "127.0.0.1"], "hub address must be tcp://HOST:PORT"),
    ],
)
def test_who_asks_for_what_cannot_be_gets_one_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    asked = subprocess.run(
        command(*arguments), check=False, cwd=tmp_path, capture_output=True, text=True, timeout=GIVE_UP_S
    )
    assert asked.returncode == 2
    assert asked.stderr.startswith("error: ")
    assert sentence in asked.stderr
    assert asked.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_results_is_read_back(tmp_path: Path) -> None:
    """Scores reach the summary from the rows alone, wherever they were made."""
    result = ran(tmp_path / "run", {}, 0)
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    last = [row["models"]["fused"]["top1"] for row in rows[-5:]]
    groups = result.summary["groups"].values()
    assert sum(group["clients"] * group["top1"] for group in groups) == pytest.approx(sum(last))
