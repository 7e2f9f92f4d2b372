"""A cluster in memory and a clock that tests move, for testing faults and schedules in milliseconds.

Public: authors of faults test against these (nemesis/README.md).
"""

from __future__ import annotations

import heapq
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fencepost.harness.api import Admin, ClusterError, Isolation, ListingTransactions, SharedState, TopicSpec, Wipeable
from fencepost.harness.api.capabilities import CAPABILITIES
from fencepost.harness.api.effects import calls_of
from fencepost.nemesis.testing.fake_environment import FakeEnvironment
from fencepost.nemesis.testing.fake_partitions import FakePartitions
from fencepost.nemesis.testing.fake_proxy import FakeProxy
from fencepost.nemesis.testing.fake_rights import FakeRights
from fencepost.nemesis.testing.fake_second import FakeSecond
from fencepost.nemesis.testing.fake_transactions import FakeTransactions

FIRST_PID = 4000


class FakeClock:
    """A clock in nanoseconds that only tests move. Call it to read it, like `time.monotonic_ns`."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def play(self, timelines: Iterable[Iterator[int]], until_ns: int | None = None) -> None:
        """Run generators that yield the times they wait for, all in this thread; the one that is due first goes on first.

        Ends when all are done, or before the first one that is due after `until_ns`.
        """
        waiting = [(wake_ns, order, line) for order, line in enumerate(timelines) if (wake_ns := next(line, None)) is not None]
        heapq.heapify(waiting)
        while waiting and (until_ns is None or waiting[0][0] <= until_ns):
            wake_ns, order, line = heapq.heappop(waiting)
            self.now_ns = max(self.now_ns, wake_ns)
            again_ns = next(line, None)
            if again_ns is not None:
                heapq.heappush(waiting, (again_ns, order, line))
        self.now_ns = max(self.now_ns, until_ns or 0)


class FakeCluster(FakeEnvironment):
    """A cluster in memory: Cluster, with every capability, Roles and Admin; strict where a real one may be lenient.

    brokers: how many; `n1`...
    controllers: how many; `k1`... (0: the brokers are controllers too).
    clients: how many; `c0`...
    second_brokers: of a second Kafka cluster, `s1`...
    services: outside services, nodes that have links and no process of their own.
    capabilities: those of a plug-in, beside fencepost's own; their calls do what they declare (`harness.api.observation`).
    topics: partitions of the workload; the leader of one is the first replica, counted from its number, that is awake.
    Knobs that may be changed at any time:
    stubborn: nodes on which kill, stop, pause and start have no effect.
    leaky: pairs to which nothing can be done.
    mute_for: node -> how often it still does not answer.
    missing: capability -> why it is unavailable here.
    upgrades: versions that nodes may change to (they run "fake").
    coordinated: the transactions that its coordinators know.
    client_rights: the rights of clients, and brokers `deaf` to changes.
    proxy: the proxies before the brokers, `quiet` or not, and the faults that were injected through `strike_now`.
    unsynced: node -> what `lose_unsynced` answers.
    disks: node -> bytes that are free on it (default: a million).
    settles_at_once: nothing changes by itself, so that waiting shows nothing new.
    calls: what was done to the cluster, in order: (verb, node), and for networks (verb, (pair, ...)).
    """

    settles_at_once = True

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        clients: int = 2,
        topics: Sequence[str] = ("t-0", "t-1"),
        transactional_ids: Sequence[str] = ("tx-0",),
        groups: Sequence[str] = ("g-0",),
        second_brokers: int = 0,
        capabilities: Sequence[type] = (),
        services: Sequence[str] = (),
    ) -> None:
        self.brokers = tuple(f"n{number}" for number in range(1, brokers + 1))
        self.controllers = tuple(f"k{number}" for number in range(1, controllers + 1)) or self.brokers
        self.clients = tuple(f"c{number}" for number in range(clients))
        self.topics, self.transactional_ids, self.groups = tuple(topics), tuple(transactional_ids), tuple(groups)
        self.kafka_version = "fake"
        self.shared = SharedState().get
        super().__init__(capabilities)
        self.mute_for: dict[str, int] = {}
        self.missing: dict[type, str] = {} if controllers else {Wipeable: "a combined controller's disk holds its vote"}
        self.upgrades: set[str] = {"newer"}
        self._made: set[str] = set()  # topics beside the workload's
        self._pids: dict[str, int] = {}
        self._statuses: dict[str, int] = {}
        self._versions: dict[str, str] = {}
        self._frozen: set[str] = set()
        self._instances = dict.fromkeys(self.clients, True)
        self._instance_ids: dict[str, str] = {}
        self._settings = {client: {"support": "disabled", "version": "fake", "versions": "fake"} for client in self.clients}
        self._next_pid = FIRST_PID
        self._partitions = FakePartitions(self.brokers, lambda: self.topics, self.awake, self._done)
        self.coordinated = FakeTransactions(self._done)
        self.client_rights = FakeRights(self.brokers, self.awake, self._done)
        self.proxy = FakeProxy(self.brokers, self.awake, self._done)
        self.strike_now = self.proxy.strike_now
        self._take_calls((*CAPABILITIES, ListingTransactions, Admin, *capabilities))
        self.second = FakeSecond(second_brokers, self.awake) if second_brokers else None
        self.services = tuple(services)
        for node in (*self.servers, *self.clients, *self.services):
            self._start_process(node)

    def _take_calls(self, interfaces: Sequence[type]) -> None:
        """Calls that have no method here are those of a part, or else do what they declare."""
        for name in (name for name in calls_of(interfaces) if not hasattr(self, name)):
            parts = (self._partitions, self.coordinated, self.client_rights, self.proxy)
            part = next((part for part in parts if hasattr(part, name)), None)
            setattr(self, name, getattr(part, name) if part else self.declared.call(name))

    @property
    def servers(self) -> tuple[str, ...]:
        """Brokers and controllers of both Kafka clusters, each once."""
        return tuple(dict.fromkeys((*self.brokers, *self.controllers, *(self.second.brokers if self.second else ()))))

    def kill(self, node: str) -> None:
        """Raises ClusterError when it is dead already."""
        self._done("kill", node)
        self._require_alive(node)
        if node not in self.stubborn:
            self._end(node, -9)

    def stop(self, node: str) -> None:
        """It ends at once; nothing when it is dead or, other than a real one, frozen."""
        self._done("stop", node)
        if self.awake(node) and node not in self.stubborn:
            self._end(node, 143)

    def status(self, node: str) -> int | None:
        """143 after `stop`, -9 after `kill`."""
        return self._statuses.get(node) if self.pid(node) is None else None

    def shutdown_line(self, node: str) -> str:
        return "let go" if self.status(node) == 143 and node in self.brokers else ""

    def version(self, node: str) -> str:
        self._require_known(node)
        return self._versions.get(node, self.kafka_version)

    def use_version(self, node: str, version: str) -> None:
        """Raises ClusterError unless it is `fake` or one of `upgrades`."""
        self._require_known(node)
        if version not in (self.kafka_version, *self.upgrades):
            raise ClusterError(f"{node} cannot run {version}")
        self._versions[node] = version

    def wipe(self, node: str) -> None:
        """Raises ClusterError while it lives, or when it is a controller."""
        if self.pid(node) is not None or node in self.controllers:
            self._done("wipe", node)
            raise ClusterError(f"{node} {'votes in the quorum' if node in self.controllers else 'lives'}")
        self.declared.call("wipe")(node)

    def start(self, node: str) -> None:
        """Under a new process id. Nothing when it runs; nothing for a client (see `replace`)."""
        self._done("start", node)
        if self.pid(node) is None and node not in self.stubborn and node not in self.clients:
            self._start_process(node)

    def replace(self, client: str) -> None:
        """Start a killed client again, as the harness does; not an instance that is retired."""
        if self._instances.get(client, True):
            self._start_process(client)

    def note_instances(
        self,
        states: Mapping[str, bool],
        settings: Mapping[str, Mapping[str, str]] | None = None,
        transactional_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Those that are not to run end."""
        self._instance_ids = dict(transactional_ids or {})
        self._instances = dict(states)
        self._settings = {node: dict(own) for node, own in (settings or {}).items()}
        for node in (node for node, runs in states.items() if not runs and node in self._pids):
            self._end(node, 143)

    def instances(self) -> dict[str, bool]:
        return dict(self._instances)

    def retire(self, node: str) -> None:
        """It ends at once. Raises ClusterError unless it is an instance."""
        self._done("retire", node)
        self._require_instance(node)
        if node not in self.stubborn:
            self._instances[node] = False
            if node in self._pids:
                self._end(node, 143)

    def recall(self, node: str) -> None:
        """It starts at once, if it does not live. Raises ClusterError unless it is an instance."""
        self._done("recall", node)
        self._require_instance(node)
        self._instances[node] = True
        if node not in self._pids and node not in self.stubborn:
            self._start_process(node)

    def transactional_id(self, node: str) -> str:
        return self._instance_ids.get(node, "")

    def setting(self, node: str, name: str) -> str:
        return self._settings.get(node, {}).get(name, "")

    def use_setting(self, node: str, name: str, value: str) -> None:
        """Raises ClusterError when the instance has none of that name."""
        if name not in self._settings.get(node, {}):
            raise ClusterError(f"{node} has no setting {name}")
        self._settings[node][name] = value

    def _require_instance(self, node: str) -> None:
        if node not in self._instances:
            raise ClusterError(f"{node} is no instance of a program")

    def pid(self, node: str) -> int | None:
        self._require_known(node)
        return self._pids.get(node)

    def answers(self, node: str) -> bool:
        """False while dead or frozen, and `mute_for` times more."""
        if not self.awake(node):
            return False
        self.mute_for[node] = self.mute_for.get(node, 0) - 1
        return self.mute_for[node] < 0

    def pause(self, node: str) -> None:
        """Raises ClusterError when it is dead."""
        self._done("pause", node)
        self._require_alive(node)
        if node not in self.stubborn:
            self._frozen.add(node)

    def resume(self, node: str) -> None:
        """Raises ClusterError when it is dead."""
        self._done("resume", node)
        self._require_alive(node)
        self._frozen.discard(node)

    def process_state(self, node: str) -> str:
        """S, T when frozen, empty when dead."""
        if self.pid(node) is None:
            return ""
        return "T" if node in self._frozen else "S"

    def awake(self, node: str) -> bool:
        """Neither dead nor frozen."""
        return self.process_state(node) == "S"

    def whole(self) -> bool:
        """Return whether nothing is dead, frozen, or hurt around it, as after every `heal`."""
        nodes = (*self.servers, *self.clients)
        there = not self._partitions.gone - self._made
        return (
            there
            and self.environment_whole()
            and self.client_rights.whole()
            and self.proxy.whole()
            and all(self.awake(node) for node in nodes)
        )

    def leader(self, topic: str, partition: int) -> str:
        if f"{topic}-{partition}" not in self.topics:
            raise ClusterError(f"no partition {topic}-{partition}; there are: {', '.join(self.topics)}")
        return self._led(f"{topic}-{partition}")

    def controller(self) -> str:
        for node in self.controllers:
            if self.awake(node):
                return node
        raise ClusterError(f"nobody answered: all of {', '.join(self.controllers)} are dead or frozen")

    def transaction_coordinator(self, transactional_id: str) -> str:
        return self._led(self.transaction_partition(transactional_id))

    def transaction_partition(self, transactional_id: str) -> str:
        return self._partitions.log_partition("__transaction_state", transactional_id)

    def group_coordinator(self, group: str) -> str:
        return self._led(self.group_partition(group))

    def group_partition(self, group: str) -> str:
        return self._partitions.log_partition("__consumer_offsets", group)

    def roles(self) -> FakeCluster:
        return self

    def admin(self) -> FakeCluster:
        return self

    def create_topics(self, topics: Mapping[str, TopicSpec]) -> None:
        made = [f"{name}-{number}" for name, spec in topics.items() for number in range(spec.partitions)]
        self._made |= topics.keys()
        self.topics = tuple(dict.fromkeys((*self.topics, *made)))

    def delete_topic(self, name: str) -> None:
        self._partitions.delete_topic(name)
        if name in self._made:
            self.topics = tuple(partition for partition in self.topics if partition.rpartition("-")[0] != name)

    def lagging(self, topics: Iterable[str]) -> dict[str, str]:
        """Every partition lags while a broker is dead or frozen."""
        away = ", ".join(node for node in self.brokers if not self.awake(node))
        wanted = set(topics)
        return {partition: f"without {away}" for partition in self.topics if away and partition.rpartition("-")[0] in wanted}

    def end_offsets(self, partitions: Iterable[str], isolation: Isolation) -> dict[str, int]:
        return dict.fromkeys(partitions, 0)

    def log_start_offsets(self, partitions: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(partitions, 0)

    def group_offsets(self, group: str, partitions: Iterable[str]) -> dict[str, int | None]:
        return {}

    def note_clients(self, *, transactional_ids: Sequence[str], groups: Sequence[str]) -> None:
        self.transactional_ids, self.groups = tuple(transactional_ids), tuple(groups)

    def connection(self) -> dict[str, str]:
        return {}

    def bootstrap(self) -> str:
        return ",".join(f"{node}:9092" for node in self.brokers)

    def spawn(self, client: str, argv: Sequence[str], *, reads: Sequence[str] = (), **popen: Any) -> subprocess.Popen[Any]:
        raise ClusterError(f"a fake cluster starts no processes: {client}: {' '.join(argv)}")

    def unavailable(self, capability: type) -> str | None:
        return self.missing.get(capability)

    def heal(self) -> None:
        """Undo everything."""
        self.mend_environment()
        self.client_rights.mend()
        self._frozen.clear()
        self.stubborn.clear()
        for node in self.servers:
            self.start(node)

    def _end(self, node: str, status: int) -> None:
        del self._pids[node]
        self._frozen.discard(node)
        self._statuses[node] = status

    def _start_process(self, node: str) -> None:
        self._next_pid += 1
        self._partitions.unregistered.discard(node)
        self.declared.undo("start", node=node)
        self._pids[node] = self._next_pid

    def _led(self, partition: str) -> str:
        if leader := self._partitions.leader(partition):
            return leader
        raise ClusterError(
            f"{partition} has no leader: all of {', '.join(self._partitions.replicas(partition))} are dead or frozen"
        )

    def _require_known(self, node: str) -> None:
        if node not in (*self.servers, *self.clients, *self.services):
            raise ClusterError(f"there is no node {node}")

    def _require_alive(self, node: str) -> None:
        if self.pid(node) is None:
            raise ClusterError(f"{node} is dead")
