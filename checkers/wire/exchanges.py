"""A recorded exchange: a request about a transactional id as it was forwarded to a broker, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost.checkers.wire.states import Answer, Request


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and its answer.

    row: the row of the record that it comes of.
    node: the broker.
    client: the client's id.
    began: when it was forwarded to the broker (ns).
    ended: when the broker answered; None: no answer is known, so it may have been applied at any later time, or never.
    answer: the broker's answer; None: not known.
    times: how often it was forwarded.
    """

    row: int
    node: str
    client: str
    began: int
    ended: int | None
    request: Request
    answer: Answer | None
    times: int = 1


@dataclass(frozen=True)
class Breach:
    """An exchange that no possible state allows.

    sentences: the rules that it breaks, each with its source.
    states: the states that were possible, in words; not all of them where they are many.
    raised: how the epoch came to be higher than that of the request, in words, where the request is of an older one.
    known: why a release of Kafka makes it, with its issue; empty: that is not known.
    """

    exchange: Exchange
    rules: tuple[str, ...]
    sentences: tuple[str, ...]
    states: str
    raised: str = ""
    known: str = ""


@dataclass(frozen=True)
class Judged:
    """The judgement of a transactional id.

    compared: exchanges that were compared with known states.
    skipped: answers that were not compared, as too many states had been possible before them.
    """

    compared: int
    breaches: tuple[Breach, ...] = ()
    skipped: int = 0
