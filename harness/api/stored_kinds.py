"""Kinds of rows of the brokers' logs (`stored.parquet`, docs/history.md), by the names that a recorder gives and a check reads.

Standard library only, because it is copied to hosts too (`ssh`).
"""

from __future__ import annotations

RECORD = "record"
COMMIT, ABORT, CONTROL = "COMMIT", "ABORT", "control"  # control records: markers, and all others
MARKERS = (COMMIT, ABORT)
EMPTY_BATCH, DAMAGED_BATCH = "empty batch", "damaged batch"  # rows that are no record: of a batch,
LOG = "log"  # and of the log itself

STATES = (  # of a transactional id in `__transaction_state`, in the order of Kafka's numbers (`TransactionState`)
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
REMOVED = "removed"  # a record without a value: the transactional id was forgotten
UNDER_WAY = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")  # states of a transaction that is not over
