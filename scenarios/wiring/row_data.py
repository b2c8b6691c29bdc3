"""Rows of every client, from a data set that no sensor here recorded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...datasets.rows.federated_rows import FederatedRows, RowColumns, RowRequest
from ...datasets.rows.graph_edges import graph_part
from ...datasets.rows.graph_partition import node_parts
from ...datasets.rows.owners import Dealing, Owners, Rows, dealt, owner_names
from ...datasets.rows.pooled_ridge import MOST_COLUMNS, PooledRidge, Scale, pooled_ridge
from ...datasets.rows.row_datasets import ROW_DATASETS
from ...datasets.rows.row_samples import RowSamples, TargetScale
from ...datasets.rows.row_split import RowSplit, SplitRows, quarter_turns, scarce_clients, split_rows, thinned
from ...datasets.rows.row_values import checked_rows
from ...emulator.contracts import ConfigError, DataError, Modality
from ...emulator.random_streams import named_stream
from ...emulator.regular_file import reason
from ..schema.data_section import DataSection
from ..schema.scenario import Scenario

#: Rows that statistics of inputs are taken from; more would not change them.
ROWS_FOR_STATISTICS = 20_000


def client_rows(scenario: Scenario) -> list[tuple[str, RowSamples, RowSamples]]:
    """Name of the rows, training rows and held-out rows of every client.

    Raises:
        ConfigError: too many clients, too few rows, or settings that the data set does not allow.
        DataError: the file is missing or holds impossible values.
    """
    data, n_clients = scenario.data, scenario.clients.n_clients
    rows = _read(scenario)
    modality = scenario.clients.groups[0].modalities[0]
    _check_inputs(rows, modality, data)
    parts = dealt(rows, n_clients, _dealing(rows, data), named_stream(scenario.seed, "rows", "owners"))
    splits = _splits(rows, parts, data, scenario.seed)
    turns = [0] * n_clients
    if data.shift == "rotation":
        turns = quarter_turns(n_clients, named_stream(scenario.seed, "rows", "rotation"))
    target = _target(rows, splits)
    edges = rows.edges if modality == "graph" else None
    graphs = [None if edges is None else graph_part(part, rows.x, edges) for part in parts]
    pairs = [
        tuple(
            RowSamples(rows.x, rows.y, side, modality, rows.class_names, target=target, turns=turn, graph=graph)
            for side in (split.train, split.test)
        )
        for split, turn, graph in zip(splits, turns, graphs, strict=True)
    ]
    common = _scale([train for train, _ in pairs]) if data.scaling == "common" else None
    ridge = _ridge([train for train, _ in pairs], common)
    scaled = [(common or _scale([train]), train, test) for train, test in pairs]
    return [
        (name, replace(train, scale=scale), replace(test, scale=scale, ridge=ridge))
        for name, (scale, train, test) in zip(owner_names(rows, parts), scaled, strict=True)
    ]


def _read(scenario: Scenario) -> FederatedRows:
    data = scenario.data
    root = Path(os.path.expanduser(data.root)) if data.root else None  # noqa: PTH111 - Path's own raises for an unknown user
    request = RowRequest(root, scenario.task_spec.labels == "classes", RowColumns(**data.columns.model_dump()))
    try:
        return checked_rows(ROW_DATASETS[data.dataset].read(request), f"data set {data.dataset!r}")
    except OSError as error:  # of a reader that somebody else wrote
        raise DataError(f"data set {data.dataset!r} cannot be read ({reason(error)}); check data.root") from None


def _check_inputs(rows: FederatedRows, modality: Modality, data: DataSection) -> None:
    if (modality == "graph" or data.owners.startswith("metis")) and rows.edges is None:
        field = "data.owners" if data.owners.startswith("metis") else "modality 'graph' of clients.groups"
        raise ConfigError(
            f"{field} needs edges, but {rows.name!r} has none; add them as the array 'edge_index' [2, edges] of a .npz"
            ' file, or take modalities = ["table"] and other owners'
        )
    if modality == "image" and not rows.has_images:
        raise ConfigError(
            f"clients.groups have modality 'image', but {rows.name!r} holds rows of {rows.x.shape[1]} columns; set"
            ' modalities = ["table"]'
        )
    if data.shift == "rotation" and not (rows.has_images and rows.x.shape[-1] == rows.x.shape[-2]):
        raise ConfigError(
            f"data.shift = 'rotation' turns square images, but an input of {rows.name!r} has shape"
            f" {list(rows.x.shape[1:])}; set data.shift = 'none'"
        )


def _dealing(rows: FederatedRows, data: DataSection) -> Dealing:
    owners = data.owners
    if owners == "auto":
        without: Owners = "metis" if rows.edges is not None else "dirichlet" if rows.class_names else "equal"
        owners = "natural" if rows.owner is not None else without
    if owners == "natural" and rows.owner is None:
        raise ConfigError(
            f"data.owners = 'natural', but {rows.name!r} names no owners; add them"
            f"{f' as {data.columns.owner!r}' if data.dataset == 'file' else ''}, or set data.owners to 'equal' or"
            " 'dirichlet'"
        )
    return Dealing(owners, data.classes_per_client, data.alpha)


def _splits(rows: FederatedRows, parts: Sequence[Rows], data: DataSection, seed: int) -> list[SplitRows]:
    how = RowSplit(
        data.test_fraction,
        data.train_fraction,
        data.validation_fraction if data.scored == "validation" else None,
        trains_validation=rows.edges is None,
    )
    marked = rows.split if data.split == "auto" else None
    if rows.edges is not None and marked is None:
        marked = node_parts(len(rows), data.node_split, named_stream(seed, "rows", "nodes"))
    splits = [
        split_rows(client, own, marked, how, named_stream(seed, "rows", "split", client))
        for client, own in enumerate(parts)
    ]
    scarce = scarce_clients(data.scarce, len(parts), named_stream(seed, "rows", "scarce"))
    return [thinned(one, data.scarce_keeps) if client in scarce else one for client, one in enumerate(splits)]


def _target(rows: FederatedRows, splits: Sequence[SplitRows]) -> TargetScale:
    if rows.class_names:
        return TargetScale()
    values = rows.y[np.concatenate([split.train for split in splits])].astype(np.float64)
    return TargetScale(float(values.mean()), float(values.std()) or 1.0)


def _ridge(samples: Sequence[RowSamples], common: Scale | None) -> PooledRidge | None:
    """The baseline of values in tables of ordinary width; `common` is the scale of all rows, where there is one."""
    one = samples[0]
    if one.class_names or one.modality != "table":
        return None
    scale = common or _scale(samples)
    if len(scale[0]) > MOST_COLUMNS:
        return None
    return pooled_ridge(((rows.inputs()["table"], rows.truth) for rows in samples), scale)


def _scale(samples: Sequence[RowSamples]) -> Scale:
    """Scale of the inputs of these clients, each of which counts by its training rows."""
    share = min(1.0, ROWS_FOR_STATISTICS / sum(map(len, samples)))
    spread = [np.linspace(0, len(one) - 1, max(1, round(share * len(one)))).astype(np.int64) for one in samples]
    inputs = [_features(one, chosen) for one, chosen in zip(samples, spread, strict=True)]
    # needs torch, without which a replay reads recordings
    from ...models.encoders.row_scale import column_scale, pixel_scale

    statistics = pixel_scale if samples[0].modality == "image" else column_scale
    return statistics(np.concatenate(inputs))


def _features(samples: RowSamples, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """What is scaled of these samples: of a node of a graph its features, else the input itself."""
    if samples.graph is not None:
        return samples.graph.features[samples.graph.places(samples.rows[chosen])]
    return samples.inputs(chosen)[samples.modality]
