"""The comparisons of docs/federated and their pages: every method can run, has its controls, and is tuned alike."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from sheafedge.scenarios.compare.plan import planned_runs

PAGE = Path(__file__).parents[2] / "docs" / "federated"
pytestmark = pytest.mark.skipif(not PAGE.is_dir(), reason="the sources are not here: an installed wheel is tested")
NAMES = sorted(path.stem for path in PAGE.glob("*.toml"))
#: Without these beside it, a gain of the sheaf is no result.
CONTROLS = {"local", "weight decay of equal strength"}
#: Comparisons that are not about Sheaf-FMTL -> the same of theirs.
OWN_CONTROLS = {
    "two_digits": {"local", "FedAvg"},
    "cora": {"local", "FedAvg", "FedPer"},
    "cora_hyper": {"local", "pFedHN", "identity sheaf", "learned sheaf"},
    "cora_sgd": {"local, SGD"},
    "cora_20": {"local", "FedAvg", "pFedHN", "identity sheaf", "learned sheaf"},
    "cora_overlap_30": {"local", "FedAvg", "pFedHN", "identity sheaf", "learned sheaf"},
}
#: Of models of one size, and of linear ones, whose runs take seconds.
OF_ONE_SIZE, OF_LINEAR_MODELS = {"dFedU", "D-PSGD", "FedAvg", "Ditto"}, {"frozen maps", "one map per edge"}
LINEAR = ("digits", "school", "wisdm")


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_federated", PAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look up the module of their fields
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_comparison_has_its_controls_five_seeds_and_one_list_of_step_sizes(name: str, make: ModuleType) -> None:
    comparison = make.comparison_of(name)
    assert comparison.seeds == (0, 1, 2, 3, 4)
    of_one_size = set() if name.endswith("sizes") else OF_ONE_SIZE
    of_sheaf = CONTROLS | of_one_size | (OF_LINEAR_MODELS if name in LINEAR else set())
    assert set(comparison.methods) >= OWN_CONTROLS.get(name, of_sheaf)
    for key in (make.MODEL_STEP, *make.NETWORK_STEP.split("+")):
        assert not any(key in edits for edits in comparison.methods.values())  # the search chooses it
    assert len(make.SEARCHES[name].step_sizes) >= 4
    assert len(planned_runs(comparison)) == 5 * len(comparison.methods)


def test_factors_have_their_rivals_at_equal_bytes_and_as_many_settings_are_tried_with_each(make: ModuleType) -> None:
    comparison, search = make.comparison_of("two_digits"), make.SEARCHES["two_digits"]
    assert comparison.seeds == (0, 1, 2, 3, 4)
    assert set(comparison.methods) >= {"local", "local, 50 steps", "FedAvg", "pFedMe", "FedAvg, int8"}
    sizes = [len(list(itertools.product(*search.grid(edits).values()))) for edits in comparison.methods.values()]
    assert set(sizes) == {6}
    dense = 318_040
    for ratio, n_bytes in (("1.5", 211_704), ("2", 158_224)):
        edits = comparison.methods[f"FedAvg, top-k at the bytes of {ratio}"]
        assert 8 * round(dense / 4 * edits["sharing.fraction"]) == pytest.approx(n_bytes, rel=1e-4)


def test_a_step_size_is_the_one_that_the_method_reads(make: ModuleType) -> None:
    for search in make.SEARCHES.values():
        assert [*search.grid({"algorithm": "dfedu"})] == [make.MODEL_STEP]
    assert [*make.SEARCHES["digits"].grid({"algorithm": "dpsgd"})] == [make.HEAD_STEP]
    assert [*make.SEARCHES["two_digits"].grid({"algorithm": "tdpfed"})] == [make.PERSONAL_STEP, make.FACTOR_STEP]
    # networks: encoders are stepped like the head
    assert [*make.SEARCHES["rotated_mnist"].grid({"algorithm": "dpsgd"})] == [make.NETWORK_STEP]


def test_the_page_shows_what_is_there_and_names_what_is_not(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {template: tmp_path / template for template in make.PAGES}
    monkeypatch.setattr(make, "PAGES", pages)
    make.write_pages(tmp_path, NAMES)
    text = "".join(page.read_text() for page in pages.values())
    assert "{{" not in text
    templates = "".join((PAGE / template).read_text() for template in pages)
    for name in (name for name in NAMES if name != "two_digits" or "result two_digits" in templates):
        assert f"*Not run here (`docs/federated/{name}.toml`).*" in text
    (tmp_path / "wisdm").mkdir()
    (tmp_path / "wisdm" / "results.json").write_text(json.dumps({}))
    with pytest.raises(KeyError):  # what is there is read
        make.write_pages(tmp_path, NAMES)

    pages["page.md"].write_text("as it was")
    make.write_pages(tmp_path, ["cora"])  # other pages stay
    assert pages["page.md"].read_text() == "as it was"
