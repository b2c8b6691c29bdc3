"""The command line of an edge device: needs onnxruntime, numpy, pyzmq and msgpack, and Python's own parser.

Where all of sheafedge is installed the very same parsers are behind `sheafedge serve` and `sheafedge verify`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

from ...contracts import ConfigError, SheafedgeError
from ...network.transport.curve_keys import read_keys
from ..bundle import load_bundle
from ..bundle_trial import BundleTrial, LoadStoppedError
from ..bundle_versions import newest_bundle, version_paths
from ..serving.inference_page import VISITORS, InferencePage, open_inference_port
from ..serving.metrics import Counts, MetricsPage
from ..serving.reloading import BundleReloader
from ..serving.server import Server
from ..serving.serving_settings import ServingSettings
from ..serving.serving_watch import ServingWatch
from ..serving.tensor_requests import TensorRequests
from ..signatures import TrustedKey
from .bench_commands import bench
from .command_options import SUMMARIES, TRUSTED, OneSentenceParser, serve_options


def main(arguments: Sequence[str], version: str) -> NoReturn:
    """Run a command and end the process: 0, or 2 with one sentence about what the user can put right."""
    try:
        run_command(arguments, version)
    except SheafedgeError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        # The shell's code of a program that SIGINT has ended, 128 + 2.
        sys.exit(130)
    sys.exit(0)


def run_command(arguments: Sequence[str], version: str) -> None:
    """Run a command of `COMMANDS`.

    Args:
        arguments: name of the command, and its arguments.
        version: version of sheafedge.

    Raises:
        SheafedgeError: the user can put it right.
    """
    name = arguments[0] if arguments else ""
    if name in COMMANDS:
        COMMANDS[name](arguments[1:], version)
    elif name == "--version":
        _say(f"sheafedge {version}")
    elif name in {"-h", "--help"}:
        _say("Run trained models on an edge device; sheafedge COMMAND --help says more.")
        for known, summary in SUMMARIES.items():
            _say(f"{known}: {summary}")
    else:
        raise ConfigError(f"give one of the commands {', '.join(COMMANDS)}, got {name!r}; see sheafedge --help")


def _serve(arguments: Sequence[str], version: str) -> None:
    chosen = serve_options(arguments)
    settings = ServingSettings(
        batch=chosen.batch,
        waiting=chosen.waiting,
        waiting_in_all=chosen.waiting_in_all,
        streams=chosen.streams,
        idle_s=chosen.idle,
        hold=chosen.hold,
        finish_s=chosen.finish,
        trial_s=chosen.trial if version_paths(chosen.bundle) else 0.0,
    )
    keys = None if chosen.keys is None else read_keys(chosen.keys, "engine")
    trusted = None if chosen.trusted is None else TrustedKey(chosen.trusted)
    # Signals before all else, so that one that comes while the bundle loads is not lost; closed in reverse order.
    with ExitStack() as stack, _signals() as signals:
        watch = ServingWatch(settings.finish_s)
        stack.callback(watch.close)
        how = {"cuda": chosen.cuda, "threads": chosen.threads, "trusted": trusted}
        reloader = BundleReloader(chosen.bundle, watch_s=chosen.watch, **how)
        stack.callback(reloader.close)
        try:
            trial = BundleTrial(is_stopped=lambda: signals.is_stopped)
            # changes since then are seen
            load = partial(load_bundle, trial=trial, **how)
            bundle = newest_bundle(chosen.bundle, load, refuse=lambda error: _warn(str(error)))
        except LoadStoppedError:
            _say("stopped before the bundle was loaded")
            return
        tensors = None
        if chosen.http is not None:
            tensors = TensorRequests(VISITORS)
            stack.callback(tensors.close)
        server = Server(
            bundle, chosen.bind, settings, keys=keys, reloader=reloader, tensors=tensors, say=_say, warn=_warn
        )
        stack.callback(server.close)
        signals.reload = reloader.ask
        watch.watch(lambda: server.session)
        mib = server.window_bytes / 2**20
        _say(
            f"serving {bundle.manifest.name} ({bundle.manifest.precision}, {bundle.session.provider}) at"
            f" {server.address}; windows of {settings.streams} streams take at most {mib:.0f} MiB"
        )
        if chosen.metrics is not None:
            page = MetricsPage(chosen.metrics, server.counts, server.is_alive)
            stack.callback(page.close)
            _say(f"metrics at http://{page.address}/metrics")
        if tensors is not None:
            inference = InferencePage(lambda: server.interface, tensors, server.is_alive, server.counts, version)
            port = open_inference_port(chosen.http, inference)
            stack.callback(port.close)
            _say(f"model at http://{port.address}/v2/models/{quote(server.interface.name)}")
        server.serve(signals.stops)
        _say(_totals(server.counts))


def _totals(counts: Counts) -> str:
    shown = {"questions": "requests", "answers": "answers", "refused_questions": "refused"}
    totals = ", ".join(f"{counts.total(name)} {shown.get(name, name)}" for name in (*shown, "dropped", "unsent"))
    return f"stopped: {totals}"


class _Signals:
    """Signals that have arrived. They come at any instant, so they only set a mark, which the loop reads.

    Attributes:
        is_stopped: whether the server should stop.
        reload: called when a new bundle was requested.
    """

    def __init__(self) -> None:
        self.is_stopped = self._reloads = False
        self.reload: Callable[[], None] = lambda: None

    def stops(self) -> bool:
        """Whether the server should stop; called between two turns, which is when a new bundle is requested, too."""
        if self._reloads:
            self._reloads = False
            self.reload()
        return self.is_stopped

    def take(self, number: int, _frame: FrameType | None) -> None:
        if number not in {signal.SIGINT, signal.SIGTERM}:
            self._reloads = True
        elif self.is_stopped:  # the second signal ends it at once
            raise KeyboardInterrupt
        else:
            self.is_stopped = True


@contextmanager
def _signals() -> Iterator[_Signals]:
    """SIGINT and SIGTERM stop the server, SIGHUP loads the bundle again."""
    taken = _Signals()
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    # Restored afterwards, because the command may run inside another program.
    before = {number: signal.signal(number, taken.take) for number in numbers}
    try:
        yield taken
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def _verify(arguments: Sequence[str], _version: str) -> None:
    parser = OneSentenceParser("verify")
    parser.add_argument("bundle", type=Path, help="folder or .zip made by sheafedge export")
    parser.add_argument("--trusted", type=Path, metavar="KEY", help=TRUSTED)
    chosen = parser.parse_args(arguments)
    trusted = None if chosen.trusted is None else TrustedKey(chosen.trusted)
    bundle = load_bundle(chosen.bundle, trusted=trusted)
    signed = "" if trusted is None else f", signed by the trusted key {trusted.name}"
    _say(
        f"{chosen.bundle} is valid{signed}: {bundle.manifest.name}, {len(bundle.content)} files; the model reproduces"
        f" the outputs of its test samples (largest difference {bundle.golden_error:.2g}, {bundle.session.provider})"
    )


def _bench(arguments: Sequence[str], _version: str) -> None:
    sys.stdout.write(f"{bench(arguments)}\n")


def _say(sentence: str) -> None:
    sys.stdout.write(f"{' '.join(sentence.split())}\n")
    sys.stdout.flush()


def _warn(sentence: str) -> None:
    sys.stderr.write(f"warning: {' '.join(sentence.split())}\n")
    sys.stderr.flush()


#: Command -> what it does with what follows its name, and the version of sheafedge.
COMMANDS: Mapping[str, Callable[[Sequence[str], str], None]] = {"serve": _serve, "bench": _bench, "verify": _verify}
assert set(COMMANDS) == set(SUMMARIES)
