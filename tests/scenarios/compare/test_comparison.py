"""What a comparison can say, in a file and on the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison
from sheafedge.scenarios.compare.plan import planned_runs
from sheafedge.scenarios.terminal.compare_arguments import parsed_grid, parsed_values, requested_comparison

FILE = """
scenario = "drone_beam"
seeds = [0, 3]
reference = "encoders only"
[set]
"data.images" = "views"
data.stride = 4
[methods."encoders only"]
algorithm = "sheaf_dmfl_att"
"sheaf.coupling" = 0
[methods.local]
algorithm = "local"
[vary]
"link.loss_probability" = [0, 0.2]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "views.toml"
    path.write_text(FILE)
    return str(path)


def refusal(**changes: Any) -> str:
    tables = {"name": "x", "scenario": "drone_beam", "methods": {"a": {}, "b": {"algorithm": "local"}}, **changes}
    with pytest.raises(ConfigError) as refused:
        planned_runs(validated_comparison(tables))
    return str(refused.value)


def test_a_file_says_which_runs_are_made(file: str) -> None:
    runs = planned_runs(requested_comparison(file))
    assert [(run.seed, run.value, run.method) for run in runs] == [
        (seed, value, method) for seed in (0, 3) for value in (0, 0.2) for method in ("encoders only", "local")
    ]
    last = runs[-1].scenario
    assert (last.seed, last.algorithm, last.link.loss_probability) == (3, "local", 0.2)
    assert (last.data.images, last.data.stride) == ("views", 4)
    assert not last.export.onnx
    assert last.export.pictures == 0


def test_nested_tables_mean_what_dotted_keys_mean_and_reset_nothing(file: str) -> None:
    comparison = requested_comparison(file)
    assert comparison.edits == {"data.images": "views", "data.stride": 4}
    assert comparison.base().data.n_beams == 64  # as shipped


def test_what_is_written_reads_the_same(file: str) -> None:
    comparison = requested_comparison(file)
    assert validated_comparison(tomllib.loads(comparison.text())) == comparison


def test_options_replace_what_a_file_says(file: str) -> None:
    comparison = requested_comparison(
        file,
        algorithms="dsgd,local",
        methods=["few: algorithm=local, data.scenarios=[1, 5], topology.kind='ring'"],
        edits=["data.stride=8"],
        seeds=2,
        vary="link.packet_bytes=500,1200",
        reference="few",
    )
    assert comparison.methods == {
        "dsgd": {"algorithm": "dsgd"},
        "local": {"algorithm": "local"},
        "few": {"algorithm": "local", "data.scenarios": [1, 5], "topology.kind": "ring"},
    }
    assert comparison.edits == {"data.images": "views", "data.stride": 8}
    assert (comparison.seeds, comparison.reference) == ((0, 1), "few")
    assert comparison.vary == {"link.packet_bytes": (500, 1200)}


def test_a_scenario_alone_compares_all_algorithms() -> None:
    comparison = requested_comparison("drone_beam")
    assert list(comparison.methods) == list(ALGORITHMS)
    assert comparison.name == "drone_beam"


def test_a_scenario_file_beside_the_comparison_is_found(tmp_path: Path) -> None:
    shipped = Path(requested_comparison.__code__.co_filename).parents[1] / "shipped" / "drone_beam.toml"
    (tmp_path / "mine.toml").write_text(shipped.read_text())
    (tmp_path / "compare.toml").write_text('scenario = "mine.toml"\n[methods.a]\n')
    assert requested_comparison(str(tmp_path / "compare.toml")).base().task == "beam_prediction"


def test_a_file_builds_on_another(file: str, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text('base = "views.toml"\nseeds = [7]\n[set.data]\nimages = "plain"\n')
    base, plain = requested_comparison(file), requested_comparison(str(tmp_path / "plain.toml"))
    assert plain == base.edited({"name": "plain", "seeds": [7], "set": {**base.edits, "data.images": "plain"}})

    (tmp_path / "below").mkdir()
    (tmp_path / "mine.toml").write_text('base = "drone_beam"\nrounds = 2\n')
    (tmp_path / "views.toml").write_text(FILE.replace('"drone_beam"', '"mine.toml"'))
    few = tmp_path / "below" / "few.toml"
    few.write_text('base = "../views.toml"\nreference = ""\n[methods.dsgd]\nalgorithm = "dsgd"\n')
    found = requested_comparison(str(few))
    assert (found.name, found.methods) == ("few", {"dsgd": {"algorithm": "dsgd"}})
    assert found.vary == base.vary
    assert found.base().rounds == 2, "the scenario is relative to the file that names it"


BUILT_ON = {
    "a value of the base": ("", "data.stride = 4", "data.stride = 0", "mine.toml, base views.toml:7: data.stride must"),
    "a value of its own": ("[set.data]\nstride = 0\n", "", "", "mine.toml:3: data.stride must"),
    "methods that are replaced": ("[methods.x]\nrounds = 1\n", "", "", "reference must be one of the methods x, got"),
    "nothing that is there": (
        'seeds = [1]\nbase = "no.toml"\n',
        "",
        "",
        "base must name a TOML file beside this one, got",
    ),
}


@pytest.mark.parametrize("case", BUILT_ON)
def test_complaints_name_the_file_that_is_wrong(case: str, file: str, tmp_path: Path) -> None:
    mine, old, new, said = BUILT_ON[case]
    Path(file).write_text(FILE.replace(old, new))
    path = tmp_path / "mine.toml"
    path.write_text(mine if "base" in mine else f'base = "views.toml"\n{mine or "seeds = [1]"}')
    with pytest.raises(ConfigError) as refused:
        requested_comparison(str(path))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_a_search_chose_is_not_inherited(file: str, tmp_path: Path) -> None:
    Path(file).write_text(f'{FILE}[tuning]\nseeds = [9]\n[tuning.grid]\n"training.head_step_size" = [0.1, 0.3]\n')
    (tmp_path / "mine.toml").write_text('base = "views.toml"\nseeds = [1]\n')
    assert requested_comparison(file).tuning is not None
    assert requested_comparison(str(tmp_path / "mine.toml")).tuning is None


def test_options_take_lists_of_lists_and_of_tables_whole() -> None:
    assert parsed_values("--vary", "k=[[0,1],[1,2]],[[0,2]]") == ("k", [[[0, 1], [1, 2]], [[0, 2]]])
    groups = ['[{name="a", modalities=["rf"]}, {name="b]", modalities=["gps", "rf"]}]', '[{name="c,d"}]']
    values = [[{"name": "a", "modalities": ["rf"]}, {"name": "b]", "modalities": ["gps", "rf"]}], [{"name": "c,d"}]]
    assert parsed_values("--vary", f"clients.groups={', '.join(groups)}") == ("clients.groups", values)
    comparison = requested_comparison(
        "drone_beam", methods=[rf"""a: clients.groups={groups[0]}, summary="5\" [, 'and' ]", name='x, y', rounds=2"""]
    )
    assert comparison.methods["a"] == {
        "clients.groups": values[0],
        "summary": "5\" [, 'and' ]",
        "name": "x, y",
        "rounds": 2,
    }


def test_tuples_of_python_are_the_lists_of_files() -> None:
    given = {"data.scenarios": (1, (5, 8)), "clients.groups": [{"modalities": ("rf",)}]}
    comparison = validated_comparison(
        {
            "name": "x",
            "scenario": "drone_beam",
            "methods": {"a": given},
            "vary": {"links.edges": ((1, 2), [(3, 4)])},
        }
    )
    assert comparison.methods["a"] == {"data.scenarios": [1, [5, 8]], "clients.groups": [{"modalities": ["rf"]}]}
    assert comparison.varied_values == ([1, 2], [[3, 4]])
    assert validated_comparison(tomllib.loads(comparison.text())) == comparison


def test_values_may_be_lists_and_words() -> None:
    assert parsed_values("--vary", "data.scenarios=[1,5],[8]") == ("data.scenarios", [[1, 5], [8]])
    assert parsed_grid(["data.images=plain,views", "a.b=1,0.5"]) == {"data.images": ["plain", "views"], "a.b": [1, 0.5]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": {}}, "methods"),
        ({"methods": {"a": {"algorithm": "sheaf"}}}, "method 'a': unknown algorithm 'sheaf'; known: apfl"),
        ({"methods": {"a": {"link.los": 1}}}, "method 'a': link.los is not a known field"),
        ({"set": {"link.los": 1}}, "link.los is not a known field"),
        ({"seeds": [1, 1]}, "seeds lists 1 twice"),
        ({"seeds": []}, "seeds must not be empty"),
        ({"reference": "c"}, "reference must be one of the methods a, b, got 'c'"),
        ({"set": {"seed": 1}}, "seed cannot be edited in a comparison"),
        ({"vary": {"rounds": [1, 2], "link.rate_bps": [1e6]}}, "vary takes one key, got rounds, link.rate_bps"),
        ({"vary": {"rounds": [1, 1]}}, "vary: rounds needs different values, got [1, 1]"),
        ({"vary": {"algorithm": ["dsgd"]}}, "method 'b' sets algorithm, which vary changes too"),
        ({"vary": {"rounds": [1, 0]}}, "method 'a' at rounds = 0: rounds must be at least 1, got 0"),
        ({"rounds": 3}, "rounds is not a known field"),
        ({"scenario": "drone"}, "unknown scenario 'drone'"),
        ({"methods": {" ": {}}}, "a method needs a name"),
    ],
)
def test_a_mistake_in_the_comparison_itself_is_found_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"methods": ["no colon"]}, "--method takes 'NAME: key=value, key=value', got 'no colon'"),
        ({"methods": ["a: rounds"]}, "--method takes"),
        ({"methods": ["a: rounds=1", "b: rounds=2", "a: rounds=3"]}, "--algorithms and --method name 'a' twice; give"),
        ({"algorithms": "dsgd,local", "methods": ["local: rounds=1"]}, "--algorithms and --method name 'local' twice"),
        ({"vary": "rounds"}, "--vary takes key=value,value,..., got 'rounds'"),
        ({"vary": "rounds= , "}, "--vary takes key=value,value,..., got 'rounds= , '"),
        ({"seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"edits": ["rounds"]}, "--set takes key=value"),
    ],
)
def test_a_mistake_on_the_command_line_is_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        requested_comparison("drone_beam", **options)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ('[methods.a]\n[set]\n"link.loss_probability" = 2', {}, "4: link.loss_probability must be at most 1, got 2"),
        ("[methods.a]\n[set.link]\nloss_probability = 2", {}, "4: link.loss_probability must be at most 1, got 2"),
        ("seeds = [3, 3]\n[methods.a]", {}, "2: seeds lists 3 twice"),
        ('refernce = "a"\n[methods.a]', {}, "2: refernce is not a known field; did you mean reference?"),
        ("[methods.a]\n[set]\nrounds = 2", {"edits": ["rounds=0"]}, "rounds must be at least 1, got 0"),
    ],
)
def test_a_complaint_has_the_line_of_the_comparison_file_that_is_wrong(
    text: str, options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(f'scenario = "digits"\n{text}\n')
    with pytest.raises(ConfigError) as refused:
        requested_comparison("mine.toml", **options)
    assert str(refused.value).startswith(words if options else f"mine.toml:{words}")


def test_arms_the_former_name_of_methods_still_works(tmp_path: Path) -> None:
    former, current = tmp_path / "former.toml", tmp_path / "current.toml"
    current.write_text(FILE)
    former.write_text(FILE.replace("[methods.", "[arms."))
    assert "[arms." in former.read_text()
    old, new = (requested_comparison(str(path)).edited({"name": "x"}) for path in (former, current))
    assert old == new
    assert "[methods." in old.text()
    assert new.edited({"arms": {"a": {}}, "reference": ""}).methods == {"a": {}}
    assert "methods and arms, its former name, are both given" in refusal(arms={"a": {}})


def test_runs_that_must_be_equal_have_one_name_and_others_have_not(two_methods: Comparison) -> None:
    def name(**edits: Any) -> str:
        return planned_runs(two_methods.edited({"set": {**two_methods.edits, **edits}}))[0].name

    assert name() == name(**{"compute.threads": 7, "summary": "x", "export.max_abs_error": 1.0})
    assert len({name(), name(rounds=3), name(**{"compute.profile": "edge_gpu"})}) == 3
