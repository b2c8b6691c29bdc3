"""Every benchmark still runs and says what it promises; how fast it is, no test asks."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from doubles.benchmark_reports import SMALL, assert_spread, report

pytestmark = pytest.mark.checkout  # benchmarks are not shipped

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
#: The arms of a benchmark add up the same terms in another order; after a round or two of float32 steps this is roomy.
ROUNDING = 1e-5
#: The same in float64 over five steps of Adam, which makes steps of a thousandth out of gradients of any size.
ROUNDING_OF_STEPS = 1e-8
#: Maps start as rows of the identity, so float32 dense maps round near 1; float64 does not show.
MAP_ROUNDING = {"float32": 1e-6, "float64": 1e-14}


def test_every_benchmark_is_tried_here() -> None:
    scripts = {path.stem for path in BENCHMARKS.glob("[!_]*.py")} - {"machine"}
    assert scripts == SMALL.keys()


def test_the_trace_benchmark_reads_every_text_format(capsys: pytest.CaptureFixture[str]) -> None:
    formats = report("traces", capsys)["formats"]
    assert formats.keys() == {"mahimahi", "pensieve", "cicv5g", "gnettrack"}
    assert all(one["rows"] > 100 and one["seconds"] >= 0.0 for one in formats.values())


def test_rounds_are_timed_on_the_devices_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("cuda", capsys)
    seen = torch.cuda.is_available()
    arms = ["cpu", "cuda_batched", "cuda_threads", "cuda_serial", "cuda_tf32"] if seen else ["cpu"]
    assert (printed["cuda"] is not None) == seen
    assert list(printed["arms"]) == arms
    (found,) = printed["workloads"].values()
    assert found["executors"]["cpu"] == "batched, 2 threads"
    assert found["clients"] == 3
    assert 1_000 < found["parameters_per_client"]["min"] <= found["parameters_per_client"]["max"]
    assert found["speed_over_cpu"].keys() == found["peak_device_mb"].keys() == set(arms) - {"cpu"}
    for figures in (*found["seconds_per_round"].values(), *found["speed_over_cpu"].values()):
        assert_spread(figures)


def test_an_export_traces_what_torch_computes(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = report("export", capsys)["scenarios"].values()
    assert found["models"] == 3
    assert 0.0 <= found["largest_difference"] < ROUNDING
    assert found["seconds"].keys() == {"plain", "predictions", "traces", "export"}
    for figures in (*found["seconds"].values(), found["plain_over_export"], found["plain_over_export_cpu"]):
        assert_spread(figures)


def test_both_forms_of_a_file_answer_alike_and_the_written_one_is_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    (groups,) = report("export_form", capsys)["scenarios"].values()
    for found in groups.values():
        assert 0.0 <= found["largest_difference"] < ROUNDING * max(1.0, found["largest_logit"])
        assert found["bytes"]["exported"] < found["bytes"]["plain"]
        assert found["nodes"]["exported"] < found["nodes"]["plain"]
        assert_spread(found["speed_ratio"])


def test_links_are_asked_with_every_queue_and_lose_what_they_should(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("links", capsys)
    arms = {"fifo", "fifo_bursts", "port", "port_classes", "processor_sharing", "round_robin"}
    assert printed["links_alone"].keys() == printed["through_network"].keys() == arms
    for figures in printed["links_alone"].values():
        assert figures["messages_per_s"] > 0
        assert 0.0 < figures["repeats_per_packet"] < 0.2
        assert 0.9 < figures["arrived_share"] <= 1.0


def test_a_message_is_timed_from_its_sender_to_the_inbox_of_its_receiver(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("messages", capsys)["microseconds_per_message"]
    assert printed.keys() == {"8 floats, lossy", "8 floats, clean", "2000 floats, lossy", "2000 floats, clean"}
    for of_load in printed.values():
        assert of_load.keys() == {"memory", "zmq"}
        for figures in of_load.values():
            assert all(figures[part] > 0.0 for part in ("all_in", "network", "transport", "links"))
            rest = figures["network"] - figures["transport"] - figures["links"]
            assert figures["trace_counters_and_clock"] == pytest.approx(rest)


@pytest.mark.slow
def test_overhead_compares_the_emulator_with_loops_of_the_same_mathematics(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("overhead", capsys)
    assert printed["largest_difference"]["bare_learners"] == 0.0
    assert printed["largest_difference"]["bare_torch"] < ROUNDING
    assert printed["traffic_per_round"]["messages"] > 0
    assert printed["traffic_per_round"]["retransmissions"] > 0, "the links of the emulated arm lose packets"
    arms = printed["arms"].keys()
    assert printed["executors"].keys() == {"threads", "batched"}
    for figures in printed["executors"].values():
        assert figures["seconds_per_round"].keys() == figures["cpu_seconds_per_round"].keys() == arms
        for ratio in ("emulated/bare_learners", "emulated/bare_torch", "emulated_loss_free/bare_learners"):
            assert_spread(figures["overhead"][ratio])
            assert_spread(figures["cpu_overhead"][ratio])


def test_memory_tells_what_grows(capsys: pytest.CaptureFixture[str]) -> None:
    """In a few rounds only the histories of maps do; where maps stand still nothing does."""
    printed = report("memory", capsys)
    assert printed["checkpoint_parts_that_grow"].keys() == {"file", "emulation.learners[].coupling.maps"}
    first, last = printed["checkpoint_parts_that_grow"]["emulation.learners[].coupling.maps"]
    # two rounds of three clients; a head has 4,160 coordinates, and its two edges as many each
    assert last - first == pytest.approx(2 * 3 * 3 * 4160 * 4, abs=256)
    assert printed["resident_mb"].keys() == printed["checkpoint_bytes"].keys() == {"2", "4"}
    assert printed["peak_mb"] >= max(printed["resident_mb"].values()) > 0.0


@pytest.mark.slow
def test_a_long_run_keeps_its_memory_and_its_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    """Heads of the shipped size: 192 rounds more would add 29 MB to whole histories, and as much to a checkpoint."""
    printed = report("memory", capsys, "--rounds", "336", "--every", "48")
    files, resident_mb = printed["checkpoint_bytes"], printed["resident_mb"]
    assert files["336"] == pytest.approx(files["144"], rel=0.01)
    assert resident_mb["336"] - resident_mb["144"] < 15.0


@pytest.mark.slow
def test_ring_mlp_ends_with_the_models_of_the_bare_loop(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("ring_mlp", capsys)
    assert printed["parameters"] == 9_610
    assert printed["largest_difference_to_bare"].keys() == printed["arms"].keys() - {"bare"}
    assert max(printed["largest_difference_to_bare"].values()) < ROUNDING
    assert printed["largest_move"] > 100 * ROUNDING, "models that stand still would agree too"
    assert printed["rounds_per_s"].keys() == printed["arms"].keys()
    assert_spread(printed["rounds_per_s"]["bare"])
    assert_spread(printed["speed_over_bare"]["emulated_threads/bare"])


def test_peers_that_are_not_there_are_left_out_with_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHEAFEDGE_PEER_FLOWER", str(tmp_path / "python"))
    monkeypatch.delenv("SHEAFEDGE_PEER_GOSSIPY", raising=False)
    printed = report("peers", capsys)
    assert printed["rounds_per_s"].keys() == printed["arms"].keys() == {"emulated_batched", "bare"}
    assert printed["speed_over_bare"].keys() == printed["speed_per_cpu_s_over_bare"].keys() == {"emulated_batched"}
    assert_spread(printed["speed_over_bare"]["emulated_batched"])
    accuracy = printed["accuracy_on_own_samples"]
    assert accuracy["emulated_batched"] == pytest.approx(accuracy["bare"], abs=0.01)
    assert accuracy["bare"] > 0.5, "models that stand still would agree too"
    skipped = printed["skipped"]
    assert skipped.keys() == printed["peers"].keys() == {"gossipy", "flower", "decentralizepy"}
    assert f"{tmp_path / 'python'} cannot import flower (No such file or directory)" in skipped["flower"]
    assert "no Python was named that has gossipy" in skipped["gossipy"]
    assert "no driver" in skipped["decentralizepy"]
    for name, sentence in skipped.items():
        assert printed["peers"][name]["install"] in sentence


@pytest.mark.slow
def test_a_driver_answers_with_its_clock_and_models_and_a_failure_with_its_last_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The files that drivers share are tried by a driver that trains every client by itself."""
    peer_runs, ring = (import_module(f"sheafedge.benchmarks.{name}") for name in ("_peer_runs", "ring_mlp"))
    alone = tmp_path / "alone.py"
    alone.write_text(
        "import torch\n"
        "from given import Clock, drive, read_given, train_an_epoch\n"
        "def run(path):\n"
        "    given, clock = read_given(path), Clock()\n"
        "    models = [given.model() for _ in given.inputs]\n"
        "    clock.start()\n"
        "    for client, model in enumerate(models):\n"
        "        train_an_epoch(model, given, client, torch.Generator().manual_seed(client))\n"
        "    clock.stop()\n"
        "    print('chatter', end='')\n"
        "    return clock, models\n"
        "drive(run, ['torch'])\n",
        encoding="utf-8",
    )
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('too new a torch')\n", encoding="utf-8")
    told = {name: getattr(peer_runs.PEERS["gossipy"], name) for name in peer_runs.Peer.__slots__}
    peers = {path.stem: peer_runs.Peer(**{**told, "module": "json", "driver": str(path)}) for path in (alone, broken)}
    monkeypatch.setattr(peer_runs, "PEERS", peers)
    states = ring.LastStates()
    runs = peer_runs.PeerRuns(dict.fromkeys(peers, sys.executable), 1, tmp_path, states)
    problem = ring.ring_problem(0, 4, 1, 1)
    runs.give(problem)
    timing = runs.timing("alone")
    assert timing.wall_s > 0.0
    assert runs.versions["alone"].keys() == {"python", "torch"}
    start = torch.nn.utils.parameters_to_vector(problem.model().parameters()).detach()
    assert states.by_arm["alone"].shape == (4, len(start))
    assert states.largest_move("alone", start) > 100 * ROUNDING
    with pytest.raises(peer_runs.NotRunError, match=r"^broken was started and failed: ValueError: too new a torch$"):
        runs.timing("broken")


def test_maps_are_equal_in_both_storages_up_to_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("maps", capsys)
    cases = printed["cases"]
    assert [(case["compression"], case["dtype"]) for case in cases] == [
        (0.1, "float32"),
        (0.23, "float32"),
        (0.1, "float64"),
    ]
    for case in cases:
        assert case["dense"].keys() == case["factored"].keys()
        assert case["dense"].keys() >= {"ms_per_round", "ms_per_round_last_10", "ms_by_part", "mib"}
        assert case["largest_difference"].keys() == {"maps", "projections", "heads"}
        assert max(case["largest_difference"].values()) < MAP_ROUNDING[case["dtype"]]
        assert case["largest_map_step"] > 10 * MAP_ROUNDING[case["dtype"]], "maps that stand still would agree too"


@pytest.mark.slow
def test_round_measures_every_encoder_and_group_against_a_matrix_product(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("round", capsys)
    assert printed["matmul_gflop_per_s"] > 0.0
    assert printed["parameters"].keys() == {"lidar", "camera", "rf", "drone_camera", "drone_gps"}
    measured = [*printed["parameters"], "lidar+camera", "lidar+rf", "camera+rf"]
    expected = {f"{name}/{order}" for name in measured for order in ("channels_last", "channels_first")}
    assert printed["steps"].keys() == expected - {"drone_gps/channels_first"}
    for figures in printed["steps"].values():
        assert_spread(figures["ms"])
        assert figures["gflop_per_s"] > 0.0
    whole = printed["whole_round"]
    assert (whole["clients"], whole["rounds"], whole["local_steps"], whole["threads"]) == (2, 1, 1, 2)
    assert_spread(whole["matmul_gflop_per_s"])
    for figure in ("seconds_per_round", "share_of_matmul", "cpu_share_of_matmul"):
        assert whole[figure].keys() == {"round", "bare_steps"}
        for seen in whole[figure].values():
            assert_spread(seen)
    assert max(seen["max"] for seen in whole["share_of_matmul"].values()) < 1.0


def test_the_work_of_a_round_is_that_of_its_clients_steps() -> None:
    """As `round` counts a client's step by itself, times the clients: nothing that a round does beside is counted."""
    names = {"lidar+camera": 1, "lidar+rf": 1}
    steps = import_module("sheafedge.benchmarks.round")
    single, _ = steps.make_steps(2, 0.125)
    expected = sum(n * steps.count_flops(single[f"{name}/channels_last"]) for name, n in names.items())
    blockage, whole = (import_module(f"sheafedge.benchmarks.{name}") for name in ("_blockage", "_whole_round"))
    edits = {"clients.n_clients": 2, "world.duration_s": 30, "model.width": 0.125, "training.batch_size": 2}
    one, two = (blockage.Workload.of({**edits, "training.local_steps": n}) for n in (1, 2))
    groups = sorted(client.group for client in one.emulation({"network.transport": "memory"}).clients)
    assert groups == sorted(names)
    assert whole._flops_of_a_round(one) == pytest.approx(expected, rel=0.01)  # heads of one logit instead of two
    assert whole._flops_of_a_round(two) == 2 * whole._flops_of_a_round(one)


@pytest.mark.slow
def test_blockage_round_compares_a_round_with_its_local_steps(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("blockage_round", capsys)
    difference = printed["largest_difference"]
    assert difference["to_stand_alone_training"] < ROUNDING_OF_STEPS
    assert difference["moved"] > 100 * ROUNDING_OF_STEPS, "models that stand still would agree too"
    arms = printed["arms"].keys()
    assert printed["seconds"].keys() == printed["cpu_seconds"].keys() == arms
    assert printed["over_bare_steps"].keys() == printed["cpu_over_bare_steps"].keys() == arms - {"bare_steps"}
    for figures in ("seconds", "cpu_seconds", "over_bare_steps", "cpu_over_bare_steps"):
        for seen in printed[figures].values():
            assert_spread(seen)


def test_hub_relays_beside_a_bare_socket_over_every_kind_of_address(capsys: pytest.CaptureFixture[str]) -> None:
    addresses = report("hub", capsys)["addresses"]
    assert addresses.keys() == {"inproc", "ipc", "tcp"}
    for arms in addresses.values():
        assert arms.keys() == {"hub", "relay"}
        for figures in arms.values():
            for seen in figures.values():
                assert_spread(seen)


@pytest.mark.slow
def test_scale_measures_time_and_memory_per_client_at_every_size(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("scale", capsys)
    assert printed["traffic_per_client_and_round"]["regular"]["messages"] > 4, "every client has four neighbors"
    assert printed["traffic_per_client_and_round"]["regular"]["retransmissions"] > 0, "links lose packets"
    assert printed["rounds"].keys() == {"regular/zmq", "regular/memory"}
    for figures in printed["rounds"].values():
        assert all(ms > 0.0 for ms in figures.pop("cpu_ms_to_build_a_client").values())
        for seen in figures.values():
            assert seen.keys() == {"6", "12"}
            for spread in seen.values():
                assert_spread(spread)
        assert figures["growth"]["6"] == {"median": 1.0, "min": 1.0, "max": 1.0}, "over the smallest crowd"
    assert printed["memory"]["regular"].keys() == {"6", "12"}
    assert printed["memory"]["regular"]["12"]["kib_per_client"] > 0
    assert printed["sampled"].keys() == {"zmq", "memory"}
    for figures in printed["sampled"].values():
        assert figures["growth"].keys() == {"4", "12"}
    assert "rows" not in printed["memory_of_sampled"]["4"], "all take part, and nobody sleeps"
    assert printed["memory_of_sampled"]["12"]["bytes_per_row"] > 1000


@pytest.mark.slow
def test_value_plays_every_rule_and_draws_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(SMALL, "value", [*SMALL["value"], "--draw", str(tmp_path / "value.png")])
    found = report("value", capsys)["scenarios"]["blockage"]
    assert (tmp_path / "value.png").read_bytes().startswith(b"\x89PNG")
    slower = [one["everybody"]["deadline"]["in_time"][0] for one in found["answer_ms"].values()]
    assert slower == sorted(slower, reverse=True)
    of_kind = {
        kind: one["ladder"]["always_prepared"]["outage_ms_per_minute"][0] for kind, one in found["kinds"].items()
    }
    assert of_kind["both cells"] <= of_kind["ltm"] <= of_kind["plain"]
    assert of_kind["ltm"] == found["ladder"]["always_prepared"]["outage_ms_per_minute"][0]
    levels = found["rules"]["decision.handover.prepared_interruption_s"]
    assert levels["0.025"]["ladder"] == found["ladder"]
    assert found["scores"].keys() >= {"balanced_accuracy", "ahead"}
    assert all(0.0 < score <= 1.0 for (score,) in found["scores"].values())
    of_rule = found["over_stations"]["prepare_on_warning"]
    less = of_rule["less"]["reactive_tuned"]
    # of one seed, whose own ladder says the same
    assert {name: [value] for name, value in less.items()}.items() <= found["ladder"]["prepare_on_warning"].items()
    assert of_rule["less"].keys() == {
        "reactive_tuned",
        "way_back_prepared",
        "prepare_on_snr_history",
        "always_prepared",
    }


def test_value_refuses_a_picture_of_answers_that_it_does_not_vary(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_module("sheafedge.benchmarks.value").main(["--vary", "filters", "--draw", "value.png"])
    assert "add answer_ms to --vary" in capsys.readouterr().err


@pytest.mark.slow
def test_record_measures_sensors_recordings_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    printed = report("record", capsys)
    for figures in printed["sensing_on_one_core"].values():
        assert figures["frames_per_s"] > 0
        assert figures["ms_per_frame"].keys() == {"scene", "rf", "lidar", "camera", "gps"}
    assert printed["recording"]["frames"] == 100
    assert printed["memory"].keys() >= {"peak_mb", "four_times_longer_peak_mb"}


def test_machine_facts_can_be_asked_for_alone() -> None:
    facts = import_module("sheafedge.benchmarks.machine").machine_facts()
    assert facts["cpus"] >= 1
