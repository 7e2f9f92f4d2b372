"""Targets that can never exist in a test: a broker beyond the last, a partition that the workload has not, more than there are.

Faults name their target as text (`nemesis.support.targets`): `broker:n9`, `leader:orders-0`, `topic:orders`, `client:c3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.harness.api import (
    SECOND,
    ChoosesClient,
    ChoosesVersion,
    Counted,
    CountsBrokers,
    CountsControllers,
    CountsOtherThanBrokers,
    CountsSecondBrokers,
    DeclaresServices,
    Interceptable,
    ListsVersions,
    NeedsBrokers,
    NeedsServers,
    OfTransactions,
    PrefixesNames,
    ResizesInstances,
    Scalable,
    Targeted,
)
from fencepost.harness.api.words import form
from fencepost.harness.plugins.registry import unknown


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Nodes and topics of a test, as far as they are known before it starts; None: not known.

    brokers: names of the brokers.
    servers: number of brokers and separate controllers.
    second: names of the brokers of the second Kafka cluster.
    versions: versions of Kafka that nodes may have.
    topics: topics, each with its number of partitions.
    clients: number of clients.
    instances: number of instances: of a program, members of a group or workers of Connect.
    workers: number of workers of Connect.
    transactional: whether there are transactional ids.
    services: names of the outside services that the test declares.
    """

    brokers: tuple[str, ...] | None = None
    servers: int | None = None
    second: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None
    topics: Mapping[str, int] | None = field(default=None)
    clients: int | None = None
    instances: int | None = None
    workers: int | None = None
    transactional: bool | None = None
    services: tuple[str, ...] | None = None

    @property
    def partitions(self) -> int | None:
        return None if self.topics is None else sum(self.topics.values())


def cast(provider: Any, workload: Any) -> Cast:
    """The nodes and topics of the cluster that `provider` makes and of the workload; each may be None."""
    count = provider.brokers if isinstance(provider, CountsBrokers) else None
    controllers = provider.controllers if isinstance(provider, CountsControllers) else 0
    second = provider.second_brokers if isinstance(provider, CountsSecondBrokers) else 0
    own_names = not (isinstance(provider, PrefixesNames) and provider.prefix)  # else topics have others at run time
    roles = workload.roles() if workload else ()
    return Cast(
        brokers=tuple(f"n{i + 1}" for i in range(count)) if isinstance(count, int) else None,
        servers=count + controllers if isinstance(count, int) else None,
        second=tuple(f"s{i + 1}" for i in range(second)) if isinstance(count, int) else None,
        versions=tuple(provider.all_versions()) if isinstance(provider, ListsVersions) else None,
        topics={name: spec.partitions for name, spec in workload.topics().items()} if workload and own_names else None,
        clients=len(roles) if workload else None,
        instances=sum(bool(role.runs or (role.group and role.joins)) for role in roles) if workload else None,
        workers=sum(bool(role.worker or role.rest) for role in roles) if workload else None,
        transactional=any(role.transactional or role.worker for role in roles) if workload else None,
        services=tuple(provider.services) if isinstance(provider, DeclaresServices) else () if provider else None,
    )


_NO_INSTANCES = "this workload has no instances: no program, members of a group or workers of Kafka Connect"
_NO_IDS = "this workload has no transactional ids"
_ABSENT = {  # a role -> the field of a cast that has it, and the sentence when there is none
    "instance": ("instances", _NO_INSTANCES),
    "connect-leader": ("workers", "this workload has no workers of Kafka Connect"),
    "connect-task": ("workers", "this workload has no workers of Kafka Connect"),
    "coordinator": ("transactional", _NO_IDS),
}
_CLIENT_ROLES = ("random", "instance", "connect-leader", "connect-task")  # of a fault's `client`, beside a node


def impossible(fault: Any, there: Cast) -> list[tuple[str, str]]:
    """Options of a fault that can never be met in the test: pairs of an option (empty: the fault itself) and a sentence."""
    target = fault.target if isinstance(fault, Targeted) else ""
    count = fault.count if isinstance(fault, Counted) else 1
    mistakes = [("target", (_target(target, there) or _without_proxy(fault, target, there)) if isinstance(target, str) else "")]
    if isinstance(count, int) and isinstance(target, str):
        mistakes.append(("count", _count(fault, target, count, there)))
    client = fault.client if isinstance(fault, ChoosesClient) else "random"
    if isinstance(client, str) and client.partition(":")[0] not in _CLIENT_ROLES:
        mistakes.append(("client", _target(f"client:{client}", there)))
    mistakes.append(("client", _absent(str(client), there)))
    of_transactions = isinstance(fault, OfTransactions) and fault.of_transactions
    if of_transactions and there.transactional is False and not str(target).startswith(("id:", "instance")):
        mistakes.append(("", _NO_IDS))
    mistakes += [("", _alone(fault, str(target), there)), *_instances(fault, there)]
    version = fault.version if isinstance(fault, ChoosesVersion) else ""
    if version and there.versions is not None and version not in there.versions:
        mistakes.append(("version", f"{unknown('version', version, there.versions)}; name it in the cluster's `upgrades`"))
    return [(key, text) for key, text in mistakes if text]


def _alone(fault: Any, target: str, there: Cast) -> str:
    """Faults that need several servers say how many: `least_servers`, or `least_brokers`."""
    second = target.startswith(f"{SECOND}:") and there.second is not None
    brokers = len(there.second or ()) if second else None if there.brokers is None else len(there.brokers)
    servers = brokers if second else there.servers
    for what, wanted, has in (
        ("brokers", fault.least_brokers if isinstance(fault, NeedsBrokers) else 1, brokers),
        ("brokers and controllers", fault.least_servers if isinstance(fault, NeedsServers) else 1, servers),
    ):
        if has and has < wanted:
            return f"needs {wanted} {what} or more; there {form(has, 'is', 'are')} {has}"
    return ""


def _instances(fault: Any, there: Cast) -> list[tuple[str, str]]:
    """Faults of instances need some, and cannot start more than there are."""
    if Scalable not in fault.needs or there.instances is None:
        return []
    if not there.instances:
        return [("", _NO_INSTANCES)]
    wanted = fault.to if isinstance(fault, ResizesInstances) else 0
    return [("to", f"there are {there.instances} instances, not {wanted}; `spares` gives more")] * (wanted > there.instances)


def _absent(role: str, there: Cast) -> str:
    """The reason why no node can ever have a role: the workload has nothing of the kind."""
    head, colon, _ = role.partition(":")
    what, text = _ABSENT.get(head, ("", ""))
    if head == "coordinator" and colon:  # each id has a coordinator, whether it is used or not
        return ""
    return text if what and getattr(there, what) == 0 else ""


def _target(target: str, there: Cast) -> str:
    head, _, name = target.partition(":")
    if text := _absent(target, there):
        return text
    if head == SECOND and there.second is not None:
        if not there.second:
            return "this test has no second Kafka cluster: second_brokers = 1 (or more) in [test.cluster]"
        return _target(name, replace(there, brokers=there.second, second=None, topics=None, transactional=None))
    if head == "service" and there.services is not None:
        if not there.services:
            return 'this test declares no outside service: services = { NAME = "127.0.0.1:PORT" } in [test.cluster]'
        return unknown("service", name, there.services) if name and name not in there.services else ""
    if head == "broker" and there.brokers is not None and name not in there.brokers:
        return unknown("broker", name, there.brokers)
    if head == "client" and name and there.clients is not None:
        names = [f"c{slot}" for slot in range(there.clients)]
        return "" if name in names else unknown("client", name, names)
    if head == "topic" and there.topics is not None and name not in there.topics:
        return unknown("topic", name, there.topics)
    if head in ("leader", "partition") and name and there.topics is not None:
        topic, _, number = name.rpartition("-")
        if topic not in there.topics:
            return unknown("topic", topic, there.topics)
        last = there.topics[topic] - 1
        if int(number) > last:
            return f"there is no partition {name}; the last one of {topic} is {topic}-{last}"
    return ""


def _without_proxy(fault: Any, target: str, there: Cast) -> str:
    """The reason why no proxy stands before the target of a fault that acts on messages; empty where one does."""
    apart = there.servers is not None and there.servers > len(there.brokers or ())
    if Interceptable not in fault.needs or target != "controller" or not apart:
        return ""
    return "proxies stand before brokers alone, and the controllers of this test are none"


def _count(fault: Any, target: str, count: int, there: Cast) -> str:
    what, most = "clients", there.clients
    if target.partition(":")[0] == "instance":
        what, most = "instances", there.instances
    elif target != "client":
        what, most = fault.counts if isinstance(fault, CountsOtherThanBrokers) else "brokers", None
        nodes = there.second if target.startswith(f"{SECOND}:") else there.brokers
        most = {"brokers": None if nodes is None else len(nodes), "partitions": there.partitions}.get(what)
    return f"there are {most} {what}, not {count}" if most and count > most else ""
