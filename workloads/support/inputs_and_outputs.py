"""Records for a program of somebody's own, and how its outputs name the inputs of which they were made.

An input's name is `RUN|PROCESS|OPERATION|SEQ`, as in the head of a record's bytes (docs/history.md). It stands in its key, in its
header `fencepost-input` and in its value.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from fencepost.harness.api import Polled, split_record_id
from fencepost.harness.api.record_ids import identity_in

HEADER = "fencepost-input"
NO_INPUT = -1
NO_VALUE = "it is a tombstone"
NAME = "{input}"  # in the text of a value
HOWS = ("header", "key", "json", "regex", "value")
Name = Callable[[Polled], str]
CountOf = Callable[[Polled], int]


def name_of(run: str, v: int) -> str:
    """An input's name by its identity."""
    return "|".join(map(str, (run, *split_record_id(v))))


def identity_of(name: str, run: str) -> int:
    """The identity behind a name, which more may follow after a `|`; NO_INPUT when it is no name of this run."""
    v = identity_in(f"{name}|", run)
    return NO_INPUT if v is None else v


def naming(text: str) -> Name:
    """The way in which outputs name their inputs: `header NAME`, `key`, `json POINTER`, `regex PATTERN`, `value`.

    The function that it returns raises ValueError, LookupError or TypeError for an output that names none. Raises ValueError.
    """
    how, _, rest = text.partition(" ")
    if how not in HOWS or bool(rest) != (how in ("header", "json", "regex")):
        raise ValueError(f'"{text}" is no way to name an input; there are: header NAME, key, json POINTER, regex PATTERN, value')
    if how == "header":
        return lambda record: _header(record, rest)
    if how == "json":
        steps = _steps(rest)
        return lambda record: _pointed(json_of(record.value), steps)
    if how == "regex":
        pattern = _pattern(rest)
        return lambda record: _matched(pattern, _text(record.value))
    return lambda record: (record.key or b"").decode() if how == "key" else _text(record.value)


def counting(text: str) -> CountOf:
    """The way in which outputs say a number: `header NAME`, `json POINTER`, `regex PATTERN`.

    The function that it returns raises ValueError, LookupError or TypeError for an output that says none. Raises ValueError.
    """
    how, _, rest = text.partition(" ")
    if how not in ("header", "json", "regex") or not rest:
        raise ValueError(f'"{text}" is no way to say a number; there are: header NAME, json POINTER, regex PATTERN')
    if how == "json":
        steps = _steps(rest)
        return lambda record: number_of(_at(json_of(record.value), steps))
    name = naming(text)
    return lambda record: number_of(name(record))


def telling(text: str) -> Callable[[Polled], Any]:
    """The way in which records say a part of a position, a number or a text: `header NAME`, `json POINTER`, `regex PATTERN`.

    The function that it returns raises as that of `counting` does. Raises ValueError.
    """
    counting(text)
    how, _, rest = text.partition(" ")
    if how == "json":
        steps = _steps(rest)
        return lambda record: _at(json_of(record.value), steps)
    return naming(text)


def _text(value: bytes | None) -> str:
    """Raises ValueError for a tombstone, which leaders' logs have as None."""
    if value is None:
        raise ValueError(NO_VALUE)
    return value.decode()


def json_of(content: bytes | None) -> Any:
    """The document in a record of somebody else's. Raises ValueError."""
    if content is None:
        raise ValueError(NO_VALUE)
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply to be read") from error


def number_of(value: Any) -> int:
    """A whole number in a record of somebody else's, as the history can hold it (int64). Raises ValueError and TypeError."""
    try:
        number = int(value)
    except OverflowError as error:
        raise ValueError(f"{value} is no number") from error
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError("the number has more than 64 bits")
    return number


def counts_of(records: Sequence[Polled], count: CountOf) -> dict[str, list[list[int]]]:
    """The counts in outputs, by partition: [offset, inputs counted]; without outputs that hold no count."""
    counts: dict[str, list[list[int]]] = {}
    for record in records:
        with suppress(ValueError, LookupError, TypeError):
            counts.setdefault(record.partition, []).append([record.offset, count(record)])
    return counts


def named(record: Polled, name: Name, run: str) -> tuple[int, str | None]:
    """(identity of the input that an output names, None), or (NO_INPUT, why)."""
    try:
        text = name(record)
    except (ValueError, LookupError, TypeError) as error:
        return NO_INPUT, f"it names no input ({error})"
    v = identity_of(text, run)
    return v, None if v != NO_INPUT else f"it names no input of this run: {text[:60]!r}"


def containing(text: str) -> Name:
    """The way in which outputs have their inputs' content: `header NAME`, `json POINTER`, `regex PATTERN`, `value`.

    The function that it returns raises ValueError, LookupError or TypeError for an output that has none. Raises ValueError.
    """
    if text == "key":
        raise ValueError('"key" is no place of content; there are: header NAME, json POINTER, regex PATTERN, value')
    try:
        return naming(text)
    except ValueError as error:
        raise ValueError(str(error).replace("way to name an input", "place of content").replace("key, ", "")) from error


def differs(record: Polled, content: Name, contents: Iterable[bytes]) -> str | None:
    """Why an output has not the content of its input, nor its SHA-256 in hex; None: it has. contents: what that may be."""
    try:
        text = content(record).encode()
    except (ValueError, LookupError, TypeError) as error:
        return f"it has no content of an input ({error})"
    for candidate in contents:
        if text == candidate or text.lower() == hashlib.sha256(candidate).hexdigest().encode():
            return None
    return f"its content is not that of the input that it names: {text[:60]!r}"


def _header(record: Polled, name: str) -> str:
    values = [value for key, value in record.headers if key == name]
    if not values:
        raise LookupError(f"it has no header {name}")
    return values[-1].decode()


def _steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer (RFC 6901)."""
    if not pointer.startswith("/"):
        raise ValueError(f'"{pointer}" is no JSON pointer: it begins with a slash, like /order/id')
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def pointed(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer; the whole document for an empty one. Raises ValueError, LookupError, TypeError."""
    return _at(value, _steps(pointer)) if pointer else value


def _at(value: Any, steps: list[str]) -> Any:
    try:
        for step in steps:
            document = json.loads(value) if isinstance(value, str) else value  # a text that is a document itself
            value = document[int(step)] if isinstance(document, list) else document[step]
    except (LookupError, TypeError, ValueError) as error:
        raise LookupError(f"there is no /{'/'.join(steps)}") from error
    return value


def _pointed(value: Any, steps: list[str]) -> str:
    value = _at(value, steps)
    if not isinstance(value, str):
        raise TypeError(f"/{'/'.join(steps)} is no text")
    return value


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f'"{text}" is no regular expression: {error}') from error
    if pattern.groups > 1:
        raise ValueError(f'"{text}" has {pattern.groups} groups: one, or none, is the name')
    return pattern


def _matched(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    if match is None:
        raise LookupError(f"its value does not match {pattern.pattern}")
    return match[pattern.groups]


def templated(record: Polled, template: str, run: str) -> tuple[int, str | None]:
    """(identity, None) of an input whose value was made of a template, or (NO_INPUT, why). What it says must be what was sent."""
    v, why = named(record, lambda output: _header(output, HEADER), run)
    if why is None and record.value.decode("utf-8", "replace") != template.replace(NAME, name_of(run, v)):
        return NO_INPUT, "content is not what was sent"
    return v, why
