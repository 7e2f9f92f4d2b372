"""The running `docker` cluster: a container per node, its data, and its faults."""

from __future__ import annotations

import io
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

from docker.types import Mount

from fencepost.clusters.docker import clocks, host_python, proxies
from fencepost.clusters.docker.container import Container, LogFile, PipeOutput, WorkerProcess, run_to_end
from fencepost.clusters.docker.disks import INSIDE, DiskVolumes
from fencepost.clusters.docker.images import Image
from fencepost.clusters.docker.network import Network
from fencepost.clusters.docker.options import DockerOptions
from fencepost.clusters.docker.run_resources import RunResources, mount
from fencepost.clusters.fault_tools.clocks import Clocks
from fencepost.clusters.fault_tools.environment import BrokerEnvironment
from fencepost.clusters.kafka import broker_config, node_plan, storage
from fencepost.clusters.kafka.broker_config import PlannedNode
from fencepost.clusters.kafka.interception import BehindProxies, Interceptor
from fencepost.clusters.kafka.proxies import BrokerProxies
from fencepost.harness.api import ClusterError, Skewable, TopicSpec
from fencepost.harness.proxy.process import Settings

T = TypeVar("T")

LIBRARIES = "/opt/kafka/libs/*"  # where the official image has its jars, and ours too
_PIDS = 4096
_PROBE_ATTEMPTS = 3
_PARALLEL = 4


class DockerCluster(BrokerEnvironment, BehindProxies):
    """`Cluster` with every capability. Safe to use from several threads."""

    def __init__(self, options: DockerOptions, run_dir: Path, resources: RunResources, images: Mapping[str, Image]) -> None:
        self._options, self._resources, self._images = options, resources, images
        self._containers: dict[str, Container] = {}
        self._programs: dict[str, Container] = {}  # somebody's own, beside the workers of their nodes
        self._incarnations: dict[str, int] = {}
        self._starting = threading.Lock()
        self._no_clock = ""
        self._disks = self._volumes = DiskVolumes(resources, options.disk_mb) if options.disk_mb else None
        self.interceptor = Interceptor()
        self._proxies = BrokerProxies(run_dir.resolve(), self.interceptor, self._launch_proxy)
        super().__init__(_nodes(options, resources, self._volumes, run_dir.resolve() / "data"), run_dir.resolve(), options)

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Kafka up, in a network that has been probed."""
        self._require_open_network()
        for node in self._planned:
            (self._data / node).mkdir(parents=True, exist_ok=True)
        if self._options.skewable:
            self._prepare_clocks()
        for planned in self._planned.values():
            if planned.behind:
                self._proxies.start(planned)
        self.bring_up(topics, self._format)

    def _require_open_network(self) -> None:
        """Raises ClusterError when packets do not arrive, or under another's address, so that no rule would apply to them."""
        pairs = [(source, destination) for source in self._planned for destination in self._planned if source != destination]
        for _ in range(_PROBE_ATTEMPTS):
            pairs = [pair for pair, arrived in self.probe(pairs).items() if not arrived]
        if pairs:
            closed = ", ".join(f"{source} to {destination}" for source, destination in pairs)
            raise ClusterError(
                f"packets do not arrive, or not under their sender's address: {closed}. Is there a rule on this machine that "
                "drops or masquerades them (iptables-save)? Another Docker daemon may have left one for the same addresses"
            )

    def _prepare_clocks(self) -> None:
        """Give brokers clocks that can be set. Where an image does not allow it, `unavailable` will say why."""
        settings = self._settings_of("clock", [])
        for version, image in self._images.items():
            name = f"{self._resources.name}-clock-{version}"
            self._no_clock = self._no_clock or clocks.trouble(self._resources.client, name, image.name, settings)
        if not self._no_clock:
            self._clocks = Clocks(clocks.LIBRARY, self._run_dir / "logs", self._planned)

    def end(self) -> None:
        """Kill everything, keep the log segments if asked."""
        with ExitStack() as steps:
            if self._options.keep_storage:
                steps.callback(self.collect_storage, self._run_dir)
            steps.callback(self._resources.remove)
            if self._volumes and self._options.keep_storage:
                steps.callback(self._copy_storage_out, self._volumes)

    def _format(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        argv = broker_config.command("java", LIBRARIES, "kafka.tools.StorageTool", arguments, heap_mb=128)
        first = Path(arguments[arguments.index("-c") + 1]).parent.name
        mounts = [mount(self._data / first, str(self.data_directory(first))), mount(self._config(first), read_only=True)]
        settings = {**self._settings_of("format", mounts), "network_mode": "none"}
        image = self._images[self.kafka_version]
        return run_to_end(self._resources.client, f"{self._resources.name}-format-{first}", image.name, argv, settings, timeout_s)

    # ---- data

    def data_directory(self, node: str) -> Path:
        return INSIDE if self._volumes else super().data_directory(node)

    def make_storage(self, tool: storage.Format, configs: Mapping[str, Path]) -> None:
        super().make_storage(tool, configs)
        if self._volumes:
            for node in self._planned:
                self._volumes.copy_in(node, self._data / node)

    def _copy_storage_out(self, volumes: DiskVolumes) -> None:
        for node in self._containers.keys() & self._planned.keys():
            self.kill(node)
            volumes.copy_out(node, self._data / node)

    def _run_on_data(self, node: str, function: Callable[[Path], T]) -> T:
        return (
            self._resources.network.run_in_helper(node, function, INSIDE)
            if self._volumes
            else super()._run_on_data(node, function)
        )

    # ---- what there is

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return self._options.missing().get(capability, f"a cluster in Docker cannot do this: {capability.__name__}")
        if capability is Skewable and self._no_clock:
            return self._no_clock
        return (
            self._options.missing().get(capability)
            or self._missing_in_network(capability)
            or self._missing_power_failure(capability)
        )

    # ---- processes

    def spawn(
        self,
        client: str,
        argv: Sequence[str],
        *,
        reads: Sequence[str] = (),
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        if client not in self._resources.network:
            self._resources.network.add(client, self._resources.labels_for(client))
        output = PipeOutput(stderr)
        mounts = host_python.mounts(writable=[self._run_dir], more=map(Path, reads))
        settings = {**self._joined(client, mounts), "environment": host_python.environment(env), "working_dir": "/"}
        container = Container(
            self._resources.client,
            self._name(client),
            host_python.ensure_image(self._resources.client),
            list(argv),
            output,
            settings,
        )
        self._containers[client] = container
        self._started(client)
        return WorkerProcess(container, output.reading)

    def run_image(
        self, client: str, image: str, argv: Sequence[str], environment: Mapping[str, str], log: Path, directory: Path
    ) -> WorkerProcess:
        if client in self._programs:
            self._programs[client].kill()
        store = environment.get("FENCEPOST_STORE")  # of a sink, which its instances share
        mounts = [mount(place) for place in (directory, *([Path(store)] if store else []))]
        settings = {**self._joined(client, mounts), "environment": dict(environment), "read_only": False}
        name = self._name(f"{client}-image")
        container = Container(
            self._resources.client, name, image, list(argv), LogFile(self._run_dir, str(log.relative_to(self._run_dir))), settings
        )
        self._programs[client] = container
        return WorkerProcess(container, io.BytesIO())

    def signal_image(self, client: str, signal: str) -> None:
        if client in self._programs:
            self._programs[client].signal(signal)

    def start(self, node: str) -> None:
        if node not in self._planned:
            return
        with self._starting:
            if node not in self._containers or self.pid(node) is None:
                self._containers[node] = self._launch(node)

    def _launch(self, node: str) -> Container:
        image = self._images[self.version(node)]
        argv = broker_config.command(
            "java", LIBRARIES, "kafka.Kafka", [str(self._config(node))], self._options.heap_mb, image.flags
        )
        data = self._volumes.mount(node) if self._volumes else mount(self._data / node)
        mounts = [data, mount(self._config(node).parent, read_only=True)]
        clock = self._clocks.environment(node) if self._clocks else {}
        settings = {**self._joined(node, mounts), **self._limits(), "environment": clock}
        return Container(
            self._resources.client,
            self._name(node),
            image.name,
            argv,
            LogFile(self._run_dir, self._place(node, "server.log")),
            settings,
        )

    def _launch_proxy(self, node: PlannedNode, settings: Settings) -> proxies.ContainerProxy:
        return proxies.ContainerProxy(
            self._resources.client,
            self._name(f"{node.name}-proxy"),
            self._images[self.version(node.name)].name,
            LIBRARIES,
            settings,
            {**self._joined(node.name, proxies.mounts(self._run_dir)), "environment": proxies.ENVIRONMENT},
            LogFile(self._run_dir, self._place(node.name, "proxy.log")),
        )

    def _limits(self) -> dict[str, Any]:
        """The limits of a broker's container; what it writes on a disk in memory counts too."""
        return {"mem_limit": f"{self._options.memory_mb + self._options.disk_mb}m", "nano_cpus": round(self._options.cpus * 1e9)}

    def _joined(self, node: str, mounts: list[Mount]) -> dict[str, Any]:
        """Settings of a container that lives in the namespaces of its helper, and dies with it."""
        helper = f"container:{self._resources.network.container(node)}"
        return {**self._settings_of(node, mounts), "network_mode": helper, "pid_mode": helper}

    def _settings_of(self, node: str, mounts: list[Mount]) -> dict[str, Any]:
        return {"labels": self._resources.labels_for(node), "mounts": mounts, "user": host_python.user(), "pids_limit": _PIDS}

    def _name(self, node: str) -> str:
        """A name for a node's next container."""
        self._incarnations[node] = self._incarnations.get(node, 0) + 1
        return f"{self._resources.name}-{node}-{self._incarnations[node]}"

    def kill(self, node: str) -> None:
        if node in self._programs:
            self._programs[node].kill()
        self._container(node).kill()

    def stop(self, node: str) -> None:
        self._container(node).signal("SIGTERM")

    def pid(self, node: str) -> int | None:
        return self._container(node).pid

    def status(self, node: str) -> int | None:
        return self._container(node).status

    def pause(self, node: str) -> None:
        self._container(node).signal("SIGSTOP")
        self.signal_image(node, "SIGSTOP")

    def resume(self, node: str) -> None:
        self.signal_image(node, "SIGCONT")
        self._container(node).signal("SIGCONT")

    def process_state(self, node: str) -> str:
        """The state of the node's process; of a program beside it as long as that lives."""
        program = self._programs.get(node)
        return (program.state() if program else "") or self._container(node).state()

    def _container(self, node: str) -> Container:
        if node not in self._containers:
            raise ClusterError(f"no node {node} has been started; there are {', '.join(sorted(self._containers)) or 'none'}")
        return self._containers[node]

    # ---- network

    def _usable_network(self) -> Network:
        return self._resources.network

    def heal(self) -> None:
        """End all faults, thaw and start all nodes, and wait (60 s) until all answer. Raises ClusterError."""
        self._resources.network.undrop_all()
        self._heal_environment()
        with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
            list(pool.map(self.resume, list(self._containers)))
        self._proxies.restart_ended()
        self.await_answers()

    def _heal_environment(self) -> None:
        self.interceptor.withdraw_all()
        super()._heal_environment()


def _nodes(options: DockerOptions, resources: RunResources, volumes: DiskVolumes | None, data: Path) -> list[PlannedNode]:
    """The nodes, each at the address of its helper, which holds its disk."""

    def add(node: PlannedNode) -> str:
        mounts = volumes.add(node.name, data / node.name) if volumes else []
        return resources.network.add(node.name, resources.labels_for(node.name), mounts, options.disk_mb)

    nodes = node_plan.nodes(options.brokers, options.controllers, node_plan.private, getattr(options, "second_brokers", 0))
    with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
        placed = [_at_address(node, address) for node, address in zip(nodes, pool.map(add, nodes), strict=True)]
    return node_plan.behind_proxies(placed, node_plan.private) if getattr(options, "proxy", False) else placed


def _at_address(node: PlannedNode, address: str) -> PlannedNode:
    return replace(node, listeners={name: (address, port) for name, (_, port) in node.listeners.items()})
