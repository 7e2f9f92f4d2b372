"""Capabilities: what can be done to a cluster beyond `Cluster`. A fault names those it needs; a cluster has those it can offer.

Every call declares what it does to the cluster (`harness.api.effects`), how that is observed, and which call undoes it
(`harness.api.observation`). The budget of faults, the conformance kit and the cluster in memory take what they know from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from fencepost.harness.api.effects import (
    changes,
    changes_until,
    cuts_links,
    ends_change,
    hurts_node,
    looks,
    mends_links,
    prepares,
    restores_node,
)
from fencepost.harness.api.observation import (
    UNKNOWN,
    Argument,
    Subjects,
    as_it_is,
    counted_by,
    shown_by,
    shows,
    undone_by,
    unobservable,
)
from fencepost.harness.api.rights import Right

__all__ = [
    "Authorizing",
    "Catch",
    "Corruptible",
    "Damage",
    "DamagedPart",
    "Fillable",
    "HeldBack",
    "Interceptable",
    "Killable",
    "Losable",
    "Measurable",
    "PacketTimes",
    "Pair",
    "Partitionable",
    "Pausable",
    "Powered",
    "Scalable",
    "Skewable",
    "Slowable",
    "Stoppable",
    "Throttleable",
    "Upgradable",
    "Wipeable",
]

Pair = tuple[str, str]
"""A link in one direction: source node and destination node. Packets from source are dropped on arrival at destination."""
FROZEN = "T"  # the kernel's letter for a process that SIGSTOP has stopped
NO_BYTES = 64 << 10  # so few free bytes of a disk, or stored ones, are none
CLOCK_TOLERANCE_S = 2.0  # a clock that is read over the network is known to about a second
LEAST_DELAY_MS = 2.0  # less than this is what a busy machine does to any packet, and to any write
PacketTimes = list[float | None]
"""Milliseconds that each of some packets took, in sending order; None: it has not arrived."""


def _process_state(letter: str) -> str:
    """`T` frozen, `gone`, or `awake`: a process that runs and a process that waits are the same here."""
    return FROZEN if letter == FROZEN else "awake" if letter else "gone"


def _data(stored_bytes: int) -> str:
    return "none" if stored_bytes <= NO_BYTES else "there"


def _disk(free_bytes: int) -> str:
    return "full" if free_bytes <= NO_BYTES else "has room"


def _clock(ahead_s: float | None) -> Any:
    return UNKNOWN if ahead_s is None else "right" if abs(ahead_s) <= CLOCK_TOLERANCE_S else "ahead" if ahead_s > 0 else "behind"


def _rights(cluster: Any) -> dict[str, tuple[str, ...]]:
    """Rights of the clients, by name of the resource (`*`: every one), as all brokers that answer have them."""
    known = {right for rights in cluster.rights().values() for right in rights}
    names = sorted({"*", *Subjects.TOPICS.of(cluster), *cluster.transactional_ids, *cluster.groups})
    return {name: tuple(str(right) for right in sorted(known) if right.name == name) for name in names}


@runtime_checkable
class Killable(Protocol):
    """Nodes that can be killed (SIGKILL) and started again."""

    @undone_by("start")
    @shown_by("process", becomes=None)
    @hurts_node
    def kill(self, node: str) -> None: ...
    @restores_node
    def start(self, node: str) -> None:
        """Start a dead node; nothing if it runs. A client node is replaced by the harness instead, so nothing here."""

    @shows("process", Subjects.NODES, state=as_it_is, restored=False, hurts_node=True)
    @looks
    def pid(self, node: str) -> int | None:
        """The node's process id while it lives, else None."""

    @shows("answers", Subjects.SERVERS, restored=False, drifts=True)
    @looks
    def answers(self, node: str) -> bool:
        """Return whether a broker answers a Kafka request right now (a client: whether it lives)."""


@runtime_checkable
class Powered(Killable, Protocol):
    """Nodes that can lose what they had not fsynced, as when their power fails."""

    @undone_by("start")
    @unobservable
    @hurts_node
    def lose_unsynced(self, node: str) -> dict[str, tuple[int, int]]:
        """Throw away what a dead broker had written and not fsynced.

        Partition -> its end offset now, and before, for those that lost something. Raises ClusterError when it is alive.
        """


DamagedPart = Literal["records", "cut", "index", "txnindex", "snapshot"]
"""A part of a partition's files: a byte of a batch's records, the end of a segment from the middle of a batch on, a byte of the
newest index of offsets, of the newest index of aborted transactions, or of the newest snapshot of producers."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Damage of a broker's file.

    file: the file, with the partition's directory: `orders-0/00000000000000000000.log`.
    position: the first byte that is another one now, or is gone.
    before: the bytes from there on as they were, as hexadecimal digits; at most eight.
    after: the same bytes now; empty: they are gone.
    bytes_before: size of the file as it was.
    bytes_after: its size now.
    first_offset: first offset of the batch that was damaged; -1: the file holds no records.
    last_offset: its last offset, likewise.
    """

    file: str
    position: int
    before: str
    after: str
    bytes_before: int
    bytes_after: int
    first_offset: int = -1
    last_offset: int = -1


@runtime_checkable
class Corruptible(Killable, Protocol):
    """Brokers whose files can be damaged while they are down, as by a disk that returns other bytes than were written."""

    @undone_by("start")
    @unobservable
    @hurts_node
    def corrupt(self, node: str, partition: str, part: DamagedPart, at: float, older: bool = False) -> Damage:
        """Damage a dead broker's copy of a partition.

        at: 0 to 1: where in the file. older: in a segment before the last. Raises ClusterError when it is alive, or has no such
        file. Starting the broker ends the fault; the file stays as it is, unless the broker repairs it.
        """

    @looks
    def corruption_notice(self, node: str, partition: str) -> str:
        """The first line since `corrupt` in which the node's log says that the partition is damaged; empty: there is none."""


@runtime_checkable
class Stoppable(Protocol):
    """Nodes that can be shut down (SIGTERM) and started again. A broker hands leadership over first (controlled shutdown)."""

    @undone_by("start")
    @shown_by("process", becomes=None)
    @hurts_node
    def stop(self, node: str) -> None:
        """Send SIGTERM and return at once; nothing if the node is dead. A frozen one begins to end when it thaws."""

    @looks
    def status(self, node: str) -> int | None:
        """The exit status of a node that ended (a JVM that SIGTERM ended: 143), None while it lives."""

    @looks
    def shutdown_line(self, node: str) -> str:
        """The line of its log by which the controller released the broker at its last shutdown; empty if there is none."""

    @restores_node
    def start(self, node: str) -> None:
        """As in `Killable`; so are `pid` and `answers`."""

    @looks
    def pid(self, node: str) -> int | None: ...
    @looks
    def answers(self, node: str) -> bool: ...


@runtime_checkable
class Upgradable(Protocol):
    """Nodes whose version of Kafka can be changed while they are down."""

    @shows("version", Subjects.SERVERS, restored=False, drifts=True)
    @looks
    def version(self, node: str) -> str:
        """The version that the node's next start runs; the one it runs already, unless `use_version` came after its start."""

    @prepares
    def use_version(self, node: str, version: str) -> None:
        """From its next start on the node runs `version`. Raises ClusterError unless the cluster's options name it."""


@runtime_checkable
class Wipeable(Protocol):
    """Brokers whose data can be removed while they are down, as if they had got a new disk."""

    @undone_by("start")
    @shown_by("data", becomes=0)
    @hurts_node
    def wipe(self, node: str) -> None:
        """Remove all that a dead broker holds. Raises ClusterError while it lives, or when it votes in the quorum."""

    @shows("data", Subjects.BROKERS, state=_data, whole=1_000_000, restored=False)
    @looks
    def stored_bytes(self, node: str) -> int:
        """Bytes of what a broker holds, besides its ids. Raises ClusterError when they cannot be counted."""


@runtime_checkable
class Pausable(Protocol):
    """Nodes that can be frozen (SIGSTOP) and thawed (SIGCONT)."""

    @undone_by("resume")
    @shown_by("state", becomes="T")
    @hurts_node
    def pause(self, node: str) -> None: ...
    @restores_node
    def resume(self, node: str) -> None: ...
    @shows("state", Subjects.NODES, state=_process_state, restored=False, hurts_node=True)
    @looks
    def process_state(self, node: str) -> str:
        """The kernel's letter for the process (R, S, D, T, Z; empty: gone). T is frozen."""


@runtime_checkable
class Scalable(Protocol):
    """A program's instances, or a group's members: client nodes whose number can change while the workload runs."""

    @looks
    def instances(self) -> dict[str, bool]:
        """The nodes of all instances, and whether each is to run; empty where there are none."""

    @undone_by("recall")
    @shown_by("process", becomes=None)
    @hurts_node
    def retire(self, node: str) -> None:
        """Have an instance end in order (a program by SIGTERM), and start no other in its place; done a moment later."""

    @restores_node
    def recall(self, node: str) -> None:
        """Have an instance run that was retired, or has never run."""

    @looks
    def transactional_id(self, node: str) -> str:
        """The transactional id that the harness gives to a client, or to an instance of a program, which may use others; empty:
        none."""

    @looks
    def setting(self, node: str, name: str) -> str:
        """A setting of an instance by our name for it, as its next start takes it; empty where it has none of that name."""

    @prepares
    def use_setting(self, node: str, name: str, value: str) -> None:
        """From its next start on an instance has another value of a setting. Raises ClusterError when it has no such setting."""


@runtime_checkable
class Fillable(Killable, Protocol):
    """Nodes whose disks can be filled."""

    @undone_by("clear_disk")
    @shown_by("disk", becomes=0)
    @hurts_node
    def fill_disk(self, node: str) -> None:
        """Fill the disk of the node's data."""

    @restores_node
    def clear_disk(self, node: str) -> None:
        """Give back what `fill_disk` took; nothing if it took nothing."""

    @shows("disk", Subjects.SERVERS, state=_disk, whole=1_000_000, hurts_node=True)
    @looks
    def disk_free(self, node: str) -> int:
        """Bytes that are free there."""

    @looks
    def disk_complaint(self, node: str) -> str:
        """The first line since `fill_disk` in which the node's log says that there is no room; empty when there is none."""


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """Operations that a slow disk held back.

    operations: number of writes and syncs.
    bytes: bytes of the writes.
    longest_ms: the longest time that any of them waited.
    """

    operations: int = 0
    bytes: int = 0
    longest_ms: float = 0.0


def _held_back(answer: Mapping[str, HeldBack], arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """True if writes waited, and for half of the delay at least; and the answer in words."""
    delay_ms = float(arguments.get("delay_ms", 0.0))
    least_ms = max(LEAST_DELAY_MS, delay_ms / 2) if delay_ms or not arguments.get("mb_s") else 0.0
    delayed = [held_back for held_back in answer.values() if held_back.operations]
    longest_ms = max((held_back.longest_ms for held_back in delayed), default=0.0)
    text = f"{sum(held_back.operations for held_back in delayed)} writes waited up to {longest_ms:g} ms"
    return bool(delayed) and longest_ms >= least_ms, text


@runtime_checkable
class Throttleable(Protocol):
    """Nodes whose disks can be made slow."""

    @counted_by("held_back", shows=_held_back)
    @changes_until("unthrottle")
    def throttle(self, nodes: Iterable[str], delay_ms: float = 0.0, mb_s: float = 0.0) -> int:
        """From now on hold back what these nodes write and sync, beside what holds it back already; a number for `unthrottle`.

        Each write waits until those before it have been written at `mb_s` (0: any rate), each write and sync `delay_ms` then.
        A node that dies finds its disk as slow when it starts again.
        """

    @looks
    def held_back(self, number: int) -> dict[str, HeldBack]:
        """Operations that `throttle` has held back so far, by node. Nothing when it has ended."""

    @ends_change
    def unthrottle(self, number: int) -> dict[str, HeldBack]:
        """End what `throttle` began; what waits goes on. What it held back meanwhile; nothing for what has ended already."""

    @looks
    def disk_waits(self, nodes: Iterable[str], for_s: float) -> dict[str, float | None]:
        """The longest time, in milliseconds, that a thread of each node is seen in one write or sync of the node's data.

        Looks for so many seconds at what the threads really do. None for a node that is dead.
        """


@runtime_checkable
class Skewable(Protocol):
    """Nodes whose wall clocks can be set."""

    @undone_by("skew", ahead_s=0.0)
    @shown_by("clock", becomes=Argument("ahead_s"))
    @changes
    def skew(self, node: str, ahead_s: float) -> None:
        """Set a broker's wall clock so many seconds ahead of ours (behind, if negative); 0 sets it right."""

    @shows("clock", Subjects.SERVERS, state=_clock, whole=0.0, down=None, hurts_node=True)
    @looks
    def clock_ahead(self, node: str) -> float | None:
        """Seconds that a broker's wall clock is ahead of ours, as it reports it; None when it does not answer."""


@runtime_checkable
class Partitionable(Protocol):
    """Nodes whose network can be cut, pair by pair and direction by direction."""

    @undone_by("undrop")
    @shown_by("network", becomes=False)
    @cuts_links
    def drop(self, pairs: Iterable[Pair]) -> None:
        """From now on drop every packet of each pair (adds to what is dropped already)."""

    @mends_links
    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let these pairs talk again; a pair that is not dropped is left alone."""

    @shows("network", Subjects.LINKS, restored=False)
    @looks
    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Send one datagram per pair; whether it arrived."""

    @looks
    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Number of packets that were dropped for each pair since `drop`."""


class Measurable(Protocol):
    """Links whose quality can be measured, pair by pair and direction by direction."""

    @looks
    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """Send `packets` datagrams of `size` bytes per pair, all at once, and wait for them for at most `within_s` seconds."""


@runtime_checkable
class Losable(Measurable, Protocol):
    """Links that can be made to lose packets at random."""

    @changes_until("unlose")
    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """From now on lose this share (0 to 1) of each pair's packets, beside what is lost already; a number for `unlose`."""

    @ends_change
    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End what `lose` began; packets (seen, lost) of each pair meanwhile. Nothing for what has ended already."""


@runtime_checkable
class Slowable(Measurable, Protocol):
    """Links that can be made slow and narrow."""

    @changes_until("unslow")
    def slow(self, pairs: Iterable[Pair], delay_ms: float = 0.0, jitter_ms: float = 0.0, kbit_s: float = 0.0) -> int:
        """From now on hold each pair's packets back, beside what holds them back already; a number for `unslow`.

        Each packet waits until those before it have been sent at `kbit_s` (0: any rate), and then `delay_ms` plus or minus up to
        `jitter_ms`. Packets keep their order. A narrow link has room for half a second; what comes then is dropped.
        """

    @ends_change
    def unslow(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End what `slow` began; packets (seen, dropped for want of room) of each pair. Nothing for what has ended already."""


@runtime_checkable
class Authorizing(Protocol):
    """A cluster with an authorizer, where clients are a principal with rights of their own."""

    @shows("rights", look=_rights)
    @looks
    def rights(self) -> dict[str, tuple[Right, ...]]:
        """The clients' rights as each broker that answers has them: brokers learn of changes one by one."""

    @shown_by("rights")
    @changes_until("regrant")
    def revoke(self, names: Iterable[str], operation: str, resource: str) -> int:
        """Take from the clients the right to `operation` on these (`*`: every one); a number for `regrant`.

        Raises ClusterError, also when it is taken away already.
        """

    @ends_change
    def regrant(self, number: int) -> None:
        """Give back what `revoke` took; nothing for what was given back already."""


@dataclass(frozen=True, kw_only=True)
class Catch:
    """A message that a rule of the proxy caught.

    number: its number among those of the rule, from 1.
    node: the broker in front of which it was caught.
    client_id: of the client that sent the request.
    api: Kafka's name of the request: `EndTxn`.
    version: its version.
    transactional_id: where the request names one, else empty.
    time_ns: when it was caught (CLOCK_MONOTONIC).
    state: `held`, or what became of it: `released`, `dropped`, `lost`, `delivered` (late), `repeated`, `answered` and `replaced`
        (error), `altered`, `cut`, `throttled`, `recorded`; `failed`: the rule could not act on it, and it passed as it was;
        `ended`: its proxy ended while it held it, and it went no further.
    released_ns: when what was held went on; 0: it has not.
    id_state: the state of the transactional id when the request came (docs/proxy.md), where its proxy knew it; else empty.
    why: the reason why the rule could not act on it; empty where it did.
    """

    number: int
    node: str
    client_id: str
    api: str
    version: int
    transactional_id: str = ""
    time_ns: int = 0
    state: str = ""
    released_ns: int = 0
    id_state: str = ""
    why: str = ""


@runtime_checkable
class Interceptable(Protocol):
    """Brokers behind a proxy that understands Kafka's protocol (docs/proxy.md)."""

    @counted_by("caught")
    @changes_until("withdraw")
    def intercept(self, rule: Mapping[str, Any], nodes: Iterable[str] = ()) -> int:
        """From now on a rule of the proxy holds in front of these brokers (none given: all); a number for `withdraw`.

        Raises ClusterError, also for a rule that the proxy refuses.
        """

    @looks
    def proxied(self) -> dict[str, bool]:
        """The brokers before which a proxy stands, and whether it runs. Nothing where there are none."""

    @looks
    def replaced(self, number: int) -> dict[str, bool]:
        """The brokers whose proxy has ended since a rule holds, and whether it holds at the one that was started in its place."""

    @looks
    def caught(self, number: int) -> list[Catch]:
        """The messages that a rule has caught so far. Nothing when it was withdrawn."""

    @ends_change
    def release(self, number: int) -> None:
        """Let what the rule holds go on; the rule stays."""

    @ends_change
    def withdraw(self, number: int) -> list[Catch]:
        """End what `intercept` began; what is held goes on. All that was caught; nothing for what has ended already."""


# Every capability above.
CAPABILITIES: tuple[type, ...] = tuple(
    cls for cls in vars().values() if isinstance(cls, type) and Protocol in cls.__mro__ and cls.__module__ == __name__
)
