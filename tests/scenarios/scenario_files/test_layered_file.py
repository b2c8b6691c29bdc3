"""Files that build on other scenarios: what they inherit, where complaints point, what is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError, ScenarioError
from sheafedge.scenarios.recording.world_file import load_world
from sheafedge.scenarios.schema.scenario import listed_plugins, load_scenario, scenario_layers
from sheafedge.scenarios.terminal.cli import main
from sheafedge.scenarios.terminal.compare_arguments import requested_comparison

Written = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """Writes a file of the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_file_is_its_base_with_its_own_values(written: Written) -> None:
    path = written("mine.toml", 'base = "blockage"\nrounds = 3\n[link]\nloss_probability = 0.4\n')
    base = load_scenario("blockage")
    expected = base.edited({"name": "mine", "rounds": 3, "link.loss_probability": 0.4})
    assert load_scenario(str(path)) == expected
    assert expected.link.propagation_s == base.link.propagation_s != 0.005, "the rest of a table is inherited"


def test_lists_are_replaced_whole(written: Written) -> None:
    groups = '[[clients.groups]]\nname = "all"\nmodalities = ["lidar", "rf"]\nshare = 1.0\n'
    path = written("mine.toml", f'base = "blockage"\n{groups}')
    assert [group.name for group in load_scenario(str(path)).clients.groups] == ["all"]


def test_bases_have_bases_relative_to_their_own_folder(written: Written) -> None:
    written("below/lossy.toml", 'base = "digits"\nrounds = 7\nseed = 5\n')
    path = written("mine.toml", 'base = "below/lossy.toml"\nrounds = 8\n')
    found = load_scenario(str(path))
    assert (found.name, found.rounds, found.seed) == ("mine", 8, 5)
    assert found.data == load_scenario("digits").data
    assert requested_comparison(str(path), algorithms="local").base() == found.edited({})
    listed = written("plugged.toml", 'base = "below/lossy.toml"\n')
    written("below/lossy.toml", 'base = "digits"\nplugins = ["mine.py"]\n')
    assert listed_plugins(listed) == [str(Path.cwd() / "below" / "mine.py")]


def test_a_world_is_inherited_too(written: Written) -> None:
    path = written("mine.toml", 'base = "blockage"\n[world]\nn_sites = 2\n')
    world = load_world(str(path)).section
    assert (world.n_sites, world.duration_s) == (2, load_world("blockage").section.duration_s)


CIRCLES = {"itself": {"a": "a"}, "two": {"a": "b", "b": "a"}, "a tail": {"a": "b", "b": "c", "c": "b"}}


@pytest.mark.parametrize("case", CIRCLES)
def test_a_circle_of_bases_is_refused_by_naming_it(case: str, written: Written) -> None:
    for name, base in CIRCLES[case].items():
        written(f"{name}.toml", f'base = "{base}.toml"\n')
    with pytest.raises(ConfigError, match=r"base leads in a circle: a\.toml -> ") as refused:
        load_scenario("a.toml")
    assert "\n" not in str(refused.value)


def test_a_chain_that_is_too_long_is_refused(written: Written) -> None:
    for index in range(30):
        written(f"s{index}.toml", f'base = "s{index + 1}.toml"\n')
    with pytest.raises(ConfigError, match=r"base leads through more than 16 files: s0\.toml -> "):
        load_scenario("s0.toml")


@pytest.mark.parametrize("base", ['"mone"', "3", '""', '"/no/such.toml"', "[1]"])
def test_a_base_that_is_none_is_refused_with_its_line(base: str, written: Written) -> None:
    path = written("mine.toml", f"rounds = 3\nbase = {base}\n")
    with pytest.raises(ConfigError, match=r"^mine\.toml:2: base must name a TOML file beside this one or one of beam_"):
        load_scenario(str(path))


COMPLAINTS = {
    "a value": ('base = "blockage"\n\nrounds = 0\n', "mine.toml:3: rounds must be at least 1, got 0"),
    "an unknown field": (
        'base = "blockage"\n[link]\n# about\nrate = 3\n',
        "mine.toml:4: link.rate is not a known field; did you mean",
    ),
    "a field of a list item": (
        'base = "blockage"\n[[faults]]\nkind = "node_off"\nnodes = [1]\nfor_s = -1\n',
        "mine.toml:5: faults.0.for_s must be above 0, got -1",
    ),
    "a name of a table": ('base = "blockage"\nalgorithm = "x"\n', "mine.toml:2: unknown algorithm 'x'"),
    "what is missing": (
        'base = "blockage"\n[[clients.groups]]\nname = "a"\n',
        "mine.toml:2: clients.groups.0.modalities is missing",
    ),
    "what does not go together": (
        'base = "blockage"\n[data]\nsplit = "auto"\n',
        "mine.toml:3: data.split = 'auto' does not go with data.source",
    ),
    "a value of the base": (
        'base = "wrong.toml"\nseed = 1\n',
        "mine.toml, base wrong.toml:2: rounds must be at least 1, got 0",
    ),
    "no TOML": ('base = "blockage"\nrounds = = 3\n', "mine.toml:2 is not a readable TOML file"),
}


@pytest.mark.parametrize("case", COMPLAINTS)
def test_a_complaint_names_the_file_and_the_line(case: str, written: Written) -> None:
    text, complaint = COMPLAINTS[case]
    written("wrong.toml", 'base = "blockage"\nrounds = 0\n')
    path = written("mine.toml", text)
    with pytest.raises(ConfigError) as refused:
        load_scenario(str(path))
    assert complaint in str(refused.value)


def test_an_edit_is_no_line_of_a_file(written: Written) -> None:
    path = written("mine.toml", 'base = "blockage"\nrounds = 3\n')
    with pytest.raises(ScenarioError, match=r"^rounds must be at least 1"):
        load_scenario(str(path)).edited({"rounds": 0})


def test_a_world_of_a_file_is_complained_about_with_its_line(written: Written) -> None:
    path = written("mine.toml", 'base = "blockage"\n[world]\nn_sites = 0\n')
    with pytest.raises(ConfigError, match=r"^mine\.toml:3: world\.n_sites must be at least 1, got 0"):
        load_world(str(path))
    with pytest.raises(ConfigError, match=r"^world\.n_sites must be at least 1, got -1"):
        load_world(str(path), {"world.n_sites": -1})


def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr("sys.argv", ["sheafedge", "show", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return capsys.readouterr().out


def test_show_prints_what_a_scenario_comes_down_to_and_where_from(
    written: Written, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written("mine.toml", 'base = "blockage"\nrounds = 3\n[link]\nloss_probability = 0.4\n')
    said = show(monkeypatch, capsys, str(path), "--set", "training.local_steps=2")
    wheres = {line.split(" = ")[0]: line.rpartition("# ")[2] for line in said.splitlines() if "# " in line}
    assert said.splitlines()[0].endswith("# name of the file")
    assert wheres["rounds"] == "mine.toml:2"
    assert wheres["loss_probability"] == "mine.toml:4"
    assert wheres["local_steps"] == "--set"
    line = int(wheres["duration_s"].removeprefix("blockage.toml:"))
    base = scenario_layers("blockage").paths[0].read_text(encoding="utf-8").splitlines()
    assert base[line - 1].startswith("duration_s = ")
    assert "carrier_hz" not in said


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_what_show_prints_is_the_same_scenario(
    more: list[str], written: Written, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written("mine.toml", 'base = "digits"\nrounds = 3\n')
    said = show(monkeypatch, capsys, str(path), "--set", "seed=4", *more)
    assert load_scenario(str(written("again.toml", said))) == load_scenario(str(path)).edited({"seed": 4})
    assert ("default" in said) == bool(more)
    assert tomllib.loads(said)["name"] == "mine"
