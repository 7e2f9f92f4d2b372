"""A sink to SQLite whose writes are idempotent: an item's key is where its input was read, so that it is there once.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_upsert.py' --set database=sqlite:store.db \
    --set 'listing=SELECT input FROM items' -n kill,target=instance

Offsets are committed to the group, and only of what is stored. What an instance that is killed had stored and not committed yet
is stored again, over itself.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections.abc import Sequence

import sqlite_sink as sink
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

COMMIT_EVERY_S = 1.0
TABLE = "CREATE TABLE IF NOT EXISTS items (part INTEGER, place INTEGER, input TEXT NOT NULL, PRIMARY KEY (part, place))"
INSERT = "INSERT INTO items VALUES (?, ?, ?) ON CONFLICT (part, place) DO UPDATE SET input = excluded.input"
next_offsets: dict[int, int] = {}  # of what is stored and not committed


def main() -> int:
    signal.signal(signal.SIGTERM, sink.stop)
    sink.TABLES = (TABLE,)
    database = sink.opened()
    consumer = Consumer(sink.CONSUMER)
    consumer.subscribe([sink.INPUT], on_revoke=lambda consumer, _: commit(consumer), on_lost=lambda *_: next_offsets.clear())
    committed_at = time.monotonic()
    while sink.running:
        batch = [message for message in consumer.consume(sink.BATCH, sink.POLL_S) if message.error() is None]
        store(database, batch)
        if time.monotonic() - committed_at >= COMMIT_EVERY_S:
            commit(consumer)
            committed_at = time.monotonic()
    commit(consumer)
    consumer.close()
    return 0


def store(database: sqlite3.Connection, batch: Sequence[Message]) -> None:
    """Store a batch in one transaction."""
    if not batch:
        return
    database.execute("BEGIN IMMEDIATE")
    database.executemany(INSERT, [(part, place, text) for text, part, place in map(sink.item, batch)])
    database.execute("COMMIT")
    next_offsets.update({message.partition(): message.offset() + 1 for message in batch})


def commit(consumer: Consumer) -> None:
    """Commit the offsets of what is stored; without success they are committed the next time."""
    offsets = [TopicPartition(sink.INPUT, part, offset) for part, offset in next_offsets.items()]
    if not offsets:
        return
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
        next_offsets.clear()
    except KafkaException as error:
        print(f"not committed: {error}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
