"""A distributed worker of Connect: its settings, its command line, and where it answers requests.

Internal topics, group and transactional ids begin with the run's prefix, so that runs share nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fencepost.harness.api import ConnectWorker
from fencepost.harness.api.run import ConnectPlan
from fencepost.harness.connect.java_settings import java_settings, write_properties
from fencepost.harness.connect.plugins import plugin_path
from fencepost.harness.fetching.java import directories

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
ADDRESS = "rest"  # in an instance's directory: where its REST interface is
FIRST_PORT = 8083
ANSWER_S = 1.0  # to the question whether a worker serves, which is asked again
ADMIN_S, WRITE_S = 90.0, 30.0  # constants of Connect 3.3 to 4.3: see `fencing_s`
SYNC = "worker.sync.timeout.ms"
_TIMES = {  # a dead worker is noticed within a run, and its tasks are given away
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
    "rebalance.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "3000",
    "task.shutdown.graceful.timeout.ms": "5000",
    "offset.flush.interval.ms": "1000",
}
_LOGGERS = ("slf4j-reload4j", "slf4j-log4j12")  # older releases bring them; without a file of settings they write nothing
_FLAGS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


def group_of(prefix: str, worker: ConnectWorker) -> str:
    """The group of the workers."""
    return prefix + worker.group


def transactional_ids(prefix: str, worker: ConnectWorker, tasks: int) -> list[str]:
    """The transactional ids of the leader and of so many tasks of each connector, as KIP-618 names them."""
    group = group_of(prefix, worker)
    of_tasks = [f"{group}-{connector}-{task}" for connector in worker.connectors for task in range(tasks)]
    return [f"connect-cluster-{group}", *of_tasks]


def own_address(bootstrap: str) -> str:
    """This node's address, as the brokers see it."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


def properties(worker: ConnectWorker, plan: Mapping[str, Any], connection: Mapping[str, str], url: str) -> dict[str, str]:
    """The settings of a worker that answers at `url`; connection: what Java clients need to reach the cluster."""
    group, replicas = group_of(plan["prefix"], worker), str(min(3, int(plan.get("brokers", 3))))
    topics = {"config": "configs", "offset": "offsets", "status": "status"}
    internal = {
        f"{kind}.storage.{key}": value
        for kind, name in topics.items()
        for key, value in (("topic", f"{group}-{name}"), ("replication.factor", replicas))
    }
    clients = {f"{part}{key}": value for part in ("", "producer.", "consumer.", "admin.") for key, value in connection.items()}
    return {
        "bootstrap.servers": plan["bootstrap"],
        "group.id": group,
        **internal,
        "offset.storage.partitions": "3",
        "status.storage.partitions": "1",
        "exactly.once.source.support": worker.support,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": url,
        "plugin.path": ",".join(worker.plugins),
        "plugin.discovery": "service_load" if worker.ours else "hybrid_warn",
        "connector.client.config.override.policy": "All",
        **_TIMES,
        "producer.transaction.timeout.ms": str(round(worker.transaction_timeout_s * 1000)),
        "producer.max.block.ms": "60000",
        "producer.delivery.timeout.ms": "120000",
        **clients,
        **dict(worker.settings),
    }


def fencing_s(worker: ConnectWorker) -> float | None:
    """The longest time of a round of fencing (s), from a task's request for it to its task-count record, or until it is given up.

    `Admin.fenceProducers` gets 90 s, as long as a worker waits for an answer of its leader (`DEFAULT_REST_REQUEST_TIMEOUT_MS`):
    no setting changes it. The leader reads the configuration topic to its end before and after it, and then writes the record
    (`READ_WRITE_TOTAL_TIMEOUT_MS`, 30 s). Both steps are its main thread's, which may be in a rebalance. A task whose worker is
    lost asks only when it is given away. None: a setting is no number, as where the worker looks it up elsewhere (`${file:...}`).
    """
    times = {SYNC: "3000", **_TIMES, **dict(worker.settings)}
    twice = [times[key] for key in (SYNC, "rebalance.timeout.ms", "task.shutdown.graceful.timeout.ms")]
    once = [times[key] for key in ("session.timeout.ms", "scheduled.rebalance.max.delay.ms")]
    known = all(map(str.isdecimal, twice + once))
    return ADMIN_S + WRITE_S + sum(map(int, [*twice, *twice, *once])) / 1000 if known else None


def prepare(
    worker: ConnectWorker, plan: Mapping[str, Any], connection: Mapping[str, str], slot: int, directory: Path
) -> list[str]:
    """Write the settings of an instance's next life into its directory; the command line. connection: its secrets resolved.

    Raises OSError.
    """
    host = own_address(plan["bootstrap"])
    url = f"http://{host}:{FIRST_PORT + slot}"
    path = directory / "worker.properties"
    found = replace(worker, plugins=tuple(plugin_path(worker.plugins, directory)))
    write_properties(path, properties(found, plan, java_settings(connection), url))
    (directory / ADDRESS).write_text(url)
    kafka_connect = plan["connect"][worker.version]
    jars = [name for name in sorted(kafka_connect["jars"]) if not name.startswith(_LOGGERS)]
    class_path = os.pathsep.join(f"{kafka_connect['directory']}/{name}" for name in jars)
    return [kafka_connect["java"], *_FLAGS, "-cp", class_path, MAIN, str(path)]


def addresses(data: Path, nodes: Collection[str]) -> dict[str, str]:
    """The REST addresses of the workers at these nodes. data: the directory that holds those of the instances."""
    files = {path.parent.name: path for path in sorted(data.glob(f"c*/{ADDRESS}"))}
    return {node: path.read_text() for node, path in files.items() if node in nodes}


def serves(directory: Path) -> bool:
    """Return whether the worker with this directory answers requests."""
    import http.client  # here, because every worker process would start later with them
    import urllib.request

    try:
        with urllib.request.urlopen((directory / ADDRESS).read_text(), timeout=ANSWER_S):
            return True
    except (OSError, ValueError, http.client.HTTPException):
        return False


def jar_directories(worker: ConnectWorker, plan: ConnectPlan) -> list[str]:
    """The directories that a worker's process needs to see."""
    plugins = [path if os.path.isdir(path) else os.path.dirname(path) for path in worker.plugins]
    return [plan["directory"], *map(str, directories(plan["java"])), *plugins]
