"""Probe series between nodes that are reached by requests: each node sends its datagrams and reports those it has received."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fencepost.clusters.fault_tools.probes import POLL_S, ProbeSeries
from fencepost.harness.api import ClusterError, Pair

_PARALLEL = 8
_ATTEMPTS = 3

Send = Callable[[str, Mapping[int, str]], object]  # (source, link -> destination): send the series over each of these links
Receive = Callable[[str, int], Sequence[Any]]  # (destination, number known) -> later ones, as `ReceivedProbe`
ProbeTime = Callable[[Pair, Any], "float | None"]  # (pair, a received probe) -> milliseconds; None: it does not count


def run_series(series: ProbeSeries, within_s: float, send: Send, receive: Receive, probe_time: ProbeTime) -> ProbeSeries:
    """Run a series until all of it has arrived or the time is over; requests go to many nodes at the same time."""
    to: dict[str, dict[int, str]] = {}
    for link, (source, destination) in enumerate(series.pairs):
        to.setdefault(source, {})[link] = destination
    with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
        list(pool.map(send, to, to.values()))
        _collect(series, within_s, lambda known: pool.map(receive, known, known.values()), probe_time)
    return series


def _collect(
    series: ProbeSeries,
    within_s: float,
    receive_all: Callable[[dict[str, int]], Iterable[Sequence[Any]]],
    probe_time: ProbeTime,
) -> None:
    """Ask every destination until all has arrived or the time is over."""
    deadline = time.monotonic() + within_s
    known = dict.fromkeys((destination for _, destination in series.pairs), 0)
    while True:
        over = time.monotonic() > deadline  # read before the last request, which may take long
        for destination, entries in zip(list(known), receive_all(known), strict=True):
            known[destination] += len(entries)
            for entry in entries:
                if not (entry[0] < len(series.pairs) and entry[1] < series.packets):
                    raise ClusterError(f"{destination} has received a datagram that nobody sent: {entry!r}")
                time_ms = probe_time(series.pairs[entry[0]], entry)
                if time_ms is not None:
                    series.note(entry[0], entry[1], time_ms)
        if over or series.complete():
            return
        time.sleep(POLL_S)


def closed_pairs(pairs: Iterable[Pair], probe: Callable[[Iterable[Pair]], dict[Pair, bool]]) -> str:
    """The pairs that stay closed in several attempts, as text (a datagram may be lost); empty when all are open."""
    left = list(pairs)
    for _ in range(_ATTEMPTS):
        left = [pair for pair, arrived in probe(left).items() if not arrived]
    return ", ".join(f"{source} to {destination}" for source, destination in left)
