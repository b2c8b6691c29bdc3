"""What a scenario can say about learning: every wrong value is refused with a sentence that names the field."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pydantic
import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.factor_settings import FactorSettings
from sheafedge.models.hyper_settings import HyperSettings
from sheafedge.models.personalization_settings import PersonalizationSettings
from sheafedge.models.settings import ModelSettings, SheafSettings, TrainingSettings

Settings = (
    type[TrainingSettings]
    | type[SheafSettings]
    | type[ModelSettings]
    | type[PersonalizationSettings]
    | type[HyperSettings]
    | type[FactorSettings]
)
TABLES: dict[Settings, str] = {
    TrainingSettings: "training",
    SheafSettings: "sheaf",
    ModelSettings: "model",
    PersonalizationSettings: "personalization",
    HyperSettings: "hyper",
    FactorSettings: "factors",
}

COUNTS: list[tuple[Settings, str]] = [
    (TrainingSettings, "local_steps"),
    (TrainingSettings, "batch_size"),
    (ModelSettings, "embedding_dim"),
    (ModelSettings, "hidden_dim"),
    (PersonalizationSettings, "personal_steps"),
    *((HyperSettings, name) for name in ("knn", "refresh_every", "sheaf_layers", "stalk_dim", "channels", "hidden")),
    (HyperSettings, "join_round"),
    (FactorSettings, "steps"),
]
STEP_SIZES: list[tuple[Settings, str]] = [
    (TrainingSettings, "head_step_size"),
    (TrainingSettings, "encoder_step_size"),
    (TrainingSettings, "attention_step_size"),
    (TrainingSettings, "prototype_pull"),
    (SheafSettings, "coupling"),
    (SheafSettings, "map_step_size"),
    (SheafSettings, "edge_trust"),
    (PersonalizationSettings, "proximal"),
    (PersonalizationSettings, "attraction"),
    (PersonalizationSettings, "personal_step_size"),
    (PersonalizationSettings, "global_step_size"),
    (PersonalizationSettings, "mixing_step_size"),
    *((HyperSettings, name) for name in ("step_size", "sheaf_step_size", "sheaf_weight_decay")),
    (FactorSettings, "step_size"),
]
CHOICES: list[tuple[Settings, str]] = [
    (TrainingSettings, "encoder_optimizer"),
    (SheafSettings, "map_start"),
    (SheafSettings, "map_storage"),
    (SheafSettings, "exchange"),
    (ModelSettings, "fusion"),
    (ModelSettings, "head_start"),
    (PersonalizationSettings, "prototypes"),
    *((HyperSettings, name) for name in ("graph", "diffusion", "maps", "output")),
    (FactorSettings, "personal_start"),
    (FactorSettings, "aggregation"),
]


def refusal(settings: Settings, field: str, value: Any) -> str:
    """The sentence that refuses one value."""
    with pytest.raises(ConfigError) as caught:
        settings(**{field: value})
    sentence = str(caught.value)
    assert sentence.startswith(f"{TABLES[settings]}.{field} must ")
    assert sentence.endswith(f"got {value!r}")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("settings", list(TABLES))
def test_the_defaults_are_valid_frozen_and_hashable(settings: Settings) -> None:
    assert settings() == settings()
    assert len({settings(), settings()}) == 1
    field = dataclasses.fields(settings)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(settings(), field, 1)


@pytest.mark.parametrize(("settings", "field"), COUNTS)
def test_counts_begin_at_one(settings: Settings, field: str) -> None:
    assert getattr(settings(**{field: 1}), field) == 1
    for value in (0, -3):
        assert "at least 1" in refusal(settings, field, value)


@pytest.mark.parametrize(("settings", "field"), STEP_SIZES)
def test_step_sizes_are_finite_and_not_negative(settings: Settings, field: str) -> None:
    assert getattr(settings(**{field: 0.0}), field) == 0.0
    for value in (-1e-9, math.nan, math.inf, -math.inf):
        assert "finite number of at least 0 (0 " in refusal(settings, field, value)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.0000001, math.nan, math.inf])
def test_compression_is_a_share(value: float) -> None:
    assert "(0, 1]" in refusal(SheafSettings, "compression", value)


def test_mixtures_are_shares() -> None:
    for value in (-0.1, 1.1, math.nan):
        assert "[0, 1]" in refusal(PersonalizationSettings, "mixing", value)
    for value in (-0.1, 0.0, 2.1, math.nan):  # at 0 the server would never move
        assert "(0, 2]" in refusal(PersonalizationSettings, "server_mixing", value)
    for value in (0.0, math.nan, math.inf):
        assert "[0.25, 1e6]" in refusal(FactorSettings, "ratio", value)
    assert PersonalizationSettings(mixing=0.0).mixing == 0.0


def test_shares_that_networks_drop_are_below_1_and_nobody_joins_late_by_default() -> None:
    for value in (-0.1, 1.0, math.nan):
        assert "[0, 1)" in refusal(HyperSettings, "dropout", value)
    assert "at least 0" in refusal(HyperSettings, "late_clients", -1)
    for value in (0.99, math.nan, math.inf):
        assert "at least 1" in refusal(HyperSettings, "rank_ratio", value)
    assert HyperSettings(dropout=0.0).late_clients == 0


@pytest.mark.parametrize(
    ("start", "scale"), [("structured", 0.1), ("aligned", 1.0), ("random", -1.0), ("random", math.nan)]
)
def test_only_drawn_maps_have_a_scale_and_it_is_finite_and_not_negative(start: Any, scale: float) -> None:
    with pytest.raises(ConfigError, match=rf"sheaf\.map_scale must be .*, got {scale}"):
        SheafSettings(map_start=start, map_scale=scale)
    SheafSettings(map_start=start, map_scale=0.0)
    SheafSettings(map_start="hadamard", map_scale=1.0)


@pytest.mark.parametrize("value", [1e-6, 0.1, 1.0])
def test_any_share_of_coordinates_can_be_kept(value: float) -> None:
    assert SheafSettings(compression=value).compression == value


@pytest.mark.parametrize(
    ("coupling", "map_step_size", "learns"), [(0.1, 0.1, True), (0.0, 0.1, False), (0.1, 0.0, False)]
)
def test_maps_are_learned_only_with_a_coupling_and_a_step(coupling: float, map_step_size: float, learns: bool) -> None:
    assert SheafSettings(coupling=coupling, map_step_size=map_step_size).learns_maps is learns


# Scenario files reach these classes through pydantic, which checks types, choices and unknown fields.


@pytest.mark.parametrize(("settings", "field"), CHOICES)
def test_a_choice_is_one_of_the_known_ones(settings: Settings, field: str) -> None:
    adapter = pydantic.TypeAdapter(settings)
    assert adapter.validate_python({field: getattr(settings(), field)}) == settings()
    with pytest.raises(pydantic.ValidationError) as caught:
        adapter.validate_python({field: "no_such_thing"})
    (error,) = caught.value.errors()
    assert error["loc"] == (field,)
    assert repr(getattr(settings(), field)) in error["msg"]  # names what would be valid


@pytest.mark.parametrize(("settings", "field"), COUNTS)
def test_a_count_from_a_file_is_a_whole_number(settings: Settings, field: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(settings).validate_python({field: 1.5})
    assert caught.value.errors()[0]["loc"] == (field,)


@pytest.mark.parametrize("settings", list(TABLES))
def test_an_unknown_field_in_a_file_is_refused(settings: Settings) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(settings).validate_python({"lamda": 0.1})
    assert caught.value.errors()[0]["loc"] == ("lamda",)


@pytest.mark.parametrize(("settings", "field"), STEP_SIZES)
def test_the_own_sentence_survives_the_way_through_a_file(settings: Settings, field: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(settings).validate_python({field: -1.0})
    cause = caught.value.errors()[0]["ctx"]["error"]
    assert isinstance(cause, ConfigError)
    assert f"{TABLES[settings]}.{field}" in str(cause)
