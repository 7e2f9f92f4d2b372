"""The shapes of a driver's answers and events (docs/client-drivers.md): nothing else is understood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from fencepost.harness.api import CallError
from fencepost.harness.drivers.frames import FrameError
from fencepost.harness.system.answers import Name, Offset, WrongAnswer, shaped

LONGEST_TEXT = 10_000  # characters of an error or of a line of a log; the rest is left out
MOST_NAMES = 1000  # capabilities, refused settings

Record = tuple[str, Offset, Offset, str | None, str | None, list[tuple[str, str | None]] | None, int | None]


class HelloAnswer(msgspec.Struct):
    """The answer to `hello`, whose protocol is known to be ours."""

    client: Name = ""
    version: Name = ""
    runtime: Name = ""
    capabilities: Annotated[list[Name], msgspec.Meta(max_length=MOST_NAMES)] | None = None
    transactions: Literal[1, 2] | None = None


class CheckAnswer(msgspec.Struct):
    """The answer to `check`: side, key and sentence of each refused setting."""

    refused: Annotated[list[tuple[Name, Name, str]], msgspec.Meta(max_length=MOST_NAMES)] | None = None


class PollAnswer(msgspec.Struct):
    """The answer to `poll`."""

    records: list[Record]
    ends: dict[str, Offset] | None = None


class PositionAnswer(msgspec.Struct):
    """The answer to `position`."""

    positions: dict[str, Offset | None]


class CommittedAnswer(msgspec.Struct):
    """The answer to `committed`."""

    offsets: dict[str, Offset | None]


class GroupAnswer(msgspec.Struct):
    """The answer to `group`."""

    group: dict[str, Any]


class ErrorAnswer(msgspec.Struct):
    """The error of a call or of a record."""

    name: Name
    code: int | None = None
    text: str | None = None
    fatal: bool = False
    retriable: bool = False
    abortable: bool = False
    unconfirmed: bool = False


class DeliveredEvent(msgspec.Struct):
    """The fate of a record; clients give -1 for an offset that is not known."""

    record: Offset
    partition: Offset | None = None
    offset: Offset | Literal[-1] | None = None
    error: dict[str, Any] | None = None


class RebalancedEvent(msgspec.Struct):
    """Partitions that were given or taken."""

    kind: Literal["assigned", "revoked", "lost"]
    partitions: list[str]


def call_error(call: str, error: Any) -> CallError:
    """A driver's error as a CallError. Raises FrameError when it is none."""
    try:
        answer = shaped(error, ErrorAnswer)
    except WrongAnswer as wrong:
        raise FrameError(f"an error without name, code and text: {wrong}") from wrong
    flags = {
        "fatal": answer.fatal,
        "retriable": answer.retriable,
        "abortable": answer.abortable,
        "unconfirmed": answer.unconfirmed,
    }
    return CallError(call, answer.name, answer.code or 0, (answer.text or "")[:LONGEST_TEXT], **flags)


def results(message: Mapping[str, Any]) -> dict[str, Any]:
    """The results in an answer. Raises FrameError when there are none."""
    answer = message.get("ok")
    if not isinstance(answer, dict):
        raise FrameError(f"an answer with neither `ok` nor `error`: {str(dict(message))[:LONGEST_TEXT]}")
    return answer
