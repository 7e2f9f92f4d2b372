"""Coordinators and groups by the brokers' own logs (`logs/nX/server.log`): elections, initialised ids, rebalances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fencepost.harness.api.beneath import names, reading
from fencepost.harness.api.broker_log import BROKER_LOG, DATED, ELECTED, INITIALISED, REBALANCED, date_ms
from fencepost.harness.api.run import RunFile

MOST_FOLDERS, MOST_BYTES, MOST_LINE = 1_000, 256 << 20, 4_096  # of all logs together; and of a line that is looked at
_TELLING = re.compile(rb"Initialized transactionalId|Elected as the txn coordinator|Stabilized group|Bumped group epoch")


@dataclass(frozen=True)
class BrokerEvents:
    """What the logs of all brokers say, in order of time. Times are ms since 1970, by the brokers' clocks.

    elections: when another broker, or the same again, became the coordinator of a partition of `__transaction_state`, the first
        election of each left out; (ms, partition).
    initialisations: (ms, transactional id, producer id, partition of `__transaction_state`).
    rebalances: (ms, group).
    """

    elections: list[tuple[int, str]] = field(default_factory=list)
    initialisations: list[tuple[int, str, int, str]] = field(default_factory=list)
    rebalances: list[tuple[int, str]] = field(default_factory=list)


def broker_events(directory: Path) -> BrokerEvents | None:
    """The events in the logs of a run's directory; None: there are none, or they are too long or cannot be read."""
    events, left = BrokerEvents(), MOST_BYTES
    elected: dict[tuple[str, int], int] = {}
    try:
        folders = [folder for folder in names(directory, RunFile.LOGS)[:MOST_FOLDERS] if _has_log(directory, folder)]
        for folder in folders:
            with reading(directory, f"{RunFile.LOGS}/{folder}/{BROKER_LOG}") as file:
                left -= file.seek(0, 2)
                if left < 0:
                    return None
                file.seek(0)
                for ms, text in _lines(file):
                    _take(ms, text, events, elected)
    except OSError:
        return None
    first: dict[str, int] = {}
    for (partition, _), ms in elected.items():
        first[partition] = min(ms, first.get(partition, ms))
    events.elections.extend((ms, partition) for (partition, _), ms in elected.items() if ms > first[partition])
    for some in (events.elections, events.initialisations, events.rebalances):
        some.sort()
    return events if folders else None


def _has_log(directory: Path, folder: str) -> bool:
    try:
        return BROKER_LOG in names(directory, f"{RunFile.LOGS}/{folder}")
    except OSError:  # a log of the harness, or a link
        return False


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their dates."""
    while raw := file.readline(MOST_LINE):
        if _TELLING.search(raw) and (dated := DATED.match(raw)) and (ms := date_ms(dated[1].decode("ascii"))) is not None:
            yield ms, raw.decode("utf-8", errors="replace")


def _take(ms: int, text: str, events: BrokerEvents, elected: dict[tuple[str, int], int]) -> None:
    if match := INITIALISED.search(text):
        events.initialisations.append((ms, match[1], int(match[2][:18]), match[4]))
    elif match := ELECTED.search(text):
        place = (f"__transaction_state-{match[1]}", int(match[2][:18]))
        elected[place] = min(ms, elected.get(place, ms))
    elif match := REBALANCED.search(text):
        events.rebalances.append((ms, match[1] or match[2]))
