"""Processes with several producers, in older histories, which do not say which of them performed an operation."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FURTHER = re.compile(r"(.+)-p[1-9][0-9]*")


def with_unnamed_producers(known: Iterable[str | None], said: Iterable[str | None]) -> set[str]:
    """Transactional ids of processes that have further producers, of which the history has no operation under their own ids.

    known: the ids that brokers know: of the coordinators' log, or on the wire. The id of a further producer is that of the
        process with a number (`harness.perform.plan_roles.pool_ids`).
    said: the ids of the history's operations.
    """
    named = set(said)
    return {match[1] for name in known if name and name not in named and (match := _FURTHER.fullmatch(name))}
