"""The reader of the final phase: what each partition holds when all faults are healed and nobody writes any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from fencepost.harness import secrets
from fencepost.harness.api import Client, Operation, Outcome, PlannedOperation
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.worker_commands import Control, Report


class FinalReader:
    """Reads every partition once, from the log's start to the end that its orders name, at one isolation level.

    connect: opens its client.
    """

    def __init__(
        self, connect: Callable[[], Client], workload: Any, writer: HistoryWriter, control: Control, process: int
    ) -> None:
        self._connect, self._workload, self._writer = connect, workload, writer
        self._control, self._process = control, process

    def run(self, report: Report, run: str) -> None:
        """Read, as the orders say: `ends` and `starts` per partition, `bound_s`."""
        self._control.go.wait()
        client = self._connect()
        orders = self._control.orders
        starts, ends = orders["starts"], orders["ends"]
        deadline = time.monotonic() + orders["bound_s"]
        number, failed = 0, ""
        while not _covers(client.ends(), ends) and time.monotonic() < deadline and not self._control.stop.is_set():
            op = Operation.of(self._process, number, PlannedOperation(f="poll", mops=(("poll",),)))
            self._writer.invoke(op.process, op.number, "poll", op.value)
            outcome = self._workload.perform(op, client, run)
            self._writer.complete(outcome, op.process, op.number, "poll", op.value, errors=secrets.without_secrets(op.errors))
            failed = op.errors[-1]["text"] if op.errors else ""
            number += 1
        reached = client.ends()
        value = {partition: [starts[partition], end, reached.get(partition, -1)] for partition, end in ends.items()}
        self._writer.invoke(self._process, number, "final-read", {})
        done = Outcome.OK if _covers(reached, ends) else Outcome.INFO
        self._writer.complete(done, self._process, number, "final-read", value, errors=[])
        client.close()
        if done is not Outcome.OK and failed:
            report({"note": secrets.mask(f"process {self._process} cannot read on: {failed}")})
        report({"final": done.value})


def _covers(reached: Mapping[str, int], ends: Mapping[str, int]) -> bool:
    return all(reached.get(partition, -1) >= end for partition, end in ends.items())
