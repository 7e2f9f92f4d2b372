"""The base of every driver in Python: frames, requests, answers and events on standard input and output.

A driver is a `Driver` with a method for each call that its library offers; `serve` is its main loop. The method gets the
request, an object as docs/client-drivers.md describes it, and returns the results (None for none) or raises `Failure`. Only
Python's own library is needed (3.8 or newer).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from base64 import b64decode, b64encode
from threading import Lock
from typing import Any, BinaryIO, Dict, Optional

PROTOCOL = 1
HEADER = 4
LARGEST = 64 << 20
CALLS = (
    *("hello", "check", "open", "initialise", "begin", "send", "flush", "send_offsets", "commit", "abort", "assign", "subscribe"),
    *("seek", "position", "committed", "commit_offsets", "group", "poll", "leave", "close"),
)
Request = Dict[str, Any]
Results = Optional[Dict[str, Any]]


class Failure(Exception):
    """A call that failed: the client's own name, number and text of the error.

    fatal: the client cannot be used any more.
    retriable: the call may be made again.
    abortable: the transaction must be aborted.
    """

    def __init__(
        self, name: str, code: int, text: str, *, fatal: bool = False, retriable: bool = False, abortable: bool = False
    ) -> None:
        super().__init__(text)
        self.members = {
            "name": name,
            "code": code,
            "text": text,
            "fatal": fatal,
            "retriable": retriable,
            "abortable": abortable,
        }


class Driver:
    """Base of all drivers: the first call, and the events that drivers emit."""

    client = ""
    version = ""
    runtime = "Python " + ".".join(map(str, sys.version_info[:3]))
    capabilities: list[str] = []
    transactions: int | None = 1

    def __init__(self) -> None:
        self._output, self._lock = _standard_output(), Lock()

    def hello(self, request: Request) -> Results:
        if PROTOCOL not in request["protocols"]:
            raise Failure("UNSUPPORTED", 0, f"this driver speaks version {PROTOCOL} of the protocol only")
        return {
            "protocol": PROTOCOL,
            "client": self.client,
            "version": self.version,
            "runtime": self.runtime,
            "capabilities": self.capabilities,
            "transactions": self.transactions,
        }

    def delivered(self, record: int, partition: int | None, offset: int | None) -> None:
        """The event of an acknowledged record."""
        self.write({"event": "delivered", "record": record, "partition": partition, "offset": offset})

    def undelivered(self, record: int, failure: Failure) -> None:
        """The event of a record that was given up."""
        self.write({"event": "delivered", "record": record, "error": failure.members})

    def rebalanced(self, kind: str, partitions: list[str]) -> None:
        self.write({"event": "rebalanced", "kind": kind, "partitions": partitions})

    def write(self, message: dict[str, Any]) -> None:
        """One frame to standard output; from any thread."""
        body = json.dumps(message, separators=(",", ":")).encode()
        with self._lock:
            self._output.write(len(body).to_bytes(HEADER, "big") + body)
            self._output.flush()

    def serve(self) -> None:
        """Answer requests until standard input ends; the process ends then, and lets go of everything."""
        while (request := _read(sys.stdin.buffer)) is not None:
            self.write({"id": request["id"], **self._answer(request)})
        os._exit(0)

    def _answer(self, request: Request) -> dict[str, Any]:
        call = request["call"]
        method = getattr(self, call, None) if call in CALLS else None
        try:
            if method is None:
                raise Failure("UNSUPPORTED", 0, f"this client has no call {call}")
            return {"ok": method(request) or {}}
        except Failure as failure:
            return {"error": failure.members}
        except Exception as error:  # noqa: BLE001 - a mistake of the driver is reported as what it is, and the next call is served
            traceback.print_exc()
            return {"error": Failure(type(error).__name__, 0, f"inside the driver: {error}").members}


class _Seldom(logging.Filter):
    """The same warning at most once a second: libraries repeat themselves while a broker is away."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        before, self._last[record.msg] = self._last.get(record.msg, 0.0), record.created
        return record.created - before >= 1


def log_warnings() -> None:
    """Warnings of the library to standard error."""
    handler = logging.StreamHandler()
    handler.addFilter(_Seldom())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")


def text_of(data: bytes | None) -> str | None:
    """Bytes as frames carry them."""
    return None if data is None else b64encode(data).decode()


def bytes_of(text: str | None) -> bytes | None:
    """The bytes of which `text_of` made a text."""
    return None if text is None else b64decode(text)


def seconds(request: Request) -> float:
    """The time within which a call should answer."""
    return max(0, request["timeout_ms"]) / 1000


def topic_and_number(partition: str) -> tuple[str, int]:
    """`orders-0` as topic and number."""
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def _read(stream: BinaryIO) -> Request | None:
    """The next request, None at the end of the stream."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    length = int.from_bytes(header, "big")
    if length > LARGEST:
        raise ValueError(f"a frame of {length} bytes")
    body = stream.read(length)
    return json.loads(body) if len(body) == length else None


def _standard_output() -> BinaryIO:
    """The standard output, for frames alone: from now on what is printed goes to standard error."""
    sys.stdout.flush()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return output
