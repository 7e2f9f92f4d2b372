"""The sink of sqlite_upsert.py, done wrong: offsets are committed before what they cover is stored.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_early_wrong.py' --set database=sqlite:store.db \
    --set 'listing=SELECT input FROM items' -n kill,target=instance

The consumer commits by itself what it has handed out, while the sink collects a second's worth of items to store them together.
An instance that is killed meanwhile leaves inputs below the group's offset that nobody stores any more (`unprocessed`).
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

import sqlite_upsert as right
from confluent_kafka import Message

right.sink.CONSUMER |= {"enable.auto.commit": True, "auto.commit.interval.ms": 500}
store_at_once = right.store
waiting: list[tuple[sqlite3.Connection, Message]] = []


def collect(database: sqlite3.Connection, batch: Sequence[Message]) -> None:
    """Store a batch later."""
    waiting.extend((database, message) for message in batch)


def store_all(*_: object) -> None:
    """Store what is waiting: once a second, before partitions are taken away, and at the end."""
    if waiting:
        store_at_once(waiting[0][0], [message for _, message in waiting])
    waiting.clear()


if __name__ == "__main__":
    right.store, right.commit = collect, store_all
    sys.exit(right.main())
