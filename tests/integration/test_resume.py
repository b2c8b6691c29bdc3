"""A run that is stopped and resumed is the run that never stopped, to the last bit."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from integration.tiny import tiny
from sheafedge.emulator.contracts import ConfigError, SheafedgeError
from sheafedge.emulator.ownership import OwnedError
from sheafedge.scenarios.running import onnx_files as exports
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario

#: Half of what is sent is lost in bursts, some arrives after its deadline, and what was said before is remembered.
HARD = {
    "rounds": 5,
    "link.loss_probability": 0.3,
    "link.retry_limit": 1,
    "link.retry_interval_s": 0.02,
    "network.missing": "stale",
    "network.deadline_s": 0.02,
    "evaluate_every": 2,
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}
#: Rules that keep more of a client than its model, or step it as one vector; peers and servers.
RULES = [
    *("sheaf_fmtl", "dfedu", "ditto_decentralized", "pfedme_decentralized", "fedproto_decentralized"),
    *("ditto", "pfedme", "per_fedavg", "apfl", "lg_fedavg", "tdpfed"),
]
#: Far too slow for what is sent in a round: queues are never empty.
CROWDED = {"link.rate_bps": 3e5, "network.deadline_s": 0.02}
CASES: dict[str, dict[str, Any]] = {
    "stale": {},
    "stale, with exported models": {"export.onnx": True},
    "skip, over ZeroMQ, in threads": {
        "network.missing": "skip",
        "network.transport": "zmq",
        "compute.executor": "threads",
    },
    "hidden sensors": {"training.hide_sensors": 0.4},
    "averaged, then tuned": {"algorithm": "averaged_and_tuned"},
    "diffused, then tuned": {"algorithm": "diffused_and_tuned"},
    "rotating index": {
        "network.missing": "skip",
        "sheaf.rotate_index": True,
        "sheaf.map_step_size": 0.0,
        "sheaf.compression": 0.3,
    },
    "full models averaged": {"algorithm": "dpsgd"},
    "centralized": {"algorithm": "centralized"},
    **{rule: {"algorithm": rule} for rule in RULES},
    "a server that is off at times, and samples": {
        "algorithm": "fedavg",
        "clients.sampled": 3,
        "server.medium": "processor_sharing",
        "link.rate_bps": 1e6,
        "sharing.codec": "int8",
        "faults": [{"kind": "node_off", "nodes": ["server"], "mean_up_s": 0.05, "mean_down_s": 0.02}],
    },
    "a server that generates models for two rounds each": {
        "algorithm": "fedsheafhn",
        "network.missing": "skip",
        "sharing.every": 2,
        "sharing.codec": "int8",
        "hyper.refresh_every": 1,
        "faults": [{"kind": "node_off", "nodes": ["server", 1], "mean_up_s": 0.05, "mean_down_s": 0.02}],
    },
    "clients that join late": {
        "algorithm": "fedsheafhn",
        "network.missing": "skip",
        "hyper.late_clients": 2,
        "hyper.join_round": 2,
    },
    "factors of tensors, of personal models that are kept": {
        "algorithm": "tdpfed",
        "network.missing": "skip",
        "factors.aggregation": "tensors",
        "factors.personal_start": "keep",
        "clients.sampled": 3,
    },
    "some neighbors take part": {"clients.sampled": 3, "sharing.codec": "int8"},
    "some neighbors take part for two rounds each": {
        "algorithm": "ditto_decentralized",
        "clients.sampled": 3,
        "sharing.every": 2,
    },
    "eight bits": {"sharing.codec": "int8"},
    "projections go first, in chunks": {**CROWDED, "links.priorities": True, "links.chunk_packets": 2},
    "a medium shared by all": {**CROWDED, "links.medium": "processor_sharing"},
    "resource blocks in turn": {**CROWDED, "links.medium": "round_robin"},
    "full queues": {**CROWDED, "links.transmitter": "per_node", "links.queue_bytes": 3000},
    "radio": {"links.model": "radio", "links.radio.tx_power_dbm": -10.0, "network.deadline_s": 0.003},
    "live": {
        "data.mode": "live",
        "data.split": "time",
        "clients.n_clients": 3,
        "world.n_sites": 3,
        "world.duration_s": 150,
        "topology.kind": "complete",
        "live.warm_up_s": 60.0,
        "live.round_every_s": 5.0,
    },
}
BURSTS = {"links.model": "gilbert_elliott"}


@pytest.fixture(scope="module", autouse=True)
def _traced_once() -> Iterator[None]:
    """Runs here share one exporter, and with it the traced graphs: tracing one takes seconds."""
    shared = exports.OnnxExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exports, "OnnxExporter", lambda: shared)
        yield


def scenario(case: str) -> Scenario:
    return tiny({**HARD, **CASES[case]})


class StopsAfter(NoRunProgress):
    """Somebody presses Ctrl-C when a round ends."""

    def __init__(self, round_index: int) -> None:
        self._round_index = round_index

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        if round_index == self._round_index:
            os.kill(os.getpid(), signal.SIGINT)


def stopped(chosen: Scenario, out: Path, round_index: int) -> Path:
    with pytest.raises(KeyboardInterrupt) as interrupt:
        run_scenario(chosen, out, StopsAfter(round_index))
    aside = out.with_name(f"{out.name}.interrupted")
    assert interrupt.value.__notes__ == [
        f"results so far are in {aside}",
        f"continue with: sheafedge run --resume {aside}",
    ]
    return aside


def left(folder: Path) -> dict[str, Any]:
    """Everything in a run folder that is not about this machine."""
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    summary = json.loads(files.pop(Path("summary.json")))
    for key in ("recording_time_s", "wall_time_s", "value_time_s", "export_time_s"):
        del summary[key]
    return {"summary": summary, "files": files}


#: Enough to see every part of a state; the others take their time.
QUICK = {"stale", "skip, over ZeroMQ, in threads", "projections go first, in chunks", "radio"}


@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_an_interrupted_run_goes_on_bit_for_bit(case: str, tmp_path: Path) -> None:
    chosen = scenario(case)
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    traffic = undisturbed.summary["traffic"]
    assert case == "centralized" or traffic["lost_packets"] + traffic["late_messages"] > 0
    aside = stopped(chosen, tmp_path / "run", round_index=1)
    resumed = resume_run(aside)
    assert resumed.folder == tmp_path / "run"
    assert not aside.exists()
    assert left(resumed.folder) == left(undisturbed.folder)


def test_a_run_may_be_interrupted_again_and_again(tmp_path: Path) -> None:
    chosen = tiny({**HARD, **BURSTS})
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    aside = stopped(chosen, tmp_path / "run", round_index=0)
    for round_index in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            resume_run(aside, StopsAfter(round_index))
        assert aside.is_dir()
    assert left(resume_run(aside).folder) == left(undisturbed.folder)


def test_messages_on_air_at_the_checkpoint_arrive(tmp_path: Path) -> None:
    """The case is as hard as it says: at the cut something is under way, and it counts as late afterwards."""
    from sheafedge.scenarios.running.checkpoint import read_checkpoint

    aside = stopped(tiny(HARD), tmp_path / "run", round_index=1)
    assert read_checkpoint(aside / "checkpoint").state["emulation"]["network"]["flights"]
    late_before = read_checkpoint(aside / "checkpoint").state["emulation"]["recorder"]["traffic"]["late_messages"]
    assert resume_run(aside).summary["traffic"]["late_messages"] > late_before


def test_link_states_are_in_their_file_and_not_in_checkpoints(tmp_path: Path) -> None:
    """Those that were written after the checkpoint are written again, once."""
    from sheafedge.scenarios.running.checkpoint import read_checkpoint

    aside = stopped(tiny({"rounds": 3, "links.model": "radio"}), tmp_path / "run", round_index=1)
    lines = (aside / "links.jsonl").read_text().splitlines(keepends=True)
    state = read_checkpoint(aside / "checkpoint").state
    assert state["emulation"]["radio"]["log"] == {"taken": len(lines), "states": []}
    (aside / "links.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(ConfigError, match=r"links\.jsonl is shorter than at checkpoint"):
        resume_run(aside)
    (aside / "links.jsonl").write_text("".join([*lines, lines[-1]]))
    done = resume_run(aside)
    written = [json.loads(line) for line in (done.folder / "links.jsonl").read_text().splitlines()]
    assert len(written) == done.summary["traffic"]["messages"]
    assert written[len(lines)] != written[len(lines) - 1]


def test_messages_in_queues_at_the_checkpoint_are_sent(tmp_path: Path) -> None:
    from sheafedge.scenarios.running.checkpoint import read_checkpoint

    for case in ("projections go first, in chunks", "a medium shared by all", "resource blocks in turn"):
        aside = stopped(scenario(case), tmp_path / case.replace(" ", "-").replace(",", ""), round_index=1)
        kept = read_checkpoint(aside / "checkpoint").state["emulation"]
        assert kept["network"]["offers"], case
        assert any(sender["sending"] for sender in kept["senders"]), case


def test_a_run_that_forgets_a_stream_is_another_run(tmp_path: Path) -> None:
    """The negative control: the comparison above can fail."""
    from sheafedge.scenarios.running.checkpoint import read_checkpoint, write_checkpoint

    chosen = tiny(HARD)
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    aside = stopped(chosen, tmp_path / "run", round_index=1)
    found = read_checkpoint(aside / "checkpoint")
    streams = found.state["emulation"]["clock"]["streams"]
    streams.update(zip(streams, [*list(streams.values())[1:], next(iter(streams.values()))], strict=True))
    found.path.unlink()
    write_checkpoint(aside / "checkpoint", found.rounds_done, found.state)
    assert resume_run(aside).summary["trace_hash"] != undisturbed.summary["trace_hash"]


def test_checkpoints_go_when_the_run_is_complete(tmp_path: Path) -> None:
    done = run_scenario(tiny({"rounds": 2, "checkpoint_every": 1}), tmp_path / "run")
    assert not (done.folder / "checkpoint").exists()


def test_without_checkpoints_an_interrupt_stops_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_scenario(tiny({"checkpoint_every": 0}), tmp_path / "run", StopsAfter(0))
    assert not (tmp_path / "run.interrupted" / "checkpoint").exists()
    with pytest.raises(SheafedgeError, match="holds no checkpoint"):
        resume_run(tmp_path / "run.interrupted")


def complete(folder: Path) -> RunResult:
    return run_scenario(tiny({"rounds": 1}), folder)


def test_what_cannot_go_on_says_so(tmp_path: Path) -> None:
    done = complete(tmp_path / "done").folder
    with pytest.raises(ConfigError, match="is complete; there is nothing to resume"):
        resume_run(done)
    with pytest.raises(ConfigError, match="not the folder of a run that was interrupted"):
        resume_run(tmp_path)
    aside = stopped(tiny({"rounds": 3}), tmp_path / "run", round_index=0)
    text = (aside / "scenario.toml").read_text()
    (aside / "scenario.toml").write_text(text.replace("embedding_dim = 4", "embedding_dim = 5"))
    with pytest.raises(ConfigError, match=r"[Ss]tate|checkpoint"):
        resume_run(aside)
    (aside / "scenario.toml").write_text(text)
    complete(tmp_path / "run")
    with pytest.raises(ConfigError, match="run exists already"):
        resume_run(aside)
    assert (aside / "checkpoint").is_dir()


def test_another_version_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = stopped(tiny({"rounds": 3}), tmp_path / "run", round_index=0)
    monkeypatch.setattr("sheafedge.scenarios.running.run_player.__version__", "9.9.9")
    with pytest.raises(ConfigError, match=r"was written with sheafedge .*, here is 9\.9\.9"):
        resume_run(aside)


@pytest.mark.parametrize("tree", [{}, {"emulation": {}}, {"emulation": []}, [], 3, {"sheafedge": 1, "torch": 2}])
def test_a_checkpoint_that_no_run_wrote_is_refused_and_all_stays(tree: Any, tmp_path: Path) -> None:
    from sheafedge.scenarios.running.checkpoint import write_checkpoint

    aside = stopped(tiny({"rounds": 2}), tmp_path / "run", round_index=0)
    for path in (aside / "checkpoint").iterdir():
        path.unlink()
    write_checkpoint(aside / "checkpoint", 1, tree)
    with pytest.raises(ConfigError, match="is not one of a run; start the run anew"):
        resume_run(aside)
    assert (aside / "metrics.jsonl").stat().st_size > 0


# --- one owner ----------------------------------------------------------------------------------------------------


class Meanwhile(NoRunProgress):
    """Somebody else comes while a run is alive."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act, self.refusals = act, list[str]()

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        with pytest.raises(OwnedError) as refused:
            self.act()
        self.refusals.append(str(refused.value))


def test_a_run_that_is_alive_is_not_resumed_nor_made_twice(tmp_path: Path) -> None:
    chosen = tiny({**HARD, "rounds": 3, "checkpoint_every": 1})
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    for second in (
        lambda: resume_run(tmp_path / "run.partial"),
        lambda: run_scenario(chosen, tmp_path / "run"),
    ):
        progress = Meanwhile(second)
        assert left(run_scenario(chosen, tmp_path / "run", progress).folder) == left(undisturbed.folder)
        assert len(progress.refusals) == 3
        assert f"run is being written by process {os.getpid()} on " in progress.refusals[0]
        shutil.rmtree(tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"undisturbed"}


def test_a_second_resume_is_refused_under_whatever_name_it_finds_the_folder(tmp_path: Path) -> None:
    aside = stopped(tiny({**HARD, "checkpoint_every": 1}), tmp_path / "run", round_index=0)
    (tmp_path / "link.partial").symlink_to(aside)
    (tmp_path / "again.partial").symlink_to(tmp_path / "run.partial")
    for second in ("run.partial", "again.partial"):
        progress = Meanwhile(lambda name=second: resume_run(tmp_path / name))  # type: ignore[misc]
        with pytest.raises(KeyboardInterrupt):
            resume_run(tmp_path / "link.partial", Both(progress, StopsAfter(1 + (second != "run.partial"))))
        assert progress.refusals
    assert resume_run(aside).folder == tmp_path / "run"


class Both(NoRunProgress):
    """Two observers of one run."""

    def __init__(self, first: NoRunProgress, second: NoRunProgress) -> None:
        self._observers = first, second

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        for one in self._observers:
            one.round_ended(round_index, now_s, score)


def test_a_run_that_lacks_only_its_name_gets_it_and_plays_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its summary: what is there is whole."""
    done = run_scenario(tiny({"rounds": 1}), tmp_path / "run")
    before = left(done.folder)
    (done.folder / "checkpoint").mkdir()
    (done.folder / "INTERRUPTED.txt").touch()
    done.folder.rename(tmp_path / "run.interrupted")
    monkeypatch.chdir(tmp_path / "run.interrupted")
    resumed = resume_run(Path())
    assert left(tmp_path / "run") == before
    assert resumed.summary["trace_hash"] == done.summary["trace_hash"]


# --- forged -------------------------------------------------------------------------------------------------------


def forged_round(aside: Path, number: int) -> None:
    for path in (aside / "checkpoint").iterdir():
        path.rename(path.with_name(re.sub(r"round-\d+", f"round-{number:06d}", path.name)))


def forged_state(aside: Path, **changes: Any) -> None:
    from sheafedge.scenarios.running.checkpoint import read_checkpoint, write_checkpoint

    found = read_checkpoint(aside / "checkpoint")
    found.path.unlink()
    now_s = changes.pop("now_s", found.state["emulation"]["clock"]["now_s"])
    found.state["emulation"]["clock"]["now_s"] = now_s
    write_checkpoint(aside / "checkpoint", found.rounds_done, {**found.state, **changes})


def forged_rows(aside: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    rows = (aside / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    content = b"".join(change(rows))
    (aside / "metrics.jsonl").write_bytes(content)
    forged_state(aside, metrics_bytes=len(content))


FORGERIES: dict[str, Callable[[Path], object]] = {
    "a round after the last": lambda aside: forged_round(aside, 999_999),
    "a later round": lambda aside: forged_round(aside, 3),
    "an earlier round": lambda aside: forged_round(aside, 1),
    "round zero": lambda aside: forged_round(aside, 0),
    "fewer rows than none": lambda aside: forged_state(aside, metrics_bytes=-1),
    "more rows than there are": lambda aside: forged_state(aside, metrics_bytes=10**12),
    "more bytes than numbers have": lambda aside: forged_state(aside, metrics_bytes=2**62),
    "half a row": lambda aside: forged_state(aside, metrics_bytes=(aside / "metrics.jsonl").stat().st_size - 3),
    "rows twice": lambda aside: forged_rows(aside, lambda rows: [*rows, *rows]),
    "a row twice": lambda aside: forged_rows(aside, lambda rows: [*rows[:-1], rows[0]]),
    "no rows": lambda aside: forged_rows(aside, lambda _: []),
    "rows of something else": lambda aside: forged_rows(aside, lambda rows: [b"[]\n" for _ in rows]),
    "rows without a bottom": lambda aside: forged_rows(aside, lambda _: [b"[" * 100_000]),
    "an endless time": lambda aside: forged_state(aside, now_s=float("inf")),
    "no time": lambda aside: forged_state(aside, now_s=float("nan")),
    "a time before all": lambda aside: forged_state(aside, now_s=-1.0),
    "metrics gone": lambda aside: (aside / "metrics.jsonl").unlink(),
}


@pytest.fixture(scope="module")
def stopped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped(tiny({**HARD, "checkpoint_every": 5}), tmp_path_factory.mktemp("forged") / "run", round_index=1)


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_checkpoint_is_one_sentence_and_changes_nothing(
    forgery: Callable[[Path], object], stopped_run: Path, tmp_path: Path
) -> None:
    aside = Path(shutil.copytree(stopped_run, tmp_path / "run.interrupted"))
    forgery(aside)
    before = {path: path.read_bytes() for path in aside.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="start the run anew"):
        resume_run(aside)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# --- killed -------------------------------------------------------------------------------------------------------


#: Each start plays some rounds before it is killed.
ROUNDS_PER_KILL = 12
COMMAND = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()", "run"]


def n_lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_at(moment: random.Random, command: list[str], growing: Path) -> bool:
    """Start, and kill somewhere on the way; whether there was something to kill."""
    running = subprocess.Popen(command, cwd=growing.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up_s = time.monotonic() + 120.0
    while not n_lines(growing) and running.poll() is None and time.monotonic() < give_up_s:
        time.sleep(0.001)
    seen = n_lines(growing)
    while n_lines(growing) == seen and running.poll() is None and time.monotonic() < give_up_s:
        time.sleep(0.001)
    time.sleep(moment.random() * 0.2)
    running.kill()
    return running.wait() == -signal.SIGKILL


def killed_again_and_again(tmp_path: Path, n_kills: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    chosen = tiny({**HARD, "rounds": ROUNDS_PER_KILL * n_kills, "checkpoint_every": 1})
    (tmp_path / "long.toml").write_text(tomli_w.dumps(chosen.tables()))
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    growing, moment = tmp_path / "run.partial", random.Random(n_kills)
    kills = int(kill_at(moment, [*COMMAND, "long.toml", "--out", "run"], growing))
    while kills < n_kills and growing.exists():
        if list(growing.glob("checkpoint/round-*")):
            kills += kill_at(moment, [*COMMAND, "--resume", str(growing)], growing)
    assert kills == n_kills
    resumed = resume_run(growing)
    return left(undisturbed.folder), left(resumed.folder)


def test_what_a_killed_run_wrote_after_its_last_checkpoint_is_forgotten(tmp_path: Path) -> None:
    """Whole rows and half a one, checkpoints that are not whole, and the name of a run that is being written."""
    chosen = tiny({**HARD, "checkpoint_every": 1})
    undisturbed = run_scenario(chosen, tmp_path / "undisturbed")
    aside = stopped(chosen, tmp_path / "run", round_index=1)
    with (aside / "metrics.jsonl").open("ab") as metrics:
        rows = (undisturbed.folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        metrics.writelines([*rows[10:13], rows[13][:20]])
    newest = max((aside / "checkpoint").iterdir())
    newest.with_name(f".partial-{newest.name}").write_bytes(newest.read_bytes()[:100])
    newest.with_name(newest.name.replace("000002", "000003")).write_bytes(newest.read_bytes()[:100])
    (aside / "INTERRUPTED.txt").unlink()
    resumed = resume_run(aside.rename(tmp_path / "run.partial"))
    assert left(resumed.folder) == left(undisturbed.folder)


@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [2, 20])
def test_a_run_that_was_killed_again_and_again_is_the_run_that_was_not(n_kills: int, tmp_path: Path) -> None:
    undisturbed, resumed = killed_again_and_again(tmp_path, n_kills)
    assert resumed == undisturbed
