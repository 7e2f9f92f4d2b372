"""The plan of a run: everything that is decided before anything starts (docs/run-directory.md has the keys)."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any, cast

from fencepost.harness import secrets
from fencepost.harness.api import (
    SECOND,
    CampaignError,
    ChangesTopicSettings,
    Connects,
    ConnectWorker,
    CountsBrokers,
    CountsSecondBrokers,
    JudgesSettings,
    Obtains,
    PrefixesNames,
    ReportsSettings,
    Role,
    TopicSpec,
)
from fencepost.harness.api.contract_layers import overlaid_contract
from fencepost.harness.api.optional import DemandsLeast, ElectsEligibleLeaders
from fencepost.harness.api.plans import Test, declared
from fencepost.harness.api.run import ConnectPlan, InjectionPlan, Plan, TopicPlan
from fencepost.harness.api.values import PLAN_SCHEMA
from fencepost.harness.connect import jars
from fencepost.harness.connect.plugins import lost_plugins
from fencepost.harness.connect.worker import fencing_s
from fencepost.harness.planning import derived_contract, same_target, schedule
from fencepost.harness.planning.clients import client_plan, member_settings, unsuited
from fencepost.harness.planning.recovery import recovery_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.fault_validation import foreseen, refused_topic_settings
from fencepost.harness.system.client_settings import acting
from fencepost.harness.system.programs import no_program


def make_plan(test: Test, *, run: str, seed: int, command: str) -> Plan:
    """Everything that is decided before the start (docs/run-directory.md has the keys)."""
    provider = _instance("cluster", test.cluster.kind, test.cluster.options)
    workload = _instance("workload", test.workload.kind, test.workload.options)
    description = provider.describe()
    wanted = provider.prefix if isinstance(provider, PrefixesNames) else ""
    prefix = f"{wanted or 'fp-'}{run}-"  # of what runs on one cluster must not share
    topics = {prefix * bool(wanted) + name: spec for name, spec in _topics(test, provider, workload, description).items()}
    faults = same_target.faults_of(test.nemesis)
    producer = {**workload.producer_settings(), **test.producer}
    members = member_settings(workload, test)
    promised = _promised(workload.roles(), producer, topics, description, members)
    client = client_plan(test, producer, members)
    contract = overlaid_contract(promised, test.contract)
    drawn = schedule.draw(test.nemesis, test.time_s, seed, test.lanes)
    return {
        "schema": PLAN_SCHEMA,
        "run": run,
        "prefix": prefix,
        "campaign": test.campaign,
        "test": test.name,
        "seed": seed,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "fencepost": version("fencepost"),
        **plain_values(test),
        "cluster": {"kind": test.cluster.kind, "options": dict(test.cluster.options), "description": description},
        "workload": {"kind": test.workload.kind, "options": dataclasses.asdict(workload)},
        "client": client,
        "connect": _connect_plan(workload.roles()),
        "topics": topics,
        "contract": contract,
        "overridden": dict(test.contract),
        "derived": _changed(promised, contract),
        "nemesis": list(dict.fromkeys(choice.kind for choice in test.nemesis)),
        "schedule": [cast(InjectionPlan, dataclasses.asdict(injection)) for injection in drawn],
        "budget": dataclasses.asdict(test.budget),
        "at_least": {**({"faults": 1} if test.nemesis else {}), **_demands(workload), **test.at_least},
        "recovery": recovery_plan(workload.roles(), client),
        "unavailable": {name: why for fault in faults for name, why in foreseen(fault, provider).items()},
        "machine": machine(),
        "manifest": True,
    }


def _demands(workload: Any) -> Mapping[str, int]:
    """The least that a workload has to perform for its verdict to mean anything."""
    return workload.at_least if isinstance(workload, DemandsLeast) else {}


def connect_versions(roles: Iterable[Role]) -> list[str]:
    """The versions of Kafka Connect that workers among these roles may run."""
    return list(dict.fromkeys(version for role in roles if role.worker for version in role.worker.versions))


def _connect_plan(roles: Sequence[Role]) -> dict[str, ConnectPlan]:
    """The versions of Kafka Connect that are run, as they lie in the cache. Raises ClusterError when one is not there."""
    return {name: _version_plan(name, [role.worker for role in roles if role.worker]) for name in connect_versions(roles)}


def _version_plan(name: str, workers: Iterable[ConnectWorker]) -> ConnectPlan:
    times = [fencing_s(worker) for worker in workers if name in worker.versions]
    bounds = [time_s for time_s in times if time_s is not None]
    known: ConnectPlan = {"fencing_s": max(bounds)} if len(bounds) == len(times) else {}
    return {**jars.planned(name), **known}


def plain_values(test: Test) -> Plan:
    """The values of a test that the plan has under the names of its keys: numbers, texts, flags, lists of texts."""
    values = {key.field: getattr(test, key.field) for key in declared(type(test)) if key.plain and key.key.planned}
    return cast(Plan, {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()})


def look_up_secrets(tests: Iterable[Test]) -> None:
    """Look up the secrets of all these tests, so that none is missed later, and this process can hide them too.

    Raises CampaignError with every one that is not there.
    """
    missing = []
    for test in tests:
        provider = _instance("cluster", test.cluster.kind, test.cluster.options)
        connection = provider.connection() if isinstance(provider, Connects) else {}
        for where, settings in (("cluster", connection), ("client.producer", test.producer), ("client.consumer", test.consumer)):
            try:
                secrets.resolve(settings)
            except CampaignError as error:
                missing += [f"{test.name}: {where}: {text}" for text in error.mistakes]
    if missing:
        raise CampaignError(list(dict.fromkeys(missing)))


def obtain(tests: Iterable[Test], on_progress: Callable[[str], None]) -> None:
    """Fetch what the clusters and clients of all these tests need, and judge the settings that could not be judged without it.

    Raises CampaignError (a version that there is not, settings that it does not have) and ClusterError.
    """
    wrong = []
    for test in tests:
        provider = _instance("cluster", test.cluster.kind, test.cluster.options)
        if isinstance(provider, Obtains):
            provider.obtain(on_progress)
        workload = _instance("workload", test.workload.kind, test.workload.options)
        workers = [role.worker for role in workload.roles() if role.worker]
        jars.fetch_all(workers, on_progress)
        lost = [*_lost_programs(workload.roles()), *lost_plugins(workers), *jars.lost_connectors(workers)]
        wrong += [f"{test.name}: {text}" for text in (*lost, *unsuited(test, workload, on_progress))]
        if isinstance(provider, JudgesSettings):
            for table, name, text in provider.judged_settings(test.topic)[0]:
                wrong.append(f"{test.name}: {'cluster.' if table != 'topic' else ''}{table}.{name}: {text}")
        for choice, fault in zip(test.nemesis, same_target.faults_of(test.nemesis), strict=True):
            refused = refused_topic_settings(fault, provider)
            wrong += [f"{test.name}: {choice.kind}: settings.{name}: {text}" for name, text in refused]
    if wrong:
        raise CampaignError(list(dict.fromkeys(wrong)))


def _lost_programs(roles: Sequence[Role]) -> list[str]:
    """The programs of instances and of listings that this machine does not have; what an image holds is not known."""
    programs = [role.program for role in roles if role.program and role.runs is role.program and not role.program.image]
    stores = [role.program.store for role in roles if role.program and role.program.store]
    names = dict.fromkeys(("command", program.command[0]) for program in programs)
    names |= dict.fromkeys(("listing", store.items[0]) for store in stores)
    names |= dict.fromkeys(("positions", store.positions[0]) for store in stores if store.positions)
    return [f"workload.{option}: {no_program(name)}" for option, name in names if not shutil.which(name)]


def unjudged_settings(tests: Iterable[Test]) -> list[str]:
    """The settings of these tests that were not judged, and why, a sentence each."""
    reasons = []
    for test in tests:
        if names := sorted({*acting(test.producer), *acting(test.consumer), *acting(test.cluster.options.get("settings") or {})}):
            reasons.append(
                f"{', '.join(names)}: not checked before a run, for a client would load, run or read what is named there"
            )
        provider = _instance("cluster", test.cluster.kind, test.cluster.options)
        why = provider.judged_settings(test.topic)[1] if isinstance(provider, JudgesSettings) else ""
        given = test.topic or test.cluster.options.get("settings") or test.cluster.options.get("features")
        if why and (given or _changes_topics(test)):
            reasons.append(f"settings of brokers and topics are not checked yet: {why}")
    return list(dict.fromkeys(reasons))


def _changes_topics(test: Test) -> bool:
    """True if a fault of the test changes settings of topics."""
    return any(isinstance(fault, ChangesTopicSettings) for fault in same_target.faults_of(test.nemesis))


def unscheduled(test: Test, plan: Plan) -> list[str]:
    """A sentence where none of the faults of a test falls into its time."""
    if not test.nemesis or plan["schedule"]:
        return []
    return [f"no fault falls into {test.time_s:g} s: give it a longer time (time_s, -t), or the faults shorter pauses (every_s)"]


def hopeless(test: Test) -> list[str]:
    """Faults of a test that its cluster cannot suffer, as far as is known before the start, each with the reason."""
    return [f"the fault {kind} will have no effect: {why}" for kind, why in dict.fromkeys(_obstacles(test)) if why]


def vain(test: Test) -> list[str]:
    """The mistakes of a test of whose faults its cluster can suffer none, as far as is known before the start."""
    return hopeless(test) if all(why for _, why in _obstacles(test)) else []


def _obstacles(test: Test) -> list[tuple[str, str]]:
    """The kind of each fault of a test, and why its cluster cannot suffer it; empty where it can, as far as is known."""
    provider = _instance("cluster", test.cluster.kind, test.cluster.options)
    lacking = [foreseen(fault, provider) for fault in same_target.faults_of(test.nemesis)]
    return [
        (choice.kind, "; ".join(dict.fromkeys(reasons.values()))) for choice, reasons in zip(test.nemesis, lacking, strict=True)
    ]


def complete(plan: Plan, settings: Mapping[str, Mapping[str, str]]) -> Plan:
    """The plan with the settings of its topics that a cluster really gave them, and with the contract they make.

    settings: topic -> every setting in effect; the plan has those that were chosen, and those that promise something.
    """
    topics: dict[str, TopicPlan] = {
        name: {**spec, "settings": _of_interest(settings[name], spec["settings"])} for name, spec in plan["topics"].items()
    }
    client = plan["client"]
    members = client.get("members") or {}  # not in plans of before
    promised = _promised(workload_of(plan).roles(), client["producer"], topics, plan["cluster"]["description"], members)
    contract = overlaid_contract(promised, plan["overridden"])
    return {**plan, "topics": topics, "contract": contract, "derived": _changed(promised, contract)}


def _changed(promised: Mapping[str, str], contract: Mapping[str, str]) -> dict[str, str]:
    """The values that the settings give where the contract has others."""
    return {key: value for key, value in promised.items() if contract.get(key) != value}


def _of_interest(effective: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings of a topic that were chosen, and those that promise something."""
    return {name: value for name, value in effective.items() if name in chosen or name in derived_contract.OF_TOPICS}


def _promised(
    roles: Iterable[Role],
    producer: Mapping[str, Any],
    topics: Mapping[str, TopicPlan],
    description: Mapping[str, Any],
    members: Mapping[str, Any],
) -> dict[str, str]:
    """The contract that the settings of all topics make. members: consumer settings of members."""
    roles, beneath = tuple(roles), description.get("broker_settings", {})
    settings = [spec["settings"] for spec in topics.values()] or [{}]
    eligible = bool(description.get("eligible_leaders"))  # not in plans of before
    return derived_contract.weakest(
        [derived_contract.derive(roles, producer, topic, beneath, members, eligible) for topic in settings]
    )


def _topics(test: Test, provider: Any, workload: Any, description: Mapping[str, Any]) -> dict[str, TopicPlan]:
    """The topics as they will be created, by the workload's own names of them."""
    second = provider.second_brokers if isinstance(provider, CountsSecondBrokers) else 0
    brokers = {"": provider.brokers if isinstance(provider, CountsBrokers) else description.get("brokers", 3), SECOND: second}
    return {name: _topic(spec, test, brokers, description) for name, spec in workload.topics().items()}


def _topic(spec: TopicSpec, test: Test, brokers: Mapping[str, int], description: Mapping[str, Any]) -> TopicPlan:
    """A topic as it will be created: replication as far as there are brokers, and enough of them in sync.

    A cluster may give the number of replicas (`replication`), and one that is not ours the settings too (`topic_settings`): its
    own are what is tested.
    """
    replication = min(description.get("replication") or spec.replication, brokers[spec.cluster])
    honest = description.get("topic_settings") or {"min.insync.replicas": "2" if replication > 2 else "1"}
    settings = {**honest, **spec.settings, **{key: str(value) for key, value in test.topic.items()}}
    planned: TopicPlan = {"partitions": spec.partitions, "replication": replication, "settings": settings}
    return {**planned, "cluster": spec.cluster} if spec.cluster else planned


def machine() -> dict[str, Any]:
    """The machine that performs the run, as far as it may matter to its figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def obtain_cluster(plan: Mapping[str, Any], on_progress: Callable[[str], None]) -> None:
    """Fetch what the plan's cluster needs. Raises CampaignError and ClusterError."""
    provider = cluster_of(plan)
    if isinstance(provider, Obtains):
        provider.obtain(on_progress)


def cluster_of(plan: Mapping[str, Any]) -> Any:
    """The plan's cluster provider. Raises CampaignError when it cannot be made here."""
    return _instance("cluster", plan["cluster"]["kind"], plan["cluster"]["options"])


def workload_of(plan: Mapping[str, Any]) -> Any:
    """The plan's workload. Raises CampaignError when it cannot be made here."""
    return _instance("workload", plan["workload"]["kind"], plan["workload"]["options"])


def foreseen_contract(test: Test, provider: Any, workload: Any) -> dict[str, str] | None:
    """The contract that the plan of a test will have; None where that is known only once the cluster runs."""
    if not isinstance(provider, ReportsSettings):
        return None
    description: dict[str, Any] = {
        "broker_settings": {name: str(value) for name, value in provider.effective_settings().items()},
        "eligible_leaders": isinstance(provider, ElectsEligibleLeaders) and provider.eligible_leaders(),
    }
    topics = _topics(test, provider, workload, description)
    producer = {**workload.producer_settings(), **test.producer}
    members = member_settings(workload, test)
    return overlaid_contract(_promised(workload.roles(), producer, topics, description, members), test.contract)


def _instance(group: str, kind: str, options: Mapping[str, Any]) -> Any:
    return registry.build(registry.load(f"fencepost.{group}", kind), options, group)
