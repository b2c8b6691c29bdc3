"""Scenario files: what they say comes back as it was, and what they say wrongly is answered in one sentence."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario, parse_assignment, shipped_scenarios, validated
from sheafedge.scenarios.tasks.task_table import TASKS

RF = {"name": "rf", "modalities": ["rf"], "share": 1.0}
MEASURED: dict[str, Any] = {
    "task": "beam_tracking",
    "data": {"source": "recording", "recordings": ["a.h5"]},
    "clients": {"groups": [RF]},
}
LONGEST_SENTENCE = 400  # a list of all fields of the largest table fits; a dump of a validator does not


def written_and_read(scenario: Scenario, path: Path) -> Scenario:
    path.write_text(tomli_w.dumps(scenario.tables()), encoding="utf-8")
    return load_scenario(str(path))


def assert_sentences(message: str, *fragments: str) -> None:
    """The message holds the fragments, and every line of it is a sentence for a user."""
    assert [fragment for fragment in fragments if fragment not in message] == [], message
    for sentence in message.splitlines():
        assert_is_a_sentence(sentence)


def assert_one_sentence(message: str, *fragments: str) -> None:
    assert "\n" not in message
    assert_sentences(message, *fragments)


def assert_is_a_sentence(message: str) -> None:
    assert not message.endswith((".", " "))
    assert len(message) <= LONGEST_SENTENCE
    for jargon in ("Input should", "pydantic", "instance of", "validation", "dictionary", "tuple", "Error"):
        assert jargon not in message


def complaint(edits: Mapping[str, Any], name: str = "beam_tracking") -> str:
    with pytest.raises(ConfigError) as caught:
        load_scenario(name).edited(edits)
    return str(caught.value)


@pytest.mark.parametrize("name", shipped_scenarios())
def test_every_shipped_scenario_loads_under_its_own_name_and_says_what_it_is(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.summary


def test_every_task_has_a_shipped_scenario() -> None:
    assert {load_scenario(name).task for name in shipped_scenarios()} == set(TASKS)
    assert set(shipped_scenarios()) == {"blockage", "beam_tracking", "drone_beam", "digits", "school", "wisdm"} | {
        "outage_forecast",
        "rotated_mnist",
        "rotated_mnist_sizes",
        "two_digits",
        "cora",
    }


def test_no_edit_changes_nothing() -> None:
    scenario = load_scenario("beam_tracking")
    assert scenario.edited({}) == scenario


def test_an_edit_makes_a_variant_and_leaves_the_original() -> None:
    scenario = load_scenario("beam_tracking")
    lossy = scenario.edited({"link.loss_probability": 0.5, "world.street.n_lanes": 4, "clients.groups": [RF]})
    assert lossy.link.loss_probability == 0.5
    assert lossy.world is not None
    assert lossy.world.street.n_lanes == 4
    assert [group.name for group in lossy.clients.groups] == ["rf"]
    assert scenario.link.loss_probability == 0.05
    assert lossy.edited({"link.loss_probability": 0.05}).link == scenario.link


def test_a_table_given_whole_starts_from_its_defaults() -> None:
    scenario = load_scenario("beam_tracking").edited({"link": {"rate_bps": 5e6}})
    assert scenario.link.rate_bps == 5e6
    assert scenario.link.loss_probability == 0.0


@given(
    loss=st.floats(0.0, 0.875),
    step=st.floats(0.0, 1e30, allow_subnormal=True),
    seed=st.integers(0, 2**63 - 1),
    summary=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_written_scenario_is_read_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, loss: float, step: float, seed: int, summary: str
) -> None:
    edits = {"link.loss_probability": loss, "training.encoder_step_size": step, "seed": seed, "summary": summary}
    scenario = load_scenario("beam_tracking").edited(edits)
    assert written_and_read(scenario, tmp_path_factory.getbasetemp() / "scenario.toml") == scenario


def test_a_written_scenario_holds_every_field_so_that_new_defaults_do_not_change_it(tmp_path: Path) -> None:
    written_and_read(load_scenario("beam_tracking"), tmp_path / "scenario.toml")
    tree = tomllib.loads((tmp_path / "scenario.toml").read_text(encoding="utf-8"))
    assert set(tree) == set(Scenario.model_fields)
    assert tree["world"]["street"]["n_lanes"] == 2
    assert tree["world"]["gps"]["bias_m"] == 0.4
    assert tree["training"]["batch_size"] == 32


def test_what_is_not_set_is_not_written(tmp_path: Path) -> None:
    """TOML has no word for nothing; a run on recordings has no world."""
    measured = validated({**MEASURED, "name": "measured"})
    assert measured.world is None
    assert measured.model.dropout is None
    assert written_and_read(measured, tmp_path / "scenario.toml") == measured
    assert "world" not in (tmp_path / "scenario.toml").read_text(encoding="utf-8")


def test_a_run_on_recordings_needs_no_world_and_a_world_may_stay() -> None:
    scenario = load_scenario("beam_tracking").edited({"data.source": "recording", "data.recordings": ["a.h5"]})
    assert scenario.world is not None
    assert scenario.edited({"data.source": "world"}).data.recordings == ("a.h5",)


def test_a_file_without_a_name_is_called_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "crossing.toml").write_text(tomli_w.dumps(MEASURED))
    assert load_scenario(str(tmp_path / "crossing.toml")).name == "crossing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds=3", ("rounds", 3)),
        ("link.loss_probability = 0.05", ("link.loss_probability", 0.05)),
        ("link.rate_bps=1e6", ("link.rate_bps", 1e6)),
        ("export.onnx=false", ("export.onnx", False)),
        ("data.scenarios=[1,5,8]", ("data.scenarios", [1, 5, 8])),
        ('data.root="/my data"', ("data.root", "/my data")),
        ("data.root=/my data/deep=sense", ("data.root", "/my data/deep=sense")),
        ("data.root=C:\\data", ("data.root", "C:\\data")),
        ("algorithm=dsgd", ("algorithm", "dsgd")),
        ("data.root=", ("data.root", "")),
        ("clients.groups=[{name='a'}]", ("clients.groups", [{"name": "a"}])),
        ("rounds=3\nseed=4", ("rounds", "3\nseed=4")),
        ("rounds=" + "[" * 5000, ("rounds", "[" * 5000)),
    ],
)
def test_an_assignment_holds_a_toml_value_or_a_plain_string(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["rounds", "", "=3", "  =3", "rounds:3"])
def test_what_is_no_assignment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_assignment(text)
    assert_one_sentence(str(caught.value), repr(text), "--set link.loss_probability=0.05")


UNKNOWN_FIELDS = {
    "round": ("round is not a known field", "did you mean rounds?"),
    "zzz": ("zzz is not a known field", "known: name, summary, task, algorithm"),
    "link.los_probability": ("did you mean link.loss_probability?",),
    "loss_probability": ("did you mean link.loss_probability?",),
    "n_clients": ("did you mean clients.n_clients?",),
    "duration_s": ("did you mean world.duration_s?",),
    "n_lanes": ("did you mean world.street.n_lanes?",),
    "world.n_sits": ("did you mean world.n_sites?",),
    "world.zzz": ("world.zzz is not a known field", "known: kind, user, n_sites"),
    "data.n_sites": ("data.n_sites is not a known field", "did you mean world.n_sites?"),
    "warm_up_s": ("did you mean live.warm_up_s?",),
    "link.zzz": ("link.zzz is not a known field", "known: rate_bps"),
    "world.street.n_lans": ("did you mean world.street.n_lanes?",),
    "training.batchsize": ("did you mean training.batch_size?",),
    "sheaf.cupling": ("did you mean sheaf.coupling?",),
    "model.zzz": ("known: embedding_dim",),
    "zzz.loss.probability": ("zzz is not a known field", "known: name"),
    "rounds.x": ("rounds.x is not a known field", "set rounds itself"),
    "world.street.n_lanes.x": ("set world.street.n_lanes itself",),
    "clients.groups.0.share": ("clients.groups is a list", "--set 'clients.groups=[...]'"),
    "link.": ("link. is not a known field", "known: rate_bps"),
    "": ("'' is not a known field", "known: name"),
}


@pytest.mark.parametrize("key", UNKNOWN_FIELDS)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(key: str) -> None:
    assert_one_sentence(complaint({key: 1}), *UNKNOWN_FIELDS[key])


WRONG_VALUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a word for a number": ({"rounds": "many"}, ("rounds must be a valid integer, got 'many'",)),
    "half a round": ({"rounds": 1.5}, ("rounds must be a valid integer, got 1.5",)),
    "a very long word": ({"rounds": "many" * 500}, ("rounds must be a valid integer, got 'many", "...")),
    "a list for a number": ({"seed": [1, 2]}, ("seed must be a valid integer, got [1, 2]",)),
    "a number for a word": ({"name": 12}, ("name must be a string, got 12", "quote it")),
    "a number for a table": ({"link": 3}, ("link is a table, got 3", "link.rate_bps")),
    "a number for a learning table": ({"training": 3}, ("training is a table, got 3", "training.local_steps")),
    "a number for the world": ({"world": 3}, ("world is a table, got 3", "world.kind")),
    "a number for a nested table": ({"world.gps": 3}, ("world.gps is a table, got 3", "world.gps.bias_m")),
    "a number for a list": ({"clients.groups": 3}, ("clients.groups must be a list, got 3", "[...]")),
    "a missing field": ({"clients": {}}, ("clients.groups is missing", "add it")),
    "a missing field of an item": ({"clients.groups": [{"name": "a"}]}, ("clients.groups.0.modalities is missing",)),
    "no round": ({"rounds": 0}, ("rounds must be at least 1, got 0",)),
    "a negative seed": ({"seed": -1}, ("seed must be at least 0, got -1",)),
    "an infinite count": ({"rounds": float("inf")}, ("rounds must be a finite number, got inf",)),
    "a loss of nan": ({"link.loss_probability": float("nan")}, ("link.loss_probability must be a finite number",)),
    "a loss above 1": ({"link.loss_probability": 1.5}, ("link.loss_probability must be at most 1, got 1.5",)),
    "a step size of nan": ({"training.head_step_size": float("nan")}, ("training.head_step_size", "finite", "nan")),
    "an infinite coupling": ({"sheaf.coupling": float("inf")}, ("sheaf.coupling", "finite", "inf", "0 switches")),
    "no compression left": ({"sheaf.compression": 0}, ("sheaf.compression must lie in (0, 1]", "got 0")),
    "a link without rate": ({"link.rate_bps": 0}, ("link.rate_bps must be above 0", "1e9")),
    "packets that cut numbers": ({"link.packet_bytes": 7}, ("link.packet_bytes", "multiple of 8, got 7", "1200")),
    "a seed of too many bits": ({"seed": 2**63}, ("seed must be below 9223372036854775808, got 922",)),
    "an alley": ({"world.street.n_lanes": 1}, ("world.street.n_lanes must lie in [2, 6], got 1",)),
    "another kind of world": ({"world.kind": "sea"}, ("world.kind must be 'street' or 'sky', got 'sea'",)),
    "more units than memory": ({"model.hidden_dim": 10**12}, ("model.hidden_dim must be at most", "10000000", "128")),
    "no unit": ({"model.embedding_dim": 0}, ("model.embedding_dim must be at least 1, got 0",)),
    "endless repeats": ({"link.retry_limit": 10**12}, ("link.retry_limit must be at most 1000",)),
    "sites without end": ({"world.n_sites": 10**9}, ("world.n_sites must be at most 1000",)),
    "a beam count of 63": ({"data.n_beams": 63}, ("data.n_beams must be 64, 32, 16 or 8, got 63",)),
    "a task that nobody has": (
        {"task": "parking"},
        (
            "unknown task 'parking'",
            "known: blockage, outage_forecast, beam_tracking, beam_prediction, classification, node_classification",
            ", regression",
        ),
    ),
    "nothing of a vector": ({"sharing.fraction": 0}, ("sharing.fraction must lie in (0, 0.5]", "got 0")),
    "more than half of a vector": ({"sharing.fraction": 0.6}, ("sharing.fraction must lie in (0, 0.5]", "got 0.6")),
    "an exchange in no round": ({"sharing.every": 0}, ("sharing.every must be at least 1", "got 0")),
    "an unknown codec": (
        {"sharing.codec": "zip"},
        ("sharing.codec must be 'float32', 'float16', 'int8' or 'top_k', got 'zip'",),
    ),
    "no network left": ({"model.width": 0}, ("model.width must lie in (0, 16]", "got 0")),
    "a network as wide as a road": ({"model.width": 17}, ("model.width must lie in (0, 16]", "got 17")),
    "everything dropped": ({"model.dropout": 1}, ("model.dropout must lie in [0, 1)", "0 switches it off", "got 1")),
    "less than nothing dropped": ({"model.dropout": -0.1}, ("model.dropout must lie in [0, 1)", "got -0.1")),
    "a large network without weights": (
        {"model.camera_encoder": "resnet50"},
        ("model.camera_encoder = 'resnet50' needs model.weights", "or use 'small'"),
    ),
    "an unknown camera network": (
        {"model.camera_encoder": "vgg"},
        ("model.camera_encoder must be 'small', 'resnet50' or 'resnet50_tuned', got 'vgg'",),
    ),
    "unknown weights of classes": (
        {"training.class_weights": "some"},
        ("training.class_weights must be 'none' or 'balanced', got 'some'",),
    ),
    "images that nobody makes": (
        {"data.images": "blurred"},
        ("data.images must be 'plain', 'occluded' or 'views', got 'blurred'",),
    ),
    "a gap back in time": ({"data.gap_frames": -1}, ("data.gap_frames must be at least 0, got -1",)),
    "every zeroth sample": ({"data.stride": 0}, ("data.stride must be at least 1, got 0",)),
    "no horizon": ({"data.horizon": 0}, ("data.horizon must be at least 1, got 0",)),
    "an unknown label": ({"data.label": "dark"}, ("data.label must be", "'blocked_power', got 'dark'")),
    "no window": ({"data.window": 0}, ("data.window must be at least 1, got 0",)),
    "nothing to train on": ({"data.train_fraction": 0}, ("data.train_fraction must be above 0, got 0",)),
    "everything held out": ({"data.test_fraction": 1}, ("data.test_fraction must be below 1, got 1",)),
    "no groups": ({"clients.groups": []}, ("clients.groups must not be empty", "at least one")),
    "shares below 1": ({"clients.groups": [{**RF, "share": 0.7}]}, ("shares must add up to 1, got 0.7", "change")),
    "a negative share": ({"clients.groups": [{**RF, "share": -1}]}, ("clients.groups.0.share must be at least 0",)),
    "an unknown modality": (
        {"clients.groups": [{**RF, "modalities": ["sonar"]}]},
        (
            "clients.groups.0.modalities.0 must be 'lidar', 'camera', 'rf', 'gps', 'radar', 'signal', 'table',",
            "'image' or 'graph'",
            "'sonar'",
        ),
    ),
    "a task that cannot use what clients have": (
        {"task": "blockage"},
        ("clients.groups: 'gps' has 'gps', which task 'blockage' cannot use", "choose among lidar, camera, rf"),
    ),
    "a sensor twice": ({"world.sensors": ["rf", "rf"]}, ("world.sensors names a sensor twice", "name each once")),
    "no warm-up": ({"live.warm_up_s": 0}, ("live.warm_up_s must be above 0, got 0",)),
    "handing over all the time": ({"live.handover_s": 0}, ("live.handover_s must be above 0, got 0",)),
    "rounds back in time": ({"live.round_every_s": -1}, ("live.round_every_s must be at least 0, got -1",)),
    "no modality": ({"clients.groups": [{**RF, "modalities": []}]}, ("clients.groups.0.modalities must not be empty",)),
    "a modality twice": (
        {"clients.groups": [{**RF, "modalities": ["rf", "rf"]}]},
        ("clients.groups", "'rf' lists modality 'rf' twice", "once"),
    ),
    "two groups of one name": (
        {"clients.groups": [{**RF, "share": 0.5}, {**RF, "share": 0.5}]},
        ("clients.groups has two groups named 'rf'", "own name"),
    ),
    "a group without name": ({"clients.groups": [{**RF, "name": ""}]}, ("clients.groups.0.name must not be empty",)),
    "beams of a group that no codebook has": (
        {"clients.groups": [{**RF, "n_beams": 12}]},
        ("clients.groups.0.n_beams must be 64, 32, 16 or 8, got 12",),
    ),
    "an unknown order": ({"data.beam_order": "odd"}, ("data.beam_order must be 'same', 'mirrored', 'rotated' or",)),
    "a stranger in a group": (
        {"clients.groups": [{**RF, "shares": 1}]},
        ("clients.groups.0.shares is not a known field", "did you mean clients.groups.0.share?"),
    ),
    "a personal encoder of nothing": (
        {"training.personal_encoders": ["sonar"]},
        ("training.personal_encoders.0 must be 'lidar', 'camera', 'rf', 'gps', 'radar',", "got 'sonar'"),
    ),
    "an unknown choice": ({"network.missing": "wat"}, ("network.missing must be 'skip', 'stale' or 'wait'",)),
    "an unknown fusion": ({"model.fusion": "sum"}, ("model.fusion must be 'default', 'attention'", "got 'sum'")),
    "a name with a folder": ({"name": "a/b"}, ("name must be able to name a run folder, got 'a/b'", "letters")),
    "a name that leads out": ({"name": "a..b"}, ("name must be able to name a run folder, got 'a..b'",)),
    "a hidden name": ({"name": ".."}, ("name must be able to name a run folder",)),
    "a name of two lines": ({"name": "a\nb"}, ("got 'a\\nb'",)),
    "an endless name": ({"name": "a" * 500}, ("name must be able to name a run folder", "up to 100")),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_wrong_value_is_answered_with_field_value_and_remedy(case: str) -> None:
    edits, fragments = WRONG_VALUES[case]
    assert_sentences(complaint(edits), *fragments)


WRONG_FOR_DRONES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "beams from beams": (
        {"clients.groups": [RF]},
        ("clients.groups: 'rf' has 'rf', which task 'beam_prediction' cannot use", "choose among camera, gps"),
    ),
    "no powers to tell the best beam": (
        {"world.sensors": ["camera", "gps"]},
        ("task 'beam_prediction' and its clients need 'rf', which this world does not record (camera, gps)",),
    ),
    "a sky with cars": ({"task": "blockage"}, ("which task 'blockage' cannot use",)),
}


@pytest.mark.parametrize("case", WRONG_FOR_DRONES)
def test_what_does_not_fit_a_task_is_named_with_the_task(case: str) -> None:
    edits, fragments = WRONG_FOR_DRONES[case]
    assert_sentences(complaint(edits, "drone_beam"), *fragments)


STREET = {"name": "lidar", "modalities": ["lidar"], "share": 1.0}
WRONG_FOR_STREETS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "beams of a group without beams": (
        {"clients.groups": [{**STREET, "n_beams": 8}]},
        ("'lidar' sets n_beams = 8, which task 'blockage' does not ask about", "may set horizon"),
    ),
    "a fault of nobody": (
        {"faults": [{"kind": "node_off", "nodes": ["serve"]}]},
        ("faults: 'serve' names no node; give the number of a client, from 0 on, or \"server\"",),
    ),
    "a fault of a client below 0": ({"faults": [{"kind": "node_off", "nodes": [-1]}]}, ("faults: -1 names no node",)),
    "a horizon in the past": ({"clients.groups": [{**STREET, "horizon": 0}]}, ("clients.groups.0.horizon must be at",)),
}


@pytest.mark.parametrize("case", WRONG_FOR_STREETS)
def test_what_is_no_question_about_blockages_is_refused(case: str) -> None:
    edits, fragments = WRONG_FOR_STREETS[case]
    assert_sentences(complaint(edits, "blockage"), *fragments)


def test_a_group_is_asked_with_its_own_numbers_and_else_with_those_of_all() -> None:
    few = {"name": "few", "modalities": ["gps"], "share": 0.5, "n_beams": 16}
    scenario = load_scenario("drone_beam").edited(
        {"clients.groups": [few, {"name": "all", "modalities": ["gps"], "share": 0.5}], "data.n_beams": 32}
    )
    assert scenario.data_of("few") == scenario.edited({"data.n_beams": 16}).data
    assert scenario.data_of("all") == scenario.data


RIGHT_VALUES: dict[str, dict[str, Any]] = {
    "one exchange over links that deliver": {"sheaf.exchange": "single", "network.missing": "wait"},
    "half of a vector": {"sharing.codec": "top_k", "sharing.fraction": 0.5, "network.missing": "wait"},
    "old bytes for lost ones": {"sharing.codec": "int8", "network.missing": "stale"},
    "all encoders personal": {"training.personal_encoders": ["gps", "rf"]},
    "waiting where some come": {"network.missing": "wait", "link.loss_probability": 0.9},
    "losing everything": {"link.loss_probability": 1.0},
    "bursts just long enough": {
        "links.model": "gilbert_elliott",
        "link.loss_probability": 0.9,
        "link.mean_burst_packets": 9.01,
    },
    "bursts that cannot happen": {"links.model": "gilbert_elliott", "link.loss_probability": 0.0},
    "an empty group": {"clients.groups": [RF, {"name": "gps", "modalities": ["gps"], "share": 0.0}]},
    "few beams for positions, all for sweeps": {
        "clients.groups": [
            {**RF, "share": 0.5},
            {"name": "gps", "modalities": ["gps"], "share": 0.5, "n_beams": 8},
        ]
    },
    "thirds": {"clients.groups": [{"name": n, "modalities": ["rf"], "share": 1 / 3} for n in "abc"]},
    "live with a base station per client": {
        "data.mode": "live",
        "data.split": "time",
        "world.n_sites": 20,
    },
    "the widest network": {"model.width": 16, "model.dropout": 0},
    "recordings of another world": {"data.source": "recording", "data.recordings": ["a.h5", "b.h5"]},
    "a name with spaces": {"name": "rainy day (2)"},
}


@pytest.mark.parametrize("case", RIGHT_VALUES)
def test_a_value_just_inside_the_limits_is_taken(case: str) -> None:
    load_scenario("beam_tracking").edited(RIGHT_VALUES[case])


def test_drones_may_be_seen_by_a_large_network_with_weights() -> None:
    edits = {"model.camera_encoder": "resnet50", "model.weights": "resnet50.pth", "data.images": "occluded"}
    load_scenario("drone_beam").edited(edits)


BAD_FILES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "no text": (b"\xff\xfe\x00", ("is not a readable TOML file", "repair or replace it")),
    "no toml": (b"rounds = = 3", ("is not a readable TOML file", "line 1")),
    "nested without end": (b"a = " + b"[" * 5000, ("is not a readable TOML file",)),
    "nothing": (b"", ("task is missing", "add it")),
    "no clients": (b"task = 'blockage'", ("clients is missing", "add it")),
    "no world": (
        b"task = 'blockage'\n[clients]\ngroups = [{name='a', modalities=['rf'], share=1.0}]",
        ("data.source = 'world' needs a table [world], such as kind = \"street\"",),
    ),
    "a wrong value": (b"task = 'blockage'\nrounds = 0", ("rounds must be at least 1, got 0",)),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_together_with_what_is_wrong_in_it(case: str, tmp_path: Path) -> None:
    content, fragments = BAD_FILES[case]
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_scenario(str(path))
    assert_sentences(str(caught.value), str(path), *fragments)


def test_a_file_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_scenario("none.toml")
    assert_one_sentence(str(caught.value), "none.toml is not a file here", "a TOML file", "beam_tracking")


@pytest.mark.parametrize("name", ["beam_traking", "folder", ".", "", "a" * 5000])
def test_an_unknown_scenario_is_answered_with_the_known_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_scenario(name)
    assert_one_sentence(str(caught.value), "unknown scenario", "a TOML file", "beam_tracking")
