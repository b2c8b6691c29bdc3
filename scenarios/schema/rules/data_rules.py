"""Rules about data: source, mode, task, sensors, and what the groups own."""

from __future__ import annotations

from collections.abc import Iterator

from ....emulator.contracts import MODALITY_SPECS, ConfigError, Modality
from ....emulator.modalities import has_images
from ...tasks.task_spec import ForecastTask, SensorTask
from ..data_section import first_repeated
from ..neighborhood import assign_groups
from ..scenario_fields import ScenarioFields
from .rule import Case, Rule

#: Fades of labels and of decisions are the same up to this: less than the noise of a reading.
SAME_FADE_DB = 0.5

DATA_RULES: tuple[Rule[ScenarioFields], ...] = (
    # --- the source ---
    Rule(
        "world",
        lambda s: s.data.source == "world" and s.world is None,
        "data.source = 'world' needs a table [world], such as kind = \"street\"",
    ),
    Rule(
        "data.recordings",
        lambda s: s.data.source == "recording" and not s.data.recordings,
        "data.recordings is empty; give files: --set 'data.recordings=[\"FILE.h5\"]'",
    ),
    Rule(
        "data.recordings",
        lambda s: _repeated(s.data.recordings),
        "data.recordings names {again} twice, so that one client would be tested on what another trains on; name each"
        " file once",
    ),
    Rule(
        "data.root",
        lambda s: s.data.source == "deepsense" and not s.data.root,
        "data.root is empty; give the folder with the DeepSense .npy files: --set data.root=DIR",
    ),
    Rule(
        "data.scenarios",
        lambda s: s.data.source == "deepsense" and not s.data.scenarios,
        "data.scenarios is empty; name at least one, such as --set 'data.scenarios=[1,5,8]'",
    ),
    Rule(
        "data.scenarios",
        lambda s: _repeated(s.data.scenarios),
        "data.scenarios names {again} twice, so that one client would be tested on what another trains on; name each"
        " scenario once",
    ),
    Rule(
        "data.positions",
        lambda s: s.data.source != "deepsense" and s.data.positions != "auto",
        "data.positions = {s.data.positions!r} is of gathered rows, but data.source is {s.data.source!r}; choose"
        " positions when a folder is imported (sheafedge import deepsense --positions), and leave it out here",
    ),
    Rule(
        "data.headings_deg",
        lambda s: (
            s.data.source != "deepsense"
            and (s.data.headings_deg, s.data.codebook_order, s.data.strict) != ((), "clockwise", False)
        ),
        "data.headings_deg, data.codebook_order and data.strict are of gathered rows, but data.source is"
        " {s.data.source!r}; recordings state what their arrays face in the geometry, and an import is strict or not,"
        " so leave them out",
    ),
    Rule(
        "data.headings_deg",
        lambda s: (
            s.data.source == "deepsense"
            and (s.data.headings_deg != () or s.data.position_axes == "array")
            and len(s.data.headings_deg) != len(s.data.scenarios)
        ),
        "data.headings_deg must have a bearing for each of data.scenarios = {s.data.scenarios}, got"
        " {s.data.headings_deg}; --set 'data.headings_deg=[85]' is of an array that faces 85 degrees, nearly east",
    ),
    Rule(
        "data.position_axes",
        lambda s: s.data.source == "deepsense" and s.data.headings_deg != () and s.data.position_axes != "array",
        "data.headings_deg turns positions to what the arrays face, so data.position_axes must be 'array', got"
        " {s.data.position_axes!r}",
    ),
    Rule(
        "data.position_axes",
        lambda s: s.data.position_axes == "array" and s.task != "beam_tracking",
        "data.position_axes = 'array' turns positions of task 'beam_tracking' only, got task {s.task!r}; leave it out",
    ),
    Rule(
        "data.source",
        lambda s: s.data.source == "deepsense" and s.task != "beam_tracking",
        "data.source = 'deepsense' holds rows for task 'beam_tracking' only, got task {s.task!r}; import the folder"
        " (sheafedge import deepsense) and set data.source = 'recording'",
    ),
    Rule(
        "link.blocked_loss_probability",
        lambda s: _largest_blocked_loss(s) if s.data.source in {"deepsense", "rows"} else False,
        "link.blocked_loss_probability = {loss:g} needs to know when links are blocked, which data.source ="
        " {s.data.source!r} does not say; use a world or a recording, or set it to 0",
    ),
    # --- live mode ---
    Rule(
        "data.source",
        lambda s: s.data.mode == "live" and s.data.source != "world",
        "data.mode = 'live' senses a world, but data.source is {s.data.source!r}; set data.source = 'world', or"
        " data.mode = 'replay'",
    ),
    Rule(
        "data.train_fraction",
        lambda s: s.data.mode == "live" and s.data.train_fraction < 1.0,
        "data.mode = 'live' learns from all that it senses, so data.train_fraction must be 1, got"
        " {s.data.train_fraction:g}",
    ),
    Rule(
        "data.scored",
        lambda s: s.data.mode == "live" and s.data.scored == "validation",
        "data.mode = 'live' learns up to the held-out time, so data.scored must be 'held_out', got 'validation'; choose"
        " settings with data.mode = 'replay'",
    ),
    Rule(
        "data.shuffled_labels",
        lambda s: s.data.shuffled_labels and (s.data.mode == "live" or s.data.source == "rows"),
        "data.shuffled_labels deals the labels of recorded windows anew, which data.source = {s.data.source!r} with"
        " data.mode = {s.data.mode!r} does not have; leave it out",
    ),
    Rule(
        "data.split",
        lambda s: s.data.mode == "live" and s.data.split != "time",
        "data.mode = 'live' learns from the past, so data.split must be 'time', got {s.data.split!r}",
    ),
    Rule(
        "world.n_sites",
        lambda s: s.data.mode == "live" and s.world is not None and s.world.n_sites < s.clients.n_clients,
        "data.mode = 'live' has every client sense a base station of its own, but world.n_sites = {s.world.n_sites} for"
        " clients.n_clients = {s.clients.n_clients}; make both equal",
    ),
    # --- the task and its sensors ---
    Rule("data", lambda s: _refused_by_the_task(s), "{reason}"),
    Rule(
        "clients.groups",
        lambda s: (
            {"group": group.name, "modality": modality, "possible": ", ".join(s.task_spec.modalities)}
            for group in s.clients.groups
            for modality in group.modalities
            if modality not in s.task_spec.modalities
        ),
        "clients.groups: {group!r} has {modality!r}, which task {s.task!r} cannot use; choose among {possible}",
    ),
    Rule(
        "clients.groups",
        lambda s: (
            {"group": group.name, "field": field, "value": value, "possible": ", ".join(s.task_spec.group_fields)}
            for group in s.clients.groups
            for field, value in (("n_beams", group.n_beams), ("horizon", group.horizon))
            if value is not None and field not in s.task_spec.group_fields
        ),
        "clients.groups: {group!r} sets {field} = {value}, which task {s.task!r} does not ask about; its groups may set"
        " {possible}",
    ),
    Rule(
        "clients.groups",
        lambda s: _sweeps_of_two_sizes(s),
        "clients.groups: {one!r} has n_beams = {one_size} and {other!r} has n_beams = {other_size}, but both encode"
        " sweeps of all their beams ({modality!r}), and encoders of one modality must have one size; give both the same"
        " n_beams",
    ),
    Rule(
        "world.sensors",
        lambda s: _sensors_not_recorded(s),
        "task {s.task!r} and its clients need {missing!r}, which this world does not record ({recorded}); set"
        " world.sensors, or change clients.groups",
    ),
    Rule(
        "model.camera_encoder",
        lambda s: s.model.camera_encoder != "small" and s.task != "beam_prediction",
        "model.camera_encoder = {s.model.camera_encoder!r} takes single images, which task {s.task!r} does not have;"
        " set it to 'small'",
    ),
    Rule(
        "data.images",
        lambda s: s.data.images != "plain" and not any(has_images(group.modalities) for group in s.clients.groups),
        "data.images = {s.data.images!r} changes what cameras see, but no group of clients.groups has a camera; set it"
        " to 'plain'",
    ),
    # --- the user's own power ---
    Rule("world.link_rate_hz", lambda s: _signal_not_read(s), "{reason}"),
    Rule(
        "world.link_rate_hz",
        lambda s: _asks_for_outage(s) and s.world is not None and not s.world.link_rate_hz,
        "task {s.task!r} is about the recorded power of the user, and world.link_rate_hz = 0 records none; set it to"
        " 100",
    ),
    Rule(
        "data.fades_db",
        lambda s: _other_fades(s),
        "data.fades_db = {asked} is not what decision.clear_snr_db, decision.neighbor_below_db and decision.link call"
        " outage; set it to {known}, or set decision.evaluate = false",
    ),
    Rule(
        "data.mode",
        lambda s: _asks_for_outage(s) and s.data.mode == "live",
        "data.mode = 'live' does not know the usual power of the user yet, which labels of task {s.task!r} compare"
        " with; set data.mode = 'replay'",
    ),
    # --- orders of beams that nobody tells ---
    Rule(
        "sheaf.map_start",
        lambda s: _orders_not_learned(s) if s.sheaf.map_start == "learned" else False,
        "sheaf.map_start = 'learned' {reason}",
    ),
    # --- faults of sensors ---
    Rule(
        "faults",
        lambda s: (
            {"kind": fault.kind, "found": _without_recorded_frames(s)}
            for fault in s.faults
            if fault.spec.shown is not None and _without_recorded_frames(s)
        ),
        "faults: {kind!r} shifts recorded frames by their time stamps, which {found} does not allow; replay a world or"
        " a recording, or leave it out",
    ),
    Rule(
        "faults",
        lambda s: _faults_of_absent_sensors(s),
        "faults: {kind!r} names modality {modality!r} of client {client}, which has {owned}; choose one of these",
    ),
    Rule(
        "faults",
        lambda s: (
            {"kind": fault.kind, "modality": fault.modality}
            for fault in s.faults
            if fault.spec.shown is not None and fault.modality in _swept(s)
        ),
        "faults: {kind!r} of {modality!r} has nothing to shift in task {s.task!r}, whose answers come from the same"
        " sweeps as its inputs; choose another modality, or leave it out",
    ),
)


def _orders_not_learned(s: ScenarioFields) -> Iterator[Case]:
    if not (isinstance(s.task_spec, SensorTask) and "n_beams" in s.task_spec.group_fields):
        yield {"reason": f"orders a codebook's beams, which task {s.task!r} does not ask for; use 'structured'"}
        return
    if not s.algorithm_spec.order_kinds:
        remedy = "use 'aligned', or algorithm = 'sheaf_diffusion'"
        yield {"reason": f"takes messages that algorithm {s.algorithm!r} does not send; {remedy}"}
    if s.data.beam_order == "same":
        known = "what data.beam_order = 'same' tells, that all number their beams alike, and finds it with errors"
        yield {"reason": f"finds out {known}; use 'structured'"}
    if _has_sweeps_alone(s):
        ends = "needs clients that can tell the ends of a codebook apart, and sweeps alone do not"
        yield {"reason": f"{ends}; add 'gps' or 'camera' to a group of clients.groups"}
    for field, value, reason, needed in _unfit_for_learned_orders(s):
        yield {"reason": f"does not go with {field} = {value!r}, {reason}; set it to {needed}"}


def _has_sweeps_alone(s: ScenarioFields) -> bool:
    owned = {modality for group in s.clients.groups for modality in group.modalities if modality in MODALITY_SPECS}
    return all(MODALITY_SPECS[modality].per_beam for modality in owned)


def _unfit_for_learned_orders(s: ScenarioFields) -> Iterator[tuple[str, object, str, str]]:
    """Field, its value, why that does not go, and what does."""
    whole = "which leaves out what is asked of neighbors after listening"
    if s.data.mode == "live":
        yield "data.mode", s.data.mode, "which has few sweeps before the first round", "'replay'"
    if s.network.mode != "synchronous":
        yield "network.mode", s.network.mode, "where nodes never vote", "'synchronous'"
    if s.topology.kind == "mobile":
        yield "topology.kind", s.topology.kind, "where neighbors change after they have voted", "another"
    if s.clients.sampled:
        yield "clients.sampled", s.clients.sampled, "because all vote in the first round", "0"
    if s.sheaf.compression < 1.0:
        yield "sheaf.compression", s.sheaf.compression, whole, "1"
    if s.sharing.every > 1:
        yield "sharing.every", s.sharing.every, whole, "1"
    if s.sharing.codec == "top_k":
        yield "sharing.codec", s.sharing.codec, whole, "another"
    if s.fusion == "concat":
        yield "model.fusion", s.fusion, "which gives heads other columns", "'attention' or 'mean'"
    if s.model.start_from:
        yield "model.start_from", s.model.start_from, "a model of another order of beams", "''"


def _swept(s: ScenarioFields) -> tuple[Modality, ...]:
    return s.task_spec.swept if isinstance(s.task_spec, SensorTask) else ()


def _needs(s: ScenarioFields) -> tuple[Modality, ...]:
    return s.task_spec.needs if isinstance(s.task_spec, SensorTask) else ()


def _repeated(values: tuple[object, ...]) -> list[Case]:
    again = first_repeated(values)
    return [] if again is None else [{"again": again}]


def _refused_by_the_task(s: ScenarioFields) -> Iterator[Case]:
    for group in s.clients.groups:
        try:
            s.task_spec.check(s.data_of(group.name))
        except ConfigError as error:
            yield {"reason": error}


def _sweeps_of_two_sizes(s: ScenarioFields) -> Iterator[Case]:
    for modality in _swept(s):
        owners = [group.name for group in s.clients.groups if modality in group.modalities]
        sizes = {name: s.data_of(name).n_beams for name in owners}
        one = next(iter(sizes), "")
        other = next((name for name in sizes if sizes[name] != sizes[one]), None)
        if other is not None:
            yield {
                "one": one,
                "one_size": sizes[one],
                "other": other,
                "other_size": sizes[other],
                "modality": modality,
            }


def _sensors_not_recorded(s: ScenarioFields) -> Iterator[Case]:
    if s.data.source != "world" or s.world is None:
        return
    for modality in s.recorded_modalities:
        is_usable = modality in {*s.task_spec.modalities, *_needs(s)}  # another rule names the others
        if is_usable and modality not in s.world.recordable:
            yield {"missing": modality, "recorded": ", ".join(s.world.recordable)}


def _largest_blocked_loss(s: ScenarioFields) -> list[Case]:
    loss = max([s.link.blocked_loss_probability, *(edge.blocked_loss_probability or 0.0 for edge in s.links.edges)])
    return [{"loss": loss}] if loss > 0.0 else []


def _without_recorded_frames(s: ScenarioFields) -> str:
    """The setting because of which there are no recorded frames with time stamps; empty where there are."""
    if s.data.mode == "live":
        return "data.mode = 'live'"
    return f"data.source = {s.data.source!r}" if s.data.source in {"deepsense", "rows"} else ""


def _faults_of_absent_sensors(s: ScenarioFields) -> Iterator[Case]:
    if not any(fault.spec.shown is not None for fault in s.faults):
        return
    groups = assign_groups(s.clients, s.seed)
    for fault in s.faults:
        for client in fault.nodes:
            if fault.spec.shown is None or isinstance(client, str) or client >= len(groups):
                continue
            owned = s.clients.group(groups[client]).owned
            if fault.modality not in owned:
                yield {
                    "kind": fault.kind,
                    "modality": fault.modality,
                    "client": client,
                    "owned": ", ".join(owned),
                }


def _asks_for_outage(s: ScenarioFields) -> bool:
    return isinstance(s.task_spec, ForecastTask)


def _signal_not_read(s: ScenarioFields) -> list[Case]:
    if s.data.source != "world" or s.world is None or "signal" in s.world.sensors:  # the world has refused it itself
        return []
    owned = any("signal" in group.modalities for group in s.clients.groups)
    return [{"reason": reason}] if owned and (reason := s.world.complaint_about_signal) else []


def _other_fades(s: ScenarioFields) -> list[Case]:
    known = s.decision.outage_fades_db
    if not (_asks_for_outage(s) and s.decision.evaluate):
        return []
    if all(abs(one - other) <= SAME_FADE_DB for one, other in zip(s.data.fades_db, known, strict=True)):
        return []
    asked, wanted = (f"[{', '.join(f'{fade:.2f}' for fade in fades)}]" for fades in (s.data.fades_db, known))
    return [{"asked": asked, "known": wanted}]
