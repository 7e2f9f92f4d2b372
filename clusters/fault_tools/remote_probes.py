"""Trains of datagrams between nodes that we can only ask: send those, and tell which you have heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from clusters.fault_tools.probes import LOOK_S, Train
from harness.api import Pair

_AT_ONCE = 8
_LOOKS = 3

Send = Callable[[str, Mapping[int, str]], object]  # (source, link -> destination): send the train over each of these links
Hear = Callable[[str, int], Sequence[Any]]  # (destination, how many are known) -> those heard since, as `probes.Heard`
Took = Callable[[Pair, Any], "float | None"]  # (pair, one that was heard) -> milliseconds; None: it counts for nothing


def ride(train: Train, within_s: float, send: Send, hear: Hear, took: Took) -> Train:
    """The train, when all of it has arrived or the time is over. Many nodes are asked at the same time."""
    to: dict[str, dict[int, str]] = {}
    for link, (source, destination) in enumerate(train.pairs):
        to.setdefault(source, {})[link] = destination
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(send, to, to.values()))
        _collect(train, within_s, lambda known: pool.map(hear, known, known.values()), took)
    return train


def _collect(train: Train, within_s: float, heard: Callable[[dict[str, int]], Iterable[Sequence[Any]]], took: Took) -> None:
    """Ask every destination until all has arrived or the time is over."""
    deadline = time.monotonic() + within_s
    known = dict.fromkeys((destination for _, destination in train.pairs), 0)
    while True:
        over = time.monotonic() > deadline  # noticed before the last look, however long we were kept from it
        for destination, entries in zip(list(known), heard(known), strict=True):
            known[destination] += len(entries)
            for entry in entries:
                took_ms = took(train.pairs[entry[0]], entry)
                if took_ms is not None:
                    train.note(entry[0], entry[1], took_ms)
        if over or train.complete():
            return
        time.sleep(LOOK_S)


def closed(pairs: Iterable[Pair], probe: Callable[[Iterable[Pair]], dict[Pair, bool]]) -> str:
    """Which pairs stay closed in several looks, in words (a datagram may be lost); empty when all are open."""
    left = list(pairs)
    for _ in range(_LOOKS):
        left = [pair for pair, arrived in probe(left).items() if not arrived]
    return ", ".join(f"{source} to {destination}" for source, destination in left)
