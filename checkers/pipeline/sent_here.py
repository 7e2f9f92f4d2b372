"""The partitions to which the workload itself sends: only there does a record's identity say who wrote it to the log."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fencepost.checkers.history.source import from_message, to_message
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.pipeline.stored_logs import StoredLogs, StoredRows, stored_logs
from fencepost.checkers.views.gathering import PartitionMessages
from fencepost.checkers.views.log import PartitionLog
from fencepost.checkers.views.run_view import RunView

SENT_HERE = "sent here"


def sent_here(log: PartitionLog) -> PartitionMessages:
    """The partition's name, where a record was sent to it."""
    table = pa.table({"partition": [log.partition]})
    return PartitionMessages(to_driver=[(SENT_HERE, to_message(table))] if len(log.sends) else [])


def partitions_sent_to(run: RunView) -> frozenset[str]:
    """The partitions of a run to which a record was sent. Raises RuntimeError when that could not be gathered."""
    if run.gathered.error:
        raise RuntimeError(run.gathered.error)
    tables = [from_message(message) for name, message in run.gathered.to_driver if name == SENT_HERE]
    return frozenset(name for table in tables for name in table["partition"].to_pylist())


def sent_rows(run: RunView, rows: StoredRows) -> Bools:
    """True for each row of the logs in a partition to which a record was sent."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    own = np.array([name in run.shared(partitions_sent_to) for name in logs.partitions] or [False], dtype=np.bool_)
    return own[rows.partition]
