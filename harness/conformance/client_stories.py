"""The stories that a driver is put through on a real cluster, and what must be seen in each (docs/client-drivers.md).

Every claim of a driver is checked with the harness' own client, which reads back the records that the driver acknowledged, and
reads the partitions that it read.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fencepost.harness.api import CAPABILITIES, CallError, Client, Delivered, Isolation, Outgoing, Polled
from fencepost.harness.api.words import plural
from fencepost.harness.conformance.client_fixture import (
    CALL_S,
    GROUP_TOPIC,
    PARTITIONS,
    READ_S,
    TOPIC,
    TRANSACTIONAL,
    Deliveries,
    Flaw,
    TooFew,
    await_frozen,
    demand,
    fresh_values,
    read_all,
    read_until,
)
from fencepost.harness.conformance.client_repetition import IDEMPOTENT, MANY, RepeatedStories
from fencepost.harness.conformance.results import StoryResult, result_of
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import BROKEN, GONE, Hello
from fencepost.harness.planning.clients import BENEATH
from fencepost.harness.system import processes

LARGE = 950_000  # a request of 1 MB at most is the default of clients
SHORT_S, SLACK_S = 3.0, 20.0
FROZEN_S = 2.0
END_S = 5.0
NONSENSE = {"no.such.setting": "1"}
STORIES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # story: what must be seen, and the capabilities that it needs
    "protocol": ("hello names protocol, client and capabilities; an unknown call and an unknown member do no harm", ()),
    "settings": ("what fencepost itself gives is taken, what the driver does not know is refused", ()),
    "commit": ("committed records are there, once, at the offsets that were reported", ("transactions",)),
    "abort": ("aborted records are not visible at read_committed", ("transactions",)),
    "idempotent": ("without transactions every acknowledged record is there, once, where it was reported", ("idempotence",)),
    "read": ("assigned partitions are read from start to end, each visible record once, in order", ("assign", "ends")),
    "uncommitted": ("at read_uncommitted the aborted records are read as well", ("assign", "ends", "isolation")),
    "content": ("keys and headers arrive, in both directions", ("transactions", "assign", "headers")),
    "partitioner": ("a record without a partition is reported where it lies", ("transactions", "partitioner")),
    "large record": ("a record of nearly 1 MB is sent and read", ("transactions", "assign")),
    "refused record": ("a record for a partition that there is not is never acknowledged", ("transactions",)),
    "seek": ("after a seek the record there comes next, and the position says so", ("assign", "seek")),
    "group": ("a subscribed consumer is told its partitions", ("groups",)),
    "offsets": (
        "offsets of a committed transaction are committed, of an aborted one not",
        ("transactions", "groups", "offsets-in-transactions"),
    ),
    "fenced": ("a producer whose id another took commits nothing: a fatal error, or its next one fails", ("transactions",)),
    "initialise": ("another producer under the same id fences nothing of its own", ("transactions", "initialise")),
    "recovery": ("after a commit without an answer the errors' flags lead to a transaction that commits", ("transactions",)),
    "silent brokers": ("while no broker answers, every call ends in about its time, and none claims success", ("transactions",)),
    "close": ("close does not wait, leaves a transaction open, and open works again", ("transactions",)),
    "frozen": ("frozen in the middle of a call it goes on", ("transactions",)),
    "killed": ("killed in the middle of a transaction nothing of it is visible", ("transactions",)),
    **MANY,
    "end of input": ("the driver ends when its standard input does", ()),
}  # fmt: skip


class ClientKit(RepeatedStories):
    """Plays the stories."""

    _hello: Hello | None = None

    def play(self, stories: Sequence[str]) -> Iterator[StoryResult]:
        """Each of these stories, in the order of `STORIES`; what the driver cannot do is not played."""
        for name, (_, needs) in STORIES.items():
            if name in stories or name == "protocol":
                yield self._played(name, needs)
                if self._hello is None:
                    yield from (
                        StoryResult(story, None, "not played: the driver says no hello") for story in stories if story != name
                    )
                    return

    def _played(self, name: str, needs: tuple[str, ...]) -> StoryResult:
        lacking = [need for need in needs if self._hello and need not in self._hello.capabilities]
        if lacking:
            return StoryResult(name, None, f"not played: the driver lacks {', '.join(lacking)}")
        try:
            seen = getattr(self, f"story_{name.replace(' ', '_')}")()
        except Flaw as flaw:
            return result_of(name, [(flaw.seen, flaw.change)], "")
        except TooFew as few:
            return StoryResult(name, None, str(few), observable=False)
        except CallError as error:
            change = "answer every request as docs/client-drivers.md says; the driver's log is beside this run"
            return result_of(name, [(f"{error.call}: {error.name}: {error.text}", change)], "")
        return StoryResult(name, True, seen)

    def story_protocol(self) -> str:
        with self._process() as process:
            hello = process.start()
            self._hello, self.capabilities = hello, hello.capabilities
            unknown = sorted(hello.capabilities - CAPABILITIES.keys())
            demand(not unknown, f"unknown capabilities: {', '.join(unknown)}", f"there are: {', '.join(CAPABILITIES)}")
            demand(hello.client and hello.version, "hello names no client or no version", "name the library and its version")
            wrong = _refusal(lambda: process.call("no-such-call", member=1))
            change = "answer an unknown call with an error named UNSUPPORTED"
            demand(wrong is not None and wrong.name == "UNSUPPORTED", f"an unknown call: {wrong or 'success'}", change)
            process.call("hello", protocols=[1, 99], unknown={"a": 1})
        versions = f"{hello.client} {hello.version}, {hello.runtime}"
        return f"{versions}; {', '.join(sorted(hello.capabilities)) or 'no capabilities'}"

    def story_settings(self) -> str:
        consumer = {**BENEATH["consumer"], "isolation.level": "read_committed"}
        with self._process() as process:
            process.start()
            taken = process.call("check", producer={**BENEATH["producer"], **TRANSACTIONAL}, consumer=consumer).get("refused")
            demand(not taken, f"refused: {taken}", "take every setting that fencepost itself gives (docs/client-drivers.md)")
            refused = process.call("check", producer=NONSENSE, consumer=NONSENSE).get("refused") or ()
        sides = sorted({side for side, key, _ in refused if key in NONSENSE})
        change = "refuse what the driver does not know: it would have no effect, and nobody would see it"
        demand(
            sides == ["consumer", "producer"], f"no.such.setting is refused for {' and '.join(sides) or 'neither side'}", change
        )
        return "no.such.setting is refused"

    def story_commit(self) -> str:
        values = fresh_values("commit", 10)
        with self._writer() as client:
            deliveries = self._transaction(client, values)
            self._missing(deliveries, values, self._observed())
            again = fresh_values("commit-again", 3)
            self._missing(self._transaction(client, again), again, self._observed())
        return f"{len(values) + len(again)} records in two transactions"

    def story_abort(self) -> str:
        values = fresh_values("abort", 4)
        with self._writer() as client:
            self._transaction(client, values, "abort")
            visible = [record.value for record in self._observed() if record.value in values]
            demand(
                not visible,
                f"{plural(len(visible), 'aborted record is', 'aborted records are')} visible",
                "call the client's own abort",
            )
            after = fresh_values("after-abort", 2)
            self._missing(self._transaction(client, after), after, self._observed())
        return f"{len(values)} records are not visible, and the next transaction is"

    def story_idempotent(self) -> str:
        values, deliveries = fresh_values("idempotent", 20), Deliveries()
        with self._client(self._settings(IDEMPOTENT, None)) as client:
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, partition=number % 2, value=value), deliveries.of(number))
            client.flush(CALL_S)
            self._missing(deliveries, values, self._observed())
        return f"{len(values)} records"

    def story_read(self) -> str:
        return self._compared(Isolation.COMMITTED)

    def story_uncommitted(self) -> str:
        return self._compared(Isolation.UNCOMMITTED)

    def _compared(self, isolation: Isolation) -> str:
        with self._reader(isolation) as client:
            try:
                read = read_all(client)
            except TimeoutError as error:
                change = "name a partition in `ends` when the position has passed the markers behind its last record"
                raise Flaw(str(error), change) from None
        own = self._observed(isolation)
        for partition in PARTITIONS:
            given, wanted = _offsets(read, partition), _offsets(own, partition)
            change = "return each visible record once, in the order of its partition, from the position that was assigned"
            seen = f"{partition}: read {_short(given)}, there are {_short(wanted)}"
            demand(given == wanted, seen, change)
        contents = {(record.partition, record.offset): record.value for record in own}
        wrong = [record for record in read if contents[record.partition, record.offset] != record.value]
        demand(
            not wrong,
            f"{plural(len(wrong), 'record has', 'records have')} other bytes than were sent",
            "values are base64 of the very bytes",
        )
        return f"{len(read)} records, as the harness' own client reads them"

    def story_content(self) -> str:
        value, headers = fresh_values("content", 1)[0], (("a", b"1"), ("b", b"\x00\xff"))
        deliveries = Deliveries()
        with self._writer() as client:
            client.begin()
            client.send(Outgoing(topic=TOPIC, partition=0, key=b"\xfekey", value=value, headers=headers), deliveries.of(0))
            client.commit(CALL_S)
        with self._reader() as client:
            given = read_all(client)
        for reader, records in (("the harness' own client", self._observed()), ("the driver", given)):
            got = next(((record.key, tuple(record.headers)) for record in records if record.value == value), None)
            demand(got == (b"\xfekey", headers), f"{reader} reads key and headers {got}", "pass keys and headers on as they are")
        return "key and two headers"

    def story_partitioner(self) -> str:
        values, deliveries = fresh_values("partitioner", 6), Deliveries()
        with self._writer() as client:
            client.begin()
            for number, value in enumerate(values):
                client.send(Outgoing(topic=TOPIC, key=b"%d" % number, value=value), deliveries.of(number))
            client.commit(CALL_S)
            self._missing(deliveries, values, self._observed())
        return f"{len(values)} records"

    def story_large_record(self) -> str:
        value = b"large" + os.urandom(LARGE - 5)
        with self._writer() as client:
            self._missing(self._transaction(client, [value]), [value], self._observed())
        with self._reader() as client:
            demand(any(record.value == value for record in read_all(client)), "it is not read", "frames may have up to 64 MiB")
        return f"{LARGE} bytes"

    def story_refused_record(self) -> str:
        deliveries = Deliveries()
        with self._writer() as client:
            client.begin()
            record = Outgoing(topic=TOPIC, partition=99, value=b"nowhere")
            refused = _refusal(lambda: client.send(record, deliveries.of(0)), lambda: client.commit(CALL_S))
            taken = any(isinstance(report, Delivered) for reports in deliveries.reports.values() for report in reports)
            demand(not taken, "a record for partition 99 was acknowledged", "report the client's error")
            given_up = any(isinstance(report, CallError) for reports in deliveries.reports.values() for report in reports)
            demand(refused or given_up, "neither a call nor a delivery failed", "report the client's error")
        return "refused" if refused else "given up"

    def story_seek(self) -> str:
        self._fill(3)
        own = [record for record in self._observed() if record.partition == PARTITIONS[0]]
        with self._reader() as client:
            client.assign({PARTITIONS[0]: "start"})
            read_until(client, 1)
            client.seek({PARTITIONS[0]: own[1].offset})
            first = read_until(client, 1)[0]
            change = "after seek, return nothing of what was fetched before"
            demand(first.offset == own[1].offset, f"after a seek to {own[1].offset} comes {first.offset}", change)
            client.seek({PARTITIONS[0]: own[0].offset})
            again = read_until(client, 1)[0]
            demand(again.offset == own[0].offset, f"after a seek to {own[0].offset} comes {again.offset}", change)
            at = client.position([PARTITIONS[0]])[PARTITIONS[0]]
            seen = f"the position behind the record at {again.offset} is {at}, and the next one is at {own[1].offset}"
            demand(at is not None and again.offset < at <= own[1].offset, seen, "answer the offset of the next record of `poll`")
        return "forward and back"

    def story_group(self) -> str:
        with self._reader() as client:
            return f"assigned {', '.join(sorted(self._joined(client)))}"

    def story_offsets(self) -> str:
        name, partition = self._name(), f"{GROUP_TOPIC}-0"
        with self._client(self._settings(TRANSACTIONAL, Isolation.COMMITTED, name=name, transactional_id=name)) as client:
            self._joined(client)
            for end, offset in (("commit", 5), ("abort", 9)):
                client.begin()
                client.send(Outgoing(topic=TOPIC, partition=0, value=b"offsets " + end.encode()), lambda _: None)
                client.send_offsets({partition: offset}, client.group(), CALL_S)
                getattr(client, end)(CALL_S)
            at = client.committed([partition], CALL_S)[partition]
        demand(at == 5, f"5 was committed, 9 aborted, and {at} is committed", "add the offsets to the transaction")
        return "committed with the transaction"

    def story_fenced(self) -> str:
        name = self._name()
        with self._writer(name) as first:
            self._transaction(first, fresh_values("before", 1))
            with self._writer(name) as second:
                values = fresh_values("fenced", 2)
                error = _refusal(lambda: self._transaction(first, values))
                demand(error, "the fenced producer's transaction succeeded", "pass on what the client says")
                visible = [record for record in self._observed() if record.value in values]
                demand(
                    not visible,
                    f"{plural(len(visible), 'record')} of the fenced producer can be read",
                    "commit nothing after an error",
                )
                again = fresh_values("fenced-again", 2)
                calls = (lambda: first.abort(CALL_S), lambda: self._transaction(first, again))
                fatal = error.fatal or _refusal(*calls)  # type: ignore[union-attr]
                demand(fatal, f"{error} is not fatal, and the next transaction succeeds", "a fenced producer commits nothing")
                after = fresh_values("fencing", 2)
                self._missing(self._transaction(second, after), after, self._observed())
        return f"{error}"

    def story_initialise(self) -> str:
        with self._writer() as client:
            client.begin()
            client.send(Outgoing(topic=TOPIC, partition=0, value=b"let go"), lambda _: None)
            client.initialise(CALL_S)
            values = fresh_values("initialise", 2)
            self._missing(self._transaction(client, values), values, self._observed())
            gone = all(record.value != b"let go" for record in self._observed())
            demand(gone, "a record of the producer that was let go is visible", "let go of it without committing")
        return "the new producer goes on"

    def story_silent_brokers(self) -> str:
        values, deliveries = fresh_values("silent", 2), Deliveries()
        with self._writer() as client:
            self._transaction(client, fresh_values("loud", 2))
            client.begin()
            with self._brokers_frozen():
                for number, value in enumerate(values):
                    client.send(Outgoing(topic=TOPIC, partition=number, value=value), deliveries.of(number))
                for call in ("flush", "commit"):
                    began = time.monotonic()
                    error = _refusal(lambda call=call: getattr(client, call)(SHORT_S))  # type: ignore[misc]
                    took = time.monotonic() - began
                    demand(error, f"{call} succeeded while no broker answered", "acknowledge nothing that the broker did not")
                    change = "give `timeout_ms` to the client, or bound the call yourself"
                    demand(took < SHORT_S + SLACK_S, f"{call} of {SHORT_S:.0f} s took {took:.0f} s", change)
            self._settled(client, error)
        seen = [record.value for record in self._observed() if record.value in values]
        demand(len(seen) in (0, len(values)), f"{len(seen)} of {len(values)} records are visible", "repeat no call by yourself")
        return f"{error}"

    def _settled(self, client: Client, error: CallError | None) -> None:
        """End the transaction as a workload does: call again what may be called again, abort what must be aborted."""
        deadline = time.monotonic() + READ_S
        while error is not None and error.retriable and time.monotonic() < deadline:
            error = _refusal(lambda: client.commit(CALL_S))
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
                error = _refusal(lambda: client.commit(SHORT_S))
            demand(error, "commit succeeded while no broker answered", "acknowledge nothing that the broker did not")
            path, visible = self._recovered(client, error)
            change = "answer with flags that lead on: the same call again, an abort, or another producer"
            wrong = _refusal(lambda: self._missing(self._transaction(client, after), after, self._observed()))
            demand(wrong is None, f"{path}, and the next transaction failed: {wrong}", change)
        seen = sum(record.value in values for record in self._observed())
        demand(seen in visible, f"{path}, and {plural(seen, 'record')} of {len(values)} can be read", "say only what is known")
        return path

    def _recovered(self, client: Client, error: CallError | None) -> tuple[str, Sequence[int]]:
        """Follow the flags of a failed commit: the calls made, and how many of its two records may be visible then."""
        path, deadline = ["commit"], time.monotonic() + READ_S
        while error is not None and error.retriable and time.monotonic() < deadline:
            path.append("commit")
            error = _refusal(lambda: client.commit(CALL_S))
        if error is None:
            return ", ".join(path), (2,)
        refused: CallError | None = error
        if not error.fatal and (error.abortable or error.unconfirmed):
            path.append("abort")
            refused = _refusal(lambda: client.abort(CALL_S))
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
            error = _refusal(lambda: client.commit(CALL_S))
            demand(error and error.name in (GONE, BROKEN), f"a killed driver answered: {error}", "run in one process")
        with self._writer(name) as again:  # which ends what the killed one left open
            self._transaction(again, fresh_values("living", 1))
        visible = [record for record in self._observed() if record.value in values]
        demand(not visible, f"{plural(len(visible), 'record')} of it can be read", "a transaction is committed by `commit` alone")
        return "its transaction was aborted"

    def story_end_of_input(self) -> str:
        with self._process() as process:
            process.start()
            pid = process.pid or 0
            process.end_input()
            deadline = time.monotonic() + END_S
            while process.pid is not None and time.monotonic() < deadline:
                time.sleep(0.02)
            demand(
                process.pid is None,
                f"it still runs after {END_S:.0f} s (pid {pid})",
                "end when the read of a frame finds the end",
            )
        return "at once"


def _refusal(*calls: Callable[[], Any]) -> CallError | None:
    """The error of the first of these calls that fails."""
    for call in calls:
        try:
            call()
        except CallError as error:
            return error
    return None


def _offsets(records: Sequence[Polled], partition: str) -> list[int]:
    return [record.offset for record in records if record.partition == partition]


def _short(offsets: Sequence[int]) -> str:
    return plural(len(offsets), "record") + (f" ({offsets[0]} to {offsets[-1]})" if offsets else "")


def _frozen_for(pid: int | None, seconds: float) -> None:
    """Freeze a process, and let it go on after a while, by a thread: the next call is made meanwhile."""
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await_frozen(lambda: processes.state(pid), "the driver")
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()
