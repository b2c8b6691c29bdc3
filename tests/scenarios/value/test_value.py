"""Value of prediction at the end of a run: tiny models of the shipped scenarios, and made-up answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from sheafedge.datasets.windows.sensor_windows import BlockageWindows
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.network.channels.radio_settings import RadioSettings
from sheafedge.emulator.nodes.compute_pool import SerialPool
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.terminal.run_console import print_result
from sheafedge.scenarios.value import value_report as report
from sheafedge.scenarios.value.played_decisions import _neighbor, play_handovers
from sheafedge.scenarios.value.served_stations import ServedStation, served_stations
from sheafedge.scenarios.value.user_links import _gain_db, served_links
from sheafedge.scenarios.value.value_report import value_of_prediction
from sheafedge.scenarios.wiring.assembly import Assembly, assemble
from sheafedge.scenarios.wiring.data import LoadedData, load_data
from sheafedge.scenarios.wiring.members import client_devices
from sheafedge.scenarios.wiring.predictions import Predictions

SMALL: dict[str, Any] = {
    "rounds": 1,
    "world.n_sites": 2,
    "clients.n_clients": 4,
    "topology.kind": "complete",
    "training.local_steps": 1,
    "training.batch_size": 8,
    "model.width": 0.125,
    "model.embedding_dim": 8,
    "model.hidden_dim": 8,
    "network.transport": "memory",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}
STREETS: dict[str, Any] = {"world.duration_s": 90, "clients.n_clients": 2, "data.stride": 3}
FLIGHTS: dict[str, Any] = {
    "world.duration_s": 120,
    "world.sky.min_flight_s": 10,
    "world.sky.max_flight_s": 20,
    "data.n_beams": 8,
}
WAYS = ("nothing", "reactive", "predictive", "oracle")
#: So slow that no answer comes before the recording ends.
ASLEEP = {"compute.stragglers": {"share": 1.0, "factor": 1e6}}

Edit = Callable[[ServedStation], ServedStation]


def small(name: str, edits: dict[str, Any]) -> Scenario:
    return load_scenario(name).edited({**SMALL, **edits})


class Trained:
    """A scenario with models that have learned nothing yet."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.data: LoadedData = load_data(scenario)
        self.assembly: Assembly = assemble(scenario, self.data.clients)
        self.predictions = Predictions(self.assembly.learners, SerialPool())
        self.reported = {group.name: "fused" for group in scenario.clients.groups}

    def value(self, edits: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
        """The section of the summary, under other rules."""
        return value_of_prediction(
            self.scenario.edited(edits or {}),
            self.assembly.clients,
            self.predictions,
            self.reported,
            self.data.recordings,
            **others,
        )

    def stations(self) -> list[ServedStation]:
        scenario, clients = self.scenario, self.assembly.clients
        decision = report.DECISIONS[scenario.task_spec.decision]
        links = served_links(
            clients, self.data.recordings, scenario.links.settings_of("radio"), with_fades=decision.reads_fades
        )
        return served_stations(
            clients,
            self.predictions,
            self.reported,
            links,
            client_devices(scenario.compute, scenario.clients, scenario.seed),
        )


@pytest.fixture(scope="module")
def streets() -> Trained:
    return Trained(small("blockage", STREETS))


@pytest.fixture(scope="module")
def flights() -> Trained:
    return Trained(small("drone_beam", FLIGHTS))


def with_answers(trained: Trained, monkeypatch: pytest.MonkeyPatch, edit: Edit) -> dict[str, Any]:
    """The section, with made-up answers in the place of the models'."""
    monkeypatch.setattr(report, "served_stations", lambda *_: [edit(station) for station in trained.stations()])
    return trained.value()


def knowing(station: ServedStation) -> ServedStation:
    """Right, and at once."""
    label = station.link.samples.label
    if station.logits.shape[1] == 1:
        logits = np.where(label > 0, 9.0, -9.0)[:, None]
    else:
        logits = np.eye(station.logits.shape[1])[label]
    return replace(station, logits=logits, delay_s=np.zeros(len(label)))


def saying(logit: float) -> Edit:
    """The same about every frame, at once."""
    return lambda station: replace(
        station, logits=np.full_like(station.logits, logit), delay_s=np.zeros(len(station.logits))
    )


def assert_bounded(figures: dict[str, Any]) -> None:
    """Nobody has less outage or more throughput than the oracle."""
    for way in WAYS:
        assert figures["oracle"]["outage_ms_per_min"] <= figures[way]["outage_ms_per_min"] + 1e-6
        assert figures["oracle"]["rate_bps"] >= figures[way]["rate_bps"] * (1 - 1e-9)


def test_a_served_model_answers_about_every_held_out_frame_although_training_leaves_most_out(streets: Trained) -> None:
    for client in streets.data.clients:
        assert client.served is not None
        assert (np.diff(client.test.end) == 3).all()
        assert (np.diff(client.served.end) == 1).all()
        assert client.served.end[[0, -1]].tolist() == client.test.end[[0, -1]].tolist()
        assert client.served.end[0] > client.train.end[-1]  # type: ignore[union-attr]  # not live


def test_a_random_split_and_gathered_rows_have_no_stretch_to_serve(streets: Trained, deepsense_root: Path) -> None:
    leaky = Trained(small("drone_beam", {**FLIGHTS, "data.split": "random"}))
    assert leaky.data.clients[0].served is None
    assert "no stretch of time" in leaky.value()["skipped"]
    rows = {"data.source": "deepsense", "data.root": str(deepsense_root), "data.scenarios": [1]}
    assert "no times" in Trained(small("beam_tracking", rows)).value()["skipped"]


def test_a_user_needs_a_second_base_station_to_be_handed_over_to(streets: Trained) -> None:
    assert "two base stations" in streets.value(absent=[1])["skipped"]
    alone = Trained(small("blockage", {**STREETS, "world.n_sites": 1}))
    assert "two base stations" in alone.value()["skipped"]


def test_clients_whose_models_are_elsewhere_are_left_out(flights: Trained) -> None:
    assert [one["client"] for one in flights.value(absent=[0, 2])["clients"]] == [1, 3]


def test_it_can_be_left_out(streets: Trained) -> None:
    assert streets.value({"decision.evaluate": False}) == {"skipped": "decision.evaluate = false"}


def test_every_way_of_deciding_is_told_for_groups_and_clients(streets: Trained, flights: Trained) -> None:
    for trained in (streets, flights):
        value = trained.value()
        assert json.loads(json.dumps(value)) == value
        assert [one["client"] for one in value["clients"]] == list(range(len(trained.data.clients)))
        assert sum(figures["clients"] for figures in value["groups"].values()) == len(value["clients"])
        for figures in (*value["groups"].values(), *value["clients"]):
            assert set(WAYS) < set(figures)
            assert_bounded(figures)
    assert "skipped" not in value


def test_the_same_models_are_worth_the_same_twice(streets: Trained) -> None:
    assert streets.value() == streets.value()


def test_perfect_warnings_at_once_are_the_perfect_column(streets: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    for figures in with_answers(streets, monkeypatch, knowing)["groups"].values():
        assert figures["predictive"] == figures["perfect"]
        assert figures["predictive"]["outage_ms_per_min"] < figures["reactive"]["outage_ms_per_min"]
        assert figures["deadline"]["missed"] == figures["deadline"]["false_alarms_per_min"] == 0


@pytest.mark.parametrize(("logit", "share_missed"), [(-9.0, 1), (9.0, 0)])
def test_whoever_never_warns_or_always_does_only_reacts(
    logit: float, share_missed: int, streets: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    for figures in with_answers(streets, monkeypatch, saying(logit))["groups"].values():
        assert figures["predictive"] == figures["reactive"]
        assert figures["deadline"]["missed"] == share_missed * figures["deadline"]["blockages"]


def test_answers_after_the_end_leave_the_reaction_and_miss_every_deadline(streets: Trained) -> None:
    value = streets.value(ASLEEP)
    for figures in value["groups"].values():
        assert figures["predictive"] == figures["reactive"]
        assert figures["deadline"]["met_by"] == figures["deadline"]["in_time"] == 0
    assert all(not one["deadline"]["met"] for one in value["clients"])
    assert all(one["deadline"]["met"] for one in streets.value()["clients"])


def test_a_deadline_is_met_if_an_answer_and_a_handover_fit_into_the_horizon(streets: Trained) -> None:
    """Half a second ahead, less 82 ms of handover: 417 ms are enough, 419 are not."""
    one, scenario = streets.stations(), streets.scenario
    for seconds, met in ((0.208, True), (0.210, False)):  # a slow device may have begun just before: twice as long
        played = play_handovers(
            scenario.task_spec, scenario.decision, [replace(station, seconds=seconds) for station in one]
        )
        assert [each.deadline_met for each in played] == [met] * len(played)


def test_answers_take_what_the_device_s_figures_of_answers_say(streets: Trained) -> None:
    cost = {"flops_per_s": 1e9, "input_bytes_per_s": 1e6, "weight_bytes_per_s": 1e6, "overhead_s": 0.25}
    slow = {"flops_per_s": 1e9, "overhead_s": 0.0, "power_w": 1.0}
    seconds = {}
    for name, answers in {"by_training": {}, "by_answers": {"answers": {"float32": cost}}}.items():
        edits = {"compute.profiles": {name: {**slow, **answers}}, "compute.profile": name}
        value = streets.value(edits)
        seconds[name] = [one["deadline"]["answer_ms"] / 1e3 for one in value["clients"]]
    for client, by_training, by_answers in zip(streets.assembly.clients, *seconds.values(), strict=True):
        model = client.models["fused"]
        n_inputs = sum(np.prod(client.data.test.input_shapes[one]) for one in model.modalities)
        n_weights = sum(values.numel() for values in model.parameters())
        assert by_answers == pytest.approx(by_training + 0.25 + 4e-6 * float(n_inputs + n_weights))


def test_a_higher_threshold_warns_less(streets: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def ramp(station: ServedStation) -> ServedStation:
        return replace(station, logits=np.linspace(-5.0, 5.0, len(station.logits))[:, None])

    monkeypatch.setattr(report, "served_stations", lambda *_: [ramp(station) for station in streets.stations()])
    actions = [
        sum(one["predictive"]["actions_per_min"] for one in streets.value({"decision.warn_above": above})["clients"])
        for above in (0.1, 0.999)
    ]
    assert actions[0] > actions[1]


def test_right_beams_at_once_are_the_limit_in_every_numbering(monkeypatch: pytest.MonkeyPatch) -> None:
    for order in ("same", "mirrored", "permuted"):
        trained = Trained(small("drone_beam", {**FLIGHTS, "data.beam_order": order}))
        for figures in with_answers(trained, monkeypatch, knowing)["groups"].values():
            assert figures["predictive"]["rate_bps"] == pytest.approx(figures["oracle"]["rate_bps"])
            assert figures["predictive"]["lost_db"] == pytest.approx(0.0, abs=1e-6)
            assert figures["nothing"]["rate_bps"] < figures["oracle"]["rate_bps"]


def test_numbers_of_beams_change_nothing_that_a_user_gets_without_a_model() -> None:
    same, mirrored = (
        Trained(small("drone_beam", {**FLIGHTS, "data.beam_order": order})).value() for order in ("same", "mirrored")
    )
    for one, other in zip(same["clients"], mirrored["clients"], strict=True):
        assert one["oracle"] == pytest.approx(other["oracle"])
        assert one["nothing"] == pytest.approx(other["nothing"])


def test_cars_are_followed_too() -> None:
    tracking = {"world.n_sites": 1, "world.duration_s": 300, "data.n_beams": 8}
    value = Trained(small("beam_tracking", tracking)).value()
    assert value["decision"] == "beam"
    for figures in value["groups"].values():
        assert_bounded(figures)


def station(**fields: NDArray[Any]) -> Any:
    n_frames = len(next(iter(fields.values())))
    return SimpleNamespace(field_names=tuple(fields), read=fields.__getitem__, n_frames=n_frames)


def test_fades_come_from_the_best_beam_or_from_what_stands_in_the_way_or_from_the_label() -> None:
    blocked = np.array([False, False, True])
    radio = RadioSettings()
    rf = np.array([[1.0, 4.0], [4.0, np.nan], [0.04, 0.01]])
    assert _gain_db(station(rf=rf, blocked_power=blocked), radio) == pytest.approx([0.0, 0.0, -20.0])
    loss_db = _gain_db(station(blocked_power=blocked, los_loss_db=np.array([0.0, 0.0, 90.0])), radio)
    assert loss_db == pytest.approx([0.0, 0.0, -radio.deepest_fade_db], abs=1e-3)
    assert _gain_db(station(blocked_power=blocked), radio).tolist() == [0.0, 0.0, -radio.vehicle_loss_db]
    for nothing in (0.0, np.nan):
        assert np.isfinite(_gain_db(station(rf=np.array([[1.0], [nothing], [1.0]])), radio)).all()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_scenario(small("blockage", STREETS), tmp_path_factory.mktemp("value") / "run")


def printed(result: RunResult) -> str:
    screen = StringIO()
    print_result(Console(file=screen, width=100), result)
    return screen.getvalue()


def test_a_run_prints_what_prediction_is_worth_and_writes_it_down(finished: RunResult) -> None:
    text, value = printed(finished), finished.summary["value"]
    assert json.loads((finished.folder / "summary.json").read_text())["value"] == value
    assert "Value of prediction" in text
    for group, figures in value["groups"].items():
        assert f"deadline {group}: met by " in text
        for way in WAYS:
            assert f"{figures[way]['outage_ms_per_min']:,.0f}" in text
            assert f"{figures[way]['rate_bps'] / 1e6:.1f}" in text


def test_the_table_fits_a_terminal_of_eighty_columns(finished: RunResult) -> None:
    screen = StringIO()
    print_result(Console(file=screen, width=80), finished)
    table = screen.getvalue().split("Value of prediction")[1].split("deadline ")[0]
    assert "predictive" in table
    assert "…" not in table
    for row in ("lidar+camera (1)", "lidar+rf (1)", "  outage, ms/min", "  Mbit/s"):
        assert f"\n  {row} " in table, "a name was broken into two lines"


def test_a_run_without_it_prints_nothing_of_it(finished: RunResult) -> None:
    silent = RunResult(finished.folder, {**finished.summary, "value": {"skipped": "why"}})
    assert "Value of prediction" not in printed(silent)


def test_playing_it_leaves_the_trace_as_it_is(finished: RunResult, tmp_path: Path) -> None:
    without = run_scenario(small("blockage", {**STREETS, "decision.evaluate": False}), tmp_path / "run")
    assert without.summary["trace_hash"] == finished.summary["trace_hash"]


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"decision.warn_above": 1.0}, ["decision.warn_above", "got 1"]),
        ({"decision.handover.interruption_s": -1}, ["decision.handover.interruption_s must lie in [0, 1]"]),
        ({"decision.beams.candidates": 0}, ["decision.beams.candidates must lie in [1, 64]"]),
        ({"decision.link.bandwidth_hz": 1}, ["decision.link.bandwidth_hz must lie in"]),
        ({"decision.handover.ttt": 1}, ["decision.handover.ttt"]),
    ],
)
def test_a_rule_that_cannot_be_is_answered_in_a_sentence(edits: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario("blockage").edited(edits)
    assert [word for word in words if word not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_the_share_of_the_gain_is_0_of_reactive_control_and_1_of_the_oracle() -> None:
    shares = [report._share_of_gain(10.0, predictive, 4.0) for predictive in (10.0, 7.0, 4.0, 13.0)]
    assert shares == pytest.approx([0.0, 0.5, 1.0, -0.5])
    assert report._share_of_gain(10.0, 7.0, 10.0) is None
    assert report._share_of_gain(10.0, 7.0, 9.95) is None  # half a per cent: next to nothing to gain
    assert report._share_of_gain(10.0, 7.0, 9.5) == pytest.approx(6.0)


def test_the_neighboring_cell_is_the_next_other_base_station_and_never_ones_own() -> None:
    stations: Any = [SimpleNamespace(client=SimpleNamespace(data=SimpleNamespace(station_index=i))) for i in (0, 0, 1)]
    assert [stations.index(_neighbor(stations, own)) for own in range(3)] == [2, 2, 0]


def test_warnings_are_about_the_blockages_that_the_samples_know(streets: Trained) -> None:
    """The deadline counts onsets of the same label that the models learn."""
    value = streets.value()
    for one, station in zip(value["clients"], streets.stations(), strict=True):
        blocked = cast(BlockageWindows, station.link.samples).blocked_now
        assert one["deadline"]["blockages"] == int((blocked[1:] & ~blocked[:-1]).sum())
    assert sum(one["deadline"]["blockages"] for one in value["clients"]) > 0
