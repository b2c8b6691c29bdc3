"""Names that users choose are printed as they are written, whatever markup they look like."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.scenarios.terminal import cli


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    monkeypatch.setattr("sys.argv", ["sheafedge", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    return capsys.readouterr().out


def test_recordings_and_pictures_are_named_as_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closing tag that nothing opened would end the command after all was written."""
    folder = tmp_path / "my ["
    folder.mkdir()
    recording, pictures = folder / "street] [test].h5", folder / "a] [red]"
    short = ("--set", "world.n_sites=1", "--set", "world.duration_s=20")
    assert f"\n{recording}: 200 frames, " in printed(monkeypatch, capsys, "record", "street", *short, "-o", recording)
    shown = printed(monkeypatch, capsys, "inspect", recording, "--plot", pictures)
    assert f"\nwrote {pictures / 'bs00.png'}\n" in shown
