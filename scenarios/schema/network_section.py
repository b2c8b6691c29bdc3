"""What a scenario says about its network: neighbors, how nodes move, how messages travel, and a server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .link_section import EdgeSettings
from .section import Probability, Section


class TopologySection(Section):
    """Who is whose neighbor; edges join only clients that share a modality. Where they are "mobile", `[mobility]` tells
    who is in range of whom when a round begins.

    Attributes:
        kind: kind of graph.
        edge_probability, degree, rewiring_probability, attached, islands, edge_list: see `TopologyOptions`; each kind
            reads only its own.
    """

    kind: Literal[
        "erdos_renyi",
        "ring",
        "regular",
        "small_world",
        "scale_free",
        "star",
        "complete",
        "grid",
        "islands",
        "edge_list",
        "mobile",
    ] = "erdos_renyi"
    edge_probability: Probability = 0.3
    degree: Annotated[int, Field(ge=1)] = 4
    rewiring_probability: Probability = 0.1
    attached: Annotated[int, Field(ge=1)] = 2
    islands: Annotated[int, Field(ge=1)] = 4
    edge_list: str = ""


class MobilitySection(Section):
    """Nodes that wander about, and talk to those in range.

    Attributes:
        area_m: width and depth of the rectangle that they stay in.
        range_m: how far they reach each other.
        speed_m_per_s: root mean square of their speeds.
        memory_s: time over which a node forgets where it was going.
        step_s: a node may turn so often, and goes straight ahead in between.
    """

    area_m: tuple[Annotated[float, Field(gt=0.0)], Annotated[float, Field(gt=0.0)]] = (200.0, 200.0)
    range_m: Annotated[float, Field(gt=0.0)] = 80.0
    speed_m_per_s: Annotated[float, Field(ge=0.0, le=1000.0)] = 10.0
    memory_s: Annotated[float, Field(gt=0.0)] = 10.0
    step_s: Annotated[float, Field(ge=0.001)] = 0.1


class NetworkSection(Section):
    """How messages travel and what a missing one means.

    Attributes:
        mode: "synchronous" has all begin a phase together; "asynchronous" lets each go on at its own pace, with the
            newest that it has heard.
        transport: "zmq" or "memory"; the same trajectory.
        address: address of the ZeroMQ hub; empty picks an in-process one.
        missing: "skip" does without, "stale" uses the neighbor's last words, "wait" repeats until delivered.
            Asynchronous clients use a message once, or with "stale" until a newer one comes.
        deadline_s: simulated time after the start of a phase when missing messages are given up; not used in
            asynchronous mode.
    """

    mode: Literal["synchronous", "asynchronous"] = "synchronous"
    transport: Literal["zmq", "memory"] = "zmq"
    address: str = ""
    missing: Literal["skip", "stale", "wait"] = "skip"
    deadline_s: Annotated[float, Field(gt=0.0)] = 0.1


class ServerSection(Section):
    """The server of algorithms that have one (`Algorithm.server`); others do not read it.

    The server is a node of its own, behind all clients: its number is `clients.n_clients`. Every client has an edge to
    it and none to another client, whatever `[topology]` says.

    Attributes:
        profile: emulated device, where it is not that of `[compute]`.
        link: settings of the edges to the server that differ from those of `[link]` and `[links]`.
        medium: "own", every link by itself, or as `links.medium` says. Otherwise the server is the base station of one
            cell: all links to it share one medium and all links from it another (frequency division), by
            "processor_sharing" or in "round_robin" over `links.blocks`.
    """

    profile: str | None = None
    link: EdgeSettings = EdgeSettings()
    medium: Literal["own", "processor_sharing", "round_robin"] = "own"
