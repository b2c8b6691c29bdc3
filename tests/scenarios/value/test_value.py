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
from sheafedge.emulator.decisions.service import Service
from sheafedge.emulator.network.channels.radio_settings import RadioSettings
from sheafedge.emulator.nodes.compute_pool import SerialPool
from sheafedge.scenarios.report.run_report import write_run_report
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.terminal.run_console import print_result
from sheafedge.scenarios.value import value_report as report
from sheafedge.scenarios.value.beam_ladder import RULES as BEAM_RULES
from sheafedge.scenarios.value.handed_users import _neighbor
from sheafedge.scenarios.value.handover_ladder import EVENTS, RULES, ladder, rule_title, tuned
from sheafedge.scenarios.value.planned_handovers import PlannedUsers
from sheafedge.scenarios.value.played_handovers import play_handovers
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
#: Warnings are no forecasts.
WITHOUT_FORECASTS = tuple(rule for rule in RULES if rule != "planner_model")
WAYS = {"handover": WITHOUT_FORECASTS, "beam": BEAM_RULES}
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


def assert_bounded(figures: dict[str, Any], decision: str) -> None:
    """Nobody has less outage or more throughput than the oracle."""
    for way in WAYS[decision]:
        assert figures["oracle"]["outage_ms_per_min"] <= figures[way]["outage_ms_per_min"] + 1e-6
        assert figures["oracle"]["rate_bps"] >= figures[way]["rate_bps"] * (1 - 1e-9)


def test_a_served_model_answers_about_every_held_out_frame_although_training_leaves_most_out(streets: Trained) -> None:
    for client in streets.data.clients:
        assert client.served is not None
        assert (np.diff(client.test.end) == 3).all()
        assert (np.diff(client.served.end) == 1).all()
        assert client.served.end[[0, -1]].tolist() == client.test.end[[0, -1]].tolist()
        assert client.served.end[0] > client.train.end[-1]  # type: ignore[union-attr]  # not live


def test_a_random_split_has_no_stretch_to_serve() -> None:
    leaky = Trained(small("drone_beam", {**FLIGHTS, "data.split": "random"}))
    assert leaky.data.clients[0].served is None
    assert "no stretch of time" in leaky.value()["skipped"]


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
            assert set(WAYS[value["decision"]]) < set(figures)
            assert_bounded(figures, value["decision"])
    assert "skipped" not in value


def test_the_same_models_are_worth_the_same_twice(streets: Trained) -> None:
    assert streets.value() == streets.value()


def rungs(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["rule"]: row for row in value["ladder"]}


def same_service(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rules gave the same, whatever they prepared."""
    left_out = ("rule", "prepared_share")
    return [value for key, value in one.items() if key not in left_out] == [
        value for key, value in other.items() if key not in left_out
    ]


def test_perfect_warnings_at_once_are_worth_permanent_preparation(
    streets: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = with_answers(streets, monkeypatch, knowing)
    rows = rungs(value)
    assert rows["prepare_on_warning"]["outage_ms_per_minute"] < rows["way_back_prepared"]["outage_ms_per_minute"]
    assert rows["prepare_on_warning"]["outage_ms_per_minute"] <= rows["always_prepared"]["outage_ms_per_minute"] * 1.05
    assert rows["prepare_on_warning"]["prepared_share"] < 0.5 < rows["always_prepared"]["prepared_share"]
    for figures in value["groups"].values():
        assert figures["deadline"]["missed"] == figures["deadline"]["false_alarms_per_min"] == 0


@pytest.mark.parametrize(("logit", "share_missed"), [(-9.0, 1), (9.0, 0)])
def test_whoever_never_warns_prepares_the_way_back_alone_and_whoever_always_does_everything(
    logit: float, share_missed: int, streets: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = with_answers(streets, monkeypatch, saying(logit))
    rows = rungs(value)
    assert same_service(rows["prepare_on_warning"], rows["way_back_prepared" if logit < 0.0 else "always_prepared"])
    assert not same_service(rows["way_back_prepared"], rows["always_prepared"])
    for figures in value["groups"].values():
        assert figures["deadline"]["missed"] == share_missed * figures["deadline"]["blockages"]


def test_preparing_what_takes_as_long_anyway_gains_exactly_nothing(
    streets: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "served_stations", lambda *_: [knowing(station) for station in streets.stations()])
    as_long = {"prepared_preparation_s": 0.02, "prepared_interruption_s": 0.062}
    rows = rungs(streets.value({f"decision.handover.{name}": seconds for name, seconds in as_long.items()}))
    for rule in ("way_back_prepared", "prepare_on_snr_history", "always_prepared", "prepare_on_warning"):
        assert same_service(rows[rule], rows["reactive_tuned"]), rule
    assert rows["oracle"]["outage_difference"] < 0.0


def test_the_signal_s_history_prepares_about_as_often_as_the_models(
    streets: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rungs(with_answers(streets, monkeypatch, knowing))
    history, model = rows["prepare_on_snr_history"]["prepared_share"], rows["prepare_on_warning"]["prepared_share"]
    assert history == pytest.approx(model, abs=0.1)


def test_rules_are_tuned_where_they_are_not_shown() -> None:
    """Of two base stations each has the event that is best for the other."""
    outage_s = [[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    services = [[Service(duration_s=60.0, outage_s=seconds) for seconds in row] for row in outage_s]
    assert tuned(services, np.array([False, True])) == [0, 1]


def test_differences_are_paired_over_base_stations() -> None:
    base = [Service(duration_s=60.0, outage_s=seconds, bits=6e9) for seconds in (1.0, 2.0, 6.0)]
    better = [replace(one, outage_s=one.outage_s - gain) for one, gain in zip(base, (0.2, 0.3, 0.4), strict=True)]
    services = dict.fromkeys(RULES, base) | {"prepare_on_warning": better}
    row = next(row for row in ladder(services, {}) if row["rule"] == "prepare_on_warning")
    assert row["outage_ms_per_minute"] == pytest.approx(2700.0)
    assert row["throughput_mbit_s"] == pytest.approx(100.0)
    assert row["outage_difference"] == pytest.approx(-300.0)
    assert row["outage_standard_error"] == pytest.approx(100.0 / 3**0.5)
    assert row["throughput_difference"] == row["throughput_standard_error"] == 0.0


def test_readings_are_the_same_under_every_rule_and_differ_with_the_seed(streets: Trained) -> None:
    stations, scenario = streets.stations(), streets.scenario
    for rule, is_noisy in (("reactive", True), ("nothing", False), ("oracle", False)):
        found = [
            [one.services[rule] for one in play_handovers(scenario.task_spec, scenario.decision, stations, seed).values]
            for seed in (0, 1)
        ]
        assert (found[0] != found[1]) is is_noisy


def test_answers_after_the_end_leave_the_way_back_and_miss_every_deadline(streets: Trained) -> None:
    value = streets.value(ASLEEP)
    rows = rungs(value)
    assert same_service(rows["prepare_on_warning"], rows["way_back_prepared"])
    for figures in value["groups"].values():
        assert figures["deadline"]["met_by"] == figures["deadline"]["in_time"] == 0
    assert all(not one["deadline"]["met"] for one in value["clients"])
    assert all(one["deadline"]["met"] for one in streets.value()["clients"])


def test_a_deadline_is_met_if_an_answer_and_a_preparation_fit_into_the_horizon(streets: Trained) -> None:
    """Half a second ahead, less 100 ms of preparation: 399 ms are enough, 401 are not."""
    one, scenario = streets.stations(), streets.scenario
    for seconds, met in ((0.1995, True), (0.2005, False)):  # a slow device may have begun just before: twice as long
        late = [replace(station, seconds=seconds) for station in one]
        played = play_handovers(scenario.task_spec, scenario.decision, late, 0).values
        assert [each.deadline_met for each in played] == [met] * len(played)


def test_links_that_were_recorded_between_frames_are_played_there(streets: Trained) -> None:
    assert all(station.link.n_steps == 1 for station in streets.stations())
    assert streets.value()["powers_hz"] == 10.0
    # the cheap channel: the rate is the subject
    fine = Trained(small("blockage", {**STREETS, "world.link_rate_hz": 100, "world.blockage": "3gpp_b"}))
    assert all(station.link.n_steps == 10 for station in fine.stations())
    value = fine.value()
    assert value["powers_hz"] == 100.0
    rows = rungs(value)
    assert rows["oracle"]["outage_difference"] < 0.0 < rows["nothing"]["outage_difference"]


@pytest.fixture(scope="module")
def forecasts() -> Trained:
    # the cheap channel: powers between frames are the subject
    return Trained(small("outage_forecast", {**STREETS, "world.blockage": "3gpp_b"}))


def foreseeing(station: ServedStation) -> ServedStation:
    """Every label of every frame ahead, at once."""
    label = station.link.samples.label
    return replace(station, logits=np.where(label > 0, 9.0, -9.0), delay_s=np.zeros(len(label)))


def test_plans_over_right_answers_have_less_outage_than_reaction_and_no_fewer_bits(
    forecasts: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = with_answers(forecasts, monkeypatch, foreseeing)
    assert [row["rule"] for row in value["ladder"]] == list(RULES)
    rows = rungs(value)
    for rule in ("planner_model", "planner_truth"):
        assert rows[rule]["outage_difference"] < 0.0, rule
        assert rows[rule]["throughput_difference"] >= 0.0, rule
    for figures in (*value["groups"].values(), *value["clients"]):
        assert_bounded(figures, "handover")
    assert value["planner_model_at_equal_throughput"]["outage_difference"] <= 0.0
    assert all(figures["deadline"]["missed"] == 0 for figures in value["groups"].values())


def test_answers_that_never_come_leave_plans_to_the_tuned_reaction(forecasts: Trained) -> None:
    rows = rungs(forecasts.value(ASLEEP))
    for rule in ("planner_without_forecast", "planner_snr_history", "planner_model", "planner_truth"):
        assert same_service(
            rows[rule], {key: rows["reactive_tuned"][key] for key in rows["reactive_tuned"] if key != "events"}
        )


def test_plans_are_tuned_for_the_bits_of_the_reaction_where_they_are_not_shown() -> None:
    """The second setting has the least outage at the first base station, and too few bits; the third has enough."""
    outage_s, bits = [[3.0, 1.0, 2.0], [3.0, 2.5, 2.9]], [[10.0, 9.0, 10.0], [10.0, 10.0, 10.0]]
    services = [
        [Service(duration_s=60.0, outage_s=one, bits=many) for one, many in zip(*row, strict=True)]
        for row in zip(outage_s, bits, strict=True)
    ]
    planned = PlannedUsers([(EVENTS[0], None)] * 3, services)
    halves, floor, events = np.array([False, True]), [row[0] for row in services], [EVENTS[0]] * 2
    assert planned.tuned(events, floor, halves) == [1, 2]
    assert [one.outage_s for one in planned.chosen([1, 2])] == [1.0, 2.9]
    unreachable = [replace(one, bits=11.0) for one in floor]
    assert planned.tuned(events, unreachable, halves) == [0, 0]


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
    prepared = [
        rungs(streets.value({"decision.warn_above": above}))["prepare_on_warning"]["prepared_share"]
        for above in (0.1, 0.999)
    ]
    assert prepared[0] > prepared[1]


def test_right_beams_at_once_are_the_limit_in_every_numbering(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = {"decision.beams.indication_s": 0.0}
    for order in ("same", "mirrored", "permuted"):
        trained = Trained(small("drone_beam", {**FLIGHTS, **at_once, "data.beam_order": order}))
        value = with_answers(trained, monkeypatch, knowing)
        for figures in value["groups"].values():
            assert figures["model_one_beam"]["rate_bps"] == pytest.approx(figures["oracle"]["rate_bps"])
            assert figures["model_one_beam"]["lost_db"] == pytest.approx(0.0, abs=1e-6)
            assert figures["nothing"]["rate_bps"] < figures["oracle"]["rate_bps"]
        rows = rungs(value)
        assert rows["model_first_k"]["measuring_share"] == 0.0
        assert rows["model_first_k"]["throughput_difference"] > 0.0


def test_numbers_of_beams_change_nothing_that_a_user_gets_without_a_model() -> None:
    same, mirrored = (
        Trained(small("drone_beam", {**FLIGHTS, "data.beam_order": order})).value() for order in ("same", "mirrored")
    )
    # of two equal powers the lower number is taken, and lists of training beams break ties by it
    for one, other in zip(same["clients"], mirrored["clients"], strict=True):
        for rule in ("oracle", "nothing", "sweep", "sweep_tuned", "hierarchical_sweep", "neighbor_sweep"):
            assert one[rule] == pytest.approx(other[rule]), rule


def test_cars_are_followed_too() -> None:
    tracking = {"world.n_sites": 1, "world.duration_s": 300, "data.n_beams": 8}
    value = Trained(small("beam_tracking", tracking)).value()
    assert value["decision"] == "beam"
    for figures in value["groups"].values():
        assert_bounded(figures, "beam")
    # every answer of a model that reads sweeps costs one, of 8 beams every 0.1 s
    shares = {group: figures["model_one_beam"]["measuring_share"] for group, figures in value["groups"].items()}
    assert shares == {"gps": 0.0, **dict.fromkeys(shares.keys() - {"gps"}, pytest.approx(8 * 125e-6 / 14 / 0.1))}
    assert len(shares) > 1


def test_gathered_rows_are_followed_at_their_nominal_rate(deepsense_root: Path) -> None:
    rows = {"data.source": "deepsense", "data.root": str(deepsense_root), "data.scenarios": [1], "data.stride": 2}
    trained = Trained(small("beam_tracking", rows))
    for client, station in zip(trained.data.clients, trained.stations(), strict=True):
        assert client.served is not None
        assert set(client.served.sequence) == set(client.test.sequence)
        assert len(client.served) > 1.5 * len(client.test)
        assert station.link.frame_s == pytest.approx(0.1)
        assert not set(client.served.sequence) & set(client.train.sequence)  # type: ignore[union-attr]  # not live
    assert set(rungs(trained.value())) == set(BEAM_RULES)


def station(**fields: NDArray[Any]) -> Any:
    n_frames = len(next(iter(fields.values())))
    return SimpleNamespace(field_names=tuple(fields), read=fields.__getitem__, n_frames=n_frames)


def test_fades_come_from_the_best_beam_or_from_what_stands_in_the_way_or_from_the_label() -> None:
    blocked = np.array([False, False, True])
    radio = RadioSettings()
    rf = np.array([[1.0, 4.0], [4.0, np.nan], [0.04, 0.01]])
    assert _gain_db(station(rf=rf, blocked_power=blocked), radio)[:, 0] == pytest.approx([0.0, 0.0, -20.0])
    loss_db = _gain_db(station(blocked_power=blocked, los_loss_db=np.array([0.0, 0.0, 90.0])), radio)
    assert loss_db[:, 0] == pytest.approx([0.0, 0.0, -radio.deepest_fade_db], abs=1e-3)
    assert _gain_db(station(blocked_power=blocked), radio).tolist() == [[0.0], [0.0], [-radio.vehicle_loss_db]]
    between = np.array([[-90.0, -91.0], [-90.0, -100.0], [-110.0, -400.0]], dtype=np.float32)
    found = _gain_db(station(rf=rf, blocked_power=blocked, link_power_dbw=between), radio)
    assert found.tolist() == [[0.0, -1.0], [0.0, -10.0], [-20.0, -60.0]]
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
    assert all(f"deadline {group}: met by " in text for group in value["groups"])
    for row in value["ladder"]:
        assert rule_title(row["rule"]) in text
        assert f"{row['outage_ms_per_minute']:,.0f}" in text
        assert f"{row['throughput_mbit_s']:.1f}" in text


def test_the_table_fits_a_terminal_of_eighty_columns(finished: RunResult) -> None:
    screen = StringIO()
    print_result(Console(file=screen, width=80), finished)
    table = screen.getvalue().split("Value of prediction")[1].split("deadline ")[0]
    assert "…" not in table
    for rule in WITHOUT_FORECASTS:
        assert f"\n  {rule_title(rule)} " in table, "a name was broken into two lines"


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
        ({"decision.beams.ssb_period_s": 0.03}, ["decision.beams.ssb_period_s must be one of 0.005", "got 0.03"]),
        ({"decision.link.bandwidth_hz": 1}, ["decision.link.bandwidth_hz must lie in"]),
        ({"decision.handover.ttt": 1}, ["decision.handover.ttt"]),
        ({"decision.handover.time_to_trigger_s": 0.05}, ["time_to_trigger_s must be one of 0, 0.04", "got 0.05"]),
        ({"decision.measurement.filter_coefficient": 10}, ["filter_coefficient must be one of", "got 10"]),
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
    assert [_neighbor(stations, own) for own in range(3)] == [2, 2, 0]


def test_warnings_are_about_the_blockages_that_the_samples_know(streets: Trained) -> None:
    """The deadline counts onsets of the same label that the models learn."""
    value = streets.value()
    for one, station in zip(value["clients"], streets.stations(), strict=True):
        blocked = cast(BlockageWindows, station.link.samples).blocked_now
        assert one["deadline"]["blockages"] == int((blocked[1:] & ~blocked[:-1]).sum())
    assert sum(one["deadline"]["blockages"] for one in value["clients"]) > 0


def test_the_report_of_a_run_shows_the_ladder(finished: RunResult) -> None:
    page = write_run_report(finished.folder, figures=False).read_text(encoding="utf-8")
    assert all(rule_title(row["rule"]) in page for row in finished.summary["value"]["ladder"])
    assert "Outage against throughput" in page
