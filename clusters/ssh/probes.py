"""Whether datagrams arrive, asked of those who send and hear them at each node."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from clusters.probes import LOOK_S, PROBE_S
from harness.api import Pair

_AT_ONCE = 8
_LOOKS = 3

Send = Callable[[str, Sequence[str]], object]  # (source, destinations): one datagram to each
Heard = Callable[[str], Collection[str]]  # destination -> the sources it has heard


def probed(pairs: Iterable[Pair], send: Send, heard: Heard) -> dict[Pair, bool]:
    """Whether a datagram sent now arrives, for all pairs at once; about a quarter of a second when one does not."""
    wanted = list(dict.fromkeys(pairs))
    to: dict[str, list[str]] = {}
    for source, destination in wanted:
        to.setdefault(source, []).append(destination)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(send, to, to.values()))
        return _collect(wanted, heard, pool)


def _collect(wanted: list[Pair], heard: Heard, pool: ThreadPoolExecutor) -> dict[Pair, bool]:
    """Ask every destination until all pairs are seen or the time is over."""
    deadline = time.monotonic() + PROBE_S
    destinations = list({destination for _, destination in wanted})
    while True:
        over = time.monotonic() > deadline  # noticed before the last look, however long we were kept from it
        answers = dict(zip(destinations, pool.map(heard, destinations), strict=True))
        arrived = {(source, destination): source in answers[destination] for source, destination in wanted}
        if over or all(arrived.values()):
            return arrived
        time.sleep(LOOK_S)


def closed(pairs: Iterable[Pair], probe: Callable[[Iterable[Pair]], dict[Pair, bool]]) -> str:
    """Which pairs stay closed in several looks, in words (a datagram may be lost); empty when all are open."""
    left = list(pairs)
    for _ in range(_LOOKS):
        left = [pair for pair, arrived in probe(left).items() if not arrived]
    return ", ".join(f"{source} to {destination}" for source, destination in left)
