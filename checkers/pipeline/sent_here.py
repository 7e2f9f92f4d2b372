"""The partitions to which the workload itself sends: only there does a record's identity say who wrote it to the log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.stored_logs import StoredLogs, StoredRows, stored_logs
from fencepost.checkers.views.gathering import PartitionMessages, together
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.record_ids import MAX_PROCESS, process_of

SENT_HERE, UNANSWERED = "sent here", "sent here unanswered"


@together
def sent_here(log: PartitionLog) -> PartitionMessages:
    """The partition's name, where a record was sent to it, and the processes of which one was not acknowledged there."""
    messages = [(SENT_HERE, to_message(pa.table({"partition": here})))] if (here := _sent_to(log)) else []
    unanswered = log.sends.offset == NONE
    processes, first = np.unique(process_of(log.sends.v[unanswered]), return_index=True)
    if len(processes):
        columns = {"partition": _partitions(log, log.sends.op[unanswered][first]), "process": processes & MAX_PROCESS}
        messages.append((UNANSWERED, to_message(pa.table(columns))))
    return PartitionMessages(to_driver=messages)


def _sent_to(log: PartitionLog) -> list[str]:
    """The partitions to which something was sent."""
    if log.parts is None:
        return [log.partition] if len(log.sends) else []
    return [log.parts.names[number] for number in np.unique(log.parts.numbers(log.sends.op)).tolist()]


def _partitions(log: PartitionLog, ops: Any) -> list[str]:
    """The partition of each send; these are their operations."""
    if log.parts is None:
        return [log.partition] * len(ops)
    return [log.parts.names[number] for number in log.parts.numbers(ops).tolist()]


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
