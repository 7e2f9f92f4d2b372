"""The surroundings of the cluster in memory (`nemesis.testing.FakeCluster`): links, power, disks, clocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from fencepost.harness.api import ClusterError, Damage, DamagedPart, HeldBack
from fencepost.nemesis.testing.declared_state import DeclaredState
from fencepost.nemesis.testing.fake_links import FakeLinks


class FakeEnvironment(FakeLinks):
    """`FakeLinks`, `Powered`, `Corruptible`, `Fillable` and `Throttleable`, beside what capabilities declare (`declared`).

    damaged: node and partition -> the damage that `corrupt` did; notices: likewise -> the line that `corruption_notice` answers.
    """

    def __init__(self, capabilities: Iterable[type] = ()) -> None:
        super().__init__()
        self.stubborn: set[str] = set()
        self.declared = DeclaredState(self, self._done, capabilities)
        self.disks: dict[str, int] = self.declared.answers.setdefault("disk", {})
        self.unsynced: dict[str, dict[str, tuple[int, int]]] = {}
        self.damaged: dict[tuple[str, str], Damage] = {}
        self.notices: dict[tuple[str, str], str] = {}
        self._throttled: dict[int, tuple[float, dict[str, HeldBack]]] = {}  # delay, and what was held back of each node

    @abstractmethod
    def pid(self, node: str) -> int | None: ...

    @abstractmethod
    def awake(self, node: str) -> bool: ...

    @abstractmethod
    def _end(self, node: str, status: int) -> None:
        """A node ends with this exit status."""

    def fill_disk(self, node: str) -> None:
        """A broker that is awake ends, as it does when it has no other log directory."""
        self.declared.call("fill_disk")(node)
        if node not in self.stubborn and self.awake(node):
            self._end(node, 1)

    def disk_complaint(self, node: str) -> str:
        return "" if self.declared.call("disk_free")(node) else "No space left on device"

    def throttle(self, nodes: Iterable[str], delay_ms: float = 0.0, mb_s: float = 0.0) -> int:
        self._numbers += 1
        for node in (wanted := tuple(nodes)):
            self._require_known(node)
        self._done("throttle", wanted)
        self._throttled[self._numbers] = (delay_ms, dict.fromkeys(wanted, HeldBack()))
        return self._numbers

    def held_back(self, number: int) -> dict[str, HeldBack]:
        """Nothing of a broker that is dead or frozen, or stubborn; of others a write of a hundred bytes at each look."""
        delay_ms, held = self._throttled.get(number, (0.0, {}))
        for node, waits in held.items():
            if self.awake(node) and node not in self.stubborn:
                held[node] = HeldBack(operations=waits.operations + 1, bytes=waits.bytes + 100, longest_ms=delay_ms)
        return dict(held)

    def unthrottle(self, number: int) -> dict[str, HeldBack]:
        self._done("unthrottle", number)
        return self._throttled.pop(number, (0.0, {}))[1]

    def disk_waits(self, nodes: Iterable[str], for_s: float) -> dict[str, float | None]:
        """A millisecond, and all delays; nothing waits while it is frozen."""
        return {node: self._waits(node) for node in nodes}

    def _waits(self, node: str) -> float | None:
        self._require_known(node)
        if self.pid(node) is None:
            return None
        delays = [delay_ms for delay_ms, held in self._throttled.values() if node in held and node not in self.stubborn]
        return 1.0 + sum(delays) if self.awake(node) else 0.0

    def lose_unsynced(self, node: str) -> dict[str, tuple[int, int]]:
        """Raises ClusterError when it is alive."""
        self._done("lose_unsynced", node)
        if self.pid(node) is not None:
            raise ClusterError(f"{node} is alive")
        return self.unsynced.pop(node, {})

    def environment_whole(self) -> bool:
        """Return whether no link is hurt, no disk slow, and no change in force that a capability declares."""
        return self.links_whole() and not self._throttled and not self.declared.in_force

    def mend_environment(self) -> None:
        self.mend_links()
        self._throttled.clear()
        self.declared.in_force.clear()

    def corrupt(self, node: str, partition: str, part: DamagedPart, at: float, older: bool = False) -> Damage:
        """Raises ClusterError when it is alive."""
        self._done("corrupt", node)
        if self.pid(node) is not None:
            raise ClusterError(f"{node} is alive")
        name = f"{partition}/{0:020}.{'log' if part in ('records', 'cut') else part}"
        size, left = 1000, int(at * 1000) if part == "cut" else 1000
        after = "" if part == "cut" else "ff"
        damage = Damage(file=name, position=int(at * 1000), before="00", after=after, bytes_before=size, bytes_after=left)
        self.damaged[node, partition] = damage
        return damage

    def corruption_notice(self, node: str, partition: str) -> str:
        return self.notices.get((node, partition), "") if (node, partition) in self.damaged else ""
