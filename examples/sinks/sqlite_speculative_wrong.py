"""The sink of sqlite_speculative.py, done wrong: what is aborted is not retracted (`phantom-output`).

fencepost run -w sink --set 'command={python} {examples}/sinks/sqlite_speculative_wrong.py' --set instances=1 \
    --set database=sqlite:store.db --set 'listing=SELECT input FROM items ORDER BY part, place' \
    --set 'positions=SELECT topic, part, next FROM positions' --set input_abort_share=0.3 -n none
"""

from __future__ import annotations

import sys

import sqlite_speculative as right


def retract(*_: object) -> None:
    """Nothing is removed."""


if __name__ == "__main__":
    right.retract = retract
    sys.exit(right.main())
