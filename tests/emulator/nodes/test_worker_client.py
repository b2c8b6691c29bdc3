"""What a worker does for an engine that cannot do it any more; all else of workers is in `test_worker_server`."""

from __future__ import annotations

from pathlib import Path

from sheafedge.emulator.nodes.worker_client import forget_address


def test_what_a_killed_engine_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    private, own = tmp_path / "private", tmp_path / "own"
    for folder in (private, own):
        folder.mkdir()
        (folder / "rule.py").write_text("")
    (private / "turns").write_text("")
    forget_address(f"ipc://{private}/turns", [str(private / "rule.py"), str(own / "rule.py"), "installed"])
    assert list(tmp_path.rglob("*")) == [own, own / "rule.py"]
    forget_address("tcp://127.0.0.1:5555", [str(own / "rule.py")])
    assert (own / "rule.py").exists()
