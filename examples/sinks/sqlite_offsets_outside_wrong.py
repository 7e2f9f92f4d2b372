"""The sink of sqlite_sink.py, done wrong: offsets have a transaction of their own, once a second.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_offsets_outside_wrong.py' --set database=sqlite:store.db \
    --set 'listing=SELECT input FROM items ORDER BY rowid' --set 'positions=SELECT topic, part, next FROM positions' \
    -n kill,target=instance

An instance that is killed before the next one has stored items that whoever comes next stores again (`reprocessed`).
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Sequence

import sqlite_sink as right
from confluent_kafka import Message

EVERY_S = 1.0
waiting: dict[int, int] = {}  # next offsets by partition, not stored yet


def stored(database: sqlite3.Connection, batch: Sequence[Message]) -> bool:
    """Store a batch; the offset after it is stored later."""
    part = batch[0].partition()
    if right.position(database, part) > batch[0].offset():
        return False
    database.execute("BEGIN IMMEDIATE")
    database.executemany("INSERT INTO items VALUES (?, ?, ?)", [right.item(message) for message in batch])
    database.execute("COMMIT")
    waiting[part] = batch[-1].offset() + 1
    return True


def store_again_and_again() -> None:
    """Store the offsets once a second, with a connection of this thread's own."""
    database = right.opened()
    while right.running:
        time.sleep(EVERY_S)
        store_positions(database)


def store_positions(database: sqlite3.Connection) -> None:
    """Store the offsets that are waiting."""
    rows = [(right.INPUT, part, offset) for part, offset in list(waiting.items())]
    database.execute("BEGIN IMMEDIATE")
    database.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", rows)
    database.execute("COMMIT")
    for _, part, offset in rows:
        if waiting.get(part) == offset:
            del waiting[part]


if __name__ == "__main__":
    right.stored = stored
    threading.Thread(target=store_again_and_again, daemon=True).start()
    sys.exit(right.main())
