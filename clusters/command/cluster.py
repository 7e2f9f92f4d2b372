"""The running `command` cluster: programs in a sandbox, and what they answer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from fencepost.clusters.command import template
from fencepost.clusters.command.options import CommandOptions
from fencepost.clusters.kafka import broker_config, node_plan, protocol
from fencepost.clusters.kafka.broker_config import CLIENT, PlannedNode
from fencepost.clusters.kafka.node_directory import kafka_uuid
from fencepost.clusters.kafka.other_broker import OtherBrokerCluster
from fencepost.clusters.kafka.protocol import Address
from fencepost.clusters.kafka.roles import ask_all
from fencepost.clusters.local.proxied_sandbox import ProxiedSandbox
from fencepost.clusters.local.sandbox_cluster import SandboxCluster
from fencepost.harness.api import ClusterError, TopicSpec
from fencepost.harness.api.beneath import make_folder, write_text
from fencepost.harness.proxy import jars
from fencepost.harness.secrets import environment_without_secrets
from fencepost.harness.system import programs

_ASK_S, _PREPARE_S = 1.0, 120.0
_LAST_LINES = 4
NEEDED: Mapping[int, str] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    10: "FindCoordinator",
    19: "CreateTopics",
}
OF_TRANSACTIONS: Mapping[int, str] = {22: "InitProducerId", 24: "AddPartitionsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit"}

log = structlog.get_logger()


class CommandCluster(OtherBrokerCluster, ProxiedSandbox):
    """`Cluster` with every capability that needs no knowledge of the broker's own. Safe to use from several threads."""

    _options: CommandOptions
    stored_records = None  # type: ignore[assignment]  # its files are the broker's own (`KafkaBuildCluster`)
    transaction_listing = None  # type: ignore[assignment]  # its answers to KIP-664's requests have not been compared with Kafka's

    def __init__(self, options: CommandOptions, run_dir: Path) -> None:
        super().__init__(options, run_dir.resolve())
        self.interceptor.between_brokers = False
        self._cluster_id = kafka_uuid()
        self._answered: dict[int, tuple[int, int]] = {}

    def _plan_nodes(self, listen: node_plan.Listen) -> list[PlannedNode]:
        planned = node_plan.nodes(self._options.brokers, 0, listen)
        return node_plan.behind_proxies(planned, listen, [CLIENT]) if self._options.proxy else planned

    def message_jars(self, node: str) -> str:
        return jars.messages()

    # ---- up

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Start the program for every node, wait until all know each other, make the topics. Raises ClusterError."""
        self.prepare()
        for node in self._planned:
            self._write_files(node)
        for node in self._planned:
            self._prepare_node(node)
        self.start_proxies()
        for node in self._planned:
            self.start(node)
        self._wait(self._options.ready_s, "the brokers to answer and to know each other", self._unready)
        self._take_roles(self._names())
        self._require_requests()
        self._make_topics({name: self._accepted(spec) for name, spec in topics.items()})

    def _write_files(self, node: str) -> None:
        self.working_directory(node).mkdir(parents=True, exist_ok=True)
        make_folder(self._run_dir, self._place(node, "").rstrip("/"))
        if self._options.config:
            write_text(self._run_dir, self._place(node, self._options.config_name), self._filled(node, self._options.config))

    def _prepare_node(self, node: str) -> None:
        """Run `prepare` to its end. Raises ClusterError with its last lines."""
        if not (argv := self._words(node, "prepare")):
            return
        env = {**environment_without_secrets(), **self.own_environment(node)}
        try:
            done = programs.run(argv, _PREPARE_S, cwd=self.working_directory(node), env=env, merged=True)
        except OSError as error:
            raise ClusterError(f"prepare of {node}: {argv[0]} cannot be started: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"prepare of {node} has not ended after {_PREPARE_S:.0f} s") from error
        write_text(self._run_dir, self._place(node, "prepare.log"), done.stdout)
        if done.returncode:
            raise ClusterError(f"prepare of {node} ended with status {done.returncode}: {broker_config.error_lines(done.stdout)}")

    def _accepted(self, spec: TopicSpec) -> TopicSpec:
        """The topic for these brokers, without settings that they do not have."""
        fit = node_plan.fitted(spec, len(self.brokers))
        return replace(fit, settings={name: value for name, value in fit.settings.items() if name not in self._options.without})

    # ---- whether they are ready

    def _views(self) -> dict[str, Mapping[int, Address]]:
        """The brokers' addresses by id, as each node that answers has them."""
        addresses = {name: self.request_address(name) for name in self.brokers}
        views = ask_all(lambda address: protocol.metadata(address, _ASK_S), addresses)
        return {name: view.addresses for name, view in views.items()}

    def _unready(self) -> str:
        """The reason why the brokers cannot be used yet, with the last lines of the first one that is not ready; else empty."""
        wanted, views = self._advertised(), self._views()
        for node in self.brokers:
            if node not in views:
                return f"{node} does not answer at {_address(self.request_address(node))}{self._last_lines(node)}"
            if strange := [address for address in views[node].values() if address not in wanted]:
                named = ", ".join(map(_address, strange))
                return f"{node} sends clients to {named}, which is no node of this cluster: let it advertise {{host}}:{{port}}"
            if missing := [name for address, name in wanted.items() if address not in views[node].values()]:
                return f"{node} does not know {', '.join(missing)}{self._last_lines(node)}"
        return ""

    def _names(self) -> dict[int, str]:
        """Node id -> node: a broker may number itself as it likes."""
        by_address = self._advertised()
        return {number: by_address[address] for view in self._views().values() for number, address in view.items()}

    def _advertised(self) -> dict[Address, str]:
        """Address at which clients are to reach a node -> the node: behind a proxy it listens at another one."""
        return {self._planned[name].address: name for name in self.brokers}

    def _last_lines(self, node: str) -> str:
        lines = [line.strip() for line in self._log_end(node).splitlines() if line.strip()][-_LAST_LINES:]
        return f"; the last lines of its log: {' | '.join(lines)}" if lines else "; it has written nothing"

    def _require_requests(self) -> None:
        """Look at what the brokers answer. Raises ClusterError when no workload could run; warns without transactions."""
        self._answered = protocol.requests(self.request_address(self.brokers[0]))
        if lacking := self._lacking(NEEDED):
            raise ClusterError(f"{self.kafka_version} does not answer {lacking}: no workload can run on it")
        if lacking := self._lacking(OF_TRANSACTIONS):
            log.warning("requests not answered", requests=lacking, broker=self.kafka_version, so="no transaction can be tested")

    def _lacking(self, wanted: Mapping[int, str]) -> str:
        return ", ".join(name for key, name in wanted.items() if key not in self._answered)

    # ---- a node's process

    def command_line(self, node: str) -> list[str]:
        return self._words(node, "command")

    def own_environment(self, node: str) -> dict[str, str]:
        return {name: self._filled(node, str(value)) for name, value in self._options.environment.items()}

    def working_directory(self, node: str) -> Path:
        return self.data_directory(node)

    def _words(self, node: str, key: str) -> list[str]:
        """The words of a command line; its program by its path, since the process starts in the node's data directory."""
        words = [self._filled(node, word) for word in self._options.words(key)]
        path = shutil.which(words[0]) if words else None
        return [os.path.abspath(path), *words[1:]] if path else words

    def _filled(self, node: str, text: str) -> str:
        values = template.values(
            self._planned[node],
            list(self._planned.values()),
            data=self.data_directory(node),
            config=self._run_dir / self._place(node, self._options.config_name),
            cluster_id=self._cluster_id,
            settings=self._options.effective_settings(),
            peer=self._options.peer,
            separator=self._options.separator,
        )
        return template.filled(text, values)


class KafkaBuildCluster(CommandCluster):
    """A `CommandCluster` whose brokers are a build of Kafka: `Storing` and `ListingTransactions` too."""

    stored_records = SandboxCluster.stored_records  # type: ignore[assignment]
    transaction_listing = SandboxCluster.transaction_listing  # type: ignore[assignment]


def _address(address: Address) -> str:
    return "{}:{}".format(*address)
