"""A sink to SQLite, exactly once: items and offsets are one transaction of the database.

fencepost run -w sink

The offsets lie in the table `positions`, and those of the group mean nothing. Whoever gets a partition reads on from there. A
batch is stored only while the position is not beyond its beginning: an instance that has lost its partition, and does not know
it yet, stores nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

ENV = os.environ
CONSUMER = {
    "bootstrap.servers": ENV["FENCEPOST_BOOTSTRAP"],
    **json.loads(ENV.get("FENCEPOST_CONNECTION", "{}")),
    "group.id": ENV["FENCEPOST_GROUP"],
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1500,
}
INPUT, DATABASE = ENV["FENCEPOST_INPUT"], Path(ENV["FENCEPOST_STORE"], "store.db")
BATCH, POLL_S, BUSY_S = 100, 0.2, 30.0
TABLES = (
    "CREATE TABLE IF NOT EXISTS items (input TEXT NOT NULL, part INTEGER NOT NULL, place INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS positions (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part))",
)
running = True


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    database = opened()
    consumer = Consumer(CONSUMER)
    consumer.subscribe([INPUT], on_assign=lambda consumer, places: consumer.assign(positions(database, places)))
    while running:
        messages = [message for message in consumer.consume(BATCH, POLL_S) if message.error() is None]
        for part in sorted({message.partition() for message in messages}):
            batch = [message for message in messages if message.partition() == part]
            if not stored(database, batch):
                read_on(consumer, database, part)
    consumer.close()
    return 0


def opened() -> sqlite3.Connection:
    """The database, with its tables. Transactions are begun by us."""
    DATABASE.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(DATABASE, timeout=BUSY_S, isolation_level=None)
    for table in TABLES:
        database.execute(table)
    return database


def positions(database: sqlite3.Connection, places: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions with the offsets at which reading goes on."""
    return [TopicPartition(place.topic, place.partition, position(database, place.partition)) for place in places]


def position(database: sqlite3.Connection, part: int) -> int:
    row = database.execute("SELECT next FROM positions WHERE topic = ? AND part = ?", (INPUT, part)).fetchone()
    return row[0] if row else OFFSET_BEGINNING


def stored(database: sqlite3.Connection, batch: Sequence[Message]) -> bool:
    """Store a batch of one partition, and the offset after it; return False where another instance has stored some of it."""
    database.execute("BEGIN IMMEDIATE")
    try:
        part = batch[0].partition()
        fresh = position(database, part) <= batch[0].offset()
        if fresh:
            database.executemany("INSERT INTO items VALUES (?, ?, ?)", [item(message) for message in batch])
            database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (INPUT, part, batch[-1].offset() + 1))
        database.execute("COMMIT")
        return fresh
    except sqlite3.Error:
        database.execute("ROLLBACK")
        raise


def item(message: Message) -> tuple[str, int, int]:
    """A row: the input's value, which begins with its name, and where it was read."""
    return message.value().decode(), message.partition(), message.offset()


def read_on(consumer: Consumer, database: sqlite3.Connection, part: int) -> None:
    """Read on where the store stands, if the partition is still ours."""
    try:
        consumer.seek(TopicPartition(INPUT, part, position(database, part)))
    except KafkaException as error:
        if error.args[0].code() != KafkaError._STATE:  # it is another's, or will be read from where the store stands
            raise
        time.sleep(POLL_S)


def stop(*_: object) -> None:
    global running
    running = False


if __name__ == "__main__":
    sys.exit(main())
