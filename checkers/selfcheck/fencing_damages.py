"""A damage to the logs of two instances of a transactional id, which generated histories do not have.

A small history with its brokers' logs, put before another one, in a partition of its own.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa

from fencepost.checkers.model.history_rows import HistoryRows
from fencepost.checkers.model.planted import DamagedHistory, PlantedDamage
from fencepost.checkers.selfcheck.lawful_logs import NODES, log_row, on_all, state_row
from fencepost.checkers.selfcheck.prefix_history import free_process, free_topic, prepend
from fencepost.checkers.selfcheck.schedules import TICK, ScheduledHistory

PRODUCER, STATE_LOG = 1 << 41, "__transaction_state-999"  # of nobody else
SCHEDULE = "A1* A2+0 B1* B2. B3+0 B3."  # A's transaction stays open; B takes its transactional id over, and commits one


def overtaken(rows: HistoryRows, rng: Random) -> DamagedHistory | None:
    """The marker that aborts a fenced instance's transaction lies behind a record of the next instance."""
    if rows.logs is not None and "first_offset" not in rows.logs.column_names:
        return None
    carried = ScheduledHistory(free_process(rows), free_topic(rows))
    for number, text in enumerate(SCHEDULE.split(), 1):
        carried.step(text, number * TICK)
    left = carried.operations["A2"]
    left.overrides = {"type": "info"}
    carried.aborted |= {mop["v"] for mop in left.mops}
    (partition,) = carried.logs
    carried.ends[partition] = 4
    carried.read_back(20 * TICK)
    own = _logs(carried, partition)
    nodes = NODES if rows.logs is None else sorted(set(rows.logs["node"].to_pylist()))
    table = on_all(own, nodes) if rows.logs is None else pa.concat_tables([rows.logs, on_all(own, nodes)])
    records = frozenset(v for log in carried.logs.values() for _, v in log)
    what = f"before the history, in a partition of its own: {partition}@2 aborts a transaction after its id was initialised again"
    made = prepend(carried.rows(rows.table.schema), rows)
    return DamagedHistory(made, what, records, frozenset({partition}), own_partitions=True, logs=table)


def _logs(carried: ScheduledHistory, partition: str) -> list[dict[str, object]]:
    """The rows of the partition and of the coordinator, in which each state follows lawfully on the one before."""
    (_, old), (_, new) = carried.logs[partition]
    rows = [
        log_row(partition, 0, 2 * TICK, "record", PRODUCER, 0, v=old),
        log_row(partition, 1, 5 * TICK, "record", PRODUCER, 0, v=new, producer_epoch=2),
        log_row(partition, 2, 5 * TICK, "ABORT", PRODUCER, producer_epoch=1, coordinator_epoch=0),
        log_row(partition, 3, 7 * TICK, "COMMIT", PRODUCER, producer_epoch=2, coordinator_epoch=0),
    ]
    states = ("Empty", 0), ("Ongoing", 0), ("PrepareAbort", 1), ("CompleteAbort", 1), ("Empty", 2), ("Ongoing", 2)
    for offset, (kind, epoch) in enumerate((*states, ("PrepareCommit", 2), ("CompleteCommit", 2))):
        named = [] if kind == "Empty" or kind.startswith("Complete") else [partition]
        rows.append(state_row(STATE_LOG, offset, offset * TICK, kind, carried.topic, PRODUCER, epoch, named, 0))
    return rows


OVERTAKEN = PlantedDamage("marker-overtaken", overtaken, ("late-marker", "epoch-regression"), (), "needs nothing")
