"""Attribution: which records of a finding say whose finding it is, so that a test's expectation is bound to its cause."""

from __future__ import annotations

from enum import Enum


class Attribution(Enum):
    """The records by which a finding is bound to the transactions that caused it, and the partitions they sent to.

    RECORDS: by its missing records, if it has any, else by all of its records.
    PAIR: by its missing records, if it has any, else by either record of a pair in the wrong order, or on a cycle.
    EACH_OFFSET: by one of the records at each of its offsets.
    PARTITION: by its partition alone, since nobody sent the record, or nobody knows who did.
    """

    RECORDS = "records"
    PAIR = "pair"
    EACH_OFFSET = "each offset"
    PARTITION = "partition"
