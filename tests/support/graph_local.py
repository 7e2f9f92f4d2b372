"""The graph search without Spark: a history's edges in plain lists, the same functions over them."""

import numpy as np

from fencepost.checkers.graph.edge_filter import edge_filter_for
from fencepost.checkers.graph.edges import decode, gather
from fencepost.checkers.graph.gathered_edges import DriverEdges
from fencepost.checkers.graph.layers import LAYERS
from fencepost.checkers.graph.run_search import cycles_among
from fencepost.checkers.graph.search_tasks import Cycles
from fencepost.checkers.history.overview import Overview, read_overview
from fencepost.checkers.history.scan import FINAL, FINISHED, TXN, UNCOMMITTED
from fencepost.checkers.model.values import ABORTED, COMMITTED, INFO, NONE, FinalRead, Resets, Settings
from fencepost.checkers.views.assembly import build_log
from support.histories import write_history


def local_cycles(folder, ops, forbidden=None) -> tuple[Cycles, Overview]:
    """Every layer's answer for a history. forbidden: classes that are forbidden; all of them where not said."""
    forbidden = [layer.name for layer in LAYERS] if forbidden is None else forbidden
    write_history(folder, ops)
    view = read_overview(folder / "history.parquet")
    return cycles_among(edges_here(ops, view, edge_filter_for(view, forbidden)), view, forbidden), view


def local_edges(ops, view):
    """All edges as (partition, columns)."""
    return [(partition, decode(batch)) for partition, edges in gathered(ops, view) for _, batch in edges.on_executors]


def edges_here(ops, view, edge_filter):
    """Edges of all partitions, gathered in this process."""
    taken = gathered(ops, view, edge_filter)
    messages = [(partition, batch) for partition, edges in taken for _, batch in edges.on_executors]
    return DriverEdges(
        [partition for partition, _ in taken], messages, [message for _, edges in taken for message in edges.to_driver]
    )


def gathered(ops, view, edge_filter=None):
    logs = [build(ops, partition, view) for partition in sorted({mop[1] for op in ops for mop in op["mops"]})]
    return [(log.partition, gather(log, edge_filter)) for log in logs]


def build(ops, partition, view):
    """One partition's log from operations whose micro-operations are tuples."""
    rows = [(index, op, mop) for index, op in enumerate(ops) for mop in op["mops"] if mop[1] == partition]
    number = lambda value: NONE if value is None else value  # noqa: E731
    columns = {
        "op": np.array([index for index, _, _ in rows], dtype=np.int64),
        "process": np.array([op["process"] for _, op, _ in rows], dtype=np.int32),
        "flags": np.array([flags(op) for _, op, _ in rows], dtype=np.int8),
        "decided": np.array([number(op["decided"]) for _, op, _ in rows], dtype=np.int64),
        "over": np.array([number(op["end"]) if op["type"] == "ok" else NONE for _, op, _ in rows], dtype=np.int64),
    }
    for at, name in ((2, "v"), (3, "offset"), (4, "began"), (5, "ended")):
        columns[name] = np.array([number(mop[at]) for _, _, mop in rows], dtype=np.int64)
    sent = np.array([mop[0] == 0 for _, _, mop in rows])
    final = view.final_reads.get(partition, FinalRead())
    return build_log(partition, columns, sent, final, Settings(), Resets())


def flags(op):
    failed = op["type"] == "fail" or (op["type"] == "ok" and op["f"] == "txn" and op["intent"] == "abort")
    status = ABORTED if failed else COMMITTED if op["type"] == "ok" else INFO
    bits = TXN * (op["f"] == "txn") + FINISHED * (op["end"] is not None or op["intent"] == "abort") + FINAL * bool(op["final"])
    return status + bits + UNCOMMITTED * (op["isolation"] == "read_uncommitted")
