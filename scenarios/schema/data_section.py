"""What a scenario can say about its data: where it comes from, how it is cut, shared out and held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from ...datasets.recordings.site_geometry import CodebookOrder, PositionAxes
from ...datasets.rows.owners import Owners
from ...datasets.rows.row_datasets import ROW_DATASETS
from ...datasets.windows.sensor_windows import BlockageLabel
from ...emulator.contracts import ConfigError
from .section import Fraction, Probability, Section
from .wording import known_name

CodebookSize = Literal[64, 32, 16, 8]


Fade = Annotated[float, Field(ge=-40.0, le=100.0)]


class ColumnsSection(Section):
    """Names in the user's own data: of arrays in a `.npz` file, of columns in a `.csv` file.

    Attributes:
        x: inputs; empty: the array "x", or all columns that are none of the others.
        y: what rows are asked about.
        owner: who has each row; may lack.
        split: its part, train, validation or test; may lack.
    """

    x: tuple[str, ...] = ()
    y: str = "y"
    owner: str = "owner"
    split: str = "split"


class DataSection(Section):
    """Where samples come from and how they are shared out.

    Attributes:
        source: "world" records the table `[world]`, once, and finds the recording again; "recording" reads the files
            of `recordings`; "deepsense" reads gathered measured rows from `root`; "rows" takes the tables and images of
            a `dataset`, which no sensor here recorded.
        recordings: files made by `sheafedge record` or `sheafedge import`.
        root: folder with the DeepSense `.npy` files; file or folder of the `dataset` of rows.
        scenarios: DeepSense scenarios, one recording each.
        positions: of gathered DeepSense rows: "calibrated" (`unit2_loc_cal`), "raw" (`unit2_loc`), or "auto":
            calibrated where there are such; the summary says which it was.
        strict: of gathered DeepSense rows: refuse those without a position, or with a beam that was not measured or has
            no power; otherwise they are dropped and counted.
        headings_deg: of gathered DeepSense rows, one per scenario: bearing that the array faces, clockwise from north.
        codebook_order: of gathered DeepSense rows: how measured beams follow each other, seen from above; beam 0
            becomes the leftmost, as in worlds.
        position_axes: "compass" gives positions east and north of the base station, "array" to the right of its array
            and ahead of it, so that base stations that face different ways agree; needs to know what they face.
        mode: "replay" has everything there from the start; "live" senses on the simulated clock while it learns.
        n_beams: codebook size; below 64 every second, fourth or eighth beam is kept.
        beam_order: how base stations number their beams: all the "same"; half of them "mirrored", as an array mounted
            upside down does; each "rotated", beginning at a beam of its own; each "permuted", in an order of its own.
        window: samples per input.
        horizon: frames ahead that a blockage label looks at.
        fades_db: fades that task "outage_forecast" asks about, in dB below the median power with a clear view: those at
            which the user is in outage at its own cell, and at a neighbor.
        label: which definition of blocked; empty takes the first that there is: by geometry, by hand, by power.
        stride: keep every so many-th sample; consecutive frames are near copies of each other.
        images: "plain"; "occluded" masks a part of every image; "views" has every client look at its own angle.
        split: for rows, "auto" holds out what the data mark as test, and random rows where they mark none; "random"
            holds out random rows in any case, which is honest there. For frames, "sequence" holds out whole drive-bys
            or flights; "time" the end of each client's recording; "random" mixes rows and leaks, for published figures
            only.
        gap_frames: number of frames left out between training and held-out frames with "time"; 0: just so many that no
            frame is used by both.
        test_fraction: share of a client's samples held out.
        train_fraction: share of the remaining samples trained on.
        shuffled_labels: deal the labels of a client's training samples anew among them, at random: a control, which can
            learn how frequent labels are, and nothing from its inputs.
        scored: "held_out" scores on what is held out; "validation" leaves that alone, for choosing settings: a share
            of the training samples is held out in the same manner and scored in its place.
        validation_fraction: share of a client's training samples (drive-bys, with "sequence") that "validation" takes.
        dataset: data set of rows; "file" is a `.npz` or `.csv` file of the user's own.
        columns: names in that file.
        owners: which client has which rows: "natural", by the owners that the rows name; "equal", shuffled, in parts of
            one size; "classes", rows of some classes only, each class dealt equally to its takers; "classes_uneven",
            the same in parts of random size; "dirichlet", shares of every class drawn from Dir(alpha); "metis", parts
            of a graph of about one size with few edges between them, which are dropped; "metis_overlap", a random half
            of one of a fifth as many parts; "auto": "natural" where the rows name owners, otherwise "metis" for graphs,
            "dirichlet" for classes and "equal" for values.
        node_split: shares of the nodes of a graph that are trained on, validated on and tested on, where the data mark
            none; drawn once on the whole graph, before it is cut. Nodes for validation are never trained on.
        classes_per_client: number of classes of a client, for owners "classes" and "classes_uneven".
        alpha: concentration of the Dirichlet distribution of owners "dirichlet" and "classes_uneven"; small is uneven.
        scarce: share of the clients that keep few training rows; which they are is drawn at random.
        scarce_keeps: share of the training rows that these keep.
        shift: "rotation" turns the images of a quarter of the clients each by 0, 90, 180 and 270 degrees.
        scaling: inputs are scaled in the model by mean and spread of the training rows of all clients ("common", so
            that coordinates of two models mean the same) or by those of the client's "own".
    """

    source: Literal["world", "recording", "deepsense", "rows"] = "world"
    recordings: tuple[str, ...] = ()
    root: str = ""
    scenarios: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 8)
    positions: Literal["auto", "calibrated", "raw"] = "auto"
    strict: bool = False
    headings_deg: tuple[Annotated[float, Field(ge=-360.0, le=360.0)], ...] = ()
    codebook_order: CodebookOrder = "clockwise"
    position_axes: PositionAxes = "compass"
    mode: Literal["replay", "live"] = "replay"
    n_beams: CodebookSize = 64
    beam_order: Literal["same", "mirrored", "rotated", "permuted"] = "same"
    window: Annotated[int, Field(ge=1)] = 4
    horizon: Annotated[int, Field(ge=1)] = 5
    fades_db: tuple[Fade, Fade] = (14.33, 8.33)
    label: Literal["", BlockageLabel] = ""
    stride: Annotated[int, Field(ge=1)] = 1
    images: Literal["plain", "occluded", "views"] = "plain"
    split: Literal["sequence", "time", "random", "auto"] = "sequence"
    gap_frames: Annotated[int, Field(ge=0)] = 0
    test_fraction: Fraction = 0.3
    train_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    shuffled_labels: bool = False
    scored: Literal["held_out", "validation"] = "held_out"
    validation_fraction: Fraction = 0.25
    dataset: str = ""
    columns: ColumnsSection = ColumnsSection()
    owners: Literal["auto", Owners] = "auto"
    node_split: tuple[Fraction, Fraction, Fraction] = (0.4, 0.3, 0.3)
    classes_per_client: Annotated[int, Field(ge=1)] = 2
    alpha: Annotated[float, Field(gt=0.0, le=1e6)] = 0.5
    scarce: Probability = 0.0
    scarce_keeps: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    shift: Literal["none", "rotation"] = "none"
    scaling: Literal["common", "own"] = "common"

    @pydantic.field_validator("dataset")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return name and known_name("data.dataset", name, ROW_DATASETS)

    @pydantic.field_validator("node_split")
    @classmethod
    def _adds_up(cls, shares: tuple[float, float, float]) -> tuple[float, float, float]:
        if abs(sum(shares) - 1.0) > 1e-6:
            raise ConfigError(
                f"data.node_split must add up to 1, shares that are trained, validated and tested on, got"
                f" {sum(shares):g}; 0.4, 0.3, 0.3 are usual"
            )
        return shares

    @property
    def held_out_by(self) -> str:
        """How held-out samples were chosen, for people: a random split of rows is honest, one of frames is not."""
        return "rows" if self.source == "rows" else self.split


class LiveSection(Section):
    """How base stations sense while they learn; for `data.mode = "live"` only.

    Attributes:
        warm_up_s: they have sensed for so long when the first round begins.
        round_every_s: simulated time from the beginning of a round to that of the next, or more where it takes longer.
        handover_s: sensors hand over what they sensed every so often.
    """

    warm_up_s: Annotated[float, Field(gt=0.0, le=1e6)] = 60.0
    round_every_s: Annotated[float, Field(ge=0.0, le=1e6)] = 3.0
    handover_s: Annotated[float, Field(gt=0.0, le=1e6)] = 1.0


def first_repeated(values: Sequence[Any]) -> Any:
    """The first value that was there before, or None."""
    return next((value for index, value in enumerate(values) if value in values[:index]), None)
