"""The sink of sqlite_upsert.py, done wrong: it appends, so that what is processed again is there twice.

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_append_wrong.py' --set database=sqlite:store.db \
    --set 'listing=SELECT input FROM items' -n kill,target=instance

That is at least once: right for a sink that promises no more (`--contract application=at-least-once`), `reprocessed` for one that
does.
"""

from __future__ import annotations

import sys

import sqlite_upsert as right

if __name__ == "__main__":
    right.TABLE = "CREATE TABLE IF NOT EXISTS items (part INTEGER, place INTEGER, input TEXT NOT NULL)"
    right.INSERT = "INSERT INTO items VALUES (?, ?, ?)"
    sys.exit(right.main())
