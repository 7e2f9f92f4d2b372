"""One worker: the loop that takes operations from a generator and makes them happen, recording each ahead.

Run as `python -m fencepost.harness.perform.worker RUN_DIR SLOT PROCESS INCARNATION`, one operating-system process per slot.
Commands come as JSON lines on standard input (`{"go": {...}}`, `{"stop": true}`), reports go out as JSON lines on standard
output. When standard input ends, the harness is gone and the worker leaves at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fencepost.harness import secrets
from fencepost.harness.api import (
    ONLY_READ,
    SECOND,
    CallError,
    Client,
    ClientSettings,
    Operation,
    Outcome,
    PlannedOperation,
    Role,
)
from fencepost.harness.api.errors import lack_of_machine
from fencepost.harness.api.service_addresses import services_of
from fencepost.harness.connect.rest import RestClient
from fencepost.harness.connect.worker import addresses
from fencepost.harness.history.run_directory import read_plan
from fencepost.harness.history.writer import HistoryWriter, file_name
from fencepost.harness.perform.final_reader import FinalReader
from fencepost.harness.perform.instance import Instance, end_group
from fencepost.harness.perform.operators import RemoteOperator
from fencepost.harness.perform.plan_roles import (
    at_cluster,
    client_factory,
    client_plan_of,
    consumer_settings_of,
    group_of,
    launch_of,
    name_of,
    partitions_of,
    pool_ids,
    recovery_of,
    roles_of,
    topics_of,
    workers_of,
)
from fencepost.harness.perform.recovery_wait import answered
from fencepost.harness.perform.rivals import SlotRivals
from fencepost.harness.perform.sink_store import StoreReader, of_plan
from fencepost.harness.perform.worker_commands import Control, Report, leave
from fencepost.harness.plugins import registry
from fencepost.harness.system.whole_lines import write_line

OPEN_S = 15.0
INITIALISE = "initialise"
REPORT_EVERY_S = 0.5
# Longer than any operation's own bounds together; a call that is still out then hangs.
WATCHDOG_S = 120.0
EXIT_HUNG = 3


@dataclass
class Slot:
    """A worker's place among `slots` workers, and its present process number."""

    index: int
    slots: int
    process: int

    def __post_init__(self) -> None:
        self._last = self.process

    def renew(self) -> int:
        """Give the slot its next process number."""
        self.process = self.further()
        return self.process

    def further(self) -> int:
        """The next process number of this slot (Jepsen's rule: the last one plus the number of slots)."""
        self._last += self.slots
        return self._last


class WorkerLoop:
    """Performs a workload's operations one by one, as one process after the other."""

    def __init__(
        self,
        plan: Mapping[str, Any],
        workload: Any,
        role: Role,
        slot: Slot,
        writer: HistoryWriter,
        control: Control,
        report: Report,
    ) -> None:
        self._plan, self._workload, self._role, self._slot = plan, workload, role, slot
        self._writer, self._control, self._report = writer, control, report
        self._client_plan = client_plan_of(plan, role)
        self._client_classes = [self._client_class() for _ in range(role.producers)]  # a driver has one client at a time
        self._counts = dict.fromkeys(Outcome, 0)
        self._answered = 0
        self._number = 0  # of the next operation of the present process
        self._rebalances: list[tuple[str, list[str]]] = []  # since the operation before
        self._last_report = 0.0
        self._op: Operation | None = None
        self._op_since = 0.0
        self._completing = threading.Lock()
        self._rivals = SlotRivals(self._rival, self._begin_rival, self._perform_beside) if role.rivals else None
        self._clients: list[Client] = []
        self._operator = RemoteOperator(report, self._transactional_id) if role.operator else None
        if self._operator is not None:
            control.answered = self._operator.answered

    # -- clients ---------------------------------------------------------------------------------
    def _note(self, text: str) -> None:
        self._report({"note": secrets.mask(text)})

    def _client_class(self) -> Callable[[ClientSettings], Any]:
        if self._role.conducts:
            data, elsewhere = Path(self._plan["data"]), {f"worker-{number}": url for number, url in enumerate(self._role.rest, 1)}
            directory = data / f"c{self._slot.index}"
            nodes = workers_of(self._workload.roles(), self._role)
            return lambda settings: RestClient(
                lambda: elsewhere or addresses(data, nodes),
                directory,
                self._plan["bootstraps"][""],
                self._plan["bootstraps"][SECOND],
                note=self._note if elsewhere else None,
                services=services_of(self._plan),
            )
        return client_factory(self._client_plan)

    def open(self) -> Client:
        """Open a client for the slot's present process; try again until it opens or the run ends.

        A transactional producer is initialised by that: an operation of its own, whatever the number of attempts.
        """
        opening = self._begin_initialise() if self._role.transactional else None
        while True:
            self._clients = [make(settings) for make, settings in zip(self._client_classes, self._pool_settings(), strict=True)]
            client: Client = self._clients[0]
            try:
                for pooled in self._clients:
                    pooled.open(OPEN_S)
                if self._role.polls and not self._role.group:
                    client.assign(dict.fromkeys(self._partitions(), "start"))
            except CallError as error:
                self.close()
                self._report({"note": secrets.mask(f"process {self._slot.process} cannot open its client yet: {error}")})
                if opening is not None:
                    note_attempt(opening, error)
                if self._control.stop.wait(0.2):
                    if opening is not None:
                        self._complete(opening, Outcome.INFO)
                    raise
            else:
                if opening is None:
                    self._announce()
                else:
                    self._complete(opening, Outcome.OK)
                if self._role.group and self._role.joins:
                    self._subscribe(client)
                return client

    def _begin_initialise(self) -> Operation:
        """Write ahead that the producers of the present process are about to be initialised: its first operation."""
        self._announce()
        op = Operation.of(self._slot.process, self._number, PlannedOperation(f=INITIALISE, mops=()))
        op.value = {}
        self._number += 1
        self._writer.invoke(op.process, op.number, op.planned.f, op.value)
        return op

    def close(self) -> None:
        """Close what `open` has opened."""
        for client in self._clients:
            client.close()

    def _pool_settings(self) -> list[ClientSettings]:
        """The settings of the client, and of the further producers of the process."""
        own = self._settings()
        further = pool_ids(own.transactional_id or "", self._role)[1:]
        return [own, *(replace(own, transactional_id=name, consumer=None) for name in further)]

    def _subscribe(self, client: Client) -> None:
        """Subscribe, the first operation of a member but `initialise`; it joins with its first poll."""
        topics = {"topics": topics_of(self._plan, self._role)}
        self._writer.invoke(self._slot.process, self._number, "subscribe", {})
        try:
            client.subscribe(topics["topics"], lambda event: self._rebalances.append((event.kind, list(event.partitions))))
            outcome = Outcome.OK
        except CallError as error:  # then its polls fail as well
            self._report({"note": secrets.mask(f"process {self._slot.process} cannot subscribe: {error}")})
            outcome = Outcome.FAIL
        self._writer.complete(outcome, self._slot.process, self._number, "subscribe", topics, errors=[])
        self._number += 1

    def _settings(self) -> ClientSettings:
        plan, role = self._plan, self._role
        writes = role.name not in ONLY_READ
        connection = plan.get("connection", {})
        producer = secrets.resolve({**connection, **plan["client"]["producer"]}) if writes else None
        static = {"group.instance.id": name_of(plan, self._slot.index)} if role.static else {}
        own = {**connection, **consumer_settings_of(plan, role), **static, "isolation.level": role.isolation.value}
        return ClientSettings(
            name=name_of(plan, self._slot.index),
            bootstrap=plan["bootstrap"],
            transactional_id=self._transactional_id(),
            producer=producer,
            consumer=secrets.resolve(own) if role.polls else None,
            shared_group=group_of(plan, role),
            recovery=recovery_of(plan),
        )

    def _partitions(self) -> list[str]:
        """The partitions that the slot's consumer reads."""
        return list(self._control.orders.get("partitions") or partitions_of(self._plan, topics_of(self._plan, self._role)))

    def _transactional_id(self) -> str | None:
        name = name_of(self._plan, self._slot.index)
        own = f"{name}-{self._slot.process}" if self._role.new_ids else name
        return own if self._role.transactional else None

    def _further_id(self, producer: int) -> str:
        """The transactional id of one of several producers; empty: it is that of the process, or none."""
        own = self._transactional_id()
        return pool_ids(own, self._role)[producer] if own and 0 < producer < self._role.producers else ""

    def _announce(self) -> None:
        self._begin(self._slot.process, self._transactional_id())

    def _begin(self, process: int, transactional_id: str | None) -> None:
        """Announce a new process in the history and to the harness."""
        client = f"{self._client_plan['kind']} {self._client_plan['version']}"
        self._writer.process(
            process,
            isolation=self._role.isolation.value,
            final=self._role.name == "final",
            transactional_id=transactional_id,
            client=client,
        )
        self._report({"process": process})

    # -- rivals ----------------------------------------------------------------------------------
    def _rival(self, suffix: str, more: Mapping[str, Any]) -> Client:
        own = self._settings()
        producer = {**(own.producer or {}), **more}
        settings = replace(own, transactional_id=f"{own.transactional_id}{suffix}", producer=producer, consumer=None)
        return client_factory(self._client_plan)(settings)  # a driver has one client at a time, so each rival has its own

    def _begin_rival(self, suffix: str) -> int:
        process = self._slot.further()
        self._begin(process, f"{self._transactional_id()}{suffix}")
        return process

    def _perform_beside(self, op: Operation, client: Any) -> Outcome:
        """Perform an operation of a rival, written ahead, while the slot's own is under way: only the slot's own is watched."""
        self._writer.invoke(op.process, op.number, op.planned.f, op.value, op.planned.intent)
        outcome = self._attempt(op, client)
        with self._completing:
            self._complete(op, outcome)
        return outcome

    # -- the loop --------------------------------------------------------------------------------
    def run(self) -> None:
        """Open, wait for the start, then one operation after the other until the stop."""
        client = self.open()
        self._report({"ready": True})
        self._control.go.wait()
        threading.Thread(target=self._watch, daemon=True).start()
        rng = Random(f"{self._plan['seed']}/worker/{self._slot.index}/{self._slot.process}")
        rate = float(self._control.orders.get("rate", 0.0)) if self._role.name == "writer" else 0.0
        pace = Pace(rate, Random(f"{self._plan['seed']}/pace/{self._slot.process}"))
        for op in self._operations(rng):
            if pace.wait(self._control.stop) or self._control.stop.is_set():
                break
            if self._perform(op, client):
                self.close()
                self._rebalances.clear()
                self._slot.renew()
                self._number = 0
                try:
                    client = self.open()
                except CallError:
                    break  # stopped meanwhile
        self.close()
        self._report_counts(force=True)

    def _operations(self, rng: Random) -> Iterator[Operation]:
        """The operations of this slot, each numbered as it comes; the workload's generator is sent those that have ended."""
        plans = self._workload.operations(self._role, partitions_of(self._plan), rng)
        planned = next(plans)
        while True:
            op = Operation.of(self._slot.process, self._number, planned)
            self._number += 1
            yield op
            op.closing = self._control.closing.is_set()
            planned = plans.send(op) if hasattr(plans, "send") else next(plans)
            if op.broken:
                self._report({"broken": secrets.mask(op.broken)})

    def _perform(self, op: Operation, client: Client) -> bool:
        """Perform one operation, written ahead; returns whether the process ends with it."""
        planned = op.planned
        with self._completing:
            self._op, self._op_since = op, time.monotonic()
        self._writer.invoke(op.process, op.number, planned.f, op.value, planned.intent, self._further_id(planned.producer))
        op.rivals, op.operator, op.producers = self._rivals, self._operator, self._clients
        op.recovery = recovery_of(self._plan)
        outcome = self._attempt(op, client)
        op.outcome, op.rebalances, self._rebalances[:] = outcome, list(self._rebalances), ()
        with self._completing:
            self._complete(op, outcome)
            self._op = None
        self._report_counts()
        return op.renew

    def _attempt(self, op: Operation, client: Client) -> Outcome:
        try:
            outcome: Outcome = self._workload.perform(op, client, self._plan["run"])
        except Exception as error:  # noqa: BLE001 - a client or plug-in may raise anything; the operation is then info
            sys.stderr.write(secrets.mask(traceback.format_exc()))  # the worker's own log
            op.errors.append(_unexpected(error))
            op.renew = True
            return Outcome.INFO
        return outcome

    def _complete(self, op: Operation, outcome: Outcome) -> None:
        fields: dict[str, Any] = {"decided": op.decided} if op.decided is not None else {}
        fields |= {"rebalances": op.rebalances} if op.rebalances else {}
        errors = secrets.without_secrets(op.errors) if op.errors else op.errors
        self._writer.complete(outcome, op.process, op.number, op.planned.f, op.value, errors=errors, **fields)
        self._counts[outcome] += 1
        self._answered += answered(op.planned.f, outcome, op.value)

    def _watch(self) -> None:
        """End the worker when one operation is out for too long: the call hangs, and its outcome is unknown."""
        while True:
            time.sleep(1.0)
            with self._completing:
                op, since = self._op, self._op_since
                if op is None or time.monotonic() - since < WATCHDOG_S:
                    continue
                op.errors.append({"call": "watchdog", "name": "HUNG", "code": 0, "text": f"no answer for {WATCHDOG_S:.0f} s"})
                self._complete(op, Outcome.INFO)
                self._report({"note": f"process {op.process}: operation {op.number} hung; the worker is replaced"})
                leave(EXIT_HUNG)

    def _report_counts(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last_report > REPORT_EVERY_S:
            self._last_report = now
            counts = {outcome.value: count for outcome, count in self._counts.items()}
            self._report({"counts": {**counts, "answered": self._answered}})


@dataclass
class Pace:
    """Spaces operations to `rate` per second on average (Poisson arrivals); 0 means no pause at all."""

    rate: float
    rng: Random

    def wait(self, stop: threading.Event) -> bool:
        """Pause before the next operation; True when stopped meanwhile."""
        return stop.wait(self.rng.expovariate(self.rate)) if self.rate > 0 else False


def note_attempt(op: Operation, error: CallError) -> None:
    """Record with an `initialise` operation why an attempt failed, unless it was as the one before."""
    row = {**error.row(), "call": INITIALISE}
    if not op.errors or any(op.errors[-1][name] != row[name] for name in ("name", "fatal", "retriable", "abortable")):
        op.errors.append(row)


def _unexpected(error: Exception) -> dict[str, Any]:
    return {"call": "perform", "name": type(error).__name__, "code": 0, "text": str(error), "time": time.monotonic_ns()}


def main(argv: list[str]) -> None:
    run_dir, index, process, incarnation = Path(argv[0]), int(argv[1]), int(argv[2]), int(argv[3])
    plan: dict[str, Any] = {
        **read_plan(run_dir),
        "bootstraps": {"": os.environ["FENCEPOST_BOOTSTRAP"], SECOND: os.environ["FENCEPOST_SECOND_BOOTSTRAP"]},
        "connection": json.loads(os.environ["FENCEPOST_CONNECTION"]),
        "data": str(run_dir.resolve() / "data"),
    }
    secrets.guard()
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints goes to the log, not into our reports
    lock = threading.Lock()

    def report(message: dict[str, Any]) -> None:
        with lock:
            write_line(out, msgspec.json.encode(message))

    try:
        work(plan, (run_dir, index, process, incarnation), report)
    except (OSError, MemoryError, RuntimeError) as error:
        if not (lack := lack_of_machine(error)):
            raise
        report({"broken": lack})
    leave()


def work(plan: dict[str, Any], place: tuple[Path, int, int, int], report: Report) -> None:
    """Do a worker's whole work. place: run directory, slot, process, incarnation."""
    run_dir, index, process, incarnation = place
    workload = registry.load("fencepost.workload", plan["workload"]["kind"])(**plan["workload"]["options"])
    roles = roles_of(workload)
    plan = at_cluster(plan, roles[index].cluster)
    node = os.environ["FENCEPOST_NODE"]
    writer = HistoryWriter(
        run_dir / "history" / file_name(index, incarnation),
        run=plan["run"],
        slot=index,
        node=node,
        role=roles[index].name,
        pid=os.getpid(),
    )
    control = Control()
    threading.Thread(target=control.listen, daemon=True).start()
    if launch := launch_of(plan, roles[index], index, run_dir):
        Instance(launch, (index, process), writer, control, report, run_dir).run()
        report({"done": True})
        end_group()
        os._exit(0)
    loop = WorkerLoop(plan, workload, roles[index], Slot(index, len(roles), process), writer, control, report)
    if sink := roles[index].program:
        control.go.wait()
        StoreReader(of_plan(plan, sink, run_dir), writer, process).run(workload, plan["run"], report)
    elif roles[index].name == "final":
        FinalReader(loop.open, workload, writer, control, process).run(report, plan["run"])
    else:
        loop.run()
    report({"done": True})


if __name__ == "__main__":
    main(sys.argv[1:])
