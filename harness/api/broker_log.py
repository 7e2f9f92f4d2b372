"""Lines of brokers' logs: their dates, and what some of them say of transactions, groups and leaders.

Brokers write UTC: those of ours are started with `user.timezone=UTC`.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

BROKER_LOG = "server.log"
DATED = re.compile(rb"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3})", re.MULTILINE)
INITIALISED = re.compile(
    r"\[TransactionCoordinator id=\d+\] Initialized transactionalId (.+) with producerId (\d+) and producer epoch (\d+)"
    r" on partition (\S+)"
)
"""A transactional id, the producer id, its epoch, and the partition of `__transaction_state` that has the id."""
ELECTED = re.compile(r"\[TransactionCoordinator id=\d+\] Elected as the txn coordinator for partition (\d+) at epoch (\d+)")
"""The number of a partition of `__transaction_state`, and the epoch of its leader."""
REBALANCED = re.compile(r"Stabilized group (\S+) generation \d+|\[GroupId ([^\]]+)\].*? Bumped group epoch to \d+")
"""A group (of one of both protocols) whose partitions are assigned anew."""


def date_ms(date: str) -> int | None:
    """Milliseconds since 1970 of a date in UTC, as `DATED` matches it; None: there is no such day."""
    try:
        moment = datetime.fromisoformat(date.replace(",", ".")).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1000 + int(date[-3:])
