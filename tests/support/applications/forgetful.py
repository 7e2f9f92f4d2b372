"""The right count of examples/applications, but one change in so many (FORGOTTEN) is not written to the changelog."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "applications"))

import confluent_count as right
from confluent_kafka import Message, Producer

FORGOTTEN = int(os.environ.get("FORGOTTEN", "10"))
changes, log = itertools.count(1), right.log


def forgetful(producer: Producer, message: Message, count: int) -> None:
    if next(changes) % FORGOTTEN:
        log(producer, message, count)


if __name__ == "__main__":
    right.log = forgetful
    sys.exit(right.main())
