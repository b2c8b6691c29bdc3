"""The table of rules: every rule is broken by a case, answered in its sentence, and kept again after one edit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, get_args

import pytest
from sheafedge.emulator.contracts import ScenarioError
from sheafedge.scenarios.schema.compatibility import (
    NEIGHBOR_RULES,
    RULES,
    SCENARIO_RULES,
    run_complaints,
)
from sheafedge.scenarios.schema.neighborhood import neighborhood_of
from sheafedge.scenarios.schema.rules.place_rules import FILE_RULES, OUTSIDE_RULES, WORKER_RULES, OutsideUse, WorkerUse
from sheafedge.scenarios.schema.rules.rule import Rule
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.schema.scenario_fields import ScenarioFields

RF: dict[str, Any] = {"name": "rf", "modalities": ["rf"], "share": 1.0}
GPS: dict[str, Any] = {"name": "gps", "modalities": ["gps"], "share": 1.0}
HALF_RF, HALF_GPS = {**RF, "share": 0.5}, {**GPS, "share": 0.5}
HALF_BOTH: dict[str, Any] = {"name": "both", "modalities": ["rf", "gps"], "share": 0.5}
TABLE: dict[str, Any] = {"name": "a", "modalities": ["table"], "share": 1.0}
HALF_TABLE = {**TABLE, "share": 0.5}
HALF_IMAGE = {"name": "b", "modalities": ["image"], "share": 0.5}
OWN_VALUES: dict[str, Any] = {"task": "regression", "data.dataset": "file", "data.root": "mine.npz"}
DEEP: dict[str, Any] = {"data.source": "deepsense", "data.root": "x"}
REC: dict[str, Any] = {"data.source": "recording", "data.recordings": ["a.h5"]}
LIVE: dict[str, Any] = {"data.mode": "live", "data.split": "time", "world.n_sites": 20}
ASYNC = {"network.mode": "asynchronous"}
WAIT = {"network.missing": "wait"}
SERVED = {"algorithm": "fedavg"}
ONE_EACH = [
    {"name": "both", "modalities": ["rf", "camera"], "share": 0.4},
    {"name": "rf", "modalities": ["rf"], "share": 0.3},
    {"name": "camera", "modalities": ["camera"], "share": 0.3},
]
LEARNED = {"algorithm": "sheaf_diffusion", "sheaf.map_start": "learned", "data.beam_order": "permuted"}
#: A scenario must be refused so soon, on a slow machine too.
SOON_S = 3.0


def fault(kind: str, **fields: Any) -> dict[str, Any]:
    return {"faults": [{"kind": kind, **fields}]}


class Case(NamedTuple):
    """Edits of a shipped scenario that break a rule, edits that cure them, and the only sentence in between."""

    base: str
    edits: dict[str, Any]
    cure: dict[str, Any]
    sentence: str


CASES: dict[str, Case] = {
    # --- a server ---
    "more participants than clients": Case(
        "beam_tracking",
        {**SERVED, "clients.sampled": 21},
        {"clients.sampled": 20},
        "clients.sampled = 21 is more than clients.n_clients = 20; lower it, or set it to 0, with which all take part"
        " in every round",
    ),
    "one model for all, and some left out": Case(
        "beam_tracking",
        {"algorithm": "centralized", "clients.sampled": 3},
        {"clients.sampled": 20},
        "algorithm 'centralized' trains one model on the rows of all clients, of which clients.sampled = 3 would leave"
        " some out; set it to 0",
    ),
    "drawn for a round that nobody has": Case(
        "beam_tracking",
        {**ASYNC, "clients.sampled": 3},
        {"clients.sampled": 0},
        "clients.sampled = 3 draws clients for a round of all, and with network.mode = 'asynchronous' every client has"
        " rounds of its own; set it to 0, or network.mode = 'synchronous'",
    ),
    "projections of a round before, of others": Case(
        "beam_tracking",
        {**WAIT, "sheaf.exchange": "single", "clients.sampled": 3},
        {"sheaf.exchange": "double"},
        "clients.sampled = 3 does not go with sheaf.exchange = 'single', which finds the projections of a round from"
        " the messages of the one before, in which other neighbors took part; use 'double'",
    ),
    "a server without rounds in common": Case(
        "beam_tracking",
        {**SERVED, **ASYNC},
        {"network.mode": "synchronous"},
        "algorithm 'fedavg' has a server that averages what a round brought, which network.mode = 'asynchronous' does"
        " not have; set it to 'synchronous'",
    ),
    "a server somewhere among clients that move": Case(
        "beam_tracking",
        {**SERVED, "topology.kind": "mobile"},
        {"topology.kind": "ring"},
        "algorithm 'fedavg' has a server, which topology.kind = 'mobile' gives no place; choose another kind, as the"
        " algorithm does not read it",
    ),
    "a server and rows that grow": Case(
        "beam_tracking",
        {**SERVED, **LIVE},
        {"data.mode": "replay"},
        "algorithm 'fedavg' has a server that weighs clients by their rows, which grow with data.mode = 'live'; set it"
        " to 'replay'",
    ),
    "a fault of a server that is not there": Case(
        "beam_tracking",
        fault("link_down", edges=[[3, "server"]]),
        SERVED,
        "faults: 'link_down' names the server, which algorithm 'sheaf_dmfl_att' does not have; leave it out, or use an"
        " algorithm that has one, such as 'fedavg'",
    ),
    "waiting for a server that nothing reaches": Case(
        "beam_tracking",
        {**SERVED, **WAIT, "server.link": {"loss_probability": 1.0}},
        {"server.link": {"loss_probability": 0.5}},
        "server.link: network.missing = 'wait' never ends with link.loss_probability = 1; use 'skip' or lower the loss",
    ),
    "a sensor of a server": Case(
        "beam_tracking",
        {**SERVED, "clients.groups": [GPS], **fault("clock_drift", nodes=["server"], modality="gps", ppm=100)},
        {"faults": []},
        "faults: 'clock_drift' is about sensors, and the server has none; name clients",
    ),
    # --- data ---
    "no world": Case(
        "beam_tracking", {"world": None}, REC, "data.source = 'world' needs a table [world], such as kind = \"street\""
    ),
    "a recording without files": Case(
        "beam_tracking",
        {"data.source": "recording"},
        {"data.recordings": ["a.h5"]},
        "data.recordings is empty; give files: --set 'data.recordings=[\"FILE.h5\"]'",
    ),
    "a file twice": Case(
        "beam_tracking",
        {"data.source": "recording", "data.recordings": ["a.h5", "b.h5", "a.h5"]},
        {"data.recordings": ["a.h5"]},
        (
            "data.recordings names a.h5 twice, so that one client would be tested on what another trains"
            " on; name each file once"
        ),
    ),
    "a task about rows without rows": Case(
        "digits",
        {**REC, "data.split": "random"},
        {"data.source": "rows"},
        (
            "task 'classification' is about rows of a data set, but data.source is 'recording'; set data.source ="
            " 'rows' and data.dataset"
        ),
    ),
    "rows for a task about sensors": Case(
        "beam_tracking",
        {"data.source": "rows", "data.dataset": "digits", "data.split": "auto"},
        {"data.source": "world", "data.split": "sequence"},
        (
            "data.source = 'rows' has no sensors, which task 'beam_tracking' is about; set task = 'classification',"
            " 'regression' or 'node_classification'"
        ),
    ),
    "rows of nothing": Case(
        "digits",
        {"data.dataset": ""},
        {"data.dataset": "digits"},
        (
            "data.dataset is empty; name one of file, digits, mnist, school, cora, wisdm, such as --set"
            " data.dataset=file --set data.root=mine.npz"
        ),
    ),
    "own rows without a file": Case(
        "digits",
        {"data.dataset": "file"},
        {"data.root": "mine.npz"},
        "data.root is empty; data.dataset = 'file' needs a .npz or .csv file of your own: --set data.root=PATH",
    ),
    "values of classes": Case(
        "digits",
        {"task": "regression"},
        {"task": "classification"},
        (
            "data.dataset = 'digits' has classes, which task 'regression' does not ask about; set task ="
            " 'classification'"
        ),
    ),
    "the end of rows without time": Case(
        "digits",
        {"data.split": "time"},
        {"data.split": "random"},
        (
            "data.split = 'time' does not go with data.source = 'rows'; rows are split 'auto' or 'random', frames by"
            " 'sequence', 'time' or 'random'"
        ),
    ),
    "values dealt by class": Case(
        "digits",
        {**OWN_VALUES, "data.owners": "dirichlet"},
        {"data.owners": "equal"},
        (
            "data.owners = 'dirichlet' deals classes, which task 'regression' does not have; set it to 'natural',"
            " 'equal' or 'auto'"
        ),
    ),
    "two inputs of one data set": Case(
        "digits",
        {"clients.groups": [HALF_TABLE, HALF_IMAGE], "algorithm": "local", "topology.kind": "complete"},
        {"clients.groups": [HALF_TABLE, {**HALF_TABLE, "name": "b"}]},
        (
            "clients.groups: with data.source = 'rows' all groups have the one input of the data set, but 'a' has table"
            ' and \'b\' has image; give all of them modalities = ["table"] or all ["image"]'
        ),
    ),
    "a convolution of columns": Case(
        "digits",
        {"clients.groups": [{**TABLE, "encoder": "cnn_fmtl"}]},
        {"clients.groups": [{**TABLE, "encoder": "mlp"}]},
        (
            "clients.groups: 'a' sets encoder = 'cnn_fmtl', which takes images, but has rows of a table; set it to"
            " 'mlp' or 'identity', or modalities = [\"image\"]"
        ),
    ),
    "averages of encoders of two sizes": Case(
        "digits",
        {"clients.groups": [HALF_TABLE, {**HALF_TABLE, "name": "b", "encoder": "identity"}]},
        {"training.personal_encoders": ["table"]},
        (
            "algorithm 'sheaf_dmfl' averages encoders of 'table', but 'a' has \"the task's\" and 'b' has 'identity';"
            " give all groups one encoder, or keep them out with training.personal_encoders = ['table']"
        ),
    ),
    "prototypes of values": Case(
        "digits",
        {**OWN_VALUES, "algorithm": "sheaf_prototypes"},
        {"algorithm": "sheaf_dmfl"},
        (
            "algorithm 'sheaf_prototypes' works on classes, which task 'regression' does not have; use another, such as"
            " 'sheaf_dmfl'"
        ),
    ),
    "weights of classes that are values": Case(
        "digits",
        {**OWN_VALUES, "training.class_weights": "balanced"},
        {"training.class_weights": "none"},
        ("training.class_weights = 'balanced' weighs classes, which task 'regression' does not have; set it to 'none'"),
    ),
    "an encoder of tables for a sensor": Case(
        "beam_tracking",
        {"clients.groups": [{**GPS, "encoder": "identity"}]},
        {"clients.groups": [GPS]},
        (
            "clients.groups: 'gps' sets encoder = 'identity', which takes rows of a table or images, but owns 'gps',"
            " whose encoder is fixed; leave it out"
        ),
    ),
    "measured rows without a folder": Case(
        "beam_tracking",
        {"data.source": "deepsense"},
        {"data.root": "x"},
        "data.root is empty; give the folder with the DeepSense .npy files: --set data.root=DIR",
    ),
    "measured rows of no scenario": Case(
        "beam_tracking",
        {**DEEP, "data.scenarios": []},
        {"data.scenarios": [1, 5]},
        "data.scenarios is empty; name at least one, such as --set 'data.scenarios=[1,5,8]'",
    ),
    "measured rows twice": Case(
        "beam_tracking",
        {**DEEP, "data.scenarios": [1, 5, 1]},
        {"data.scenarios": [1, 5]},
        (
            "data.scenarios names 1 twice, so that one client would be tested on what another trains on;"
            " name each scenario once"
        ),
    ),
    "positions of rows that nobody gathered": Case(
        "beam_tracking",
        {**REC, "data.positions": "raw"},
        {"data.positions": "auto"},
        (
            "data.positions = 'raw' is of gathered rows, but data.source is 'recording'; choose positions when a folder"
            " is imported (sheafedge import deepsense --positions), and leave it out here"
        ),
    ),
    "labels of rows dealt anew": Case(
        "digits",
        {"data.shuffled_labels": True},
        {"data.shuffled_labels": False},
        (
            "data.shuffled_labels deals the labels of recorded windows anew, which data.source = 'rows' with data.mode"
            " = 'replay' does not have; leave it out"
        ),
    ),
    "trained weights where a server generates them": Case(
        "digits",
        {"algorithm": "pfedhn", "model.start_from": "runs/street"},
        {"model.start_from": ""},
        (
            "model.start_from gives clients trained weights, which algorithm 'pfedhn' replaces by generated ones; leave"
            " it out, or use another algorithm"
        ),
    ),
    "scaling of models to start from, and no such model": Case(
        "beam_tracking",
        {"model.start_scaling": "own"},
        {"model.start_scaling": "kept"},
        (
            "model.start_scaling = 'own' is of models that model.start_from names, which is empty; name a run, or leave"
            " it out"
        ),
    ),
    "what arrays face, of rows that nobody gathered": Case(
        "beam_tracking",
        {**REC, "data.headings_deg": [85.0]},
        {"data.headings_deg": []},
        (
            "data.headings_deg, data.codebook_order and data.strict are of gathered rows, but data.source is"
            " 'recording'; recordings state what their arrays face in the geometry, and an import is strict or not, so"
            " leave them out"
        ),
    ),
    "one bearing for three arrays": Case(
        "beam_tracking",
        {**DEEP, "data.headings_deg": [85.0], "data.position_axes": "array"},
        {"data.headings_deg": [82.0, 98.0, 85.0]},
        (
            "data.headings_deg must have a bearing for each of data.scenarios = (1, 5, 8), got (85.0,); --set"
            " 'data.headings_deg=[85]' is of an array that faces 85 degrees, nearly east"
        ),
    ),
    "bearings that turn nothing": Case(
        "beam_tracking",
        {**DEEP, "data.headings_deg": [82.0, 98.0, 85.0]},
        {"data.position_axes": "array"},
        (
            "data.headings_deg turns positions to what the arrays face, so data.position_axes must be 'array', got"
            " 'compass'"
        ),
    ),
    "positions along an array without a track": Case(
        "drone_beam",
        {"data.position_axes": "array"},
        {"data.position_axes": "compass"},
        (
            "data.position_axes = 'array' turns positions of task 'beam_tracking' only, got task 'beam_prediction';"
            " leave it out"
        ),
    ),
    "measured rows for another task": Case(
        "drone_beam",
        DEEP,
        REC,
        (
            "data.source = 'deepsense' holds rows for task 'beam_tracking' only, got task"
            " 'beam_prediction'; import the folder (sheafedge import deepsense) and set data.source ="
            " 'recording'"
        ),
    ),
    "measured rows and blockages of links": Case(
        "beam_tracking",
        {**DEEP, "link.blocked_loss_probability": 0.5},
        {"link.blocked_loss_probability": 0.0},
        (
            "link.blocked_loss_probability = 0.5 needs to know when links are blocked, which data.source"
            " = 'deepsense' does not say; use a world or a recording, or set it to 0"
        ),
    ),
    "measured rows and blockages of one link": Case(
        "beam_tracking",
        {**DEEP, "links.edges": [{"groups": ["rf", "rf"], "blocked_loss_probability": 0.25}]},
        {"links.edges": []},
        (
            "link.blocked_loss_probability = 0.25 needs to know when links are blocked, which data.source"
            " = 'deepsense' does not say; use a world or a recording, or set it to 0"
        ),
    ),
    "live on a recording": Case(
        "beam_tracking",
        {**LIVE, **REC},
        {"data.mode": "replay"},
        (
            "data.mode = 'live' senses a world, but data.source is 'recording'; set data.source ="
            " 'world', or data.mode = 'replay'"
        ),
    ),
    "live on a recording, without a world": Case(
        "beam_tracking",
        {**REC, "data.mode": "live", "data.split": "time", "world": None},
        {"data.mode": "replay"},
        (
            "data.mode = 'live' senses a world, but data.source is 'recording'; set data.source ="
            " 'world', or data.mode = 'replay'"
        ),
    ),
    "live on a share of the rows": Case(
        "beam_tracking",
        {**LIVE, "data.train_fraction": 0.5},
        {"data.train_fraction": 1.0},
        "data.mode = 'live' learns from all that it senses, so data.train_fraction must be 1, got 0.5",
    ),
    "live and scored on validation rows": Case(
        "beam_tracking",
        {**LIVE, "data.scored": "validation"},
        {"data.scored": "held_out"},
        (
            "data.mode = 'live' learns up to the held-out time, so data.scored must be 'held_out', got"
            " 'validation'; choose settings with data.mode = 'replay'"
        ),
    ),
    "live with drive-bys dealt out": Case(
        "beam_tracking",
        {**LIVE, "data.split": "sequence"},
        {"data.split": "time"},
        "data.mode = 'live' learns from the past, so data.split must be 'time', got 'sequence'",
    ),
    "live with too few base stations": Case(
        "beam_tracking",
        {**LIVE, "world.n_sites": 3},
        {"clients.n_clients": 3},
        (
            "data.mode = 'live' has every client sense a base station of its own, but world.n_sites = 3"
            " for clients.n_clients = 20; make both equal"
        ),
    ),
    "a window of a task that looks at one instant": Case(
        "drone_beam",
        {"data.window": 4},
        {"data.window": 1},
        (
            "data.window must be 1 for task 'beam_prediction', which looks at one instant, got 4; task"
            " 'beam_tracking' looks back"
        ),
    ),
    "an order of beams where there are none": Case(
        "blockage",
        {"data.beam_order": "mirrored"},
        {"data.beam_order": "same"},
        ("data.beam_order must be 'same' for task 'blockage', whose labels are not beams, got 'mirrored'"),
    ),
    "readings that were not recorded": Case(
        "outage_forecast",
        {"world.link_rate_hz": 30},
        {"world.link_rate_hz": 50},
        'the sensor "signal" reads the recorded power of the user every 20 ms, and world.link_rate_hz = 30 does not'
        " have it then; set it to 100",
    ),
    "outage of a power that is not recorded": Case(
        "outage_forecast",
        {"world.link_rate_hz": 0, "clients.groups": [{"name": "all", "modalities": ["lidar"], "share": 1.0}]},
        {"world.link_rate_hz": 100},
        "task 'outage_forecast' is about the recorded power of the user, and world.link_rate_hz = 0 records none; set"
        " it to 100",
    ),
    "another outage than that of the user": Case(
        "outage_forecast",
        {"decision.neighbor_below_db": 3},
        {"decision.evaluate": False},
        "data.fades_db = [14.33, 8.33] is not what decision.clear_snr_db, decision.neighbor_below_db and decision.link"
        " call outage; set it to [14.33, 11.33], or set decision.evaluate = false",
    ),
    "biases of outputs that are no probabilities of their own": Case(
        "blockage",
        {"training.fitted_biases": True},
        {"training.fitted_biases": False},
        "training.fitted_biases = true fits outputs that are yes or no each, and those of task 'blockage' are not; set"
        " it to false",
    ),
    "biases of a model that others have as well": Case(
        "outage_forecast",
        {"training.fitted_biases": True, "algorithm": "centralized"},
        {"training.fitted_biases": True, "algorithm": "head_averaging"},
        "training.fitted_biases = true shifts models that a client has for itself, and answers of algorithm"
        " 'centralized' come from others as well; set it to false, or use an algorithm such as 'head_averaging'",
    ),
    "biases of clients that sleep": Case(
        "outage_forecast",
        {"training.fitted_biases": True, "clients.sampled": 5, "algorithm": "dpsgd"},
        {"training.fitted_biases": True, "clients.sampled": 0, "algorithm": "dpsgd"},
        "training.fitted_biases = true needs all models at the end, and with clients.sampled = 5 most are put away; set"
        " it to false",
    ),
    "a usual power that is not known yet": Case(
        "outage_forecast",
        {"data.mode": "live"},
        {"data.mode": "replay"},
        "data.mode = 'live' does not know the usual power of the user yet, which labels of task 'outage_forecast'"
        " compare with; set data.mode = 'replay'",
    ),
    "a sensor that the task cannot use": Case(
        "beam_tracking",
        {"clients.groups": [{**RF, "modalities": ["rf", "lidar"]}]},
        {"clients.groups": [RF]},
        ("clients.groups: 'rf' has 'lidar', which task 'beam_tracking' cannot use; choose among rf, gps"),
    ),
    "a horizon of a task that looks at now": Case(
        "beam_tracking",
        {"clients.groups": [{**RF, "horizon": 3}]},
        {"clients.groups": [{**RF, "n_beams": 8}]},
        (
            "clients.groups: 'rf' sets horizon = 3, which task 'beam_tracking' does not ask about; its"
            " groups may set n_beams"
        ),
    ),
    "sweeps of two sizes": Case(
        "beam_tracking",
        {"clients.groups": [HALF_RF, {**HALF_BOTH, "n_beams": 32}]},
        {"clients.groups": [HALF_RF, HALF_BOTH]},
        (
            "clients.groups: 'rf' has n_beams = 64 and 'both' has n_beams = 32, but both encode sweeps of"
            " all their beams ('rf'), and encoders of one modality must have one size; give both the same"
            " n_beams"
        ),
    ),
    "a sensor that is not recorded": Case(
        "beam_tracking",
        {"world.sensors": ["rf"]},
        {"world.sensors": ["rf", "gps"]},
        (
            "task 'beam_tracking' and its clients need 'gps', which this world does not record (rf); set"
            " world.sensors, or change clients.groups"
        ),
    ),
    "a network for single images": Case(
        "beam_tracking",
        {"model.camera_encoder": "resnet50", "model.weights": "resnet50.pth"},
        {"model.camera_encoder": "small"},
        (
            "model.camera_encoder = 'resnet50' takes single images, which task 'beam_tracking' does not"
            " have; set it to 'small'"
        ),
    ),
    "other images without a camera": Case(
        "beam_tracking",
        {"data.images": "views"},
        {"data.images": "plain"},
        (
            "data.images = 'views' changes what cameras see, but no group of clients.groups has a camera;"
            " set it to 'plain'"
        ),
    ),
    "a clock that drifts while it senses": Case(
        "blockage",
        {**LIVE, **fault("clock_drift", nodes=[0], modality="lidar", ppm=100)},
        {"faults": []},
        (
            "faults: 'clock_drift' shifts recorded frames by their time stamps, which data.mode = 'live'"
            " does not allow; replay a world or a recording, or leave it out"
        ),
    ),
    "a clock of gathered rows": Case(
        "beam_tracking",
        {**DEEP, "clients.groups": [GPS], **fault("clock_drift", nodes=[0], modality="gps", ppm=100)},
        {"faults": []},
        (
            "faults: 'clock_drift' shifts recorded frames by their time stamps, which data.source ="
            " 'deepsense' does not allow; replay a world or a recording, or leave it out"
        ),
    ),
    "a clock of a sensor that is not there": Case(
        "beam_tracking",
        {"clients.groups": [RF], **fault("clock_drift", nodes=[0], modality="gps", ppm=100)},
        {"clients.groups": [GPS]},
        "faults: 'clock_drift' names modality 'gps' of client 0, which has rf; choose one of these",
    ),
    "a clock of a client that is not there": Case(
        "beam_tracking",
        {"clients.groups": [GPS], **fault("clock_drift", nodes=[20], modality="gps", ppm=100)},
        {"clients.n_clients": 21},
        "faults: 'clock_drift' names client 20, but the clients are 0 to 19; change it, or clients.n_clients",
    ),
    "a clock of the sweeps that give the labels": Case(
        "beam_tracking",
        {"clients.groups": [RF], **fault("clock_drift", nodes=[0], modality="rf", ppm=100)},
        {"faults": []},
        (
            "faults: 'clock_drift' of 'rf' has nothing to shift in task 'beam_tracking', whose answers"
            " come from the same sweeps as its inputs; choose another modality, or leave it out"
        ),
    ),
    # --- learning ---
    "one model at two paces": Case(
        "blockage",
        {"algorithm": "centralized", **ASYNC},
        {"network.mode": "synchronous"},
        (
            "algorithm 'centralized' trains one model for all clients, which cannot go at a pace of their"
            " own; set network.mode = 'synchronous'"
        ),
    ),
    "one model and a client that is off": Case(
        "blockage",
        {"algorithm": "centralized", **fault("node_off", nodes=[3], for_s=1.0)},
        {"faults": []},
        (
            "algorithm 'centralized' trains one model for all clients, which cannot be off; leave"
            " 'node_off' out of faults"
        ),
    ),
    "waiting without rounds": Case(
        "blockage",
        {**ASYNC, **WAIT},
        {"network.missing": "stale"},
        (
            "network.missing = 'wait' does not go with network.mode = 'asynchronous', which has no"
            " barrier; use 'skip' or 'stale'"
        ),
    ),
    "one exchange without rounds": Case(
        "blockage",
        {**ASYNC, "sheaf.exchange": "single"},
        {"sheaf.exchange": "double"},
        (
            "sheaf.exchange = 'single' does not go with network.mode = 'asynchronous', where the ends of"
            " an edge do not see the same residual; use 'double'"
        ),
    ),
    "other coordinates without rounds": Case(
        "blockage",
        {**ASYNC, "sheaf.rotate_index": True, "sheaf.map_step_size": 0.0},
        {"sheaf.rotate_index": False},
        (
            "sheaf.rotate_index = true does not go with network.mode = 'asynchronous', where neighbors"
            " are in other rounds and compare other coordinates; set it to false"
        ),
    ),
    "moving without rounds": Case(
        "blockage",
        {**ASYNC, "topology.kind": "mobile", "sheaf.coupling": 0.01},
        {"network.mode": "synchronous"},
        (
            "topology.kind = 'mobile' does not go with network.mode = 'asynchronous', where rounds"
            " have no common start at which neighbors are determined; choose another"
        ),
    ),
    "one exchange over links that lose": Case(
        "blockage",
        {"sheaf.exchange": "single"},
        WAIT,
        (
            "sheaf.exchange = 'single' needs network.missing = 'wait', got 'skip': both ends of an edge"
            " must see the same residual"
        ),
    ),
    "old projections of other coordinates": Case(
        "blockage",
        {"sheaf.rotate_index": True, "sheaf.map_step_size": 0.0, "network.missing": "stale"},
        {"network.missing": "skip"},
        (
            "sheaf.rotate_index compares other coordinates in every round, so network.missing = 'stale'"
            " would take a projection for what it is not; use 'skip' or 'wait'"
        ),
    ),
    "gaps filled with other coordinates": Case(
        "blockage",
        {"sharing.codec": "top_k", "network.missing": "stale"},
        {"network.missing": "skip"},
        (
            "sharing.codec = 'top_k' names other coordinates in every message, so network.missing ="
            " 'stale' cannot fill the gaps of one with another; use 'skip' or 'wait'"
        ),
    ),
    "an end of averages where there is more than averages": Case(
        "beam_tracking",
        {"algorithm": "sheaf_dmfl_att", "sharing.until": 3},
        {"algorithm": "head_averaging"},
        (
            "sharing.until = 3 ends the averaging among neighbors, but algorithm 'sheaf_dmfl_att' exchanges otherwise,"
            " too; set it to 0, or use an algorithm such as 'head_averaging'"
        ),
    ),
    "no rounds left to train on alone": Case(
        "beam_tracking",
        {"algorithm": "head_averaging", "rounds": 5, "sharing.until": 5},
        {"sharing.until": 4},
        "sharing.until = 5 leaves none of 5 rounds to train on alone; lower it, or set it to 0",
    ),
    "a personal encoder that no group has": Case(
        "beam_tracking",
        {"training.personal_encoders": ["gps", "lidar"]},
        {"training.personal_encoders": ["gps"]},
        ("training.personal_encoders names 'lidar', which no group of clients.groups owns; choose among rf, gps"),
    ),
    "half of an odd embedding": Case(
        "blockage",
        {"algorithm": "dmml_kd", "model.embedding_dim": 33},
        {"model.embedding_dim": 32},
        "model.embedding_dim must be even for algorithm 'dmml_kd', which halves it, got 33",
    ),
    "averages along random maps": Case(
        "blockage",
        {"algorithm": "sheaf_diffusion", "sheaf.map_start": "random"},
        {"sheaf.map_start": "structured"},
        (
            "algorithm 'sheaf_diffusion' averages along its maps, which sheaf.map_start = 'random' makes"
            " longer than 1, so that heads can diverge; use 'structured' or 'aligned'"
        ),
    ),
    # --- orders of beams that nobody tells ---
    "an order of beams where nobody asks for beams": Case(
        "blockage",
        {"algorithm": "sheaf_diffusion", "sheaf.map_start": "learned"},
        {"sheaf.map_start": "structured"},
        (
            "sheaf.map_start = 'learned' orders a codebook's beams, which task 'blockage' does not ask for; use"
            " 'structured'"
        ),
    ),
    "an order of beams without its messages": Case(
        "drone_beam",
        {"sheaf.map_start": "learned", "data.beam_order": "permuted"},
        {"algorithm": "sheaf_diffusion"},
        (
            "sheaf.map_start = 'learned' takes messages that algorithm 'sheaf_dmfl_att' does not send; use 'aligned',"
            " or algorithm = 'sheaf_diffusion'"
        ),
    ),
    "an order of beams that is told": Case(
        "drone_beam",
        {"algorithm": "sheaf_diffusion", "sheaf.map_start": "learned"},
        {"data.beam_order": "rotated"},
        (
            "sheaf.map_start = 'learned' finds out what data.beam_order = 'same' tells, that all number their beams"
            " alike, and finds it with errors; use 'structured'"
        ),
    ),
    "an order of beams before any sweep": Case(
        "drone_beam",
        {**LEARNED, "data.mode": "live", "data.split": "time"},
        {"data.mode": "replay"},
        (
            "sheaf.map_start = 'learned' does not go with data.mode = 'live', which has few sweeps before the first"
            " round; set it to 'replay'"
        ),
    ),
    "an order of beams from sweeps alone": Case(
        "beam_tracking",
        {**LEARNED, "clients.groups": [RF]},
        {"clients.groups": [HALF_RF, HALF_BOTH]},
        (
            "sheaf.map_start = 'learned' needs clients that can tell the ends of a codebook apart, and sweeps alone do"
            " not; add 'gps' or 'camera' to a group of clients.groups"
        ),
    ),
    "an order of beams and a part of each head": Case(
        "drone_beam",
        {**LEARNED, "sheaf.compression": 0.5},
        {"sheaf.compression": 1.0},
        (
            "sheaf.map_start = 'learned' does not go with sheaf.compression = 0.5, which leaves out what is asked of"
            " neighbors after listening; set it to 1"
        ),
    ),
    "an order of beams and embeddings side by side": Case(
        "drone_beam",
        {**LEARNED, "model.fusion": "concat"},
        {"model.fusion": "mean"},
        (
            "sheaf.map_start = 'learned' does not go with model.fusion = 'concat', which gives heads other columns; set"
            " it to 'attention' or 'mean'"
        ),
    ),
    "an order of beams and the largest changes": Case(
        "drone_beam",
        {**LEARNED, "sharing.codec": "top_k"},
        {"sharing.codec": "int8"},
        (
            "sheaf.map_start = 'learned' does not go with sharing.codec = 'top_k', which leaves out what is asked of"
            " neighbors after listening; set it to another"
        ),
    ),
    "an order of beams and an exchange now and then": Case(
        "drone_beam",
        {**LEARNED, "sharing.every": 2},
        {"sharing.every": 1},
        (
            "sheaf.map_start = 'learned' does not go with sharing.every = 2, which leaves out what is asked of"
            " neighbors after listening; set it to 1"
        ),
    ),
    "an order of beams out of step": Case(
        "drone_beam",
        {**LEARNED, **ASYNC},
        {"network.mode": "synchronous"},
        (
            "sheaf.map_start = 'learned' does not go with network.mode = 'asynchronous', where nodes never vote; set it"
            " to 'synchronous'"
        ),
    ),
    "an order of beams among nodes that move": Case(
        "drone_beam",
        {**LEARNED, "topology.kind": "mobile"},
        {"topology.kind": "complete"},
        (
            "sheaf.map_start = 'learned' does not go with topology.kind = 'mobile', where neighbors change after they"
            " have voted; set it to another"
        ),
    ),
    "an order of beams with absent voters": Case(
        "drone_beam",
        {**LEARNED, "clients.sampled": 5},
        {"clients.sampled": 0},
        (
            "sheaf.map_start = 'learned' does not go with clients.sampled = 5, because all vote in the first round; set"
            " it to 0"
        ),
    ),
    "an order of beams for models that have one": Case(
        "drone_beam",
        {**LEARNED, "model.start_from": "a-run"},
        {"model.start_from": ""},
        (
            "sheaf.map_start = 'learned' does not go with model.start_from = 'a-run', a model of another order of"
            " beams; set it to ''"
        ),
    ),
    "nobody with the same sensors": Case(
        "blockage",
        {
            "sheaf.edges": "same_sensors",
            "clients.n_clients": 3,
            "clients.groups": ONE_EACH,
            "topology.kind": "complete",
        },
        {"sheaf.edges": "all"},
        (
            "sheaf.edges = 'same_sensors' leaves algorithm 'sheaf_dmfl_att' nothing to compare, as no two neighbors own"
            " the same sensors; set it to 'all', or give more clients to a group of clients.groups"
        ),
    ),
    "maps that learn and are redrawn": Case(
        "blockage",
        {"sheaf.rotate_index": True},
        {"sheaf.map_step_size": 0.0},
        (
            "sheaf.rotate_index draws maps anew every round, and what is redrawn cannot learn with"
            " sheaf.map_step_size = 0.001; set it to 0"
        ),
    ),
    "groups linked while they move": Case(
        "blockage",
        {"algorithm": "group_averaging", "topology.kind": "mobile"},
        {"topology.kind": "complete"},
        (
            "algorithm 'group_averaging' links all members of a group, which topology.kind = 'mobile'"
            " cannot promise; use another of either"
        ),
    ),
    "maps for all pairs of many clients": Case(
        "blockage",
        {"topology.kind": "mobile", "clients.n_clients": 33, "sheaf.coupling": 0.01},
        {"clients.n_clients": 32},
        (
            "algorithm 'sheaf_dmfl_att' has a map for every edge that topology.kind = 'mobile' can ever"
            " make, 32 per client; set clients.n_clients to at most 32, or use an algorithm without maps"
        ),
    ),
    # --- network ---
    "edges from no file": Case(
        "blockage",
        {"topology.kind": "edge_list"},
        {"topology.edge_list": "edges.txt"},
        "topology.edge_list is empty; give a file with one edge 'i j' per line",
    ),
    "a graph in pieces": Case(
        "blockage",
        {"topology.edge_probability": 0.0},
        {"topology.edge_probability": 0.3},
        (
            "modality 'lidar': clients {0} cannot reach {1}, {2}, ... (14 pieces) over clients that own"
            " it; 100 draws did not connect them, so raise topology.edge_probability, or change"
            " topology.kind"
        ),
    ),
    "a graph of odd degrees": Case(
        "blockage",
        {"topology.kind": "regular", "clients.n_clients": 9, "topology.degree": 3},
        {"topology.degree": 8},
        "topology.degree must lie in [1, 8] and degree times the 9 clients must be even, got 3",
    ),
    "an edge of a client that is not there": Case(
        "blockage",
        {"links.edges": [{"clients": [1, 999]}]},
        {"links.edges": []},
        "links.edges.0: there is no client 999; give ids from 0 to 19",
    ),
    "an edge from a client that is not there": Case(
        "blockage",
        {"links.edges": [{"clients": [999, 1]}]},
        {"links.edges": []},
        "links.edges.0: there is no client 999; give ids from 0 to 19",
    ),
    "an edge of a group that is not there": Case(
        "blockage",
        {"links.edges": [{"groups": ["lidar+rf", "sonar"]}]},
        {"links.edges": [{"groups": ["lidar+rf", "camera+rf"]}]},
        "links.edges.0: there is no group 'sonar'; choose among lidar+camera, lidar+rf, camera+rf",
    ),
    "bursts too short for the loss": Case(
        "blockage",
        {"links.model": "gilbert_elliott", "link.loss_probability": 0.9, "link.mean_burst_packets": 2},
        {"link.mean_burst_packets": 9.01},
        (
            "link.mean_burst_packets = 2 is too short for link.loss_probability = 0.9; bursts must last"
            " at least 9 packets"
        ),
    ),
    "an impossible rate of some edges": Case(
        "blockage",
        {"links.edges": [{"groups": ["lidar+rf", "lidar+rf"], "rate_bps": 0}]},
        {"links.edges": []},
        "links.edges.0: link.rate_bps must be above 0, got 0.0; 1e9 is one gigabit per second",
    ),
    "a trace without files": Case(
        "blockage",
        {"links.model": "trace"},
        {"links.trace.files": ["trace"]},
        "links.trace.files is empty; name the files to replay: --set 'links.trace.files=[\"FILE\"]'",
    ),
    "a trace stretched over nobody knows how long": Case(
        "beam_tracking",
        {"links.model": "trace", "links.trace.files": ["trace"], "links.trace.at_end": "stretch"},
        LIVE,
        (
            "links.trace.at_end = 'stretch' needs to know for how long; set links.trace.stretch_to_s to"
            " simulated seconds, such as the virtual time that an earlier run took"
        ),
    ),
    "waiting for a vehicle out of range": Case(
        "blockage",
        {**WAIT, "links.model": "sidelink", "links.sidelink.distance_m": 2000, "links.sidelink.range_m": 500},
        {"network.missing": "skip"},
        (
            "network.missing = 'wait' never ends with links.sidelink.distance_m = 2000 beyond range_m = 500;"
            " use 'skip', or a smaller distance"
        ),
    ),
    "waiting behind a queue": Case(
        "blockage",
        {**WAIT, "links.queue_bytes": 1000},
        {"links.queue_bytes": 0},
        (
            "network.missing = 'wait' never ends for a message that a queue of links.queue_bytes = 1000"
            " refuses; set it to 0, or use 'skip'"
        ),
    ),
    "waiting where everything is lost": Case(
        "blockage",
        {**WAIT, "link.loss_probability": 1.0},
        {"link.loss_probability": 0.9},
        ("network.missing = 'wait' never ends with link.loss_probability = 1; use 'skip' or lower the loss"),
    ),
    "waiting where one edge loses everything": Case(
        "blockage",
        {**WAIT, "links.edges": [{"groups": ["lidar+rf", "lidar+rf"], "loss_probability": 1.0}]},
        {"links.edges": []},
        (
            "links.edges.0: network.missing = 'wait' never ends with link.loss_probability = 1; use"
            " 'skip' or lower the loss"
        ),
    ),
    "waiting behind a blocker": Case(
        "blockage",
        {**WAIT, "link.blocked_loss_probability": 1.0},
        {"link.blocked_loss_probability": 0.9},
        (
            "network.missing = 'wait' never ends for a message that meets link.blocked_loss_probability ="
            " 1; use 'skip' or lower it"
        ),
    ),
    "waiting for messages that a fault loses": Case(
        "blockage",
        {**WAIT, **fault("corrupted", share=0.1)},
        {"network.missing": "skip"},
        (
            "faults: 'corrupted' loses messages for which network.missing = 'wait' would wait without"
            " end; set it to 'skip' or 'stale'"
        ),
    ),
    "a fault of a client that is not there": Case(
        "blockage",
        fault("node_off", nodes=[20], for_s=1.0),
        {"faults": []},
        ("faults: 'node_off' names client 20, but the clients are 0 to 19; change it, or clients.n_clients"),
    ),
    "a fault of an edge to a client that is not there": Case(
        "blockage",
        fault("link_down", edges=[[1, 20]], for_s=1.0),
        {"faults": []},
        ("faults: 'link_down' names client 20, but the clients are 0 to 19; change it, or clients.n_clients"),
    ),
    "a fault of an edge from a client that is not there": Case(
        "blockage",
        fault("link_down", edges=[[20, 1]], for_s=1.0),
        {"faults": []},
        ("faults: 'link_down' names client 20, but the clients are 0 to 19; change it, or clients.n_clients"),
    ),
    "off for good without rounds": Case(
        "blockage",
        {**ASYNC, **fault("node_off", nodes=[3])},
        fault("node_off", nodes=[3], for_s=1.0),
        (
            "faults: client 3 is off for good, and in network.mode = 'asynchronous' it would never finish"
            " its rounds; give the fault for_s"
        ),
    ),
    "all off for good": Case(
        "blockage",
        {"clients.n_clients": 2, "topology.kind": "complete", **fault("node_off", nodes=[0, 1])},
        fault("node_off", nodes=[1]),
        "faults: in the end all clients are off for good, and no round ever ends; give one for_s",
    ),
    "an unknown device": Case(
        "blockage",
        {"compute.profile": "toaster"},
        {"compute.profile": "edge_cpu"},
        (
            "unknown compute.profile 'toaster'; choose one of: edge_cpu, edge_gpu, intel_n100,"
            " jetson_orin_nano, orange_pi_5, raspberry_pi_4, raspberry_pi_5, server_cpu"
        ),
    ),
    "an unknown device of a group": Case(
        "beam_tracking",
        {"clients.groups": [{**RF, "profile": "toaster"}]},
        {"clients.groups": [RF]},
        (
            "unknown clients.groups: profile 'toaster'; choose one of: edge_cpu, edge_gpu, intel_n100,"
            " jetson_orin_nano, orange_pi_5, raspberry_pi_4, raspberry_pi_5, server_cpu"
        ),
    ),
    "weight decay of what is not one vector": Case(
        "beam_tracking",
        {"algorithm": "local", "training.weight_decay": 0.1},
        {"algorithm": "sheaf_fmtl"},
        (
            "training.weight_decay is of algorithms that step a whole model as one vector (sheaf_fmtl, dfedu), and"
            " algorithm 'local' is none of them; set it to 0, give a number with training.optimizer = 'adam', or use"
            " sheaf_fmtl with sheaf.coupling = 0"
        ),
    ),
    "one optimizer of a whole model where heads pull": Case(
        "beam_tracking",
        {"algorithm": "sheaf_dmfl", "training.optimizer": "adam"},
        {"algorithm": "dpsgd"},
        (
            "training.optimizer = 'adam' steps a client's whole model by its own gradient, but algorithm 'sheaf_dmfl'"
            " has steps of its own; set it to 'parts', or use an algorithm such as 'local', 'dpsgd' or 'fedavg'"
        ),
    ),
    "sensors hidden from a model of one": Case(
        "beam_tracking",
        {"training.hide_sensors": 0.3, "clients.groups": [{"name": "rf", "modalities": ["rf"], "share": 1.0}]},
        {"training.hide_sensors": 0.0},
        (
            "training.hide_sensors hides one of several sensors, but no group in clients.groups has more than one; set"
            " it to 0"
        ),
    ),
    "sensors hidden where a minibatch is taken several times": Case(
        "beam_tracking",
        {"algorithm": "tdpfed", "training.hide_sensors": 0.3},
        {"training.hide_sensors": 0.0},
        (
            "training.hide_sensors does not go with algorithm 'tdpfed', which takes several steps on one minibatch or"
            " has a model per sensor; set it to 0 or take another algorithm"
        ),
    ),
    "one model for all graphs": Case(
        "cora",
        {"algorithm": "centralized", "training.optimizer": "parts", "training.weight_decay": 0.0},
        {"algorithm": "fedavg"},
        (
            "algorithm 'centralized' trains one model for all clients, but a model of a graph knows the graph of one;"
            " use another, such as 'fedavg'"
        ),
    ),
    "a model of a graph as a file": Case(
        "cora",
        {"algorithm": "averaged_and_tuned", "training.optimizer": "parts", "training.weight_decay": 0.0},
        {"export.onnx": False},
        (
            "export.onnx = true exports one model of a graph per client, but algorithm 'averaged_and_tuned' answers"
            " with the mean of two; set it to false"
        ),
    ),
    "an encoder of tables for nodes": Case(
        "cora",
        {"clients.groups": [{"name": "parts", "modalities": ["graph"], "encoder": "mlp", "share": 1.0}]},
        {"clients.groups": [{"name": "parts", "modalities": ["graph"], "share": 1.0}]},
        (
            "clients.groups: 'parts' sets encoder = 'mlp', but nodes of a graph, and only they, are taken by 'gcn';"
            " leave it out"
        ),
    ),
    "weight decay in place of maps that mean more": Case(
        "beam_tracking",
        {"algorithm": "sheaf_fmtl", "training.weight_decay": "as_sheaf"},
        {"sheaf.map_start": "hadamard"},
        (
            "training.weight_decay = 'as_sheaf' stands for coupling through maps whose entries all mean as much, which"
            " algorithm 'sheaf_fmtl' with sheaf.map_start = 'structured' does not have; use sheaf_fmtl with 'random',"
            " 'uniform', 'orthonormal' or 'hadamard', or give a number"
        ),
    ),
    "a pull that overshoots": Case(
        "beam_tracking",
        {"algorithm": "ditto", "personalization.attraction": 30.0, "training.head_step_size": 0.1},
        {"personalization.attraction": 3.0},
        (
            "personalization.attraction 30 * training.head_step_size 0.1 = 3, and from 2 on a pulled model diverges;"
            " lower one of them"
        ),
    ),
    "a server beyond the mean of its clients": Case(
        "beam_tracking",
        {"algorithm": "pfedme", "personalization.server_mixing": 1.5},
        {"algorithm": "tdpfed"},
        (
            "personalization.server_mixing must lie in (0, 1] with algorithm 'pfedme', got 1.5; beyond the mean of its"
            " clients goes only the server of 'tdpfed'"
        ),
    ),
    "a pull that overshoots with momentum": Case(
        "beam_tracking",
        {"algorithm": "tdpfed", "personalization.attraction": 14.0, "personalization.personal_step_size": 0.1},
        {"personalization.attraction": 13.0},
        (
            "personalization.attraction 14 * personalization.personal_step_size 0.1 = 1.4, and from 1.36 on a personal"
            " model with Nesterov's momentum diverges; lower one of them"
        ),
    ),
    "theory of clients with two models each": Case(
        "beam_tracking",
        {"algorithm": "ditto", "export.theory": True},
        {"export.theory": False},
        (
            "export.theory looks at all clients between two rounds, but algorithm 'ditto' has a server, or not one"
            " model per client; set it to false"
        ),
    ),
    "theory of clients that are never between two rounds": Case(
        "beam_tracking",
        {"network.mode": "asynchronous", "export.theory": True},
        {"network.mode": "synchronous"},
        (
            "export.theory looks at all clients between two rounds, but network.mode = 'asynchronous' has no such"
            " instant; set it to false"
        ),
    ),
    "theory of clients that change": Case(
        "beam_tracking",
        {"algorithm": "head_averaging", "clients.sampled": 3, "export.theory": True},
        {"clients.sampled": 0},
        (
            "export.theory looks at all clients between two rounds, but clients.sampled, topology.kind = 'mobile' or"
            " data.mode = 'live' change who or what there is; set it to false"
        ),
    ),
    "a model that nobody holds": Case(
        "beam_tracking",
        {"algorithm": "ditto", "export.model": "compressed local"},
        {"algorithm": "tdpfed"},
        (
            "export.model = 'compressed local' is made of factors, which algorithm 'ditto' does not have; set it to"
            " 'personal', or use algorithm = 'tdpfed'"
        ),
    ),
    "tensors without a server": Case(
        "beam_tracking",
        {"algorithm": "tdpfed_decentralized", "factors.aggregation": "tensors"},
        {"algorithm": "tdpfed"},
        (
            "factors.aggregation = 'tensors' is what a server does, which algorithm 'tdpfed_decentralized' does not"
            " have; use 'factors', or algorithm = 'tdpfed'"
        ),
    ),
    "tensors of some coordinates": Case(
        "beam_tracking",
        {"algorithm": "tdpfed", "factors.aggregation": "tensors", "sharing.codec": "top_k"},
        {"factors.aggregation": "factors"},
        (
            "sharing.codec = 'top_k' never sends all factors of a weight, which factors.aggregation = 'tensors' needs;"
            " use another codec, or 'factors'"
        ),
    ),
    "a whole model without its encoders": Case(
        "beam_tracking",
        {"algorithm": "sheaf_fmtl", "training.personal_encoders": ["gps"]},
        {"training.personal_encoders": []},
        (
            "training.personal_encoders does not go with algorithm 'sheaf_fmtl', which couples all of a model; leave"
            " it out, or use 'sheaf_dmfl'"
        ),
    ),
    "a whole model as a head": Case(
        "beam_tracking",
        {"algorithm": "sheaf_fmtl", "sheaf.map_storage": "kronecker"},
        {"sheaf.map_storage": "factored"},
        (
            "sheaf.map_storage = 'kronecker' has one small matrix for all outputs of a head, which algorithm"
            " 'sheaf_fmtl' with its whole models does not have; use 'factored'"
        ),
    ),
    # --- servers that generate models ---
    "too many clients to compare": Case(
        "digits",
        {"algorithm": "pfedhn", "clients.n_clients": 20_000},
        {"algorithm": "fedper"},
        (
            "algorithm 'pfedhn' has a server that compares all clients with all; set clients.n_clients to at most"
            " 10,000, got 20,000, or use 'fedper'"
        ),
    ),
    "a change that counts twice": Case(
        "digits",
        {"algorithm": "pfedhn", "network.missing": "stale"},
        {"network.missing": "wait"},
        (
            "algorithm 'pfedhn' learns from what local steps have changed, which network.missing = 'stale' would use"
            " twice; set it to 'skip' or 'wait'"
        ),
    ),
    "changes of changes": Case(
        "digits",
        {"algorithm": "fedsheafhn", "sharing.codec": "top_k"},
        {"sharing.codec": "int8"},
        (
            "algorithm 'fedsheafhn' sends what local steps have changed, and sharing.codec = 'top_k' sends values, the"
            " largest changes of them; set it to 'int8', 'float16' or 'float32'"
        ),
    ),
    "late clients without an embedding": Case(
        "digits",
        {"algorithm": "pfedhn", "hyper.late_clients": 2},
        {"algorithm": "fedsheafhn"},
        (
            "algorithm 'pfedhn' knows clients by their numbers, of which late ones would have none that the server has"
            " learned; set hyper.late_clients to 0, or use 'fedsheafhn'"
        ),
    ),
    "nobody but late clients": Case(
        "digits",
        {"algorithm": "fedsheafhn", "hyper.late_clients": 10},
        {"hyper.late_clients": 9},
        "hyper.late_clients must leave the server clients to learn from, got 10 of 10; lower it",
    ),
    "late clients that are drawn": Case(
        "digits",
        {"algorithm": "fedsheafhn", "hyper.late_clients": 2, "clients.sampled": 4},
        {"clients.sampled": 0},
        (
            "clients.sampled = 4 does not go with hyper.late_clients, which join in a round of their own and stay; set"
            " one of them to 0"
        ),
    ),
    "late clients after the end": Case(
        "digits",
        {"algorithm": "fedsheafhn", "hyper.late_clients": 2, "hyper.join_round": 59},
        {"hyper.join_round": 58},
        (
            "hyper.join_round = 59 leaves late clients no round with the model that they receive; lower it, or set"
            " rounds to at least 61, got 60"
        ),
    ),
    # --- neighbors ---
    "classes that neighbors do not have": Case(
        "drone_beam",
        {
            "algorithm": "dmml_kd",
            "clients.groups": [HALF_GPS, {"name": "few", "modalities": ["gps"], "share": 0.5, "n_beams": 8}],
        },
        {"algorithm": "sheaf_dmfl"},
        (
            "algorithm 'dmml_kd' averages values per class with neighbors, but client 0 has 8 outputs and"
            " client 1 has 64; give all of clients.groups as many outputs, or use 'sheaf_dmfl'"
        ),
    ),
    "outputs that neighbors do not have": Case(
        "drone_beam",
        {
            "algorithm": "head_averaging",
            "model.fusion": "concat",
            "clients.groups": [
                {**HALF_GPS, "n_beams": 8},
                {**HALF_GPS, "name": "both", "modalities": ["camera", "gps"]},
            ],
        },
        {"algorithm": "sheaf_dmfl"},
        (
            "algorithm 'head_averaging' averages values per class with neighbors, but client 0 has 64 outputs and"
            " client 1 has 8; give all of clients.groups as many outputs, or use 'sheaf_dmfl'"
        ),
    ),
    "heads that read other things": Case(
        "beam_tracking",
        {"algorithm": "head_averaging", "model.fusion": "concat"},
        {"model.fusion": "mean"},
        (
            "algorithm 'head_averaging' averages heads or what they read, but those of neighbors 0 and 1"
            " have 8256 and 4160 numbers that mean different things; set model.fusion to 'attention' or"
            " 'mean', or use 'sheaf_dmfl'"
        ),
    ),
    "columns of other heights": Case(
        "drone_beam",
        {
            "sheaf.map_storage": "kronecker",
            "clients.groups": [HALF_GPS, {"name": "few", "modalities": ["gps"], "share": 0.5, "n_beams": 8}],
        },
        {"sheaf.map_storage": "factored"},
        (
            "sheaf.map_storage = 'kronecker' compares whole columns of heads, but neighbors 0 and 1 have"
            " 8 and 64 outputs; use 'factored', or give all groups as many outputs"
        ),
    ),
    "a coupling that makes heads diverge": Case(
        "blockage",
        {"topology.kind": "complete", "sheaf.coupling": 2.0},
        {"sheaf.coupling": 0.01},
        (
            "training.head_step_size 0.1 * sheaf.coupling 2 * 19 (squared norm of the maps of 19 edges) ="
            " 3.8, and from 2 on heads diverge; lower sheaf.coupling or training.head_step_size"
        ),
    ),
    "a coupling along random maps that are longer than 1": Case(
        "blockage",
        {
            "clients.n_clients": 11,
            "topology.kind": "complete",
            "sheaf.map_start": "random",
            "sheaf.compression": 0.25,
            "sheaf.coupling": 3.1,
        },
        {"sheaf.compression": 0.1},
        (
            "training.head_step_size 0.1 * sheaf.coupling 3.1 * 6.7 (squared norm of the maps of 10 edges) = 2.1,"
            " and from 2 on heads diverge; lower sheaf.coupling or training.head_step_size"
        ),
    ),
    "a coupling at the limit itself": Case(
        "blockage",
        {"clients.n_clients": 21, "topology.kind": "complete", "sheaf.coupling": 1.0},
        {"sheaf.coupling": 0.99},
        (
            "training.head_step_size 0.1 * sheaf.coupling 1 * 20 (squared norm of the maps of 20 edges) = 2,"
            " and from 2 on heads diverge; lower sheaf.coupling or training.head_step_size"
        ),
    ),
    "an exception for clients that are no neighbors": Case(
        "blockage",
        {"topology.kind": "ring", "links.edges": [{"clients": [0, 1]}]},
        {"topology.kind": "complete", "sheaf.coupling": 0.01},
        "links.edges.0: clients 0 and 1 are no neighbors; 0 has edges to 3, 16",
    ),
    "a fault of an edge that is not there": Case(
        "blockage",
        {"topology.kind": "ring", **fault("link_down", edges=[[0, 1]], for_s=1.0)},
        {"topology.kind": "complete", "sheaf.coupling": 0.01},
        ("faults: 'link_down' names the edge [0, 1], which is not there; the neighbors of client 0 are: 3, 16"),
    ),
}


MOBILE = {"topology.kind": "mobile"}
#: Edits of a shipped scenario that break no rule: each is refused where a rule forgets one of its conditions.
ALLOWED: dict[str, tuple[str, dict[str, Any]]] = {
    "no measured rows for a world": ("beam_tracking", {"data.scenarios": []}),
    "a share of the rows of a replay": ("beam_tracking", {"data.train_fraction": 0.5}),
    "a replay that is scored on validation rows": ("beam_tracking", {"data.scored": "validation"}),
    "other images with a camera": ("blockage", {"data.images": "views"}),
    "a network for single images where there are some": (
        "drone_beam",
        {"model.camera_encoder": "resnet50", "model.weights": "resnet50.pth"},
    ),
    "fewer beams of those who encode no sweeps": (
        "beam_tracking",
        {"clients.groups": [HALF_RF, {**HALF_GPS, "n_beams": 32}]},
    ),
    "a world without a sensor beside a recording": ("beam_tracking", {**REC, "world.sensors": ["rf"]}),
    "measured rows and a slow link": (
        "beam_tracking",
        {**DEEP, "links.edges": [{"groups": ["rf", "rf"], "rate_bps": 1e6}]},
    ),
    "a client that is off while it senses": ("blockage", {**LIVE, **fault("node_off", nodes=[0], for_s=1.0)}),
    "a clock that drifts and another client that is off": (
        "beam_tracking",
        {
            "clients.groups": [GPS],
            "faults": [
                {"kind": "clock_drift", "nodes": [0], "modality": "gps", "ppm": 100},
                {"kind": "node_off", "nodes": [1], "for_s": 1.0},
            ],
        },
    ),
    "one model and messages that are corrupted": (
        "blockage",
        {"algorithm": "centralized", **fault("corrupted", share=0.1)},
    ),
    "an odd embedding that is not halved": ("blockage", {"model.embedding_dim": 33}),
    "random maps of an algorithm that has none": ("blockage", {"algorithm": "local", "sheaf.map_start": "random"}),
    "random maps of heads that are coupled": ("blockage", {"sheaf.map_start": "random", "sheaf.coupling": 0.01}),
    "maps that are redrawn and only averaged along": (
        "blockage",
        {"algorithm": "sheaf_diffusion", "sheaf.rotate_index": True},
    ),
    "many clients with maps that stay": (
        "blockage",
        {"clients.n_clients": 33, "topology.kind": "ring", "sheaf.coupling": 0.01},
    ),
    "many clients that move without maps": (
        "blockage",
        {**MOBILE, "clients.n_clients": 33, "algorithm": "head_averaging"},
    ),
    "heads that are averaged while clients move": ("blockage", {**MOBILE, "algorithm": "head_averaging"}),
    "columns of other heights without maps": (
        "drone_beam",
        {
            "algorithm": "local",
            "sheaf.map_storage": "kronecker",
            "clients.groups": [HALF_GPS, {"name": "few", "modalities": ["gps"], "share": 0.5, "n_beams": 8}],
        },
    ),
    "a strong coupling of heads that are not coupled": ("blockage", {"algorithm": "local", "sheaf.coupling": 1000.0}),
    "heads of single modalities that read one embedding each": (
        "beam_tracking",
        {"algorithm": "dsgd_heads", "model.fusion": "concat"},
    ),
    "heads of two groups that read the same": (
        "beam_tracking",
        {
            "algorithm": "head_averaging",
            "model.fusion": "concat",
            "clients.groups": [HALF_RF, {**HALF_RF, "name": "others"}],
        },
    ),
    "a queue that refuses messages nobody waits for": ("blockage", {"links.queue_bytes": 1000}),
    "links that lose everything nobody waits for": ("blockage", {"link.loss_probability": 1.0}),
    "blockers that stop everything nobody waits for": ("blockage", {"link.blocked_loss_probability": 1.0}),
    "waiting beside a clock that drifts": (
        "beam_tracking",
        {**WAIT, "clients.groups": [GPS], **fault("clock_drift", nodes=[0], modality="gps", ppm=100)},
    ),
    "a clock that drifts for good without rounds": (
        "beam_tracking",
        {**ASYNC, "clients.groups": [GPS], **fault("clock_drift", nodes=[0], modality="gps", ppm=100)},
    ),
    "a large graph, which is drawn when the run starts": (
        "blockage",
        {"clients.n_clients": 2001, "topology.edge_probability": 0.0},
    ),
}


def fields_of(case: Case) -> ScenarioFields:
    """The fields, each possible in itself, before they are checked together."""
    scenario = load_scenario(case.base)
    tree = scenario.tables()
    for key, value in case.edits.items():
        *parents, last = key.split(".")
        table = tree
        for parent in parents:
            table = table.setdefault(parent, {})
        table[last] = value
    return ScenarioFields.model_validate(tree)


def complaints(name: str, edits: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as refused:
        load_scenario(name).edited(edits)
    return refused.value.sentences


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_go_together_is_refused_at_once_with_the_reason_and_cured_by_the_remedy(name: str) -> None:
    case = CASES[name]
    begun_s = time.process_time()
    assert complaints(case.base, case.edits) == (case.sentence,)
    assert time.process_time() - begun_s < SOON_S
    load_scenario(case.base).edited({**case.edits, **case.cure})


@pytest.mark.parametrize("name", ALLOWED)
def test_what_stands_beside_a_rule_is_not_refused(name: str) -> None:
    base, edits = ALLOWED[name]
    load_scenario(base).edited(edits)


class RunCase(NamedTuple):
    """Edits of a shipped scenario and options that cannot be run, edits that cure them, and the only sentence."""

    edits: dict[str, Any]
    cure: dict[str, Any]
    sentence: str
    n_workers: int | None = None
    outside: tuple[int, ...] = ()


OUTSIDE: dict[str, Any] = {"algorithm": "dsgd", "network.missing": "skip"}
RUN_CASES: dict[str, RunCase] = {
    "a recording that is not here": RunCase(
        {**REC, "data.recordings": ["{here}/a.h5", "{here}/edges"]},
        {"data.recordings": ["{here}/edges"]},
        "data.recordings names {here}/a.h5, which is not a file here; make one with the record or import command",
    ),
    "measured rows that are not here": RunCase(
        {**DEEP, "data.root": "{here}/none"},
        {"data.root": "{here}"},
        "data.root = '{here}/none' is not a folder here; give the folder with the DeepSense .npy files",
    ),
    "own rows that are not here": RunCase(
        {
            "task": "classification",
            "data": {"source": "rows", "dataset": "file", "root": "{here}/none.npz", "split": "auto"},
            "clients.groups": [TABLE],
        },
        {"data.root": "{here}/edges"},
        "data.root = '{here}/none.npz' is not here; give the path of the data",
    ),
    "a trace that is not here": RunCase(
        {"links.model": "trace", "links.trace.files": ["{here}/trace"]},
        {"links.trace.files": ["{here}/edges"]},
        "links.trace.files names {here}/trace, which is not a file here; give a path to a trace",
    ),
    "a trace of some edges that is not here": RunCase(
        {"links.edges": [{"groups": ["rf", "rf"], "model": "trace", "trace": {"files": ["{here}/trace"]}}]},
        {"links.edges": []},
        "links.trace.files names {here}/trace, which is not a file here; give a path to a trace",
    ),
    "a trace that is not here, of edges that say no other model": RunCase(
        {
            "links.model": "trace",
            "links.trace.files": ["{here}/edges"],
            "links.edges": [{"groups": ["rf", "rf"], "trace": {"files": ["{here}/trace"]}}],
        },
        {"links.edges": []},
        "links.trace.files names {here}/trace, which is not a file here; give a path to a trace",
    ),
    "a trace that is not here, which edges take from the table of all": RunCase(
        {"links.trace.files": ["{here}/trace"], "links.edges": [{"groups": ["rf", "rf"], "model": "trace"}]},
        {"links.edges": []},
        "links.trace.files names {here}/trace, which is not a file here; give a path to a trace",
    ),
    "edges that are not here": RunCase(
        {"topology.kind": "edge_list", "topology.edge_list": "{here}/none", "clients.n_clients": 3},
        {"topology.edge_list": "{here}/edges"},
        "topology.edge_list '{here}/none' cannot be read (No such file or directory); give a text file",
    ),
    "a listed graph with a coupling that makes heads diverge": RunCase(
        {
            "topology.kind": "edge_list",
            "topology.edge_list": "{here}/edges",
            "clients.n_clients": 3,
            "sheaf.coupling": 100.0,
        },
        {"sheaf.coupling": 0.1},
        "training.head_step_size 0.1 * sheaf.coupling 100 * 2 (squared norm of the maps of 2 edges) = 20, and from 2 on"
        " heads diverge; lower sheaf.coupling or training.head_step_size",
    ),
    "more workers than clients": RunCase(
        {"clients.n_clients": 3},
        {"clients.n_clients": 4},
        "--workers 4 is more than clients.n_clients = 3; use at most one per client",
        n_workers=4,
    ),
    "one model in several workers": RunCase(
        {"algorithm": "centralized"},
        {"algorithm": "local"},
        "algorithm 'centralized' trains all clients as one, which cannot be shared among --workers; leave it out",
        n_workers=2,
    ),
    "workers and clients that move": RunCase(
        {"topology.kind": "mobile", "algorithm": "dsgd"},
        {"topology.kind": "complete"},
        "topology.kind = 'mobile' changes mixing weights on the engine's clock, which --workers do not have; leave"
        " --workers out, or choose another kind",
        n_workers=2,
    ),
    "workers and sensing while it runs": RunCase(
        LIVE,
        {"data.mode": "replay"},
        "data.mode = 'live' senses on the engine's clock, which --workers do not have; leave it out, or set data.mode ="
        " 'replay'",
        n_workers=2,
    ),
    "an outside client that is not there": RunCase(
        {**OUTSIDE, "clients.n_clients": 4},
        {"clients.n_clients": 5},
        "--outside 4 is no client of this scenario; its 4 clients are 0 to 3",
        outside=(4,),
    ),
    "workers and theory": RunCase(
        {"export.theory": True},
        {"export.theory": False},
        "export.theory needs the models of all clients in one process, for longer than workers wait for the engine;"
        " leave --workers out, or set it to false",
        n_workers=2,
    ),
    "an outside client and theory": RunCase(
        {**OUTSIDE, "algorithm": "head_averaging", "export.theory": True},
        {"export.theory": False},
        "export.theory needs the models of all clients, and those of --outside clients are elsewhere; set it to false",
        outside=(0,),
    ),
    "an outside client that may not be drawn": RunCase(
        {**OUTSIDE, "clients.sampled": 3},
        {"clients.sampled": 0},
        "--outside clients keep to the rounds of all, and clients.sampled = 3 draws those of every round; set it to 0",
        outside=(0,),
    ),
    "nothing but outside clients": RunCase(
        {**OUTSIDE, "clients.n_clients": 2},
        {"clients.n_clients": 3},
        "--outside names all clients, and one at least must be emulated; leave one out",
        outside=(0, 1),
    ),
    "an outside client of another algorithm": RunCase(
        {**OUTSIDE, "algorithm": "sheaf_dmfl"},
        {"algorithm": "head_averaging"},
        "algorithm 'sheaf_dmfl' needs more than averaging from a client, which --outside clients do not support;"
        " use one that trains, then averages, such as dsgd, dsgd_heads or head_averaging",
        outside=(1,),
    ),
    "an outside client and short vectors": RunCase(
        {**OUTSIDE, "sharing.codec": "int8"},
        {"sharing.codec": "float32"},
        "--outside clients send vectors whole and in every round; set sharing.codec = 'float32', sharing.every = 1 and"
        " sharing.until = 0",
        outside=(1,),
    ),
    "an outside client without rounds": RunCase(
        {**OUTSIDE, **ASYNC},
        {"network.mode": "synchronous"},
        "--outside clients keep to the rounds of all and to one set of neighbors; set network.mode = 'synchronous',"
        " choose a topology.kind that stays, and leave faults out",
        outside=(1,),
    ),
    "an outside client among others that move": RunCase(
        {**OUTSIDE, **MOBILE},
        {"topology.kind": "complete"},
        "--outside clients keep to the rounds of all and to one set of neighbors; set network.mode = 'synchronous',"
        " choose a topology.kind that stays, and leave faults out",
        outside=(1,),
    ),
    "an outside client beside one that is off": RunCase(
        {**OUTSIDE, **fault("node_off", nodes=[0], for_s=1.0)},
        {"faults": []},
        "--outside clients keep to the rounds of all and to one set of neighbors; set network.mode = 'synchronous',"
        " choose a topology.kind that stays, and leave faults out",
        outside=(1,),
    ),
    "waiting for an outside client": RunCase(
        {**OUTSIDE, **WAIT},
        {"network.missing": "stale"},
        "network.missing = 'wait' would wait for ever for an --outside client that is gone; use 'skip' or 'stale'",
        outside=(1,),
    ),
}


def placed(value: Any, here: Path) -> Any:
    """The same with the folder of the test for {here}."""
    if isinstance(value, str):
        return value.replace("{here}", str(here))
    if isinstance(value, dict):
        return {key: placed(one, here) for key, one in value.items()}
    return [placed(one, here) for one in value] if isinstance(value, list) else value


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with one file, which lists the edges of three clients."""
    (tmp_path / "edges").write_text("0 1\n1 2\n0 2\n", encoding="utf-8")
    return tmp_path


def edited(edits: dict[str, Any], here: Path) -> Scenario:
    return load_scenario("beam_tracking").edited(placed(edits, here))


@pytest.mark.parametrize("name", RUN_CASES)
def test_what_cannot_run_here_or_in_this_way_is_refused_before_any_data(name: str, here: Path) -> None:
    case = RUN_CASES[name]
    found = run_complaints(edited(case.edits, here), case.n_workers, case.outside)
    assert found == (placed(case.sentence, here),)
    assert run_complaints(edited({**case.edits, **case.cure}, here), case.n_workers, case.outside) == ()


def test_files_that_a_run_does_not_read_need_not_be_here(here: Path) -> None:
    unread = {
        "data.recordings": ["{here}/a.h5"],
        "data.root": "{here}/none",
        "links.trace.files": ["{here}/trace"],
        "links.edges": [{"groups": ["rf", "rf"], "rate_bps": 1e6}],
    }
    assert run_complaints(edited(unread, here)) == ()


def test_pretrained_weights_that_are_not_here_are_refused(here: Path) -> None:
    edits = {"model.camera_encoder": "resnet50", "model.weights": str(here / "none.pth")}
    (sentence,) = run_complaints(load_scenario("drone_beam").edited(edits))
    assert sentence.startswith(f"model.weights = '{here / 'none.pth'}' is not a file here; give the path of a file")


def test_a_run_to_start_from_that_is_not_here_is_refused_by_the_path_of_its_seed(here: Path) -> None:
    edits = {"model.start_from": str(here / "street-{seed}"), "seed": 4}
    (sentence,) = run_complaints(load_scenario("beam_tracking").edited(edits))
    assert sentence.startswith(f"model.start_from names '{here / 'street-4'}', which is not here; give the folder of a")


#: Cases whose fault is that there is no graph.
WITHOUT_GRAPH = {"edges from no file", "a graph in pieces", "a graph of odd degrees"}


def test_every_rule_has_a_case(here: Path) -> None:
    """A new rule needs a row in CASES or RUN_CASES."""
    fields = {name: fields_of(case) for name, case in CASES.items()}
    absent = str(here / "none.pth")
    weights = {"model.camera_encoder": "resnet50", "model.weights": absent, "model.start_from": absent}
    runs = [(edited(case.edits, here), case) for case in RUN_CASES.values()]
    subjects: list[tuple[tuple[Rule[Any], ...], list[Any]]] = [
        (SCENARIO_RULES, [*fields.values()]),
        (NEIGHBOR_RULES, [neighborhood_of(fields[name]) for name in CASES if name not in WITHOUT_GRAPH]),
        (FILE_RULES, [load_scenario("drone_beam").edited(weights), *(scenario for scenario, _ in runs)]),
        (WORKER_RULES, [WorkerUse(scenario, case.n_workers) for scenario, case in runs if case.n_workers]),
        (OUTSIDE_RULES, [OutsideUse(scenario, case.outside) for scenario, case in runs if case.outside]),
    ]
    assert [rule for rules, _ in subjects for rule in rules] == [*RULES]
    for rules, of_rules in subjects:
        kept = [rule.sentence for rule in rules if not any([*rule.complaints(one)] for one in of_rules)]
        assert kept == []


def test_the_field_of_every_rule_is_one_of_a_scenario() -> None:
    for rule in RULES:
        table: Any = ScenarioFields
        for part in rule.field.split("."):
            fields = getattr(table, "model_fields", None) or table.__dataclass_fields__
            assert part in fields, rule.field
            annotation = getattr(fields[part], "annotation", None)
            table = get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation


@pytest.mark.parametrize("name", ["blockage", "beam_tracking", "drone_beam", "digits"])
def test_a_shipped_scenario_breaks_no_rule(name: str) -> None:
    assert run_complaints(load_scenario(name)) == ()


def test_all_that_does_not_go_together_is_said_at_once() -> None:
    edits = {"algorithm": "centralized", "network.mode": "asynchronous", "topology.edge_probability": 0.0}
    one, other = complaints("blockage", edits)
    assert one == CASES["one model at two paces"].sentence
    assert other == CASES["a graph in pieces"].sentence


def test_all_fields_that_are_wrong_are_said_at_once() -> None:
    found = complaints("blockage", {"rounds": 0, "algorithm": "sheaf_dmlf", "link.loss_probability": 2, "sheaf.zzz": 1})
    assert found[0].startswith("unknown algorithm 'sheaf_dmlf'; known: apfl, averaged_and_tuned, ")
    assert found[0].endswith("; did you mean sheaf_dmfl?")
    assert found[1] == "rounds must be at least 1, got 0"
    assert found[2].startswith("sheaf.zzz is not a known field; known: coupling, ")
    assert found[3:] == ("link.loss_probability must be at most 1, got 2",)


def test_a_list_with_a_wrong_item_is_not_also_called_empty() -> None:
    found = complaints("blockage", {"clients.groups": [{"name": "a", "modalities": ["rf"], "share": 2.0}]})
    assert found == ("clients.groups.0.share must be at most 1, got 2.0",)


def test_a_thousand_clients_that_cannot_be_connected_are_refused_soon() -> None:
    begun_s = time.process_time()
    (sentence,) = complaints("blockage", {"clients.n_clients": 1000, "topology.edge_probability": 0.0})
    assert "100 draws did not connect them" in sentence
    assert time.process_time() - begun_s < SOON_S


def test_the_command_line_prints_a_line_for_each_complaint() -> None:
    edits = ["--set", "algorithm=centralized", "--set", "network.mode=asynchronous", "--set", "network.missing=wait"]
    command = [sys.executable, "-P", "-c", "from sheafedge.scenarios.entry import main; main()", "run", "blockage"]
    ended = subprocess.run([*command, *edits], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        f"error: {CASES[name].sentence}" for name in ("one model at two paces", "waiting without rounds")
    ]
    assert ended.stdout == ""


def test_a_scenario_is_checked_without_importing_torch() -> None:
    code = (
        "import sys; from sheafedge import load_scenario; load_scenario('blockage'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
