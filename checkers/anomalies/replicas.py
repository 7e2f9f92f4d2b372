"""Replicas of a partition beside each other, below the high watermark of each (KIP-101, KIP-279).

The docstring is the definition of the anomaly.
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.api import run_check
from fencepost.checkers.contract.attribution import Attribution
from fencepost.checkers.contract.common_occasions import LEADERS
from fencepost.checkers.contract.common_rules import cut_off
from fencepost.checkers.contract.needs import LOGS, Needs
from fencepost.checkers.contract.rules import FORBIDDEN, Rule
from fencepost.checkers.model.arrays import Bools
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.pipeline.stored_findings import Found, explained_by, found_by
from fencepost.checkers.pipeline.stored_logs import Log, StoredLogs, StoredRows, joined, may_be_compacted, stored_logs
from fencepost.checkers.selfcheck.log_damages import DIVERGE, LOSE_REPLICA
from fencepost.checkers.views.run_view import RunView
from fencepost.harness.api.promises import ONE_LOG

NO_REPLICAS = "no partition has two replicas whose logs and high watermarks were kept"
_CONTENT = (
    "kind",
    "content",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "timestamp",
    "v",
    "first_offset",
    "last_offset",
    "first_sequence",
    "coordinator_epoch",
    "transactional",
)


def diverging(run: RunView) -> Found:
    """Rows of a replica that another one does not have, or has otherwise, although both have replicated so far."""
    logs = run.shared(stored_logs)
    assert isinstance(logs, StoredLogs)
    compared, wrong, sentences = 0, [logs.rows.take(slice(0, 0))], []
    compacted = may_be_compacted(run, logs)
    for one, other in _pairs(logs):
        low, high = max(one.start, other.start), min(one.watermark, other.watermark)
        mine, others = (_between(logs, log, low, high) for log in (one, other))
        compared += max(len(mine), len(others))
        if _equal(mine, others):
            continue
        if compacted[one.partition]:  # where the head of a batch is left in one log, all of it may be left in the other
            mine, others = (rows.take(~logs.emptied[rows.row]) for rows in (mine, others))
        for rows, here, there, what in _differences(mine, others, one, other, compacted[one.partition]):
            wrong.append(rows)
            sentences += [
                f"{logs.nodes[here.node]} and {logs.nodes[there.node]} have replicated {logs.partitions[one.partition]} to "
                f"offset {high}, and {what.format(here=logs.nodes[here.node], there=logs.nodes[there.node], offset=offset)}"
                for offset in rows.offset.tolist()
            ]
    return Found(compared, joined(wrong), sentences, "read", NO_REPLICAS)


def _pairs(logs: StoredLogs) -> list[tuple[Log, Log]]:
    """Of each partition the replica with the highest watermark, and each of the others."""
    by_partition: dict[int, list[Log]] = {}
    for log in logs.logs:
        if log.watermark > 0:
            by_partition.setdefault(log.partition, []).append(log)
    pairs = []
    for replicas in by_partition.values():
        first = max(replicas, key=lambda log: log.watermark)
        pairs += [(first, other) for other in replicas if other is not first]
    return pairs


def _between(logs: StoredLogs, log: Log, low: int, high: int) -> StoredRows:
    """The rows of a log from one offset up to another, in whole batches."""
    offsets = logs.rows.offset[log.rows]
    start, stop = np.searchsorted(offsets, [low, high])
    return logs.rows.take(slice(log.rows.start + int(start), log.rows.start + int(stop)))


def _equal(mine: StoredRows, others: StoredRows) -> bool:
    names = ("offset", "checksum", *_CONTENT)
    return len(mine) == len(others) and all(np.array_equal(getattr(mine, name), getattr(others, name)) for name in names)


def _differences(
    mine: StoredRows, others: StoredRows, one: Log, other: Log, compacted: bool
) -> list[tuple[StoredRows, Log, Log, str]]:
    """Rows that differ or are missing, with the replica that has them, the other one, and what to say of them."""
    both, at_mine, at_others = np.intersect1d(mine.offset, others.offset, return_indices=True)
    left, right = mine.take(at_mine), others.take(at_others)
    differ = np.zeros(len(both), dtype=np.bool_)
    for name in _CONTENT:
        differ |= getattr(left, name) != getattr(right, name)
    found = [(left.take(differ), one, other, "at offset {offset} their logs hold different records")]
    if not compacted:  # which writes what is left of a batch anew, and into a marker when it may go, by each replica's own clock
        sums = ~differ & (left.checksum != right.checksum) & _first_of_batch(left)
        missing = "offset {offset} is in the log of {here} and not in that of {there}"
        found += [
            (left.take(sums), one, other, "the batch at offset {offset} has different checksums in their logs"),
            (mine.take(~np.isin(mine.offset, both)), one, other, missing),
            (others.take(~np.isin(others.offset, both)), other, one, missing),
        ]
    return [part for part in found if len(part[0])]


def _first_of_batch(rows: StoredRows) -> Bools:
    first = np.ones(len(rows), dtype=np.bool_)
    first[1:] = np.diff(rows.first_offset) != 0
    return first


@run_check(
    "replica-divergence",
    promise=ONE_LOG,
    rules=(
        *cut_off("replicas that were not in sync may keep what the new leader does not have"),
        Rule(FORBIDDEN, "below the high watermark of both, two replicas of a partition hold the same batches (KIP-101, KIP-279)"),
    ),
    evidence=Needs({LOGS}, "what is missing of the logs may have shown it"),
    occasions=LEADERS,
    damages=(DIVERGE, LOSE_REPLICA),
    explain=explained_by(diverging),
    attribution=Attribution.EACH_OFFSET,
    needs=NO_REPLICAS,
)
def replica_divergence(run: RunView) -> CheckResult:
    """Below the high watermarks of two replicas of a partition, their logs hold different batches, or one lacks what the other
    has.

    Compared are offsets, epochs of leader, producer and coordinator, sequence numbers, timestamps, kinds, states, identities
    and checksums, in Kafka's transaction log too. The high watermark is that of the node's last checkpoint, which it writes
    every five seconds. Above the later beginning of the two logs nothing may be missing. Compaction takes records and writes
    batches anew: in its topics nothing is missing, and checksums are not compared. The first cleaning that finds a marker without
    records writes into its batch when it may go (KIP-534: the delete horizon as base timestamp, and a bit of the attributes):
    on each replica the time of its own cleaner, so that such batches differ lawfully, in checksum and nothing else.

    compared: rows of the replica with the highest watermark and of each other one, below both. One cause: the producer id.
    """
    return found_by(diverging)(run)
