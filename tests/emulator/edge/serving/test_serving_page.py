"""What docs/serving.md says about the protocol is so, and its client works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from doubles.inference_port import inference_port
from doubles.served_model import LIMIT_S, served
from sheafedge.emulator.edge.commands.device_commands import run_command
from sheafedge.emulator.edge.frame_packets import DTYPES, REFUSALS, REPLIES, REQUESTS
from sheafedge.emulator.edge.serving.metrics import COUNTERS, DROPS
from sheafedge.emulator.edge.serving.serving_settings import ServingSettings

pytestmark = pytest.mark.checkout  # docs are not shipped

_FILE = Path(__file__).resolve().parents[4] / "docs" / "serving.md"
PAGE = _FILE.read_text(encoding="utf-8") if _FILE.exists() else ""  # where the wheel is tested, nobody asks


def row_of(name: str) -> str:
    (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, re.M)
    return str(row)


@pytest.mark.parametrize("name", [*REQUESTS, *REPLIES])
def test_every_packet_is_told_with_its_fields(name: str) -> None:
    for field in {**REQUESTS, **REPLIES}[name]:
        assert f"`{field}`" in row_of(name)


def test_every_code_reason_metric_and_kind_of_number_is_told() -> None:
    for word in (*REFUSALS, *(f"{name}_total" for name in COUNTERS)):
        assert f"`{word}`" in PAGE, word
    assert f"`{' '.join(DTYPES)}`" in PAGE
    assert f"`reason`: {', '.join(DROPS)}" in PAGE


def test_defaults_are_those_of_the_settings() -> None:
    settings = ServingSettings()
    told = {
        "--batch": settings.batch,
        "--hold": settings.hold,
        "--waiting": settings.waiting,
        "--waiting-in-all": settings.waiting_in_all,
        "--finish": settings.finish_s,
    }
    for option, value in told.items():
        assert re.match(rf"\| `{option}` \| {value:g}( s)? \|", row_of(option)), option
    assert f"| {settings.streams}, {settings.idle_s:g} s |" in PAGE


def test_options_that_the_page_names_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command(["serve", "--help"], "1.2.3")
    told = capsys.readouterr().out
    for option in set(re.findall(r"`(--[a-z-]+)", PAGE)):
        assert option in told, option


def test_the_request_over_http_on_the_page_gets_the_promised_logits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (request,) = [block for block in re.findall(r"```python\n(.+?)```", PAGE, re.S) if "urllib" in block]
    bundle = tiny_bundle(tmp_path / "b", frames=4)
    with inference_port(bundle) as port:
        exec(request, {"bundle": bundle, "address": port.address, "model": "tiny"})  # noqa: S102 - that of the page
    assert capsys.readouterr().out == "True (3, 2)\n"


def test_the_client_on_the_page_gets_its_answers(tmp_path: Path) -> None:
    (client,) = [block for block in re.findall(r"```python\n(.+?)```", PAGE, re.S) if "import zmq" in block]
    with served(tiny_bundle(tmp_path / "b", frames=4)) as server:
        code = f"address = {server.address!r}\n{client}"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            try:
                for _ in range(round(LIMIT_S / 0.05)):
                    server.turn(wait_s=0.05)
                    if process.poll() is not None:
                        break
            finally:
                process.kill()
            assert process.stdout
            lines = process.stdout.read().splitlines()
    assert lines[:3] == ["refused None None"] * 3
    assert lines[3].startswith("answer blocked 0.88"), lines  # the mean of 1 and 3 is a logit of 2
