"""Graphs of operations as `networkx.MultiDiGraph`: of a whole history, or of what lies around a finding.

A node is the history index of an operation. An edge says that its source comes before its target, and why (docs/graphs.md).
What is not known, or means nothing for a node or an edge, is no attribute of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import networkx as nx

from fencepost.harness.api.services import GraphColumns

KINDS = ("ww", "wr", "rw", "lso", "process", "realtime")
BATCH = 65_536  # edges that are made at a time


def history_graph(
    nodes: Iterable[tuple[int, Mapping[str, Any]]], columns: GraphColumns, kinds: Collection[str]
) -> nx.MultiDiGraph:
    """A graph of operations with their attributes, and of the edges of these kinds."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edge for edge in _edges(columns.edges) if edge[2]["kind"] in kinds)
    return graph


def _edges(table: Any) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for batch in table.to_batches(BATCH):
        names = [name for name in batch.schema.names if name not in ("source", "target")]
        values = zip(*(batch[name].to_pylist() for name in names), strict=True)
        ends = zip(batch["source"].to_pylist(), batch["target"].to_pylist(), strict=True)
        for (source, target), row in zip(ends, values, strict=True):
            yield source, target, {name: value for name, value in zip(names, row, strict=True) if value is not None}
