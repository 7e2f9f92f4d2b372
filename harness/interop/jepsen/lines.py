"""One line of a Jepsen history -> one event: the reader that decides what a line means.

`plain_lines` reads plain lines many at a time, and means the same; whatever it does not know comes here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from fencepost.harness.api.values import whole_number
from fencepost.harness.history.lines import Int64, demand_names_once
from fencepost.harness.interop.jepsen import edn

UNRELIABLE = "unreliable"  # the function of an operation of ours that says that lines of the history contradict one another
MOST_SHAPES, MOST_ERRORS = 16, 10_000
_FIELDS = {
    b"type": b"(:invoke|:ok|:fail|:info)",
    b"f": rb"(:[a-z-]+)",
    **dict.fromkeys((b"process", b"time", b"index"), rb"(\d+)"),
    b"value": b"(.*)",
}
_ANYTHING = rb"((?:(?!, :).)*)"  # and surely no further key
_TAKEN = (b"type", b"f", b"process", b"time", b"index", b"value", b"error", b"seek-to-beginning?", b"transactional")
_REBALANCES = b"rebalance-log"  # so rare that lines with one are read slowly
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_KEYWORD = re.compile(rb':([^\s,;"\[\](){}]+)')
_NIL = re.compile(rb"(?<![^\s\[({])nil(?![^\s\])}])")
_TO_JSON = bytes.maketrans(b"{} ", b"[],")
_decode = msgspec.json.Decoder().decode


class Event(msgspec.Struct, gc=False):
    """A line: an invocation or a completion. -1: not given.

    value: as written; `Reader.value` decodes it.
    seek: an `assign` sought to the beginning; None: not known.
    rebalances: what its consumer was assigned meanwhile: `["assigned", [key, ...]]`, or another word.
    transactional: False when the records of a `send` are surely separate (our own export says so).
    """

    type: str
    f: str
    process: int | str
    time: int = -1
    index: int = -1
    value: Any = None
    error: str = ""
    seek: bool | None = False
    rebalances: list[Any] | None = None
    transactional: bool | None = None


class ContinuedError(ValueError):
    """A line that goes on with the error of the line before, and says nothing by itself."""


class Errors:
    """Errors of operations as JSON. The same error comes again and again, so it is read once."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        self._read = read
        self._known: dict[bytes, str] = {}

    def as_json(self, raw: bytes) -> str:
        if raw not in self._known:
            if len(self._known) > MOST_ERRORS:
                self._known.clear()
            self._known[raw] = self.of(self._read(raw))
        return self._known[raw]

    @staticmethod
    def of(error: Any) -> str:
        return "" if error is None else msgspec.json.encode(error).decode()


class Reader(Protocol):
    """Both raise ValueError for what cannot be understood."""

    def event(self, line: bytes) -> Event: ...
    def value(self, event: Event) -> Any:
        """The event's value as JSON has it."""


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------
class _JsonLine(msgspec.Struct, gc=False):
    type: str
    f: Any
    process: Int64 | str
    time: Int64 = -1
    index: Int64 = -1
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"")
    seek: bool | None = msgspec.field(name="seek-to-beginning?", default=False)
    rebalances: Any = msgspec.field(name="rebalance-log", default=None)
    transactional: Any = None


class JsonLines:
    def __init__(self) -> None:
        self._line = msgspec.json.Decoder(_JsonLine, strict=False).decode
        self._errors = Errors(_decode)

    def event(self, line: bytes) -> Event:
        got = self._line(line)
        demand_names_once(line, nested=False)  # a poll's map with a key twice is read as pairs
        error = bytes(got.error)
        failure = self._errors.as_json(error) if error else ""
        f, process = function_name(got.f), process_of(got.process)
        more = bool(got.seek), _rebalances(got.rebalances), got.transactional
        return Event(got.type.lstrip(":"), f, process, got.time, got.index, got.value, failure, *more)

    def value(self, event: Event) -> Any:
        """A map with a key that comes twice becomes pairs, as in EDN: the quick decoder would drop one of them."""
        decoded = _decode(event.value)
        raw = bytes(event.value)
        if b"{" not in raw or raw.count(b":") == _key_count(decoded):
            return decoded
        return json.loads(raw, object_pairs_hook=edn.mapping)


def _key_count(value: Any) -> int:
    """The number of keys in all maps of a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(_key_count, value.values()))
    return sum(map(_key_count, value)) if isinstance(value, list) else 0


def process_of(given: Any) -> int | str:
    if given.__class__ is str and given.isdecimal() and len(given) < 19:
        return int(given)
    if whole_number(given) is None and given not in ("nemesis", ":nemesis"):
        raise ValueError(f"the process is {given!r}, neither a number nor the nemesis")
    return given if given.__class__ is int else "nemesis"


def function_name(given: Any) -> str:
    """An operation's `f`; Bufstream's nemesis has several words for one."""
    words = given if isinstance(given, list) else [given]
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"the operation's f is {given!r}")
    return "/".join(word.lstrip(":") for word in words)


def _rebalances(log: Any) -> list[Any] | None:
    """Jepsen's `[{:type :assigned, :keys [...]}, ...]` as words and keys. Raises ValueError: something else."""
    if not log:
        return None
    if not isinstance(log, list) or not all(map(_is_rebalance, log)):
        raise ValueError(f"the rebalance-log is {log!r}")
    return [[str(entry["type"]).lstrip(":"), entry["keys"] or []] for entry in log]


def _is_rebalance(entry: Any) -> bool:
    """True if it names the keys that it is about, perhaps none (nil)."""
    return isinstance(entry, dict) and "type" in entry and isinstance(entry.get("keys", ""), (list, type(None)))


# --------------------------------------------------------------------------------------------------
# EDN
# --------------------------------------------------------------------------------------------------
class EdnLines:
    def event(self, line: bytes) -> Event:
        if _CONTROL.search(line):
            raise ValueError("it holds control characters")
        line_map = edn.read(line.decode())
        if not isinstance(line_map, dict):
            raise ValueError("not a map")
        if not isinstance(line_map.get("type"), str):
            raise ValueError("without a type")
        time, index = (-1 if (number := whole_number(line_map.get(key))) is None else number for key in ("time", "index"))
        return Event(
            line_map["type"],
            function_name(line_map.get("f")),
            process_of(line_map.get("process")),
            time,
            index,
            line_map.get("value"),
            Errors.of(line_map.get("error")),
            line_map.get("seek-to-beginning?") is True,
            _rebalances(line_map.get("rebalance-log")),
            line_map.get("transactional"),
        )

    def value(self, event: Event) -> Any:
        return event.value
