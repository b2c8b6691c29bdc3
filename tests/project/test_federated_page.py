"""The comparisons behind docs/federated.md: every method can run, has its controls beside it, and is tuned alike."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from sheafedge.scenarios.compare.plan import planned_runs

PAGE = Path(__file__).parents[2] / "docs" / "federated"
pytestmark = pytest.mark.skipif(not PAGE.is_dir(), reason="the sources are not here: an installed wheel is tested")
NAMES = sorted(path.stem for path in PAGE.glob("*.toml"))
#: Without these beside it, a gain of the sheaf is no result.
CONTROLS = {"local", "weight decay of equal strength", "frozen maps", "one map per edge", "dFedU", "D-PSGD"}


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_federated", PAGE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_comparison_has_its_controls_five_seeds_and_one_list_of_step_sizes(name: str, make: ModuleType) -> None:
    comparison = make.comparison_of(name)
    assert comparison.seeds == (0, 1, 2, 3, 4)
    assert set(comparison.methods) >= CONTROLS
    for field in (make.MODEL_STEP, make.HEAD_STEP):
        assert not any(field in edits for edits in comparison.methods.values())  # the search chooses it
    assert len(make.STEP_SIZES[name]) >= 4
    assert len(planned_runs(comparison)) == 5 * len(comparison.methods)


def test_a_step_size_is_the_one_that_the_method_reads(make: ModuleType) -> None:
    assert make.step_field({"algorithm": "dfedu"}) == make.MODEL_STEP
    assert make.step_field({"algorithm": "dpsgd"}) == make.HEAD_STEP


def test_the_page_shows_what_is_there_and_names_what_is_not(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "PAGE", tmp_path / "page.md")
    make.write_page(tmp_path)
    text = (tmp_path / "page.md").read_text()
    assert "{{" not in text
    for name in NAMES:
        assert f"*Not run here (`docs/federated/{name}.toml`).*" in text
    (tmp_path / "wisdm").mkdir()
    (tmp_path / "wisdm" / "results.json").write_text(json.dumps({}))
    with pytest.raises(KeyError):  # what is there is read
        make.write_page(tmp_path)
