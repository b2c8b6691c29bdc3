from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.library.recorded_worlds import record

SHORT = {"world.n_sites": 1, "world.duration_s": 10, "seed": 3}


def test_a_world_is_recorded_and_followed(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = record("street", str(tmp_path / "street.h5"), SHORT, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100, 100)
    with RecordingReader(report.path) as reader:
        assert reader.base_stations[0].n_frames == report.stations[0].n_frames == 100


def test_progress_prints_the_lines_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record("street", tmp_path / "street.h5", SHORT, progress=True)
    assert "100 %" in capsys.readouterr().out


def test_a_file_that_exists_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "street.h5").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        record("street", tmp_path / "street.h5", SHORT)
    assert (tmp_path / "street.h5").read_text() == "mine"
