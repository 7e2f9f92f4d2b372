"""The common part of the drivers of kafka-python and aiokafka: calls that are limited in time, the fates of records, errors."""

from __future__ import annotations

from concurrent.futures import TimeoutError
from contextlib import contextmanager
from typing import Any, Iterator

from driver import Driver, Failure, Request, Results, seconds, text_of

FENCED = ("ProducerFencedError", "ProducerFenced", "InvalidProducerEpochError", "InvalidProducerEpoch")
FENCED += ("TransactionalIdAuthorizationFailedError", "TransactionalIdAuthorizationFailed")
CAPABILITIES = ["transactions", "idempotence", "assign", "ends", "partitioner", "headers", "offsets-in-transactions", "groups"]
CAPABILITIES += ["seek", "initialise", "leave", "isolation"]


class PythonClientDriver(Driver):
    """One producer and one consumer. A call that the library does not limit runs on: asked again, it is waited for again."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: Request = {}
        self._producer: Any = None
        self._consumer: Any = None
        self._records: dict[int, Any] = {}
        self._given_up: Failure | None = None  # the error of the transaction's first record that was given up
        self._under_way: tuple[str, Any] | None = None

    def start(self, function: Any, *values: Any) -> Any:
        """A call of the library, as a future of concurrent.futures."""
        raise NotImplementedError

    def fate(self, future: Any) -> Any:
        """The result of sending a record: None while nothing is known, else its metadata or an exception."""
        raise NotImplementedError

    def state(self) -> str:
        """`fatal`, `abortable` or neither: the state of the producer's transactions."""
        raise NotImplementedError

    def writer(self) -> Any:
        if self._producer is None:
            raise Failure("IllegalStateError", 0, "this process has no producer")
        return self._producer

    def limited(self, call: str, limit_s: float, function: Any, *values: Any) -> Any:
        """Make a call; after its time it stays under way, and the same call waits for it again."""
        if self._under_way is not None and self._under_way[0] != call:
            raise Failure("IllegalStateError", 0, f"{self._under_way[0]} is still under way")
        _, future = self._under_way or (call, self.start(function, *values))
        self._under_way = (call, future)
        try:
            with self.failures():
                return future.result(limit_s)
        except TimeoutError as error:
            if future.done():
                raise self.failure(error) from error
            raise Failure("TimeoutError", 0, f"{call} has not ended after {limit_s} s", retriable=True) from None
        finally:
            if future.done():
                self._under_way = None
            self.report()

    def require_delivered(self, request: Request) -> None:
        """Refuse a commit that would be one without a record: the library leaves the fate of records to the application."""
        if self._under_way is None:
            self.flush(request)
        if (lost := self._given_up) is not None:
            raise Failure(**{**lost.members, "retriable": False, "abortable": not lost.members["fatal"]})

    def commit(self, request: Request) -> Results:
        self.require_delivered(request)
        self.limited("commit", seconds(request), self.writer().commit_transaction)
        return None

    def abort(self, request: Request) -> Results:
        self.limited("abort", seconds(request), self.writer().abort_transaction)
        return None

    def abandoned(self) -> Any:
        """Forget all that is under way; the call among it that was opening a producer."""
        call, future = self._under_way or ("", None)
        self._under_way, self._records = None, {}
        return future if call == "open" else None

    def report(self) -> None:
        """The events of the records whose fate is known."""
        for record, future in list(self._records.items()):
            fate = self.fate(future)
            if fate is None:
                continue
            del self._records[record]
            if isinstance(fate, BaseException):
                failure = self.failure(fate)
                self._given_up = self._given_up or failure
                self.undelivered(record, failure)
            else:
                self.delivered(record, fate.partition, fate.offset if fate.offset is not None and fate.offset >= 0 else None)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """The library's errors as failures of the call."""
        try:
            yield
        except (Failure, TimeoutError):
            raise
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error: BaseException) -> Failure:
        """The library's error; what it means for the transaction is the state of the library's transaction manager."""
        name, state, code = type(error).__name__, self.state(), getattr(error, "errno", 0)
        fatal = name in FENCED or state == "fatal"
        abortable = not fatal and state == "abortable"
        retriable = name == "KafkaTimeoutError" and not fatal and not abortable
        code = code if isinstance(code, int) else 0
        return Failure(name, code, str(error) or repr(error), fatal=fatal, retriable=retriable, abortable=abortable)


def record_of(record: Any) -> list[Any]:
    """A consumed record as `poll` returns it."""
    headers = [[name, text_of(value)] for name, value in record.headers]
    timestamp = record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None
    return [record.topic, record.partition, record.offset, text_of(record.key), text_of(record.value), headers, timestamp]


def names(partitions: Any) -> list[str]:
    return [f"{partition.topic}-{partition.partition}" for partition in partitions]
