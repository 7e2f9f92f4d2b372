"""What a plan and its workload's roles say of each slot: its client or instance, names and ids, groups, topics and partitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fencepost.harness.api import (
    ONLY_READ,
    Client,
    ClientSettings,
    Isolation,
    Role,
)
from fencepost.harness.api import roles as kinds
from fencepost.harness.api.clients import consumer_group
from fencepost.harness.api.connect import ConnectWorker
from fencepost.harness.connect.worker import group_of as group_of_connect
from fencepost.harness.connect.worker import transactional_ids
from fencepost.harness.drivers.client import DriverClient
from fencepost.harness.drivers.process import DriverProcess
from fencepost.harness.perform.instance import Launch, directory_of
from fencepost.harness.perform.instance import group_of as group_of_program
from fencepost.harness.plugins import registry


def client_plan_of(plan: Mapping[str, Any], role: Role) -> Mapping[str, Any]:
    """The plan's entry for the client of a role: kind, version, and the driver if there is one."""
    client: Mapping[str, Any] = plan["client"]
    return (role.name in ONLY_READ and client.get("readers")) or client


def consumer_settings_of(plan: Mapping[str, Any], role: Role) -> Mapping[str, Any]:
    """The plan's settings of a role's consumer: a member's, or those of who only reads or asks, which may be another client."""
    settings: Mapping[str, Any] = plan["client"]["members" if role.group and role.name not in ONLY_READ else "consumer"]
    return settings


def recovery_of(plan: Mapping[str, Any]) -> str:
    """What follows a commit or an abort that failed, by the plan."""
    return str(plan["client"].get("recovery", "documented"))


def client_factory(client: Mapping[str, Any]) -> Callable[[ClientSettings], Client]:
    """The factory of a worker's clients: a class of its own, or one driver for all of them."""
    if driver := client.get("driver"):
        return partial(DriverClient, DriverProcess(driver["command"]))
    factory: Callable[[ClientSettings], Client] = registry.load("fencepost.client", client["kind"])
    return factory


def driver_directories(client: Mapping[str, Any]) -> list[str]:
    """The directories that the drivers of these clients need to see."""
    plans = filter(None, (client, client.get("readers")))
    return [directory for plan in plans for directory in (plan.get("driver") or {}).get("reads", ())]


def name_of(plan: Mapping[str, Any], slot: int) -> str:
    """The name and transactional id of a slot's clients: kept when a process is replaced, so that the new one fences the old."""
    return f"{plan['prefix']}{slot}"


def group_of(plan: Mapping[str, Any], role: Role) -> str:
    """The consumer group that a role's members share; empty for none."""
    return f"{plan['prefix']}{role.group}" if role.group else ""


def pool_ids(name: str, role: Role) -> list[str]:
    """The transactional ids of a role's producers: the slot's own, and for each further one that with a number."""
    return [name, *(f"{name}-p{number}" for number in range(1, role.producers))]


def coordinated(plan: Mapping[str, Any], roles: Sequence[Role], cluster: str = "") -> dict[str, list[str]]:
    """The transactional ids and the consumer groups of a run's clients at one of its Kafka clusters, for faults on coordinators.

    Leaders of Connect are at the cluster of the workers, tasks at the one that is judged. Groups with members come alone: nobody
    asks the coordinators of the others for much.
    """
    names = {slot: name_of(plan, slot) for slot, role in enumerate(roles) if role.cluster == cluster}
    here = [role for role in roles if role.cluster == cluster]
    programs = {group_of_program(plan, role.program) for role in here if role.program} - {""}
    workers = {role.worker.group: role for role in roles if role.worker}.values()
    connect = [group_of_connect(plan["prefix"], role.worker) for role in workers if role.worker and role.cluster == cluster]
    shared = dict.fromkeys([*(group_of(plan, role) for role in here if role.group), *sorted(programs), *connect])
    ids = [name for slot, name in names.items() if roles[slot].transactional for name in pool_ids(name, roles[slot])]
    for role in workers:
        leader, *tasks = transactional_ids(plan["prefix"], role.worker, tasks=1) if role.worker else []
        ids += [leader] * (role.cluster == cluster) + tasks * (not cluster)
    own = [consumer_group(name) for slot, name in names.items() if not (roles[slot].group or roles[slot].runs)]
    return {"transactional_ids": ids, "groups": list(shared) or own}  # consumers with assigned partitions commit nothing


def workers_of(roles: Sequence[Role], conductor: Role) -> set[str]:
    """The nodes of the workers of a conductor's Connect cluster."""
    group = conductor.connect.group if conductor.connect else ""
    return {f"c{slot}" for slot, role in enumerate(roles) if role.worker and role.worker.group == group}


def instances_of(roles: Sequence[Role]) -> dict[str, bool]:
    """The nodes of a program's instances, or of a group's members, and whether each runs from the start."""
    return {f"c{slot}": not role.spare for slot, role in enumerate(roles) if role.runs or (role.group and role.joins)}


def ids_of_clients(plan: Mapping[str, Any], roles: Sequence[Role]) -> dict[str, str]:
    """The transactional ids that clients, and instances of programs, are given, by node."""
    given = [slot for slot, role in enumerate(roles) if role.transactional or (role.runs and not role.worker)]
    return {f"c{slot}": name_of(plan, slot) for slot in given}


def settings_of(roles: Sequence[Role]) -> dict[str, dict[str, str]]:
    """The settings of instances that can be changed, by node."""
    return {f"c{slot}": _settings(role.worker) for slot, role in enumerate(roles) if role.worker}


def _settings(worker: ConnectWorker) -> dict[str, str]:
    """versions: all that it may run."""
    return {"support": worker.support, "version": worker.version, "versions": " ".join(worker.versions)}


def topics_of(plan: Mapping[str, Any], role: Role) -> list[str]:
    """The topics that a role reads at its Kafka cluster, by their names there, which may begin with the run's prefix."""
    wanted = {name for topic in role.topics for name in (topic, plan["prefix"] + topic)}
    there = [topic for topic, spec in plan["topics"].items() if spec.get("cluster", "") == role.cluster]
    return [topic for topic in there if not role.topics or topic in wanted]


def partitions_of(plan: Mapping[str, Any], topics: Iterable[str] | None = None) -> list[str]:
    """Every partition of the plan's topics, or of some of them, as `topic-number`."""
    wanted = plan["topics"] if topics is None else topics
    return [f"{topic}-{n}" for topic in wanted for n in range(plan["topics"][topic]["partitions"])]


def at_cluster(plan: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The plan with `bootstrap` and `brokers`, how many there are, of one of the test's Kafka clusters."""
    brokers = plan["cluster"]["options"].get("second_brokers" if name else "brokers", 3)
    return {**plan, "bootstrap": plan["bootstraps"][name], "brokers": brokers}


def launch_of(plan: Mapping[str, Any], role: Role, slot: int, run_dir: Path) -> Launch | None:
    """The start of a slot's instance; None of a role that has clients of ours."""
    directory = directory_of(run_dir, slot)
    if role.worker:
        support = os.environ.get("FENCEPOST_SUPPORT") or role.worker.support
        version = os.environ.get("FENCEPOST_VERSION") or role.worker.version
        return Launch.of_connect(plan, replace(role.worker, support=support, version=version), slot, directory)
    return Launch.of_program(plan, role.program, slot, directory) if role.program and role.runs else None


def roles_of(workload: Any) -> tuple[Role, ...]:
    """The workload's roles, and after them the readers of the final phase.

    These are two for each Kafka cluster that has topics, and one for the store of a sink.
    """
    clusters = sorted({"", *(spec.cluster for spec in workload.topics().values())})
    levels = (Isolation.COMMITTED, Isolation.UNCOMMITTED)
    finals = [kinds.FinalReader(isolation=level, cluster=cluster) for cluster in clusters for level in levels]
    sinks = [role.program for role in workload.roles() if role.program and role.program.store]
    return (*workload.roles(), *finals, *(kinds.FinalReader(program=program) for program in sinks[:1]))
