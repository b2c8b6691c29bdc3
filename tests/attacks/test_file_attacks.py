"""Files that come in: thousands of hostile ones of every kind are read whole, or refused in one short sentence.

A try is lost by a traceback, by more than `MOST_CPU_S`, by a value that no sensor gives, by a message that is long or
repeats a file that is not ours; an attack is lost by memory.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from attacks.conftest import Tally
from attacks.file_attacks import (
    SECRET,
    WORDS,
    Draws,
    chosen,
    mat_bytes,
    mutated,
    nested_mat,
    restructured,
    text_or_bytes,
    write_recording,
)
from attacks.path_attacks import harm_paths, read_paths, write_sound_paths
from attacks.track_attacks import harm_sumo, harm_table, read_sumo, read_table, write_sound_tracks
from rich.console import Console
from sheafedge.datasets.deepsense.deepsense_folder import import_deepsense
from sheafedge.datasets.deepsense.deepsense_radar import read_radar_map
from sheafedge.datasets.deepsense.deepsense_rows import load_deepsense_rows
from sheafedge.datasets.deepsense.image_files import read_image
from sheafedge.datasets.point_cloud import read_ply, sweep_of_cloud
from sheafedge.datasets.recordings.recording_plausibility import check_recording
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.traces.link_traces import (
    read_cicv5g,
    read_gnettrack,
    read_mahimahi,
    read_pensieve,
    read_receptions,
)
from sheafedge.emulator.contracts import ScenarioError, SheafedgeError
from sheafedge.emulator.network.edge_generators import TopologyOptions, listed_edges
from sheafedge.emulator.radio.tables import FOLDER, parse_table
from sheafedge.scenarios.compare.stored_runs import stored_rounds, stored_summary
from sheafedge.scenarios.export.finished_run import finished_run
from sheafedge.scenarios.recording.inspection import inspect_recording
from sheafedge.scenarios.replay.replaying import recording_of
from sheafedge.scenarios.schema.scenario import SHIPPED, load_scenario
from sheafedge.scenarios.schema.wording import MOST_FIELDS
from sheafedge.scenarios.terminal.recording_console import print_inspection

#: Of one try, and of the memory that one attack adds; reading takes milliseconds and a few megabytes.
MOST_CPU_S, MOST_ADDED_MB = 20.0, 600.0
#: Of a refusal: a path is repeated in up to 240 characters, and up to three of them are.
LONGEST_REFUSAL = 1_500
N_SHORT, N_LONG = 8, 350


class _TookTooLong(BaseException):
    """The time limit of a try; no code of ours catches it."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TookTooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass(frozen=True)
class Target:
    """A kind of files, and how it is attacked.

    Attributes:
        make: writes sound files into a folder.
        harm: makes them hostile.
        read: reads them; returns what is wrong with values that it was given, empty if nothing is.
    """

    make: Callable[[Path], None]
    harm: Callable[[Path, Draws], None]
    read: Callable[[Path], str]


def _harmed(name: str, how: Callable[[bytes, Draws], bytes]) -> Callable[[Path, Draws], None]:
    def harm(folder: Path, draws: Draws) -> None:
        path = folder / name
        path.write_bytes(how(path.read_bytes(), draws))

    return harm


# --- recordings -------------------------------------------------------------------------------------------------------


def _read_recording(folder: Path) -> str:
    """Reader and check agree on every file."""
    wrong = [one for one in check_recording(folder / "road.h5") if one.kind == "wrong"]
    try:
        complaint = _read_every_value(folder / "road.h5")
    except SheafedgeError:
        if not wrong:
            return "the check finds nothing wrong with a file that is refused"
        raise
    return complaint or (f"the check refuses a file that is read: {wrong[0].sentence}" if wrong else "")


def _read_every_value(path: Path) -> str:
    with RecordingReader(path) as reader:
        for station in reader.base_stations:
            fields = {name: station.read(name) for name in station.field_names}
            sequence, time_s = fields["sequence"], fields["time_s"]
            steps = np.diff(time_s)[np.diff(sequence) == 0]
            n_beams = fields["rf"].shape[1] if "rf" in fields else 4096
            sound = {
                "time_s": np.isfinite(time_s).all() and (steps >= 0).all(),
                "rate_hz": 0 < station.rate_hz < 1e6,
                "best_beam": all(0 <= beam < n_beams for beam in fields.get("best_beam", np.zeros(0)).tolist()),
                "los_loss_db": np.isfinite(fields.get("los_loss_db", np.zeros(1))).all(),
                "gps": np.isfinite(fields.get("gps", np.zeros(1))).all(),
                "lidar": np.isfinite(fields.get("lidar", np.zeros(1))).all(),
                "rf": not (fields.get("rf", np.ones(1)) <= 0).any()
                and not np.isinf(fields.get("rf", np.ones(1))).any(),
            }
            if wrong := [name for name, is_sound in sound.items() if not is_sound]:
                return f"{wrong[0]} holds what no sensor gives"
    print_inspection(Console(file=io.StringIO()), inspect_recording(path))
    return ""


def _write_texts(folder: Path) -> None:
    write_recording(folder / "road.h5")
    with h5py.File(folder / "road.h5", "a", libver="v110") as file:
        owners: list[Any] = [file]
        file.visititems(lambda _, one: owners.append(one))
        for owner in owners:
            for name, value in list(owner.attrs.items()):
                if isinstance(value, bytes):
                    owner.attrs[name] = value.decode()


def _harm_texts(folder: Path, draws: Draws) -> None:
    """The heaps alone, which have no checksum, in every second try."""
    path = folder / "road.h5"
    content = path.read_bytes()
    if draws.random() < 0.5:
        path.write_bytes(mutated(content, draws))
        return
    heaps = [match.start() for match in re.finditer(b"GCOL", content)]
    harmed = bytearray(content)
    for _ in range(int(draws.integers(1, 5))):
        at = int(chosen(draws, heaps)) + int(draws.integers(4, 200))
        harmed[at] = int(chosen(draws, (0, 1, 255, int(draws.integers(256)))))
    path.write_bytes(harmed)


# --- traces -----------------------------------------------------------------------------------------------------------

_CICV5G = (
    "pub_time(ms) sub_time(ms) delay(ms) utmX(m) utmY(m) heading(rad) velocity(m/s) cellid(db) sinr(db) rsrp(db)\n"
    + "".join(f"{1000 + 50 * i} {1040 + 50 * i} {20 + i} 328972.9 3463463.8 2.6 6.5 5C42 8 -71\n" for i in range(20))
)


def _write_traces(folder: Path) -> None:
    (folder / "m").write_text("".join(f"{3 * i}\n" for i in range(40)))
    (folder / "p").write_text("".join(f"{i}.5\t{i % 7}.25\n" for i in range(40)))
    (folder / "c").write_text(_CICV5G)
    (folder / "s").write_text("\ufeff" + _CICV5G.replace(" ", ","))
    (folder / "g").write_text(
        "Timestamp,NetworkMode,DL_bitrate,UL_bitrate\n"
        + "".join(f"2019.12.16_13.40.{10 + i - i // 5},5G,{90 * i},{i}\n" for i in range(30))
    )


def _harm_traces(folder: Path, draws: Draws) -> None:
    for name in "mpcsg":
        _harmed(name, text_or_bytes)(folder, draws)


def _read_traces(folder: Path) -> str:
    readers: tuple[tuple[str, Callable[[Path], Any]], ...] = (
        ("m", read_mahimahi),
        ("p", read_pensieve),
        ("c", read_cicv5g),
        ("s", read_cicv5g),
        ("g", read_gnettrack),
    )
    refusal: SheafedgeError | None = None
    for name, read in readers:
        try:
            trace = read(folder / name)
        except SheafedgeError as error:
            refusal = error
            continue
        arrays = [trace] if isinstance(trace, np.ndarray) else list(trace)
        if not all(np.isfinite(one).all() and (np.abs(one) < 1e15).all() for one in arrays):
            return f"{name} holds what nobody measured"
        if (np.diff(arrays[0]) < 0).any():
            return f"{name} runs backwards"
    if refusal:
        raise refusal
    return ""


def _write_receptions(folder: Path) -> None:
    received = np.random.default_rng(1).random((3, 20)) < 0.5
    np.savez_compressed(folder / "r.npz", received=received, rssi=np.where(received, 30, -1).astype(np.int16))


def _harm_receptions(folder: Path, draws: Draws) -> None:
    path = folder / "r.npz"
    if draws.random() < 0.5:
        path.write_bytes(mutated(path.read_bytes(), draws))
        return
    arrays = dict(np.load(path))
    name = chosen(draws, sorted(arrays))
    arrays[name] = chosen(
        draws,
        (np.zeros((3, 20)), np.array([{}], dtype=object), np.array(5), np.full(3, np.nan), np.full(3, 1e300),
         np.zeros((0, 9), bool), np.full((3, 20), 2**62), np.array([WORDS[20]] * 3), np.zeros((9_000, 9_000), bool)),
    )  # fmt: skip
    np.savez_compressed(path, **arrays)


def _read_receptions(folder: Path) -> str:
    received = read_receptions(folder / "r.npz").received
    return "" if received.dtype == np.bool_ and received.ndim == 2 and received.size else "no fates of packets"


# --- DeepSense --------------------------------------------------------------------------------------------------------

_N_ROWS = 6


def _write_deepsense(folder: Path) -> None:
    draws = np.random.default_rng(2)
    root = folder / "data"
    (root / "unit1").mkdir(parents=True)
    lines = ["index,seq_index,time_stamp[UTC],unit1_pwr_60ghz,unit1_loc,unit2_loc,unit1_lidar_SCR,unit1_beam_index"]
    for row in range(_N_ROWS):
        power = draws.uniform(0.1, 1, 64)
        (root / "unit1" / f"p{row}.txt").write_text("\n".join(f"{one:.6f}" for one in power))
        (root / "unit1" / f"a{row}.txt").write_text("60.0\n10.0")
        (root / "unit1" / f"b{row}.txt").write_text(f"60.000{row + 1}\n10.0")
        (root / "unit1" / f"s{row}.mat").write_bytes(mat_bytes(draws.uniform(0, 6, (12, 2))))
        files = ",".join(
            f"./unit1/{kind}{row}.{end}" for kind, end in (("p", "txt"), ("a", "txt"), ("b", "txt"), ("s", "mat"))
        )
        lines.append(f"{row},1,['11-46-31-{100 * row}'],{files},{int(power.argmax()) + 1}")
    (root / "scenario23.csv").write_text("\n".join(lines) + "\n")
    (folder / "secret.txt").write_text("\n".join([SECRET] * 64))


def _harm_deepsense(folder: Path, draws: Draws) -> None:
    root, row = folder / "data", int(draws.integers(_N_ROWS))
    kind = int(draws.integers(6))
    if kind <= 1:
        _harmed("data/scenario23.csv", text_or_bytes)(folder, draws)
    elif kind == 2:
        _harmed(f"data/unit1/{chosen(draws, 'pab')}{row}.txt", text_or_bytes)(folder, draws)
    elif kind == 3:
        _harmed(f"data/unit1/s{row}.mat", chosen(draws, (mutated, nested_mat)))(folder, draws)
    else:
        name = chosen(draws, ("scenario23.csv", "unit1", f"unit1/p{row}.txt", f"unit1/a{row}.txt", f"unit1/s{row}.mat"))
        (root / name).rename(folder / "moved")
        target = chosen(draws, ("../secret.txt", "../../secret.txt", str(folder / "secret.txt"), "/dev/zero", "loop",
                                str(root / name), str(folder / "moved"), "/etc/passwd", "/etc"))  # fmt: skip
        (root / name).symlink_to(target)


def _read_deepsense(folder: Path) -> str:
    root = folder / "data"
    links = [path for path in root.rglob("*") if path.is_symlink()]
    import_deepsense(root, 23, folder / "road.h5")
    outside = [path for path in links if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))]
    return "a link led out of the folder" if outside else _read_recording(folder)


def _write_clouds(folder: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    draws = np.random.default_rng(6)
    vertices = draws.uniform(-9, 9, (40, 3)).astype("<f4")
    header = "".join(f"property float {axis}\n" for axis in "xyz")
    for name, form in (("a.ply", "ascii"), ("b.ply", "binary_little_endian")):
        head = f"ply\nformat {form} 1.0\nelement vertex 40\n{header}end_header\n".encode()
        text = "\n".join(" ".join(f"{one:.3f}" for one in row) for row in vertices)
        (folder / name).write_bytes(head + (text.encode() if form == "ascii" else vertices.tobytes()))
    cube = draws.normal(size=(4, 8, 6)) + 1j * draws.normal(size=(4, 8, 6))
    for name, compressed in (("c.mat", True), ("d.mat", False)):
        scipy_io.savemat(folder / name, {"data": cube}, do_compression=compressed)


def _harm_clouds(folder: Path, draws: Draws) -> None:
    for name, how in (("a.ply", text_or_bytes), ("b.ply", mutated), ("c.mat", mutated), ("d.mat", mutated)):
        _harmed(name, how)(folder, draws)


def _read_clouds(folder: Path) -> str:
    refusal: SheafedgeError | None = None
    for name in ("a.ply", "b.ply", "c.mat", "d.mat"):
        try:
            if name.endswith("ply"):
                sweep = sweep_of_cloud(read_ply(folder / name))
                sound = np.isfinite(sweep).all() and (sweep[:, 0] >= 0.0).all() and sweep.shape == (360, 2)
            else:
                sound = read_radar_map(folder / name).shape[1] == 64
        except SheafedgeError as error:
            refusal = error
            continue
        if not sound:
            return f"{name} came to what no sensor gives"
    if refusal:
        raise refusal
    return ""


def _write_rows(folder: Path) -> None:
    (folder / "data").mkdir()
    draws = np.random.default_rng(3)
    for name, values in {
        "seq_index": np.repeat([1, 2], 6),
        "unit1_loc": np.tile([60.0, 10.0], (12, 1)),
        "unit2_loc": np.tile([60.0001, 10.0], (12, 1)),
        "unit1_pwr_60ghz": draws.uniform(0.1, 1, (12, 64)),
    }.items():
        np.save(folder / "data" / f"scenario1_{name}_1-12.npy", values)
    (folder / "secret.txt").write_text(SECRET)


def _harm_rows(folder: Path, draws: Draws) -> None:
    path = chosen(draws, sorted((folder / "data").iterdir()))
    kind = int(draws.integers(4))
    if kind == 0:
        path.unlink()
        path.symlink_to(chosen(draws, ("../secret.txt", "/etc/passwd", "/dev/zero", path.name)))
    elif kind == 1:
        values = np.load(path).astype(np.float64)
        values.reshape(-1)[int(draws.integers(values.size))] = chosen(
            draws, (np.nan, np.inf, 1e300, -1.0, 0.0, 2.0**40)
        )
        np.save(path, values)
    else:
        path.write_bytes(mutated(path.read_bytes(), draws))


def _read_rows(folder: Path) -> str:
    recording = load_deepsense_rows(folder / "data", 1)
    sound = np.isfinite(recording.positions_m).all() and ((recording.powers > 0) & (recording.powers < 1e12)).all()
    return "" if sound else "values that no sensor gives"


def _write_image(folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(4).integers(0, 255, (32, 48, 3)).astype(np.uint8)
    for end in ("png", "jpg"):
        image.fromarray(pixels).save(folder / f"i.{end}")


def _harm_image(folder: Path, draws: Draws) -> None:
    for end in ("png", "jpg"):
        _harmed(f"i.{end}", mutated)(folder, draws)


def _read_image(folder: Path) -> str:
    for end in ("png", "jpg"):
        if read_image(folder / f"i.{end}", 64).shape != (64, 64, 3):
            return "an image of another shape"
    return ""


# --- text of ours -----------------------------------------------------------------------------------------------------


def _write_scenario(folder: Path) -> None:
    (folder / "s.toml").write_bytes((SHIPPED / "blockage.toml").read_bytes())
    (folder / "edges").write_text("0 1\n1 2\n2 3\n")
    (folder / "t.csv").write_bytes((FOLDER / "block_error.csv").read_bytes())


def _harm_scenario(folder: Path, draws: Draws) -> None:
    for name in ("s.toml", "edges", "t.csv"):
        _harmed(name, text_or_bytes)(folder, draws)


def _read_scenario(folder: Path) -> str:
    refusal: SheafedgeError | None = None
    modalities = {index: frozenset({"rf"}) for index in range(4)}
    readers: tuple[Callable[[], object], ...] = (
        lambda: load_scenario(str(folder / "s.toml")),
        lambda: list(
            listed_edges(modalities, np.random.default_rng(0), TopologyOptions(edge_list=str(folder / "edges")))
        ),
        lambda: parse_table("t", (folder / "t.csv").read_bytes().decode("utf-8", "replace")),
    )
    for read in readers:
        try:
            read()
        except SheafedgeError as error:
            refusal = error
    if refusal:
        raise refusal
    return ""


_SUMMARY = {
    "task": "blockage", "clients": 1, "rounds": 2, "test_windows": 3, "virtual_time_s": 1.0, "energy_j": 1.0,
    "wall_time_s": 1.0, "trace_hash": "0", "groups": {"all": {"clients": 1, "model": "x", "accuracy": 0.5}},
    "baselines": {}, "traffic": {}, "exports": [{"client": 0, "path": "models/client0.onnx"}], "warnings": [],
    "environment": {"sheafedge": "0", "torch": "0", "code": "0"},
}  # fmt: skip


def _write_run(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "summary.json").write_text(json.dumps(_SUMMARY, indent=1))
    lines = [
        json.dumps(
            {
                "round": one,
                "client": 0,
                "group": "all",
                "bytes_sent": 9,
                "time_s": 1.0,
                "models": {"x": {"accuracy": 0.5}},
            }
        )
        for one in range(2)
    ]
    (folder / "run" / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "run" / "scenario.toml").write_bytes((SHIPPED / "blockage.toml").read_bytes())
    (folder / "secret.txt").write_text(SECRET)


def _harm_run(folder: Path, draws: Draws) -> None:
    name = chosen(draws, ("summary.json", "metrics.jsonl", "scenario.toml"))
    if draws.random() < 0.15:
        (folder / "run" / name).unlink()
        (folder / "run" / name).symlink_to(chosen(draws, ("../secret.txt", "/dev/zero", name, "/etc")))
    else:
        _harmed(f"run/{name}", text_or_bytes)(folder, draws)


def _read_run(folder: Path) -> str:
    refusal: SheafedgeError | None = None
    for read in (finished_run, stored_summary, lambda folder: list(stored_rounds(folder))):
        try:
            found = read(folder / "run")
            if read is finished_run:
                found.model_file(0)
        except SheafedgeError as error:
            refusal = error
    if refusal:
        raise refusal
    return ""


TARGETS = {
    "bytes of recordings": Target(
        lambda at: write_recording(at / "road.h5"), _harmed("road.h5", mutated), _read_recording
    ),
    "texts of variable length": Target(_write_texts, _harm_texts, _read_recording),
    "structure of recordings": Target(
        lambda at: write_recording(at / "road.h5"),
        lambda at, draws: restructured(at / "road.h5", draws),
        _read_recording,
    ),
    "paths of ray tracers": Target(write_sound_paths, harm_paths, read_paths),
    "tracks of SUMO": Target(write_sound_tracks, harm_sumo, read_sumo),
    "tables of tracks": Target(write_sound_tracks, harm_table, read_table),
    "link traces": Target(_write_traces, _harm_traces, _read_traces),
    "receptions": Target(_write_receptions, _harm_receptions, _read_receptions),
    "DeepSense folders": Target(_write_deepsense, _harm_deepsense, _read_deepsense),
    "clouds and radar signals": Target(_write_clouds, _harm_clouds, _read_clouds),
    "gathered rows": Target(_write_rows, _harm_rows, _read_rows),
    "images": Target(_write_image, _harm_image, _read_image),
    "scenarios, edges and tables": Target(_write_scenario, _harm_scenario, _read_scenario),
    "run folders": Target(_write_run, _harm_run, _read_run),
}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _attack(target: Target, root: Path, n_tries: int, seed: int, tally: Tally) -> None:
    before_mb, longest, slowest_s, refused = _peak_mb(), 0, 0.0, 0
    for number in range(n_tries):
        folder = root / str(number)
        folder.mkdir()
        target.make(folder)
        target.harm(folder, np.random.default_rng([seed, number]))
        tally.tries += 1
        began_s = time.process_time()
        try:
            with _limited():
                complaint = target.read(folder)
        except SheafedgeError as error:
            refused += 1
            message = str(error)
            longest = max(longest, len(message))
            # a scenario is answered with a sentence for every wrong field, a line each
            n_lines = MOST_FIELDS + 1 if isinstance(error, ScenarioError) else 1
            complaint = "the refusal has too many lines" if len(message.splitlines()) > n_lines else ""
            complaint = "the refusal repeats a file that is not ours" if SECRET[:6] in message else complaint
            complaint = f"the refusal has {len(message)} characters" if len(message) > LONGEST_REFUSAL else complaint
        except _TookTooLong:
            complaint = f"reading took more than {MOST_CPU_S} s"
        except Exception as error:  # noqa: BLE001 - every other one is a lost try
            complaint = f"{type(error).__name__}: {str(error)[:200]}"
        slowest_s = max(slowest_s, time.process_time() - began_s)
        if complaint:
            tally.lose(f"seed {seed}, try {number}: {complaint}")
    added_mb = _peak_mb() - before_mb
    if added_mb > MOST_ADDED_MB:
        tally.lose(f"reading added {added_mb:.0f} MB")
    if not refused:
        tally.lose("nothing was refused: these files are not hostile")
    tally.figures |= {
        "resident_peak_mb": math.ceil(_peak_mb()),
        "resident_added_mb": math.ceil(added_mb),
        "longest_refusal_characters": longest,
        "slowest_try_cpu_s": round(slowest_s, 2),
        "refused": refused,
    }


@pytest.mark.parametrize("kind", TARGETS)
def test_sound_files_are_read(kind: str, tmp_path: Path) -> None:
    """Negative control: what is attacked below is read before it is harmed."""
    target = TARGETS[kind]
    target.make(tmp_path)
    if kind == "run folders":  # of a complete run only the models are missing
        assert finished_run(tmp_path / "run").summary.rounds == 2
        assert recording_of(tmp_path / "run" / "summary.json").name == "summary.json"
    else:
        assert target.read(tmp_path) == ""


@pytest.mark.parametrize("kind", TARGETS)
def test_some_hostile_files_are_read_whole_or_refused(kind: str, tmp_path: Path, tally: Tally) -> None:
    _attack(TARGETS[kind], tmp_path, N_SHORT, 1, tally)


@pytest.mark.attack
@pytest.mark.parametrize("kind", TARGETS)
def test_thousands_of_hostile_files_are_read_whole_or_refused(kind: str, tmp_path: Path, tally: Tally) -> None:
    _attack(TARGETS[kind], tmp_path, N_LONG, 2, tally)
