"""The command `sheafedge`. Heavy imports wait until a command needs them, so that help appears at once."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ...emulator.contracts import ConfigError, ScenarioError, SheafedgeError
from ...version import __version__
from .animation_commands import add_animation_commands
from .calibration_commands import add_calibration_commands
from .command_panels import RUN, examples
from .compare_commands import add_comparison_commands
from .completion import complete_assignment, complete_scenario
from .export_commands import add_export_commands
from .lookup_commands import add_lookup_commands
from .machine_commands import add_edge_commands, add_worker_commands
from .recording_commands import add_recording_commands
from .replay_commands import add_replay_commands
from .report_commands import add_report_commands
from .run_playing import one_line, play
from .shared_options import CPUS, GPUS, PLACEMENT, PLUGIN, TRUST, load_wanted, wanted_engine

if TYPE_CHECKING:
    from ..tracking.tracker_table import TrackerRequest

app = typer.Typer(
    help="Emulate base stations that sense, train together over lossy wireless links, and export ONNX models.",
    epilog=examples(
        "sheafedge run beam_tracking",
        "sheafedge compare blockage --algorithms sheaf_dmfl_att,local --seeds 5",
        "sheafedge COMMAND --help",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
#: What runs out on a machine, wherever it is noticed: errors of Python and of ZeroMQ have the same numbers.
_REMEDIES: dict[int | None, str] = {
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "this machine has too many open files",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}
#: Common base of the errors that typer raises for an invalid command line; typer exports only this child of it.
CommandLineError: type[Exception] = typer.BadParameter.mro()[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sheafedge {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(
    rich_help_panel=RUN,
    epilog=examples(
        "sheafedge run beam_tracking",
        "sheafedge run blockage --set link.loss_probability=0.2 --out runs/lossy",
        "sheafedge run beam_tracking --live",
        "sheafedge run my_scenario.toml --workers 4",
        "sheafedge run --resume runs/lossy.interrupted",
        "sheafedge run --resume runs/lossy.interrupted --set rounds=90",
    ),
)
def run(
    scenario: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time
        typer.Argument(
            help="Name of a shipped scenario, such as beam_tracking, or a TOML file.", autocompletion=complete_scenario
        ),
    ] = None,
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a field of the scenario (link.loss_probability=0.2); repeatable.",
            autocompletion=complete_assignment,
        ),
    ] = None,
    out: Annotated[Optional[Path], typer.Option(help="Run folder; default: a new folder under runs/.")] = None,  # noqa: UP045
    device: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Device of torch: auto, cpu or cuda; the same as --set compute.device=..."),
    ] = None,
    resume: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FOLDER",
            help="Continue an interrupted run from its last checkpoint, bit for bit; --set rounds=N trains on.",
        ),
    ] = None,
    workers: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Number of worker processes that train the clients; the results do not depend on it."),
    ] = None,
    hub: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Address tcp://HOST:PORT at which workers (sheafedge worker) or --outside clients connect."),
    ] = None,
    keys: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Folder of CURVE keys for --hub; made by sheafedge keys."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="How workers are started: processes (on this host) or ray (also on a cluster).")
    ] = "processes",
    ray_cpus: Annotated[Optional[float], CPUS] = None,  # noqa: UP045
    ray_gpus: Annotated[Optional[float], GPUS] = None,  # noqa: UP045
    ray_placement: Annotated[Optional[str], PLACEMENT] = None,  # noqa: UP045
    worker_silence_s: Annotated[
        float, typer.Option(help="Seconds without a message after which a worker counts as lost.")
    ] = 6.0,
    realtime: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            metavar="SPEED", help="Pace the simulated clock: simulated seconds per real second; 1.0 is real time."
        ),
    ] = None,
    outside: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(
            metavar="CLIENT", help="Number of a client that an external program runs, connected at --hub; repeatable."
        ),
    ] = None,
    tracker: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="NAME[=FOLDER]",
            help="Also log to tensorboard, wandb (offline) or mlflow (files), below runs/tracking; repeatable.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Show the run in a browser while it goes on, at an address of this host.")
    ] = False,
    live_port: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            metavar="PORT", help="Port of --live, which it implies; default: any that is free.", min=0, max=65535
        ),
    ] = None,
    plugin: Annotated[Optional[list[str]], PLUGIN] = None,  # noqa: UP045
    trust_plugins: Annotated[bool, TRUST] = False,
) -> None:
    """Run a scenario: record, train, score and export; results are in the run folder."""
    # option by option: ZeroMQ and the clock of real time are imported only for runs that use them
    wanted, paced = None, None
    if realtime is not None or outside:
        from ..wiring.real_time_options import real_time_wanted

        paced = real_time_wanted(realtime, outside or [], workers, hub, keys)
    at_hub = (None, None) if outside else (hub, keys)  # with --outside, they belong to the outside clients
    started_by, share = wanted_engine(engine, ray_cpus, ray_gpus, ray_placement)
    if (workers, *at_hub, started_by) != (None, None, None, "processes"):
        from ..workers.worker_options import workers_wanted

        wanted = workers_wanted(workers, *at_hub, worker_silence_s, started_by, share)
    trackers: Sequence[TrackerRequest] = ()
    if tracker:
        from ..tracking.tracker_table import requested_trackers

        trackers = requested_trackers(tracker)
    shown_at = live_port if live_port is not None else 0 if live else None
    if resume is not None:
        if scenario is not None or out is not None or device is not None:
            raise ConfigError("--resume reads the scenario from the folder; leave out the scenario, --out and --device")
        # an outside client keeps its state in its own process, of which no checkpoint knows
        if outside:
            raise ConfigError("--resume cannot restore the state of an --outside client; leave out --outside")
        from ..schema.scenario import parse_assignment

        load_wanted(plugin, trusted=resume if trust_plugins else None)
        edits = dict(parse_assignment(text) for text in set_ or [])
        play(resume, workers=wanted, real_time=paced, edits=edits, trackers=trackers, live_port=shown_at)
        return
    if scenario is None:
        raise ConfigError("run needs a scenario, such as blockage, or --resume FOLDER; see sheafedge --help")

    load_wanted(plugin, trusted=scenario if trust_plugins else None)

    from ..schema.scenario import load_scenario, parse_assignment

    edits = dict(parse_assignment(text) for text in set_ or [])
    if device is not None:
        edits["compute.device"] = device
    play(load_scenario(scenario).edited(edits), out, wanted, paced, trackers=trackers, live_port=shown_at)


# after run, because help lists panels and their commands in this order
add_report_commands(app)
add_lookup_commands(app)
add_worker_commands(app)
add_comparison_commands(app)
add_recording_commands(app)
add_calibration_commands(app)
add_export_commands(app)
add_animation_commands(app)
add_edge_commands(app)
add_replay_commands(app)


def main() -> None:
    """Entry point: an error that the user can correct is printed as one sentence, with exit code 2."""
    try:
        # not standalone: typer would print its own errors in several lines, and exit itself
        sys.exit(app(prog_name="sheafedge", standalone_mode=False))
    except SheafedgeError as error:
        for sentence in _sentences(error):
            typer.echo(f"error: {sentence}", err=True)
        sys.exit(2)
    except CommandLineError as error:
        if complaint := _complaint(error):  # empty without arguments, because the help was printed
            typer.echo(f"error: {complaint}; see sheafedge --help", err=True)
        sys.exit(2)
    except MemoryError:
        typer.echo("error: out of memory; make the scenario smaller (fewer clients, samples or units)", err=True)
        sys.exit(2)
    except Exception as error:
        if (remedy := _REMEDIES.get(getattr(error, "errno", None))) is None:
            raise
        typer.echo(f"error: {one_line(str(error), error)}; {remedy}", err=True)
        sys.exit(2)


def _sentences(error: SheafedgeError) -> list[str]:
    """One line for everything that is wrong; the last also holds the notes that the error collected on its way."""
    *others, last = error.sentences if isinstance(error, ScenarioError) else (str(error),)
    return [*others, one_line(last, error)]


def _complaint(error: Exception) -> str:
    """Message of a typer error, with the name of the option or argument, in one line."""
    # only BadParameter adds the name of the option to its message
    message = error.format_message() if isinstance(error, typer.BadParameter) else str(error)
    return " ".join(message.replace("Value error, ", "").split()).rstrip(".")
