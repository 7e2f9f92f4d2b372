"""A record of requests in the history of a run: what a program of somebody's own sent and read, beside what it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.evidence import Gap, GapKind
from fencepost.harness.api.history import writing
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.wire import NodeRecord, missing_rows, nodes_of, unread
from fencepost.harness.api.wire_table import wire_table_of
from fencepost.harness.history.merge import OPS_SCHEMA, ROWS_PER_GROUP
from fencepost.harness.interop.wire.adopting import JUDGED, whole_before
from fencepost.harness.interop.wire.conversion import Beside, Converted, converted
from fencepost.harness.interop.wire.requests import requests_of

OF_THE_RUN = ("writer", "member", "reader", "final")  # roles of clients whose operations the history has
Row = dict[str, Any]


def wants_wire(run: Run) -> bool:
    """True for a run whose plan says that the requests of its program are to be judged."""
    return bool(run.plan.get("workload", {}).get("options", {}).get("wire"))


def add_wire(run: Run) -> list[Gap]:
    """Add what `wire.parquet` says of the program's transactions, sends and reads to a merged history; what that lacks."""
    topics = set(run.plan["topics"])
    try:
        table = wire_table_of(run)
        nodes = whole_before(nodes_of(run.path(RunFile.WIRE)) or {}, missing_rows(table))
        until, why = _end(whole_before(nodes, unread(table)))
        requests = requests_of(table, until, lambda name: name.rpartition("-")[0] in topics)
    except (OSError, ValueError, pa.ArrowException) as error:
        return [Gap(file=RunFile.WIRE, why=f"what the program sent and read is not known: {error}", evidence=JUDGED)]
    rows = pq.read_table(run.directory / RunFile.HISTORY).to_pylist()
    made = converted(requests, _beside(run.plan, rows))
    _add_reads(rows, made)
    whole = sorted([*rows, *made.rows], key=lambda row: (row["time"], row["process"]))
    table = pa.Table.from_pylist([{**row, "index": at} for at, row in enumerate(whole)], schema=OPS_SCHEMA)
    with replacing(run.directory, RunFile.HISTORY) as part:
        pq.write_table(table, part, **writing(table.schema), row_group_size=ROWS_PER_GROUP)
    return [Gap(file=RunFile.WIRE, why=why, kind=GapKind.SHORTENED, evidence=JUDGED)] if why else []


def _end(nodes: Mapping[str, NodeRecord]) -> tuple[int | None, str]:
    """When the first broker's record ends (ns; None: with the run), and why."""
    ends = [(each.until_ns, f"the record of {node} ends early: {each.why}") for node, each in nodes.items()]
    return min(((end, why) for end, why in ends if end is not None), default=(None, ""))


def _beside(plan: Mapping[str, Any], rows: Sequence[Row]) -> Beside:
    """What the history has already."""
    own = {f"{plan['prefix']}{row['slot']}" for row in rows if row["role"] in OF_THE_RUN}
    own |= {row["transactional_id"] for row in rows if row["transactional_id"] and row["role"] in OF_THE_RUN}
    others: dict[str, dict[int, int]] = {}
    for mop in (mop for row in rows for mop in row["mops"] or ()):
        if mop["offset"] is not None and mop["offset"] >= 0 and mop["v"] >= 0:
            others.setdefault(mop["partition"], {})[mop["offset"]] = mop["v"]
    return Beside(max((row["process"] for row in rows), default=-1) + 1, others, own)


def _add_reads(rows: Sequence[Row], made: Converted) -> None:
    """Tell of the run's own readers which batches of the program they got: those whose first record they did."""
    for row in rows:
        if row["outputs"]:
            row["mops"] = [*(row["mops"] or ()), *_batches_of(row["outputs"], made)]


def _batches_of(outputs: Sequence[Mapping[str, Any]], made: Converted) -> Iterator[Row]:
    for output in outputs:
        there = made.offsets.get((output["partition"], output["offset"]), ())
        if len(there) == 1:  # else a log was cut off, and what lay there first is not known
            place = {"partition": output["partition"], "offset": output["offset"]}
            yield {"kind": 1, "v": next(iter(there)), **place, "began": None, "ended": output["ended"]}
