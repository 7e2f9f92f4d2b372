"""Which producers made the outputs of a program, and when, for the words of findings: by log segments and brokers' logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.checkers.model.findings import FindingRecord
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.applications import outputs_of
from fencepost.checkers.pipeline.broker_events import broker_events
from fencepost.checkers.pipeline.stored_transactions import MOST_ROWS
from fencepost.checkers.views.run_view import RunView

MOST_OUTPUTS = 3  # of an input, in a sentence
_COLUMNS = ["partition", "offset", "producer_id", "timestamp"]


def words_for(run: RunView, outputs: Sequence[FindingRecord]) -> str:
    """`out-0@1 at 14:00:02.000 UTC by the producer of fp-r-4 and ...`: a few outputs; empty where one is not known."""
    table, shown = run.shared(_records), outputs[:MOST_OUTPUTS]
    known = [_written(table, row) for row in shown] if table is not None else []
    if not known or None in known:
        return ""
    ids = run.shared(_transactional_ids)
    made = [f"{row.place} at {_utc(one[1])} by {_whose(one[0], ids)}" for row, one in zip(shown, known, strict=True) if one]
    return " and ".join(made) if len(made) < 3 else ", ".join(made)


def _records(run: RunView) -> pa.Table | None:
    """The outputs' records; None where there is no table, or it is too long or cannot be read."""
    path = run.stored
    if path is None or not os.path.lexists(path):
        return None
    names = list(outputs_of(run).declared["output_partitions"])
    filters = [("partition", "in", names), ("kind", "==", "record")]
    try:
        if pq.read_metadata(path).num_rows > MOST_ROWS:
            return None
        return pq.read_table(path, columns=_COLUMNS, filters=filters, page_checksum_verification=True)
    except (OSError, pa.ArrowException, KeyError):
        return None


def _written(table: pa.Table, row: FindingRecord) -> tuple[int, int] | None:
    """The producer id and the timestamp (ms since 1970) of a record; None: no log has it."""
    found = table.filter((pc.field("partition") == row.partition) & (pc.field("offset") == row.offset))
    return (found["producer_id"][0].as_py(), found["timestamp"][0].as_py()) if len(found) else None


def _transactional_ids(run: RunView) -> dict[int, str]:
    """Transactional ids by the producer ids that coordinators gave them."""
    events = broker_events(run.stored.parent) if run.stored is not None else None
    return {producer: name for _, name, producer, _ in events.initialisations} if events else {}


def _whose(producer: int, ids: dict[int, str]) -> str:
    if producer in ids:
        return f"the producer of {ids[producer]}"
    return "a producer without an id" if producer == NONE else f"producer {producer}"


def _utc(ms: int) -> str:
    date = datetime.fromtimestamp(ms / 1000, timezone.utc)
    return f"{date:%H:%M:%S}.{ms % 1000:03d} UTC"
