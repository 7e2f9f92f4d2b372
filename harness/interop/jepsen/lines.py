"""One line of a Jepsen history -> one event. Quick for what Jepsen prints, and right for everything else.

EDN: the lines of one history have few *shapes* (the order of their keys). The first line of a shape is read by `edn` and its
shape learnt as a regular expression; the others need one match, and their value a few replacements that make it JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from harness.interop.jepsen import edn

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
_KEYWORD = re.compile(rb':([^\s,;"\[\](){}]+)')
_NIL = re.compile(rb"(?<![^\s\[({])nil(?![^\s\])}])")
_TO_JSON = bytes.maketrans(b"{} ", b"[],")
_decode = msgspec.json.Decoder().decode


class Event(msgspec.Struct, gc=False):
    """A line: an invocation or a completion. `value` is as written; `Reader.value` makes sense of it. -1: not given.

    rebalances: what its consumer was told meanwhile: `["assigned", [key, ...]]`, or another word. transactional: False when the
    records of a `send` are surely separate (our own export says so).
    """

    type: str
    f: str
    process: int | str
    time: int = -1
    index: int = -1
    value: Any = None
    error: str = ""
    seek: bool = False
    rebalances: list[Any] | None = None
    transactional: bool | None = None


class Errors:
    """What operations said of their failures, as JSON. The same is said again and again, so it is read once."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        self._read = read
        self._known: dict[bytes, str] = {}

    def told(self, raw: bytes) -> str:
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
    def value(self, event: Event, line: bytes) -> Any:
        """The event's value as JSON has it; a map may also be a flat list `[key, value, ...]`."""


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------
class _JsonLine(msgspec.Struct, gc=False):
    type: str
    f: Any
    process: int | str
    time: int = -1
    index: int = -1
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
        error = bytes(got.error)
        said = self._errors.told(error) if error else ""
        f, process = _function(got.f), _process(got.process)
        more = bool(got.seek), _rebalances(got.rebalances), got.transactional
        return Event(got.type.lstrip(":"), f, process, got.time, got.index, got.value, said, *more)

    def value(self, event: Event, line: bytes) -> Any:
        return _decode(event.value)


def _process(given: Any) -> int | str:
    if given.__class__ is str and given.isdecimal():
        return int(given)
    if given.__class__ is not int and given not in ("nemesis", ":nemesis"):
        raise ValueError(f"the process is {given!r}, neither a number nor the nemesis")
    return given if given.__class__ is int else "nemesis"


def _function(given: Any) -> str:
    """An operation's `f`; Bufstream's nemesis has several words for one."""
    words = given if isinstance(given, list) else [given]
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"the operation's f is {given!r}")
    return "/".join(word.lstrip(":") for word in words)


def _rebalances(log: Any) -> list[Any] | None:
    """Jepsen's `[{:type :assigned, :keys [...]}, ...]` as words and keys. Raises ValueError: something else."""
    if not log:
        return None
    if not isinstance(log, list) or not all(isinstance(entry, dict) and "type" in entry for entry in log):
        raise ValueError(f"the rebalance-log is {log!r}")
    return [[str(entry["type"]).lstrip(":"), list(entry.get("keys") or ())] for entry in log]


# --------------------------------------------------------------------------------------------------
# EDN
# --------------------------------------------------------------------------------------------------
class EdnLines:
    def __init__(self) -> None:
        self._shapes: list[tuple[int, re.Pattern[bytes], tuple[int, ...]]] = []
        self._words: dict[bytes, str] = {}
        self._errors = Errors(lambda raw: edn.read(raw.decode()))

    def event(self, line: bytes) -> Event:
        for _, pattern, places in self._shapes:
            match = pattern.fullmatch(line)
            if match:
                type_, f, process, time, index, value, error, seek, txn = match.group(*places)
                if b", :" in value and not _is_one(value):
                    break
                said = self._errors.told(error) if error else ""
                when, sought, atomic = (int(time or -1), int(index or -1)), seek == b"true", txn != b"false"
                return Event(self._word(type_), self._word(f), int(process), *when, value, said, sought, None, atomic)
        return self._slowly(line)

    def value(self, event: Event, line: bytes) -> Any:
        if event.value.__class__ is not bytes:
            return event.value
        try:
            return _decode(_as_json(event.value))
        except ValueError:
            return self._slowly(line).value

    def _word(self, keyword: bytes) -> str:
        word = self._words.get(keyword)
        if word is None:
            word = self._words[keyword] = keyword[1:].decode()
        return word

    def _slowly(self, line: bytes) -> Event:
        found = edn.read(line.decode())
        if not isinstance(found, dict):
            raise ValueError("not a map")
        if not isinstance(found.get("type"), str):
            raise ValueError("without a type")
        f, process = _function(found.get("f")), _process(found.get("process"))
        if process != "nemesis":
            self._learn(list(found))
        time, index = (number if (number := found.get(key)).__class__ is int else -1 for key in ("time", "index"))
        return Event(
            found["type"],
            f,
            process,
            time,
            index,
            found.get("value"),
            Errors.of(found.get("error")),
            found.get("seek-to-beginning?") is True,
            _rebalances(found.get("rebalance-log")),
            found.get("transactional"),
        )

    def _learn(self, keys: list[Any]) -> None:
        """Remember the shape of a line. Longer shapes are tried first: a shorter one could take a further key for the value's."""
        names = [str(key).encode() for key in keys]
        known = {b"type", b"f", b"process"} <= set(names)
        if len(self._shapes) >= MOST_SHAPES or _REBALANCES in names or not known:
            return
        parts = [b":" + re.escape(name) + b" " + _FIELDS.get(name, _ANYTHING) for name in names]
        pattern = re.compile(rb"(?:#jepsen\.history\.Op)?\{" + b", ".join(parts) + rb"\}()", re.DOTALL)
        places = tuple(names.index(name) + 1 if name in names else len(names) + 1 for name in _TAKEN)
        if all(pattern.pattern != known.pattern for _, known, _ in self._shapes):
            self._shapes.append((len(names), pattern, places))
            self._shapes.sort(key=lambda shape: -shape[0])


def _is_one(value: bytes) -> bool:
    """Whether what was taken for a value holds no further key of the operation: no `, :` outside its brackets. No for texts."""
    if b'"' in value:
        return False
    depth = 0
    for part in value.split(b", :")[:-1]:
        depth += sum(map(part.count, (b"[", b"(", b"{"))) - sum(map(part.count, (b"]", b")", b"}")))
        if depth <= 0:
            return False
    return True


def _as_json(value: bytes) -> bytes:
    """An EDN value as JSON, maps as flat lists. What this cannot do rightly comes out as no JSON at all, or raises ValueError."""
    if b'"' in value:
        inside = value.split(b'"')[1::2]
        if b"\\" in value or not all(text.replace(b"-", b"").replace(b"_", b"").isalnum() for text in inside):
            raise ValueError("a text with more than letters and digits")
    value = value.replace(b", ", b" ").replace(b":send ", b'"send" ').replace(b":poll", b'"poll"')
    if b"nil" in value:
        value = _NIL.sub(b"null", value)
    if b":" in value:
        value = _KEYWORD.sub(rb'"\1"', value)
    return value.translate(_TO_JSON)
