"""The rows that a query of an SQLite database gives, a line each, the columns divided by tabs.

Run as `python -m fencepost.harness.system.sqlite_rows FILE QUERY`. FILE is a name in the directory FENCEPOST_STORE, unless it is
absolute. The database is opened to be read only; that it may have to be recovered after its writer was killed is SQLite's affair.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

BUSY_S = 20.0


def rows(path: Path, query: str) -> Iterator[str]:
    """The rows as text. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path, timeout=BUSY_S)) as database:
        database.execute("PRAGMA query_only=ON")
        for row in database.execute(query):
            yield "\t".join(map(_text, row))


def _text(value: object) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)
    return text.replace("\r", "\\r").replace("\n", "\\n")


def main(name: str, query: str) -> int:
    """Print them; 1 when that cannot be done."""
    path = Path(os.environ.get("FENCEPOST_STORE", "."), name)
    if not path.is_file():
        sys.stderr.write(f"there is no database {path}: the sink has made none\n")
        return 1
    try:
        for line in rows(path, query):
            sys.stdout.write(f"{line}\n")
    except sqlite3.Error as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
