"""A speculative sink to SQLite: it stores what is not committed yet, and retracts what is aborted.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_speculative.py' --set instances=1 \
    --set database=sqlite:store.db --set 'listing=SELECT input FROM items ORDER BY part, place' \
    --set 'positions=SELECT topic, part, next FROM positions' --set input_abort_share=0.3 -n kill,target=instance

One consumer reads at read_uncommitted, and stores at once. Another one reads at read_committed: what lies below its position,
and was not returned to it, was aborted, and is removed. Items, removals and that position are in the database together, so a sink
that dies reads on from there. In the end the store has what was committed, as if it had waited.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections.abc import Sequence

import sqlite_sink as sink
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

TABLES = (
    "CREATE TABLE IF NOT EXISTS items (part INTEGER, place INTEGER, input TEXT NOT NULL, PRIMARY KEY (part, place))",
    sink.TABLES[1],
)
CALL_S, LAST_S = 30.0, 8.0
ends: set[int] = set()  # partitions whose end was reached since the stop


def main() -> int:
    signal.signal(signal.SIGTERM, sink.stop)
    sink.TABLES = TABLES
    database = sink.opened()
    early = opened("read_uncommitted", database)
    sure = opened("read_committed", database)
    parts, stopped_at = len(sure.assignment()), 0.0
    while sink.running or (len(ends) < parts and time.monotonic() - stopped_at < LAST_S):
        stopped_at = stopped_at if not sink.running and stopped_at else time.monotonic()
        guess(database, [message for message in early.consume(sink.BATCH, 0.05) if message.error() is None])
        for message in sure.consume(sink.BATCH, 0.05):
            decide(database, message)
    return 0


def opened(level: str, database: sqlite3.Connection) -> Consumer:
    """A consumer of all partitions, which reads on from the store's positions."""
    consumer = Consumer({**sink.CONSUMER, "isolation.level": level, "enable.partition.eof": level == "read_committed"})
    parts = consumer.list_topics(sink.INPUT, CALL_S).topics[sink.INPUT].partitions
    consumer.assign(sink.positions(database, [TopicPartition(sink.INPUT, part) for part in parts]))
    return consumer


def guess(database: sqlite3.Connection, batch: Sequence[Message]) -> None:
    """Store what may be aborted yet, unless that is decided already."""
    if not batch:
        return
    rows = [(part, place, text) for text, part, place in map(sink.item, batch)]
    known = {part: sink.position(database, part) for part, _, _ in rows}
    database.execute("BEGIN IMMEDIATE")
    database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", [row for row in rows if row[1] >= known[row[0]]])
    database.execute("COMMIT")


def decide(database: sqlite3.Connection, message: Message) -> None:
    """Store a committed record, or note the end of what is decided; what lies before it and was not returned is retracted."""
    error, part = message.error(), message.partition()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        return
    if error is not None and not sink.running:
        ends.add(part)
    before = max(0, sink.position(database, part))  # none yet is a negative number
    after = message.offset() + (error is None)
    if after <= before:
        return
    database.execute("BEGIN IMMEDIATE")
    retract(database, part, before, after)
    if error is None:
        text, _, place = sink.item(message)
        database.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", (part, place, text))
    database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (sink.INPUT, part, after))
    database.execute("COMMIT")


def retract(database: sqlite3.Connection, part: int, before: int, after: int) -> None:
    """Remove the items of a span of offsets."""
    database.execute("DELETE FROM items WHERE part = ? AND place >= ? AND place < ?", (part, before, after))


if __name__ == "__main__":
    sys.exit(main())
