"""The shapes of what agents at nodes answer: those of hosts (`ssh`) and those in helpers' containers (`docker`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fencepost.clusters.fault_tools import disks, unsynced_data
from fencepost.clusters.kafka import log_segments, node_directory

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Jump = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
MOST_JUMPS = 100
Counted = tuple[Count, Count]  # packets that were seen, and dropped
Probe = tuple[Count, Count, float, str, Count]  # `probes.ReceivedProbe`
# as `transaction_state.State` and `log_segments.Row`
State = tuple[str, Number, Number, Number, Number, Number, Number, Number, Number, list[str]]
StoredRecord = tuple[
    str,
    Number,
    Number,
    Number,
    Number,
    Number,
    Number,
    str,
    str | None,
    Number,
    Number,
    Number,
    Number,
    bool,
    Number,
    State | None,
]


class Nothing(msgspec.Struct):
    """An answer without results."""


class Received(msgspec.Struct):
    """Datagrams that arrived."""

    received: list[Probe]


class MissingCapabilities(msgspec.Struct):
    """Network capabilities that a node lacks, each with the reason."""

    missing_capabilities: dict[str, str]


class Unslowed(msgspec.Struct):
    """A delay that ended."""

    counted: Counted


class NodeStatus(msgspec.Struct):
    """A broker's process."""

    pid: Count | None
    status: Number | None
    state: str


class Trouble(msgspec.Struct):
    """The reason why something cannot be had; empty when it can."""

    trouble: str


class Packets(msgspec.Struct):
    """Packets that each rule matched."""

    packets: dict[str, Counted]


class Clock(msgspec.Struct):
    """A monotonic clock."""

    ns: Number


class LogPart(msgspec.Struct):
    """A part of a log, in base64; and the jumps of the host's clock so far, in seconds."""

    log: str
    jumps: Annotated[list[Jump], msgspec.Meta(max_length=MOST_JUMPS)]


class Begun(msgspec.Struct):
    """A watcher that serves."""

    rules_trouble: str


class Rule(msgspec.Struct):
    """A rule that was made."""

    handle: Count


class Counters(msgspec.Struct):
    """Packets that each rule of a helper matched."""

    counters: dict[str, Counted]


class Ready(msgspec.Struct):
    """An agent that serves."""

    ready: bool


OF_WATCHERS: Mapping[str, type[Any]] = {
    "start": NodeStatus,
    "status": NodeStatus,
    "prepare_clock": Trouble,
    "mount": Trouble,
    "count": Packets,
    "unslow": Unslowed,
    "missing_capabilities": MissingCapabilities,
    "received": Received,
    "clock": Clock,
    "renew": LogPart,
}
OF_HELPERS: Mapping[str, type[Any]] = {
    "ready": Ready,
    "received": Received,
    "missing_capabilities": MissingCapabilities,
    "unslow": Unslowed,
    "drop": Rule,
    "counters": Counters,
}
OF_FUNCTIONS: Mapping[Callable[[Path], Any], Any] = {  # on a node's data directory
    node_directory.wipe: None,
    node_directory.stored_bytes: Count,
    log_segments.stored_records: tuple[list[StoredRecord], str],
    unsynced_data.lose_unsynced: dict[str, Counted],
    disks.free: Count,
    disks.fill: None,
    disks.clear: None,
}
