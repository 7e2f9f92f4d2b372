"""The stories of failures: a driver that is fenced, whose brokers are silent, that is closed, frozen or killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence

from fencepost.harness.api import CallError, Client, Delivered, Outgoing
from fencepost.harness.api.words import plural
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    END_S,
    READ_S,
    TOPIC,
    TRANSACTIONAL,
    ClientFixture,
    Deliveries,
    Flaw,
    await_frozen,
    demand,
    fresh_values,
    refusal,
)
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import BROKEN, GONE
from fencepost.harness.system import processes

FAILURES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "fenced": ("a producer whose id another took commits nothing: a fatal error, or its next one fails", ("transactions",)),
    "initialise": ("another producer under the same id fences nothing of its own", ("transactions", "initialise")),
    "recovery": ("after a commit without an answer the errors' flags lead to a transaction that commits", ("transactions",)),
    "silent brokers": ("while no broker answers, every call ends in about its time, and none claims success", ("transactions",)),
    "close": ("close does not wait, leaves a transaction open, and open works again", ("transactions",)),
    "frozen": ("frozen in the middle of a call it goes on", ("transactions",)),
    "killed": ("killed in the middle of a transaction nothing of it is visible", ("transactions",)),
}  # fmt: skip
SHORT_S, SLACK_S = 3.0, 20.0
FROZEN_S = 2.0
REPEATS = 3  # of a call that may be made again


class FailureStories(ClientFixture):
    """Plays the stories of failures."""

    def story_fenced(self) -> str:
        name = self._name()
        with self._writer(name) as first:
            self._transaction(first, fresh_values("before", 1))
            with self._writer(name) as second:
                values = fresh_values("fenced", 2)
                error = refusal(lambda: self._transaction(first, values))
                demand(error, "the fenced producer's transaction succeeded", "pass on what the client says")
                visible = [record for record in self._observed() if record.value in values]
                demand(
                    not visible,
                    f"{plural(len(visible), 'record')} of the fenced producer can be read",
                    "commit nothing after an error",
                )
                again = fresh_values("fenced-again", 2)
                calls = (lambda: first.abort(CALL_S), lambda: self._transaction(first, again))
                error = self._repeated(first, error)
                fatal = error.fatal or refusal(*calls)
                demand(fatal, f"{error} is not fatal, and the next transaction succeeds", "a fenced producer commits nothing")
                after = fresh_values("fencing", 2)
                self._missing(self._transaction(second, after), after, self._observed())
        return f"{error}"

    def _repeated(self, client: Client, error: CallError | None) -> CallError:
        """The error of a fenced producer after the calls that its flags ask for. Raises Flaw when they ask for ever."""
        assert error is not None
        again: CallError | None = error
        for _ in range(REPEATS):
            if again is None or not again.retriable:
                return again or error
            again = refusal(lambda: client.commit(CALL_S))
        change = "answer with the flags of the client's own error: what is `retriable` may succeed"
        raise Flaw(f"{again or error} is called retriable, and {REPEATS} repetitions failed like it", change)

    def story_initialise(self) -> str:
        name = self._name()
        with self._writer(name) as client:
            client.begin()
            client.send(Outgoing(topic=TOPIC, partition=0, value=b"let go"), lambda _: None)
            client.initialise(CALL_S)
            values = fresh_values("initialise", 2)
            self._missing(self._transaction(client, values), values, self._observed())
            gone = all(record.value != b"let go" for record in self._observed())
            demand(gone, "a record of the producer that was let go is visible", "let go of it without committing")
            with self._writer(name) as other:
                self._transaction(other, fresh_values("taken", 1))
            client.initialise(CALL_S)
            back = fresh_values("initialised", 2)
            self._missing(self._transaction(client, back), back, self._observed())
        return "the new producer goes on, and one that was fenced has its id again"

    def story_silent_brokers(self) -> str:
        values, deliveries = fresh_values("silent", 2), Deliveries()
        with self._writer() as client:
            self._transaction(client, fresh_values("loud", 2))
            client.begin()
            with self._brokers_frozen():
                for number, value in enumerate(values):
                    client.send(Outgoing(topic=TOPIC, partition=number, value=value), deliveries.of(number))
                self._demand_refused(client, "flush")
                error = self._demand_refused(client, "commit")
                self._demand_silence(deliveries)
                self._demand_unopened()
            self._settled(client, error)
        seen = [record.value for record in self._observed() if record.value in values]
        demand(len(seen) in (0, len(values)), f"{len(seen)} of {len(values)} records are visible", "repeat no call by yourself")
        return f"{error}"

    def _demand_refused(self, client: Client, call: str) -> CallError | None:
        """The error of a call of `SHORT_S` while no broker answers. Raises Flaw for success, and for a call that takes long."""
        began = time.monotonic()
        error = refusal(lambda: getattr(client, call)(SHORT_S))
        took = time.monotonic() - began
        demand(error, f"{call} succeeded while no broker answered", "acknowledge nothing that the broker did not")
        change = "give `timeout_ms` to the client, or bound the call yourself"
        demand(took < SHORT_S + SLACK_S, f"{call} of {SHORT_S:.0f} s took {took:.0f} s", change)
        return error

    def _demand_silence(self, deliveries: Deliveries) -> None:
        """Raise Flaw for a record that was acknowledged while no broker answered."""
        early = [number for number, reports in deliveries.reports.items() if any(isinstance(one, Delivered) for one in reports)]
        change = "report `delivered` only for what the broker acknowledged"
        demand(not early, f"record {early and early[0]} was acknowledged while no broker answered", change)

    def _demand_unopened(self) -> None:
        """Raise Flaw for a producer whose transactions are initialised while no broker answers."""
        name = self._name()
        with self._process() as process:
            settings = self._settings(TRANSACTIONAL, None, name=name, transactional_id=name)
            self._demand_refused(DriverClient(process, settings), "open")

    def _settled(self, client: Client, error: CallError | None) -> None:
        """End the transaction as a workload does: call again what may be called again, abort what must be aborted."""
        deadline = time.monotonic() + READ_S
        while error is not None and error.retriable and time.monotonic() < deadline:
            error = refusal(lambda: client.commit(CALL_S))
        if error is not None and error.abortable and not error.fatal:
            client.abort(CALL_S)

    def story_recovery(self) -> str:
        values, after = fresh_values("unanswered", 2), fresh_values("recovered", 2)
        with self._writer() as client:
            self._transaction(client, fresh_values("answered", 2))
            client.begin()
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, partition=number, value=value), lambda _: None)
            client.flush(CALL_S)
            with self._brokers_frozen():
                error = refusal(lambda: client.commit(SHORT_S))
            demand(error, "commit succeeded while no broker answered", "acknowledge nothing that the broker did not")
            path, visible = self._recovered(client, error)
            change = "answer with flags that lead on: the same call again, an abort, or another producer"
            wrong = refusal(lambda: self._missing(self._transaction(client, after), after, self._observed()))
            demand(wrong is None, f"{path}, and the next transaction failed: {wrong}", change)
        seen = sum(record.value in values for record in self._observed())
        demand(seen in visible, f"{path}, and {plural(seen, 'record')} of {len(values)} can be read", "say only what is known")
        return path

    def _recovered(self, client: Client, error: CallError | None) -> tuple[str, Sequence[int]]:
        """Follow the flags of a failed commit: the calls made, and how many of its two records may be visible then."""
        path, deadline = ["commit"], time.monotonic() + READ_S
        while error is not None and error.retriable and time.monotonic() < deadline:
            path.append("commit")
            error = refusal(lambda: client.commit(CALL_S))
        if error is None:
            return ", ".join(path), (2,)
        refused: CallError | None = error
        if not error.fatal and (error.abortable or error.unconfirmed):
            path.append("abort")
            refused = refusal(lambda: client.abort(CALL_S))
        if refused is not None:
            path.append("another producer")
            client.close()
            client.open(CALL_S)
        return ", ".join(path), (0, 2) if refused or error.unconfirmed else (0,)

    def story_close(self) -> str:
        name = self._name()
        settings = self._settings(TRANSACTIONAL, None, name=name, transactional_id=name)
        with self._process() as process:
            client = DriverClient(process, settings)
            client.open(CALL_S)
            client.begin()
            client.send(Outgoing(topic=TOPIC, partition=0, value=b"left open"), lambda _: None)
            client.flush(CALL_S)
            with self._brokers_frozen():
                began = time.monotonic()
                client.close()
                took = time.monotonic() - began
                demand(took < END_S, f"close took {took:.0f} s while no broker answered", "wait for nothing in close")
                demand(process.pid, "the driver ended with close", "go on reading requests after close")
            again = DriverClient(process, settings)
            again.open(CALL_S)
            values = fresh_values("closed", 2)
            self._missing(self._transaction(again, values), values, self._observed())
            again.close()
        return f"after {took:.1f} s, and opened again"

    def story_frozen(self) -> str:
        values, deliveries = fresh_values("frozen", 4), Deliveries()
        with self._process() as process:
            name = self._name()
            client = DriverClient(process, self._settings(TRANSACTIONAL, None, name=name, transactional_id=name))
            client.open(CALL_S)
            client.begin()
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, partition=number % 2, value=value), deliveries.of(number))
            _frozen_for(process.pid, FROZEN_S)
            client.commit(CALL_S)
            self._missing(deliveries, values, self._observed())
        return f"for {FROZEN_S:.0f} s"

    def story_killed(self) -> str:
        values, name = fresh_values("killed", 2), self._name()
        with self._process() as process:
            client = DriverClient(process, self._settings(TRANSACTIONAL, None, name=name, transactional_id=name))
            client.open(CALL_S)
            client.begin()
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, partition=number, value=value), lambda _: None)
            client.flush(CALL_S)
            os.kill(process.pid or 0, signal.SIGKILL)
            error = refusal(lambda: client.commit(CALL_S))
            demand(error and error.name in (GONE, BROKEN), f"a killed driver answered: {error}", "run in one process")
        with self._writer(name) as again:  # which ends what the killed one left open
            self._transaction(again, fresh_values("living", 1))
        visible = [record for record in self._observed() if record.value in values]
        demand(not visible, f"{plural(len(visible), 'record')} of it can be read", "a transaction is committed by `commit` alone")
        return "its transaction was aborted"


def _frozen_for(pid: int | None, seconds: float) -> None:
    """Freeze a process, and let it go on after a while, by a thread: the next call is made meanwhile."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await_frozen(lambda: processes.state(pid), "the driver")
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()
