"""Capabilities: what can be done to a cluster beyond `Cluster`. A fault names those it needs; a cluster has those it can offer.

Every call declares what it does to the cluster (`harness.api.effects`); the budget of faults and the conformance kit read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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
from fencepost.harness.api.rights import Right

Pair = tuple[str, str]
"""A link in one direction: source node and destination node. Packets from source are dropped on arrival at destination."""
PacketTimes = list[float | None]
"""Milliseconds that each of some packets took, in sending order; None: it has not arrived."""


@runtime_checkable
class Killable(Protocol):
    """Nodes that can be killed (SIGKILL) and started again."""

    @hurts_node
    def kill(self, node: str) -> None: ...
    @restores_node
    def start(self, node: str) -> None:
        """Start a dead node; nothing if it runs. A client node is replaced by the harness instead, so nothing here."""

    @looks
    def pid(self, node: str) -> int | None:
        """The node's process id while it lives, else None."""

    @looks
    def answers(self, node: str) -> bool:
        """Whether a broker answers a Kafka request right now (a client: whether it lives)."""


@runtime_checkable
class Powered(Killable, Protocol):
    """Nodes that can lose what they had not fsynced, as when their power fails."""

    @hurts_node
    def lose_unsynced(self, node: str) -> dict[str, tuple[int, int]]:
        """Throw away what a dead broker had written and not fsynced.

        Partitions that lost something: (the offset it ends at now, the one it ended at). Raises ClusterError when it is alive.
        """


@runtime_checkable
class Stoppable(Protocol):
    """Nodes that can be shut down (SIGTERM) and started again. A broker hands leadership over first (controlled shutdown)."""

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

    @looks
    def version(self, node: str) -> str:
        """The version that the node's next start runs; the one it runs already, unless `use_version` came after its start."""

    @prepares
    def use_version(self, node: str, version: str) -> None:
        """From its next start on the node runs `version`. Raises ClusterError unless the cluster's options name it."""


@runtime_checkable
class Wipeable(Protocol):
    """Brokers whose data can be removed while they are down, as if they had got a new disk."""

    @hurts_node
    def wipe(self, node: str) -> None:
        """Remove all that a dead broker holds. Raises ClusterError while it lives, or when it votes in the quorum."""

    @looks
    def stored_bytes(self, node: str) -> int:
        """Bytes of what a broker holds, besides its ids. Raises ClusterError when nobody can look."""


@runtime_checkable
class Pausable(Protocol):
    """Nodes that can be frozen (SIGSTOP) and thawed (SIGCONT)."""

    @hurts_node
    def pause(self, node: str) -> None: ...
    @restores_node
    def resume(self, node: str) -> None: ...
    @looks
    def process_state(self, node: str) -> str:
        """The kernel's letter for the process (R, S, D, T, Z; empty: gone). T is frozen."""


@runtime_checkable
class Scalable(Protocol):
    """A program's instances, or a group's members: client nodes whose number can change while the workload runs."""

    @looks
    def instances(self) -> dict[str, bool]:
        """The nodes of all instances, and whether each is to run; empty where there are none."""

    @hurts_node
    def retire(self, node: str) -> None:
        """Have an instance end in order (a program by SIGTERM), and start no other in its place; done a moment later."""

    @restores_node
    def recall(self, node: str) -> None:
        """Have an instance run that was retired, or has never run."""

    @looks
    def setting(self, node: str, name: str) -> str:
        """A setting of an instance by our name for it, as its next start takes it; empty where it has none of that name."""

    @prepares
    def use_setting(self, node: str, name: str, value: str) -> None:
        """From its next start on an instance has another value of a setting. Raises ClusterError when it has no such setting."""


@runtime_checkable
class Fillable(Killable, Protocol):
    """Nodes whose disks can be filled."""

    @hurts_node
    def fill_disk(self, node: str) -> None:
        """Fill the disk of the node's data."""

    @restores_node
    def clear_disk(self, node: str) -> None:
        """Give back what `fill_disk` took; nothing if it took nothing."""

    @looks
    def disk_free(self, node: str) -> int:
        """Bytes that are free there."""

    @looks
    def disk_complaint(self, node: str) -> str:
        """The first line since `fill_disk` in which the node's log says that there is no room; empty when there is none."""


@dataclass(frozen=True, kw_only=True)
class HeldBack:
    """Operations that a slow disk held back: writes and syncs, the bytes of the writes, the longest time any of them waited."""

    operations: int = 0
    bytes: int = 0
    longest_ms: float = 0.0


@runtime_checkable
class Throttleable(Protocol):
    """Nodes whose disks can be made slow."""

    @changes_until("unthrottle")
    def throttle(self, nodes: Iterable[str], delay_ms: float = 0.0, mb_s: float = 0.0) -> int:
        """From now on hold back what these nodes write and sync, beside what holds it back already; a number for `unthrottle`.

        Each write waits until those before it have been written at `mb_s` (0: any rate), each write and sync `delay_ms` then.
        A node that dies finds its disk as slow when it starts again.
        """

    @looks
    def held_back(self, number: int) -> dict[str, HeldBack]:
        """What `throttle` has held back so far. Nothing when it has ended."""

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

    @changes
    def skew(self, node: str, ahead_s: float) -> None:
        """Set a broker's wall clock so many seconds ahead of ours (behind, if negative); 0 sets it right."""

    @looks
    def clock_ahead(self, node: str) -> float | None:
        """How many seconds a broker's wall clock is ahead of ours, as it reports it; None when it does not answer."""


@runtime_checkable
class Partitionable(Protocol):
    """Nodes whose network can be cut, pair by pair and direction by direction."""

    @cuts_links
    def drop(self, pairs: Iterable[Pair]) -> None:
        """From now on drop every packet of each pair (adds to what is dropped already)."""

    @mends_links
    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let these pairs talk again; a pair that is not dropped is left alone."""

    @looks
    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Send one datagram per pair; whether it arrived."""

    @looks
    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """How many packets were dropped for each pair since `drop`."""


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

    @looks
    def rights(self) -> dict[str, tuple[Right, ...]]:
        """The clients' rights as each broker that answers has them: brokers learn of changes one by one."""

    @changes_until("regrant")
    def revoke(self, names: Iterable[str], operation: str, resource: str) -> int:
        """Take from the clients the right to `operation` on these (`*`: every one); a number for `regrant`.

        Raises ClusterError, also when it is taken away already.
        """

    @ends_change
    def regrant(self, number: int) -> None:
        """Give back what `revoke` took; nothing for what was given back already."""


# Every capability above.
CAPABILITIES: tuple[type, ...] = tuple(
    one for one in vars().values() if isinstance(one, type) and Protocol in one.__mro__ and one.__module__ == __name__
)
