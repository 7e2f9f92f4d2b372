"""A client in a driver's process, behind `harness.api.Client`."""

from __future__ import annotations

import binascii
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fencepost.harness import secrets
from fencepost.harness.api import CallError, ClientSettings, Delivered, Done, GroupMetadata, Outgoing, Polled, Position, Rebalance
from fencepost.harness.drivers.answers import (
    LONGEST_TEXT,
    CommittedAnswer,
    DeliveredEvent,
    GroupAnswer,
    PollAnswer,
    PositionAnswer,
    RebalancedEvent,
    Record,
    call_error,
)
from fencepost.harness.drivers.frames import FrameError
from fencepost.harness.drivers.process import DriverProcess, Hello
from fencepost.harness.system.answers import WrongAnswer, shaped, shown


class DriverClient:
    """One producer and one consumer of a driver. The process outlives `close`, for the next client of the same worker.

    process: the driver; it is started when it does not run.
    """

    version: ClassVar[str] = ""  # known when it has started: `hello`
    capabilities: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, process: DriverProcess, settings: ClientSettings) -> None:
        self._process, self._settings = process, settings
        self.hello: Hello | None = None
        self._waiting: dict[int, tuple[str, Done]] = {}
        self._rebalanced: Callable[[Rebalance], None] = lambda _: None
        self._ends: dict[str, int] = {}
        self._records = 0
        process.on_event = self._take

    @property
    def pid(self) -> int | None:
        """The process id of its driver, None while it does not run."""
        return self._process.pid

    @property
    def library(self) -> str:
        return self._process.library

    def open(self, timeout_s: float) -> None:
        settings = self._settings
        if self._process.pid is None:
            self.hello = self._process.start()
        self._call(
            "open",
            name=settings.name,
            bootstrap=settings.bootstrap,
            transactional_id=settings.transactional_id,
            group=settings.group,
            producer=settings.producer,
            consumer=settings.consumer,
            recovery=settings.recovery,
            timeout_ms=_ms(timeout_s),
        )

    def initialise(self, timeout_s: float) -> None:
        self._let_go()
        self._call("initialise", timeout_ms=_ms(timeout_s))  # the old producer may report its records even after that

    def begin(self) -> None:
        self._call("begin")

    def send(self, record: Outgoing, done: Done) -> None:
        self._records += 1
        number = self._records
        self._waiting[number] = (f"{record.topic}-{record.partition}", done)
        try:
            self._call(
                "send",
                record=number,
                topic=record.topic,
                partition=record.partition,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
        except CallError:
            self._waiting.pop(number, None)  # an error means that the client did not take it
            raise

    def flush(self, timeout_s: float) -> None:
        self._call("flush", timeout_ms=_ms(timeout_s))

    def send_offsets(self, offsets: Mapping[str, int], group: GroupMetadata, timeout_s: float) -> None:
        self._call("send_offsets", offsets=dict(offsets), group=group, timeout_ms=_ms(timeout_s))

    def commit(self, timeout_s: float) -> None:
        self._call("commit", timeout_ms=_ms(timeout_s))

    def abort(self, timeout_s: float) -> None:
        self._call("abort", timeout_ms=_ms(timeout_s))

    def assign(self, positions: Mapping[str, Position]) -> None:
        self._call("assign", positions=dict(positions))

    def subscribe(self, topics: Sequence[str], rebalanced: Callable[[Rebalance], None]) -> None:
        self._rebalanced = rebalanced
        self._call("subscribe", topics=list(topics))

    def seek(self, positions: Mapping[str, Position]) -> None:
        self._call("seek", positions=dict(positions))

    def position(self, partitions: Sequence[str]) -> Mapping[str, int | None]:
        return self._process.answer(PositionAnswer, "position", partitions=list(partitions)).positions

    def committed(self, partitions: Sequence[str], timeout_s: float) -> Mapping[str, int | None]:
        arguments = {"partitions": list(partitions), "timeout_ms": _ms(timeout_s)}
        return self._process.answer(CommittedAnswer, "committed", **arguments).offsets

    def commit_offsets(self, offsets: Mapping[str, int], timeout_s: float) -> None:
        self._call("commit_offsets", offsets=dict(offsets), timeout_ms=_ms(timeout_s))

    def group(self) -> GroupMetadata:
        return self._process.answer(GroupAnswer, "group").group

    def memberless_group(self) -> GroupMetadata:
        return self._process.answer(GroupAnswer, "group", member=False).group

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        answer = self._process.answer(PollAnswer, "poll", timeout_ms=_ms(timeout_s), limit=limit)
        try:
            records = [_polled(record) for record in answer.records]
        except binascii.Error as error:
            raise self._process.broken("poll", f"records that cannot be understood: {error}") from error
        self._ends.update(answer.ends or {})
        return records

    def ends(self) -> Mapping[str, int]:
        return self._ends

    def leave(self, timeout_s: float) -> None:
        self._call("leave", timeout_ms=_ms(timeout_s))
        self._waiting.clear()

    def close(self) -> None:
        """End the driver; what was not delivered by now is never reported. A driver that cannot even do this is killed."""
        self._let_go()
        try:
            if self._process.pid is not None:
                self._call("close")
        except CallError:
            self._process.end()
        self._waiting.clear()

    def _let_go(self) -> None:
        """Listen to no record any more; deliveries that are in the pipe already break no protocol."""
        self._waiting = {number: (partition, lambda _: None) for number, (partition, _) in self._waiting.items()}

    def _call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return self._process.call(name, **arguments)

    def _take(self, event: Mapping[str, Any]) -> None:
        """One event of the driver. Raises FrameError for one that cannot be understood."""
        try:
            kind = event["event"]
            if kind == "delivered":
                self._deliver(shaped(event, DeliveredEvent))
            elif kind == "rebalanced":
                change = shaped(event, RebalancedEvent)
                self._rebalanced(Rebalance(change.kind, tuple(change.partitions)))
            else:
                line = f"{kind}: {event.get('level', '')} {event.get('text', event.get('values', ''))}"
                sys.stderr.write(secrets.mask(f"{line[:LONGEST_TEXT]}\n"))
        except (KeyError, RecursionError, WrongAnswer) as error:
            raise FrameError(f"an event that cannot be understood: {error}") from error

    def _deliver(self, event: DeliveredEvent) -> None:
        """A record's fate; one that is reported twice, or was never sent, breaks the protocol: what it says is not believed."""
        waiting = self._waiting.pop(event.record, None)
        if waiting is None:
            raise WrongAnswer(f"a delivery of a record that is not under way: {shown(event.record)}")
        partition, done = waiting
        if event.error is not None:
            done(call_error("deliver", event.error))
        else:
            topic = partition.rpartition("-")[0]
            offset = None if event.offset == -1 else event.offset
            done(Delivered(partition if event.partition is None else f"{topic}-{event.partition}", offset))


def _polled(record: Record) -> Polled:
    topic, number, offset, key, value, headers, timestamp = record
    named = tuple((name, _bytes(text) or b"") for name, text in headers or ())
    return Polled(f"{topic}-{number}", offset, _bytes(value) or b"", _bytes(key), named, timestamp)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)  # other letters would be left out: another value


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
