"""Edges of many small partitions, joined: to look through a message costs as much as to look through some thousand edges.

A message of edges (`checkers.graph.edges`) is of one partition. Small ones become one with a further column, the number of each
edge's partition (`place`). Edges and the lists of `checkers.graph.passed_records` are joined apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fencepost.checkers.graph.edges import EDGE_COLUMNS, decode, encode
from fencepost.checkers.graph.layers import LSO
from fencepost.checkers.model.arrays import Ints
from fencepost.checkers.model.values import NONE
from fencepost.checkers.views.parts import OFFSET_BITS, PARTITIONS

SMALL = 1 << 16  # bytes of a message, above which it stays alone
JOINED = 1 << 18  # edges of a joined message, about
COLUMNS = (*EDGE_COLUMNS, "place")
PlacedMessage = tuple[int, bytes]  # of the partition with this number; NONE: of those in its column `place`


def joined(messages: Iterable[tuple[str, bytes]], numbers: Mapping[str, int]) -> Iterator[PlacedMessage]:
    """The messages of partitions, small ones joined. numbers: of all partitions."""
    waiting: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    rows = {False: 0, True: 0}
    for partition, message in messages:
        number = numbers[partition]
        part = columns((number, message)) if len(message) <= SMALL and number < PARTITIONS else None
        if part is None or not _fits(part):
            yield number, message
            continue
        lists = holds_lists(part)
        waiting[lists].append(part)
        rows[lists] += len(part["kind"])
        if rows[lists] >= JOINED:
            yield _as_one(waiting[lists])
            waiting[lists], rows[lists] = [], 0
    yield from (_as_one(parts) for parts in waiting.values() if parts)


def columns(message: PlacedMessage, wanted: Sequence[str] = EDGE_COLUMNS) -> dict[str, Any]:
    """The first columns of a message, and of each edge the number of its partition."""
    number, content = message
    if number == NONE:
        return decode(content, COLUMNS)
    part = decode(content, wanted)
    return {**part, "place": np.broadcast_to(np.int64(number), len(part["kind"]))}


def holds_lists(part: Mapping[str, Any]) -> bool:
    """True if a message has the lists of `checkers.graph.passed_records`: they are its only rows."""
    return bool(len(part["kind"]) and part["kind"][0] == LSO)


def several_partitions(part: Mapping[str, Any]) -> bool:
    """True if rows of a message come from several partitions, which lie in the order of their numbers."""
    return bool(len(part["place"]) and part["place"][0] != part["place"][-1])


def keys(numbers: Ints, offsets: Ints) -> Ints:
    """Partitions, numbered from 0, and offsets: both as one number each."""
    return (numbers << OFFSET_BITS) + offsets


def _fits(part: Mapping[str, Any]) -> bool:
    return all(int(part[name].max(initial=0)) < 1 << OFFSET_BITS for name in ("low", "high"))


def _as_one(parts: Sequence[Mapping[str, Any]]) -> PlacedMessage:
    """Parts of partitions, in the order of their numbers, as one message."""
    in_order = sorted(parts, key=lambda part: int(part["place"][0]) if len(part["place"]) else NONE)
    return NONE, encode(np.concatenate([part[name] for part in in_order]) for name in COLUMNS)
