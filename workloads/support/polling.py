"""Polling, for every workload: records become a `poll` micro-operation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fencepost.harness.api import CallError, Client, Operation, Outcome, PlannedOperation, Polled, clock
from fencepost.workloads.support import outcomes, record_format

READER_POLL_S = 0.5
FAILED_POLL_PAUSE_S = 0.1  # a client may fail at once, again and again


def reader_operations() -> Iterator[PlannedOperation]:
    """The operations of a process that only reads: polls, without end."""
    while True:
        yield PlannedOperation(f="poll", mops=(("poll",),))


def read(op: Operation, client: Client, run: str) -> Outcome:
    """A `poll` operation outside any transaction. One that failed is followed by a short pause."""
    try:
        op.value[0] = polled(client, run, READER_POLL_S, op.planned.limit)
    except CallError as error:
        return failed_poll(op, error)
    return Outcome.OK


def failed_poll(op: Operation, error: CallError) -> Outcome:
    """The end of a `poll` operation that failed, with its pause."""
    note(op, error)
    op.renew = error.fatal
    clock.sleep(FAILED_POLL_PAUSE_S)
    return outcomes.judge("poll", error, "no transaction").outcome


def polled(client: Client, run: str, timeout_s: float, limit: int = 1000) -> list[Any]:
    """One call of poll as a finished micro-operation. Raises CallError."""
    return mop_of("poll", client.poll(timeout_s, limit), lambda record: record_format.decode(record, run))


def poll_records(client: Client, limit: int) -> list[Polled]:
    """One call of poll of a process that only reads. Raises CallError."""
    return client.poll(READER_POLL_S, limit)


def mop_of(kind: str, got: Sequence[Polled], decode: Callable[[Polled], tuple[int, str | None]]) -> list[Any]:
    """Records that were just returned as a finished micro-operation; decode: identity, or (-1, why)."""
    records: dict[str, list[list[int]]] = {}
    strangers = []
    for record in got:
        v, why = decode(record)
        records.setdefault(record.partition, []).append([record.offset, v])
        if why is not None:
            strangers.append(record_format.strange(record, why))
    mop: list[Any] = [kind, records, time.monotonic_ns()]
    return [*mop, strangers] if strangers else mop


def note(op: Operation, error: CallError) -> None:
    """Record a client's error with its operation, whatever the outcome will be."""
    op.errors.append(error.row())
