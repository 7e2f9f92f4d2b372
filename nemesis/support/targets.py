"""Targets: a role as text (`leader:orders-0`) becomes nodes at the moment of the fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from fencepost.harness.api import SECOND, Cluster, ClusterError, ConnectDuties, Pausable, RunningConnect, Scalable, SecondCluster
from fencepost.harness.api.capabilities import FROZEN
from fencepost.harness.api.clusters import second_of, services_of
from fencepost.harness.api.words import did_you_mean, form, plural
from fencepost.nemesis.support.no_effect import no_target_on_error
from fencepost.nemesis.support.open_transactions import INSIDE, await_transactions
from fencepost.nemesis.support.waiting import poll_until

SPELLINGS = {
    "random": "random",
    "all": "all",
    "leader": "leader[:TOPIC-PARTITION]",
    "controller": "controller",
    "coordinator": "coordinator[:TRANSACTIONAL-ID]",
    "group-coordinator": "group-coordinator[:GROUP]",
    "broker": "broker:NODE",
    "second": "second:ROLE",
    "client": "client[:NODE]",
    "instance": "instance[:in-transaction]",
    "connect-leader": "connect-leader",
    "connect-task": "connect-task[:NUMBER]",
    "service": "service[:NAME]",
}
ONE_BROKER = ("random", "leader", "controller", "coordinator", "group-coordinator", "broker", "second")
BROKERS = (*ONE_BROKER, "all")
ONE_CLIENT = ("client", "instance", "connect-leader", "connect-task")
ANY = (*BROKERS, *ONE_CLIENT)
WITH_LINKS = (*ANY, "service")  # whose links can be hurt
SEVERAL = ("random", "client", "instance", INSIDE)  # with a count
IN_TRANSACTION = INSIDE.partition(":")[2]
REBALANCED_S = 3.0  # in so much time most rebalances of Connect's workers are over


AnyCluster = Cluster | SecondCluster


def check(role: str, allowed: Sequence[str] = ANY, count: int = 1) -> None:
    """Raise ValueError when `role` cannot be meant, saying what is allowed. Needs no cluster.

    allowed: the roles that make sense (`ONE_BROKER`, `BROKERS`, `ANY`); count: how many nodes are wanted.
    """
    head, colon, name = role.partition(":")
    if head == SECOND and head in allowed and name:
        check(name, tuple(choice for choice in allowed if choice in BROKERS and choice != SECOND), count)
        return
    choices = ", ".join(SPELLINGS[choice] for choice in allowed)
    if head not in allowed:
        raise ValueError(f'unknown target "{role}"{did_you_mean(head, allowed) or "."} Allowed: {choices}')
    if (colon and not name) or (colon and ":" not in SPELLINGS[head]) or (head in ("broker", SECOND) and not name):
        raise ValueError(f'target "{role}" is spelled {SPELLINGS[head]}. Allowed: {choices}')
    if head == "instance" and name not in ("", IN_TRANSACTION):
        raise ValueError(f'target "{role}" is spelled {SPELLINGS[head]}; a node is client:{name}')
    if head == "connect-task" and name and not name.isdigit():
        raise ValueError(f'target "{role}" names no task; write it like connect-task:0')
    if head == "leader" and name and not re.fullmatch(r".+-\d+", name):
        raise ValueError(f'target "{role}" names no partition; write it like leader:orders-0')
    if count < 1:
        raise ValueError(f"count = {count}: at least one node must be hurt")
    if count > 1 and role not in SEVERAL:
        raise ValueError(f'count = {count} goes with the targets {", ".join(SEVERAL)} only, not with "{role}"')


def check_names(target: str, spelling: str, *further: str) -> None:
    """Raise ValueError unless the target is `random`, `all`, one of some further words, or a name spelled like `topic:NAME`."""
    head, _, name = target.partition(":")
    named = head == spelling.partition(":")[0] and name
    words = ("random", "all", *further)
    if target not in words and not named:
        raise ValueError(f'unknown target "{target}". Allowed: {", ".join([*words, spelling])}')


def find(role: str, cluster: Cluster, rng: Random, count: int = 1) -> tuple[str, ...]:
    """The nodes that have `role` right now.

    Raises NoEffect, a ClusterError, when no node has it, no broker answers, or there are fewer than `count` nodes.
    """
    with no_target_on_error(role):
        return _find(role, cluster, rng, count)


def _find(role: str, cluster: Cluster, rng: Random, count: int) -> tuple[str, ...]:
    head, _, name = role.partition(":")
    if head == SECOND:
        return _brokers(name, _second(cluster), rng, count)
    if role == "client":
        return _sample(_running(cluster), count, "client", rng)
    if head == "instance":
        return _instances(name == IN_TRANSACTION, cluster, rng, count)
    if head == "service":
        return (_service(name, cluster, rng),)
    if head in _CLIENT_FINDERS:
        return (_CLIENT_FINDERS[head](name, cluster, rng),)
    return _brokers(role, cluster, rng, count)


def _brokers(role: str, cluster: AnyCluster, rng: Random, count: int) -> tuple[str, ...]:
    """The brokers and controllers of one Kafka cluster that have a role."""
    head, _, name = role.partition(":")
    if head == "all":
        return tuple(cluster.brokers)
    if head == "random":
        return _sample(cluster.brokers, count, "broker", rng)
    return (_FINDERS[head](name, cluster, rng),)


def _service(name: str, cluster: Cluster, rng: Random) -> str:
    """The node of a declared outside service."""
    services = services_of(cluster)
    if not services:
        raise ClusterError('this test declares no outside service: services = { NAME = "127.0.0.1:PORT" } in [test.cluster]')
    return _require_known(name, services, "service") if name else choose(services, "service", rng)


def _second(cluster: Cluster) -> SecondCluster:
    second = second_of(cluster)
    if second is None:
        raise ClusterError("this test has no second Kafka cluster (second_brokers)")
    return second


def choose_name(role: str, names: Sequence[str], what: str, rng: Random) -> str:
    """The id or group that `coordinator:ID` names, else one of `names`. Raises NoEffect when there is none."""
    with no_target_on_error(role):
        return role.partition(":")[2] or choose(names, what, rng)


def _running(cluster: Cluster) -> list[str]:
    """The clients, without instances of a program that are not to run now."""
    states = cluster.instances() if isinstance(cluster, Scalable) else {}
    return [node for node in cluster.clients if states.get(node, True)]


def _running_instances(cluster: Cluster) -> list[str]:
    """The instances of a program, the members of a group or the workers of Connect that run."""
    states = cluster.instances() if isinstance(cluster, Scalable) else {}
    return [node for node in _running(cluster) if node in states]


def _instances(in_transaction: bool, cluster: Cluster, rng: Random, count: int) -> tuple[str, ...]:
    """Some that run, and are not frozen unless all are. in_transaction: rather those inside a transaction, if any are soon."""
    running = _running_instances(cluster)
    awake = awake_of(running, cluster)
    some = awake if len(awake) >= count else running
    inside = await_transactions(cluster, some, count) if in_transaction else []
    return _sample(inside if len(inside) >= count else some, count, "instance", rng)


def awake_of(nodes: Sequence[str], cluster: Cluster) -> list[str]:
    """Those that are not frozen: one that another fault has frozen is to wake as a zombie, and would not if it were killed."""
    return [node for node in nodes if not isinstance(cluster, Pausable) or cluster.process_state(node) != FROZEN]


def _duties(cluster: Cluster) -> Mapping[str, ConnectDuties]:
    if not isinstance(cluster, RunningConnect):
        raise ClusterError("nobody knows the workers of Kafka Connect on this cluster")
    return cluster.connect_duties()


def _workers_with(duty: Callable[[ConnectDuties], bool], cluster: Cluster) -> list[str]:
    """The workers of Connect with some duty; asked again for a while, as nobody has any while their group is rebalanced."""
    return poll_until(lambda: sorted(node for node, duties in _duties(cluster).items() if duty(duties)), bool, REBALANCED_S)


def _connect_leader(_name: str, cluster: Cluster, _rng: Random) -> str:
    leaders = _workers_with(lambda duties: duties.leads, cluster)
    return choose(leaders, "leader of Kafka Connect's workers", _rng)


def _connect_task(name: str, cluster: Cluster, rng: Random) -> str:
    """A worker that has a task (of this number)."""
    wanted = _workers_with(lambda duties: any(not name or task == int(name) for _, task in duties.tasks), cluster)
    return choose(wanted, f"worker of Kafka Connect with task {name}" if name else "worker with a task", rng)


def _sample(nodes: Sequence[str], count: int, what: str, rng: Random) -> tuple[str, ...]:
    if len(nodes) < count:
        raise ClusterError(f"{plural(count, what)} wanted, but there {form(len(nodes), 'is', 'are')} {len(nodes)}")
    return tuple(rng.sample(list(nodes), count))


def _require_known(name: str, nodes: Sequence[str], what: str) -> str:
    if name not in nodes:
        raise ClusterError(f'there is no {what} "{name}"; there are: {", ".join(nodes) or "none"}')
    return name


def _leader(name: str, cluster: AnyCluster, rng: Random) -> str:
    topic, _, partition = (name or choose(cluster.topics, "partition of the workload", rng)).rpartition("-")
    return cluster.roles().leader(topic, int(partition))


def _coordinator(name: str, cluster: AnyCluster, rng: Random) -> str:
    return cluster.roles().transaction_coordinator(name or choose(_transactional_ids(cluster), "transactional id", rng))


def _transactional_ids(cluster: AnyCluster) -> list[str]:
    """Those of the workload's clients, and those that its instances were given."""
    given = [cluster.transactional_id(node) for node in cluster.instances()] if isinstance(cluster, Scalable) else []
    return list(dict.fromkeys([*cluster.transactional_ids, *filter(None, given)]))


def _group_coordinator(name: str, cluster: AnyCluster, rng: Random) -> str:
    return cluster.roles().group_coordinator(name or choose(cluster.groups, "consumer group", rng))


def choose(names: Sequence[str], what: str, rng: Random) -> str:
    """One of some names. Raises ClusterError when there is none."""
    if not names:
        raise ClusterError(f"no {what} is known")
    return rng.choice(list(names))


_FINDERS: dict[str, Callable[[str, AnyCluster, Random], str]] = {
    "leader": _leader,
    "controller": lambda _name, cluster, _rng: cluster.roles().controller(),
    "coordinator": _coordinator,
    "group-coordinator": _group_coordinator,
    "broker": lambda name, cluster, _rng: _require_known(name, cluster.brokers, "broker"),
}
_CLIENT_FINDERS: dict[str, Callable[[str, Cluster, Random], str]] = {
    "client": lambda name, cluster, _rng: _require_known(name, cluster.clients, "client"),
    "connect-leader": _connect_leader,
    "connect-task": _connect_task,
}
