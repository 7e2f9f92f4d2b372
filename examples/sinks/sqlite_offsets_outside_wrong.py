"""The sink of sqlite_sink.py, done wrong: items and offsets are two transactions of the database, one after the other.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_offsets_outside_wrong.py' --set database=sqlite:store.db \
    --set 'listing=SELECT input FROM items ORDER BY rowid' --set 'positions=SELECT topic, part, next FROM positions' \
    -n kill,target=instance

An instance that is killed between the two has stored items that whoever comes next stores again (`reprocessed`).
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

import sqlite_sink as right
from confluent_kafka import Message


def stored(database: sqlite3.Connection, batch: Sequence[Message]) -> bool:
    """Store a batch, and then the offset after it."""
    part = batch[0].partition()
    if right.position(database, part) > batch[0].offset():
        return False
    database.execute("BEGIN IMMEDIATE")
    database.executemany("INSERT INTO items VALUES (?, ?, ?)", [right.item(message) for message in batch])
    database.execute("COMMIT")
    database.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (right.INPUT, part, batch[-1].offset() + 1))
    return True


if __name__ == "__main__":
    right.stored = stored
    sys.exit(right.main())
