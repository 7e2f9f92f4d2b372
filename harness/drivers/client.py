"""A client in a driver's process, behind `harness.api.Client`."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fencepost.harness import secrets
from fencepost.harness.api import CallError, ClientSettings, Delivered, Done, GroupMetadata, Outgoing, Polled, Position, Rebalance
from fencepost.harness.drivers.frames import FrameError, whole
from fencepost.harness.drivers.process import BROKEN, DriverProcess, Hello, call_error


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
        return self._offsets("positions", "position", partitions=list(partitions))

    def committed(self, partitions: Sequence[str], timeout_s: float) -> Mapping[str, int | None]:
        return self._offsets("offsets", "committed", partitions=list(partitions), timeout_ms=_ms(timeout_s))

    def commit_offsets(self, offsets: Mapping[str, int], timeout_s: float) -> None:
        self._call("commit_offsets", offsets=dict(offsets), timeout_ms=_ms(timeout_s))

    def group(self) -> GroupMetadata:
        return self._result("group", "group")

    def memberless_group(self) -> GroupMetadata:
        return self._result("group", "group", member=False)

    def poll(self, timeout_s: float, limit: int = 1000) -> list[Polled]:
        answer = self._call("poll", timeout_ms=_ms(timeout_s), limit=limit)
        try:
            records = [_polled(record) for record in _listed(answer["records"])]
            self._ends.update({str(partition): whole(offset) for partition, offset in (answer.get("ends") or {}).items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._broken("poll", f"records or ends that cannot be understood: {error!r}") from error
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

    def _result(self, name: str, call: str, **arguments: Any) -> dict[str, Any]:
        """One result of a call, an object."""
        result = self._call(call, **arguments).get(name)
        if not isinstance(result, dict):
            raise self._broken(call, f"an answer whose `{name}` is no object: {result!r}")
        return result

    def _offsets(self, name: str, call: str, **arguments: Any) -> dict[str, int | None]:
        """One result of a call, partitions with their offsets."""
        offsets = self._result(name, call, **arguments)
        try:
            return {partition: None if offset is None else whole(offset) for partition, offset in offsets.items()}
        except ValueError as error:
            raise self._broken(call, f"offsets that cannot be understood: {error}") from error

    def _broken(self, call: str, text: str) -> CallError:
        self._process.end()
        return CallError(call, BROKEN, 0, text, fatal=True)

    def _take(self, event: Mapping[str, Any]) -> None:
        """One event of the driver. Raises FrameError for one that cannot be understood."""
        try:
            kind = event["event"]
            if kind == "delivered":
                self._deliver(event)
            elif kind == "rebalanced":
                self._rebalanced(Rebalance(event["kind"], tuple(event["partitions"])))
            else:
                sys.stderr.write(secrets.mask(f"{kind}: {event.get('level', '')} {event.get('text', event.get('values', ''))}\n"))
        except (KeyError, TypeError, ValueError) as error:
            raise FrameError(f"an event that cannot be understood: {error!r} in {dict(event)!r}") from error

    def _deliver(self, event: Mapping[str, Any]) -> None:
        """A record's fate; one that is reported twice, or was never sent, breaks the protocol: what it says is not believed."""
        waiting = self._waiting.pop(whole(event["record"]), None)
        if waiting is None:
            raise ValueError("a delivery of a record that is not under way")
        partition, done = waiting
        if (error := event.get("error")) is not None:
            done(call_error("deliver", error))
        else:
            number = event.get("partition")
            topic = partition.rpartition("-")[0]
            done(Delivered(partition if number is None else f"{topic}-{whole(number)}", _offset(event.get("offset"))))


def _polled(record: Sequence[Any]) -> Polled:
    topic, number, offset, key, value, headers, timestamp = record
    if not isinstance(topic, str):
        raise TypeError(f"a topic of the name {topic!r}")
    return Polled(
        f"{topic}-{whole(number)}",
        whole(offset),
        _bytes(value) or b"",
        _bytes(key),
        tuple((str(name), _bytes(text) or b"") for name, text in headers or ()),
        None if timestamp is None else int(timestamp),
    )


def _listed(records: Any) -> list[Any]:
    if not isinstance(records, list):
        raise TypeError(f"records that are no list: {records!r}")
    return records


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)  # other letters would be left out: another value


def _offset(value: Any) -> int | None:
    """An offset; None also for -1, which clients give for an unknown offset."""
    return None if value in (None, -1) else whole(value)


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
