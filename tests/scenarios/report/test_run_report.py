"""Reports of runs: what a run has is shown, what it has not is left out, and files are whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sheafedge.emulator.contracts import ConfigError, DataError
from sheafedge.emulator.decisions.service import Service
from sheafedge.scenarios.report import run_report
from sheafedge.scenarios.report.figure_style import COLORS, figure_style
from sheafedge.scenarios.report.learning_figures import learning_figures
from sheafedge.scenarios.report.run_page import RunPage
from sheafedge.scenarios.report.run_records import read_records
from sheafedge.scenarios.report.run_report import write_run_report
from sheafedge.scenarios.tasks.task_table import TASKS
from sheafedge.scenarios.value.beam_ladder import RULES, SETTINGS, at_equal_beams, beam_fronts, beam_ladder
from sheafedge.scenarios.value.handover_ladder import rule_title

from .conftest import Written, summary

EDGE = {"messages": 9, "bytes": 3_000_000, "lost_messages": 1, "packets": 100, "mean_delay_s": 0.002}
DIAGNOSTICS: dict[str, Any] = {
    "edges": [
        {**EDGE, "sender": 0, "receiver": 1, "lost_packets": 30, "rate_bps": 5e7},
        {**EDGE, "sender": 1, "receiver": 0, "lost_packets": 10, "rate_bps": 8e7},
        {**EDGE, "sender": 2, "receiver": 3, "lost_packets": 0, "rate_bps": 1e8},
    ],
    "held_out": {
        "gps": {"fused": {"confusion": [[8, 2], [1, 9]], "classes": ["left", "right"]}},
        "rf": {
            "fused": {
                "roc": {"fpr": [0, 0.1, 1], "tpr": [0, 0.8, 1], "auc": 0.85},
                "reliability": {"predicted": [0.1, None, 0.9], "observed": [0.2, None, 0.8], "n": [10, 0, 30]},
                "lead_times_s": {"edges": [0, 0.1, 0.2], "warned": [3, 5], "missed": [1, 0]},
                "residuals": {"edges": [-1, 0, 1], "counts": [4, 6]},
                "calibration": {"predicted": [1.0, 2.0], "observed": [1.1, 1.9]},
            }
        },
    },
}
SERVICES = {
    rule: [Service(60.0, interrupted_s=0.1 * place, bits=6e9 - 1e6 * place * station) for station in (1, 2)]
    for place, rule in enumerate(RULES)
}
TRIED = {rule: [[one] * len(found) for one in SERVICES[rule]] for rule, found in SETTINGS.items()}
OF_BEAMS = {
    "ladder": beam_ladder(SERVICES, {rule: list(found[:2]) for rule, found in SETTINGS.items()}),
    "fronts": beam_fronts(TRIED),
    "equal_beams": at_equal_beams(TRIED),
}
VALUE = {
    "decision": "beam",
    "groups": {group: {"clients": 2, "deadline": {"met_by": 2, "answer_ms": 2.0}} for group in ("gps", "rf")},
    **OF_BEAMS,
    "of_groups": dict.fromkeys(("gps", "rf"), OF_BEAMS),
}


def everything(node: int, round_index: int) -> dict[str, Any]:
    return {
        "compute_s": 0.1, "airtime_s": 0.05, "waiting_s": 0.35, "sheaf_energy": 2.0**-round_index, "map_norm": 3.0,
        "consensus_distance": 1.0, "residuals": {str((node + 1) % 4): 0.5},
        "held_out_loss": {"fused": 0.7}, "train_loss": {"fused": 0.6},
        "staleness_mean": 0.5, "off": round_index == node,
    }  # fmt: skip


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([^"]+)">', page)


def test_what_a_run_does_not_have_is_left_out(written: Written) -> None:
    folder = written()
    page = write_run_report(folder, figures=False).read_text(encoding="utf-8")
    assert sections(page) == ["what-was-run", "scores", "time-and-energy", "network-and-traffic", "settings"]
    assert page.count("<svg") == 5  # score, loss of steps, clients, energy, traffic
    assert sorted(path.name for path in folder.iterdir()) == [
        "metrics.jsonl", "report.html", "scenario.toml", "summary.json",
    ]  # fmt: skip


def test_what_a_run_has_is_shown(written: Written) -> None:
    faults = [{"kind": "node_off", "nodes": [1], "at_s": 0.1, "for_s": 0.2}]
    folder = written(more=everything, changes={"value": VALUE}, edits={"faults": faults}, diagnostics=DIAGNOSTICS)
    page = RunPage(read_records(folder))
    assert [figure.name for figure in page.figures] == [
        "score", "loss", "step-loss", "clients", "roc", "reliability", "calibration", "confusion-0", "lead-times-0",
        "residuals-0", "value-beams", "timeline", "round-parts", "energy", "staleness",
        "network", "links", "traffic", "sheaf-energy", "map-norm", "consensus-distance", "edge-residuals",
    ]  # fmt: skip
    with figure_style():
        text = page.text()
    assert text.count("<svg") == len(page.figures)
    assert sections(text) == [
        "what-was-run", "scores", "held-out-answers", "value-of-prediction", "time-and-energy", "network-and-traffic",
        "faults", "coupling", "settings",
    ]  # fmt: skip
    # both directions of an edge together: 40 of 200 packets, the slower rate
    assert re.search(r"0 – 1</td>.*?20\.00</td>.*?50\.0</td>", text, re.DOTALL)
    assert "node off" in text
    assert "node 0: 1, node 1: 1, node 2: 1" in text  # client 3 would have been off in a fourth round
    assert "area 0.850" in text
    assert all(f">{rule_title(rule)}</td>" in text for rule in RULES)
    assert "bursts every 5 ms; bursts every 10 ms" in text
    assert "1 beam every frame, after 1 dB; 1 beam every frame, after 3 dB" in text


def test_theory_is_drawn_with_its_bound_and_a_damaged_one_is_refused(written: Written) -> None:
    rows = [
        {"round": done, "loss": 9.0 - done, "objective": 9.5 - done, "energy": 2.0 * done, "gradient_vectors": 3.0,
         "gradient_attention": 0.0, "largest_eigenvalue": 4.0, "smallest_eigenvalue": None, "rayleigh": 0.5 * done,
         "weight_decay": 0.05 * done, "maps": "own"}
        for done in (0, 2, 3)
    ]  # fmt: skip
    bound = {"mean_square": 9.0, "bound": 12.0, "rho": 0.05, "step_size": 0.1, "smoothness": 7.0}
    records = read_records(written(changes={"theory": {"rows": rows, "bound": bound}}))
    figures = {figure.name: figure for figure in RunPage(records).figures if figure.name.startswith("theory")}
    assert list(figures) == ["theory-objective", "theory-gradients", "theory-spectrum"]
    assert "ρ = 0.05 from a step size of 0.1" in figures["theory-gradients"].caption
    with figure_style():
        (panel,) = figures["theory-gradients"].draw(1).axes
        (spectrum,) = figures["theory-spectrum"].draw(1).axes
    lines = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in panel.lines}
    assert lines == {
        "coupled vectors": [9.0, 9.0, 9.0],
        "vectors, mean": [9.0, 9.0],
        "bound of that mean": [12.0, 12.0],
    }
    assert [line.get_label() for line in spectrum.lines] == ["largest", "energy / |w|²", "as weight decay"]
    assert np.asarray(spectrum.lines[-1].get_ydata())[1:] == pytest.approx([0.1, 0.15])
    with pytest.raises(DataError, match="cannot be read"):
        read_records(written("damaged", changes={"theory": {"rows": [{"round": "first"}]}}))


def test_numbers_of_the_summary_are_those_of_the_page(written: Written) -> None:
    page = write_run_report(written(), figures=False).read_text(encoding="utf-8")
    assert "top-1: gps 0.250, rf 0.450" in page
    assert re.search(r"persistence</td>\s*<td class=\"number\">0\.400", page)
    assert "12.00 MB" in page
    assert "the coupling of client 2 &lt;b&gt;grows&lt;/b&gt;" in page


def test_figures_for_papers_are_written_in_both_widths(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: dict[str, float] = {}

    def save(figure: Figure, stem: Path, formats: tuple[str, ...]) -> None:
        assert stem.parent == folder / "figures"
        assert formats == ("svg", "pdf")
        saved[stem.name] = figure.get_figwidth()

    monkeypatch.setattr(run_report, "save_figure", save)  # how files are written is tested with the style
    folder = written()
    write_run_report(folder)
    stems = ("score", "step-loss", "clients", "energy", "traffic")
    assert saved == {f"{stem}{ending}": width for stem in stems for ending, width in (("", 3.5), ("-wide", 7.16))}


def test_equal_runs_have_equal_reports_and_others_have_others(written: Written) -> None:
    first = write_run_report(written("a"), figures=False)
    again = first.read_bytes()
    assert write_run_report(first.parent, figures=False).read_bytes() == again
    other = written("b", more=lambda node, index: {"loss": 2.0})
    assert write_run_report(other, figures=False).read_bytes() != again


def test_a_report_that_cannot_be_written_is_one_sentence(written: Written) -> None:
    folder: Path = written()
    (folder / "figures").write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"report .*report\.html cannot be written \(.*\)"):
        write_run_report(folder)
    assert not (folder / "report.html").exists()


def test_a_picture_outside_of_the_run_folder_is_not_read(written: Written, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"\x89PNG secret")
    folder = written(changes={"pictures": ["../secret.png", "pictures/bs00.png"]})
    (folder / "pictures").mkdir()
    (folder / "pictures" / "bs00.png").write_bytes(b"\x89PNG street")
    page = write_run_report(folder, figures=False).read_text(encoding="utf-8")
    assert page.count("data:image/png") == 1
    assert "Recording of base station 00." in page


def drawn(folder: Path, name: str) -> Figure:
    page = RunPage(read_records(folder))
    with figure_style():
        return page.drawn(next(figure for figure in page.figures if figure.name == name))


def caption(folder: Path, name: str) -> str:
    return next(figure.caption for figure in RunPage(read_records(folder)).figures if figure.name == name)


def test_a_group_has_one_color_in_all_figures_whatever_its_clients_are_numbered(written: Written) -> None:
    groups = {name: {**summary()["groups"][name]} for name in ("rf", "gps")}  # the first client is of the second
    folder = written(changes={"groups": groups}, diagnostics=DIAGNOSTICS, more=everything)
    colors = []
    for name in ("score", "network", "links"):
        (panel, *_) = drawn(folder, name).axes
        handles, labels = panel.get_legend_handles_labels()
        named = dict(zip((label.removeprefix("from ") for label in labels), handles, strict=True))
        colors.append(
            [
                to_hex(named[group].get_facecolor() if name == "network" else named[group].get_color())
                for group in ("rf", "gps")
            ]
        )
    assert colors == [[COLORS[0], COLORS[1]]] * 3


@pytest.mark.parametrize(("task", "better"), [("beam_tracking", "higher"), ("regression", "lower")])
def test_clients_stand_from_the_best_to_the_worst(task: str, better: str, written: Written) -> None:
    folder = written()
    records = read_records(folder)
    column = TASKS[task].columns[0]
    assert column.better == better
    object.__setattr__(records, "score_columns", (column,))
    (figure,) = (one for one in learning_figures(records) if one.name == "clients")
    with figure_style():
        (panel,) = figure.draw(1).axes
    scores = [list(line.get_ydata()) for line in panel.lines[::2]]
    assert all(one == sorted(one, reverse=better == "higher") for one in scores)
    assert scores[0][0] != scores[0][1]


@pytest.mark.parametrize("name", ["score", "clients"])
def test_scores_of_a_plugin_are_seen_whatever_their_range(name: str, written: Written) -> None:
    folder = written(more=lambda node, index: {"models": {"fused": {"top1": 60.0 + node + index}}})
    (panel,) = drawn(folder, name).axes
    assert panel.get_ylim()[1] > 65.0


def test_a_class_without_samples_has_no_color_and_beams_are_named_once(written: Written) -> None:
    curves = {"confusion": [[8, 2, 0], [0, 0, 0], [1, 0, 9]], "classes": ["beam 0", "beam 1", "beam 2"]}
    panel, bar = drawn(written(diagnostics={"held_out": {"gps": {"fused": curves}}}), "confusion-0").axes
    (image,) = panel.images
    assert np.ma.getmaskarray(image.get_array()).tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert (panel.get_xlabel(), bar.get_ylabel()) == ("predicted beam", "share of the true beam")
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "1", "2"]
    assert image.norm(0.1) > 0.3  # small shares are seen


def test_groups_without_a_curve_are_said(written: Written) -> None:
    folder = written(diagnostics=DIAGNOSTICS)
    assert caption(folder, "roc").endswith("Only one answer is right in all samples of: gps.")
    assert caption(folder, "network").count("50.0 to 100.0 Mbit/s") == 1


def test_lines_of_beams_are_what_is_lost_over_the_time_that_measuring_takes(written: Written) -> None:
    panels = drawn(written(changes={"value": VALUE}), "value-beams").axes
    assert [panel.get_title() for panel in panels] == ["gps", "rf"]
    x, y = panels[0].lines[-2].get_data()
    model, oracle = RULES.index("model_first_k"), RULES.index("oracle")
    assert list(x) == pytest.approx([100.0 * 0.1 * model / 60.0] * 5)
    # throughput falls by 0.025 Mbit/s with every rung of the example, so that the best rule comes last
    assert list(y) == pytest.approx([0.01] * 5)
    assert model < oracle


def test_a_run_from_before_there_was_a_ladder_still_has_its_deadlines(written: Written) -> None:
    value = {"decision": "beam", "groups": VALUE["groups"]}
    page = write_run_report(written(changes={"value": value}), figures=False).read_text(encoding="utf-8")
    assert "deadline met by" in page
    assert "sweep tuned" not in page


def test_edges_that_are_known_to_the_end_are_named_before_those_that_were_known_once(written: Written) -> None:
    def residuals(node: int, round_index: int) -> dict[str, Any]:
        known = {"2": 5.0} if round_index == 0 else {}
        return {"residuals": {**known, "1": 0.1, "3": 0.2}} if node == 0 else {}

    figure = drawn(written(more=residuals), "edge-residuals")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["0 – 3", "0 – 1", "0 – 2"]


def test_bars_of_asynchronous_clients_that_never_wait_end_below_the_edge(written: Written) -> None:
    times = {"compute_s": 0.5, "waiting_s": 0.0, "airtime_s": 0.9}
    (panel,) = drawn(written(more=lambda node, index: times), "round-parts").axes
    assert panel.get_ylim() == (0.0, pytest.approx(1.05 * 0.9))


def test_the_page_names_commit_and_processor(written: Written) -> None:
    environment = {**summary()["environment"], "commit": "abc123-dirty", "processor": "Some CPU", "machine": "x86_64"}
    page = write_run_report(written(changes={"environment": environment}), figures=False).read_text(encoding="utf-8")
    assert "sheafedge 0.1.0 (commit abc123-dirty, sources abc)" in page
    assert "Some CPU, x86_64" in page
