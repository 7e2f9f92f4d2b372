"""The partitions to which the workload itself sends: only there does a record's identity say who wrote it to the log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.stored_logs import StoredLogs, StoredRows, stored_logs
from fencepost.checkers.views.gathering import PartitionMessages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.record_ids import process_of

SENT_HERE, UNANSWERED = "sent here", "sent here unanswered"


def sent_here(log: PartitionLog) -> PartitionMessages:
    """The partition's name, where a record was sent to it, and the processes of which one was not acknowledged there."""
    table = pa.table({"partition": [log.partition]})
    messages = [(SENT_HERE, to_message(table))] if len(log.sends) else []
    if len(processes := np.unique(process_of(log.sends.v[log.sends.offset == NONE]))):
        unanswered = pa.table({"partition": [log.partition] * len(processes), "process": processes})
        messages.append((UNANSWERED, to_message(unanswered)))
    return PartitionMessages(to_driver=messages)


def partitions_sent_to(run: RunView) -> frozenset[str]:
    """The partitions of a run to which a record was sent. Raises RuntimeError when that could not be gathered."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)
    tables = [from_message(message) for name, message in run.gathered.to_driver if name == SENT_HERE]
    return frozenset(name for table in tables for name in table["partition"].to_pylist())


def unanswered_sends(run: RunView) -> frozenset[tuple[str, int]]:
    """Partitions and processes of records that were not acknowledged there. Raises RuntimeError when they were not gathered."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)
    tables = [from_message(message) for name, message in run.gathered.to_driver if name == UNANSWERED]
    return frozenset(
        pair for table in tables for pair in zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    )


def sent_rows(run: RunView, rows: StoredRows) -> Bools:
    """True for each row of the logs in a partition to which a record was sent."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    own = np.array([name in run.shared(partitions_sent_to) for name in logs.partitions] or [False], dtype=np.bool_)
    return own[rows.partition]
