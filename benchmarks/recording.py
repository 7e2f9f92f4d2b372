"""The work of fencepost itself for an operation, without any client: in a loop, with the real code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from fencepost.harness.api import CallError, Delivered, Operation, Outgoing, Polled
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.plan_roles import partitions_of
from fencepost.harness.planning.plan import workload_of

OPERATIONS = 4000


class NullClient:
    """A client that acknowledges every record at once and does nothing else."""

    library = "librdkafka"

    def begin(self) -> None: ...
    def flush(self, timeout_s: float) -> None: ...
    def commit(self, timeout_s: float) -> None: ...
    def abort(self, timeout_s: float) -> None: ...

    def send(self, record: Outgoing, done: Callable[[Delivered | CallError], None]) -> None:
        done(Delivered(f"{record.topic}-{record.partition}", 0))

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        return []


def recording_us(plan: Mapping[str, Any], folder: Path) -> tuple[float, float]:
    """Medians per operation in microseconds: recording alone (its making, its invoke line, its completion line), and all
    that is ours (also the records' bytes, the delivery callbacks, the decision about the outcome)."""
    workload, client = workload_of(plan), NullClient()
    role = workload.roles()[0]
    writer = HistoryWriter(folder / "recording.jsonl", run=plan["run"])
    planned = workload.operations(role, partitions_of(plan), Random(0))
    recording, everything = [], []
    for number in range(OPERATIONS):
        t0 = time.perf_counter_ns()
        op = Operation.of(0, number, next(planned))
        writer.invoke(0, number, op.planned.f, op.value, op.planned.intent)
        t1 = time.perf_counter_ns()
        outcome = workload.perform(op, client, plan["run"])
        t2 = time.perf_counter_ns()
        writer.complete(outcome, 0, number, op.planned.f, op.value, errors=op.errors, decided=op.decided)
        t3 = time.perf_counter_ns()
        recording.append(t1 - t0 + t3 - t2)
        everything.append(t3 - t0)
    writer.close()
    return median(recording) / 1e3, median(everything) / 1e3
