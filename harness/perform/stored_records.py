"""The contents of the brokers' logs at the end of a run, as a table: evidence beside the findings, never a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fencepost.harness.api import Cluster, HarnessError, StoredRow, Storing, record_ids
from fencepost.harness.api.beneath import replacing
from fencepost.harness.api.history import STORED, STRUCTS, schema, writing
from fencepost.harness.api.run import RunFile

FEWEST = 9  # columns of a row without those that a cluster need not give
_ABSENT = (None,) * (len(STORED) - 1 - FEWEST)  # for those columns
_HEAD = 6  # the place of a value's head in a row after its offset
_STATE = [column.name for column in STRUCTS["state"]]


def write_stored(cluster: Cluster, run: str, run_dir: Path) -> Iterator[str]:
    """Write `stored.parquet`; yields why a broker's log could not be read. Does nothing where a cluster shows no logs."""
    if not isinstance(cluster, Storing):
        return
    rows: list[tuple[str, StoredRow]] = []
    for node in cluster.brokers:
        try:
            stored, reason = cluster.stored_records(node)
        except HarnessError as error:
            stored, reason = (), str(error)
        rows += [(node, row) for row in stored]
        if reason:
            yield f"what {node} stored is not kept as evidence: {reason}"
    if rows:
        _write(rows, run, run_dir)


def _write(rows: list[tuple[str, StoredRow]], run: str, run_dir: Path) -> None:
    import pyarrow as pa  # here, because a run begins without it
    import pyarrow.parquet as pq

    whole = [(row[0], row[1], node, *row[2:], *_ABSENT[len(row) - FEWEST :]) for node, row in rows]
    named = sorted(whole, key=lambda row: (*row[:2], row[8] != "log", row[2]))
    partition, offset, node, *middle = (list(column) for column in zip(*named, strict=True))
    v = [None if text is None else record_ids.identity_in(text, run) for text in middle[_HEAD]]
    middle[_HEAD], middle[-1] = v, [state and dict(zip(_STATE, state, strict=True)) for state in middle[-1]]
    table = pa.table([node, partition, offset, *middle], schema=schema(STORED))
    with replacing(run_dir, RunFile.STORED) as part:
        pq.write_table(table, part, **writing(table.schema))
