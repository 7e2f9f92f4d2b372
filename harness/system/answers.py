"""Answers of programs that are not ours (drivers, hosts, services), decoded into the one shape that they may have.

Whatever else an answer is becomes a `WrongAnswer`, one sentence; who gave it is added by the caller.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

T = TypeVar("T")
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # as Kafka's int64 holds it: an offset, a partition
Name = Annotated[str, msgspec.Meta(max_length=1000)]
SHOWN = 80
_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")


class WrongAnswer(ValueError):
    """An answer of another shape than it may have: what is wrong with it."""


def decoded(raw: bytes, shape: type[T]) -> T:
    """The answer in JSON text. Raises WrongAnswer."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise WrongAnswer(_sentence(error, raw)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongAnswer(f"no JSON ({error}): {shown(raw)}") from error


def shaped(value: Any, shape: type[T]) -> T:
    """The answer that was decoded already. Raises WrongAnswer."""
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise WrongAnswer(_sentence(error, value)) from error


def shown(value: Any, most: int = SHOWN) -> str:
    """The beginning of an answer, for a sentence: a text as it is, anything else as Python writes it."""
    try:
        text = value if isinstance(value, str) else repr(value[:most] if isinstance(value, bytes) else value)
    except RecursionError:
        text = "an object too deep to be shown"
    return text if len(text) <= most or isinstance(value, bytes) else f"{text[:most]} ..."


def _sentence(error: Exception, value: Any) -> str:
    """The decoder's words, the place first."""
    text = str(error)
    place = _PLACE.search(text)
    where = f"`{place[1]}`: " if place and place[1] else ""
    return f"{where}{_PLACE.sub('', text)}, in {shown(value)}"
