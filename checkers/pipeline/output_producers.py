"""Which producers made the outputs of a program, and when, for the words of findings: by log segments and brokers' logs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.checkers.model.findings import FindingRecord
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.applications import outputs_of
from fencepost.checkers.pipeline.broker_events import broker_events
from fencepost.checkers.pipeline.stored_transactions import MOST_ROWS
from fencepost.checkers.views.run_view import RunView

MOST_OUTPUTS = 3  # of an input, in a sentence
_COLUMNS = ["partition", "offset", "producer_id", "timestamp"]
Records = dict[tuple[str, int], tuple[int, int]]  # partition and offset -> producer id, ms since 1970


def words_for(run: RunView, outputs: Sequence[FindingRecord]) -> str:
    """`out-0@1 at 14:00:02.000 UTC by the producer of fp-r-4 and ...`: a few outputs; empty where one is not known."""
    records = run.shared(_records)
    shown = outputs[:MOST_OUTPUTS]
    known = [records[row.partition, row.offset] for row in shown if (row.partition, row.offset) in records]
    if not shown or len(known) < len(shown):
        return ""
    ids = run.shared(_transactional_ids)
    made = [f"{row.place} at {_utc(ms)} by {_whose(producer, ids)}" for row, (producer, ms) in zip(shown, known, strict=True)]
    return " and ".join(made) if len(made) < 3 else ", ".join(made)


def _records(run: RunView) -> Records:
    """The outputs' records; none where there is no table, or it is too long or cannot be read."""
    path = run.stored
    if path is None or not os.path.lexists(path):
        return {}
    names = list(outputs_of(run).declared["output_partitions"])
    filters = [("partition", "in", names), ("kind", "==", "record")]
    try:
        if pq.read_metadata(path).num_rows > MOST_ROWS:
            return {}
        columns = pq.read_table(path, columns=_COLUMNS, filters=filters).to_pydict()
    except (OSError, pa.ArrowException, KeyError):
        return {}
    places = zip(columns["partition"], columns["offset"], strict=True)
    return dict(zip(places, zip(columns["producer_id"], columns["timestamp"], strict=True), strict=True))


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
