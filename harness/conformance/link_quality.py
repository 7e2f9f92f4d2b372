"""Changes that no snapshot shows, measured by the kit: slow, narrow and lossy links, and what a cluster counts of a change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from fencepost.harness.api import Cluster, Losable, PacketTimes, Pair, Slowable
from fencepost.harness.api.capabilities import LEAST_DELAY_MS
from fencepost.harness.api.declarations import Change, Declarations
from fencepost.harness.api.observation import CountedBy
from fencepost.harness.conformance import snapshot

PACKETS, SIZE, HEADERS = 10, 1400, 28  # datagrams over a link; bytes of one that tells the bandwidth
LIMITED, LESS = 0.7, 1.3  # of the distance of datagrams at the limit; times the distance before
SPREAD_MS = 300.0  # how long the datagrams that tell the bandwidth take at the limit
LOSSES, FEWEST_LOSSES, MOST_PACKETS = 10, 3, 500
COUNTED_WITHIN_S, LOOK_EVERY_S = 6.0, 0.1


@dataclass(frozen=True)
class Quality:
    """The quality of links on a whole cluster.

    took_ms: how long a datagram takes (ms), by link.
    apart_ms: how much later the next large one arrives (ms), by link.
    lost: share of datagrams lost, over all links.
    """

    took_ms: Mapping[Pair, float] = field(default_factory=dict)
    apart_ms: Mapping[Pair, float] = field(default_factory=dict)
    lost: float = 0.0


@dataclass(frozen=True)
class Measured:
    """The measurement of a change.

    shows: True if the change shows; None: it cannot be shown here.
    text: what was measured, in words.
    """

    shows: bool | None
    text: str


def quality(cluster: Any) -> Quality:
    """All links now; nothing where links cannot be measured."""
    if not any(snapshot.can(cluster, capability) for capability in (Slowable, Losable)):
        return Quality()
    nodes = (*snapshot.servers(cluster), *cluster.clients)
    pairs = [(a, b) for a in nodes for b in nodes if a != b]
    measured, large = cluster.measure(pairs, PACKETS), cluster.measure(pairs, PACKETS, SIZE)
    took = {pair: [ms for ms in times if ms is not None] for pair, times in measured.items()}
    sent = sum(len(times) for times in measured.values())
    arrived = sum(len(times) for times in took.values())
    medians = {pair: median(times) for pair, times in took.items() if times}
    return Quality(medians, _apart(large), 1 - arrived / sent if sent else 0.0)


def settles_at_once(cluster: Any) -> bool:
    """True if nothing changes by itself, as in memory, so that waiting shows nothing new."""
    return bool(getattr(cluster, "settles_at_once", False))


def is_measured(call: str, declared: Declarations) -> bool:
    """True if the kit measures what this call changes."""
    return call in PROBED or call in declared.counted_by


def measure(cluster: Cluster, change: Change, before: Quality, declared: Declarations) -> Measured:
    """Measure whether a change shows now."""
    if change.call in PROBED:
        return PROBED[change.call](cluster, change, before)
    return _counted(cluster, change, declared.counted_by[change.call])


def _slow(cluster: Any, change: Change, before: Quality) -> Measured:
    arguments = change.arguments
    if arguments.get("delay_ms"):
        return _delayed(cluster, _pairs(arguments), arguments["delay_ms"], arguments.get("jitter_ms", 0.0), before)
    return _narrow(cluster, _pairs(arguments), arguments.get("kbit_s", 0.0), before)


def _delayed(cluster: Any, pairs: list[Pair], delay_ms: float, jitter_ms: float, before: Quality) -> Measured:
    measured = cluster.measure(pairs, PACKETS, within_s=(delay_ms + jitter_ms) / 1000 + 1)
    took = {pair: median(arrived) for pair, times in measured.items() if (arrived := [ms for ms in times if ms is not None])}
    more = [ms - before.took_ms.get(pair, 0.0) for pair, ms in took.items()]
    if not more:
        return Measured(None, "no datagram arrived over these links")
    least = max(LEAST_DELAY_MS, (delay_ms - jitter_ms) / 2)
    return Measured(median(more) >= least, f"datagrams take {median(more):.1f} ms more than before")


def _narrow(cluster: Any, pairs: list[Pair], kbit_s: float, before: Quality) -> Measured:
    if not kbit_s:
        return Measured(False, "neither a delay nor a rate was asked for")
    packet_ms = (SIZE + HEADERS) * 8 / kbit_s
    packets = min(MOST_PACKETS, max(4, round(SPREAD_MS / packet_ms)))
    apart = _apart(cluster.measure(pairs, packets, SIZE, within_s=2.0))
    if not apart:
        return Measured(None, "too few datagrams arrived over these links")
    ms, was = median(apart.values()), median(before.apart_ms.get(pair, 0.0) for pair in apart)
    rate = f"{(SIZE + HEADERS) * 8 / ms:.0f} kbit/s" if ms > 0 else "any rate"
    return Measured(ms >= LIMITED * packet_ms and ms >= LESS * was, f"links carry {rate}")


def _apart(measured: Mapping[Pair, PacketTimes]) -> dict[Pair, float]:
    """Average time between the arrivals of two datagrams (ms), by link; without links over which fewer than two arrived."""
    apart = {}
    for pair, took in measured.items():
        arrived = [(number, ms) for number, ms in enumerate(took) if ms is not None]
        if len(arrived) > 1:
            apart[pair] = (arrived[-1][1] - arrived[0][1]) / (arrived[-1][0] - arrived[0][0])
    return apart


def _lossy(cluster: Any, change: Change, before: Quality) -> Measured:
    pairs, share = _pairs(change.arguments), float(change.arguments.get("share", 0.0))
    packets = min(MOST_PACKETS, max(PACKETS, round(LOSSES / share / len(pairs)))) if share and pairs else PACKETS
    if packets * len(pairs) * share < FEWEST_LOSSES:
        return Measured(None, f"a share of {share:g} is too small to be seen")
    measured = cluster.measure(pairs, packets)
    lost = sum(ms is None for times in measured.values() for ms in times) / sum(len(times) for times in measured.values())
    return Measured(lost > max(before.lost, share / 4), f"{lost:.1%} of datagrams are lost")


def _counted(cluster: Any, change: Change, counted: CountedBy) -> Measured:
    """Measure by a counter of the cluster. A broker that writes nothing for a while counts nothing, so it gets some time."""
    deadline = time.monotonic() + (0.0 if settles_at_once(cluster) else COUNTED_WITHIN_S)
    while True:
        shows, text = counted.shows(getattr(cluster, counted.look)(change.number), change.arguments)
        if shows or time.monotonic() >= deadline:
            return Measured(shows, text)
        time.sleep(LOOK_EVERY_S)


def _pairs(arguments: Mapping[str, Any]) -> list[Pair]:
    pairs: Iterable[Pair] = arguments.get("pairs", ())
    return [(source, destination) for source, destination in pairs]


PROBED: Mapping[str, Callable[[Any, Change, Quality], Measured]] = {"slow": _slow, "lose": _lossy}
