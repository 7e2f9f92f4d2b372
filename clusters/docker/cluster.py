"""The running cluster: a container per node, started, killed, frozen and cut off."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from docker.types import Mount

from clusters import jvm, plan
from clusters.docker import engine, host, init, leftovers
from clusters.docker.container import Container, Outlet, WorkerProcess
from clusters.docker.images import Image
from clusters.docker.network import Network
from clusters.links import LinkFaults
from clusters.power_faults import PowerFaults
from harness.api import ClusterError, TopicSpec

if TYPE_CHECKING:
    from clusters.docker.provider import Docker

LIBRARIES = "/opt/kafka/libs/*"  # where the official image has its jars, and ours too
_PIDS = 4096
_LOOKS = 3
_AT_ONCE = 4


class LogFile:
    """Takes what a node writes into its log."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def hear(self, stream: int, data: bytes) -> None:
        self._file.write(data)

    def close(self) -> None:
        self._file.close()


class Said:
    """Keeps what a program writes."""

    def __init__(self) -> None:
        self.text: dict[int, bytes] = {1: b"", 2: b""}

    def hear(self, stream: int, data: bytes) -> None:
        self.text[stream] += data

    def close(self) -> None:
        pass


class Place:
    """What a run has in Docker: its name, its labels, its network. Containers of ours all bear the labels of one sandbox."""

    def __init__(self, client: Any, run_dir: Path) -> None:
        self.client = client
        self.sandbox = os.environ.get(init.SANDBOX) or init.new()
        self.name = f"fencepost-{re.sub(r'[^A-Za-z0-9_.-]', '-', run_dir.name)}-{self.sandbox}"
        self.labels = {engine.SANDBOX: self.sandbox, engine.RUN: run_dir.name, engine.OWNER: engine.owner()}
        self.network = Network(client, self.name, self.labels)

    def labelled(self, node: str) -> dict[str, str]:
        return {**self.labels, engine.NODE: node}

    def remove(self) -> None:
        leftovers.remove(self.client, self.sandbox)


class DockerCluster(LinkFaults, PowerFaults):
    """`Cluster` with every capability. Safe to use from several threads."""

    def __init__(self, options: Docker, run_dir: Path, place: Place, images: Mapping[str, Image]) -> None:
        self._options, self._place, self._images = options, place, images
        self._containers: dict[str, Container] = {}
        self._incarnations: dict[str, int] = {}
        self._starting = threading.Lock()
        super().__init__(_nodes(options, place), run_dir.resolve(), options)

    # ---- up and down

    def begin(self, topics: Mapping[str, TopicSpec]) -> None:
        """Bring Kafka up, in a network that is seen to work."""
        self._require_open_network()
        self._data.mkdir(parents=True)
        self.bring_up(topics, self._format)

    def _require_open_network(self) -> None:
        """Raises ClusterError when packets do not arrive, or under another's address, so that no rule would apply to them."""
        pairs = [(source, destination) for source in self._planned for destination in self._planned if source != destination]
        for _ in range(_LOOKS):
            pairs = [pair for pair, arrived in self.probe(pairs).items() if not arrived]
        if pairs:
            closed = ", ".join(f"{source} to {destination}" for source, destination in pairs)
            raise ClusterError(
                f"packets do not arrive, or not under their sender's address: {closed}. Is there a rule on this machine that "
                "drops or masquerades them (iptables-save)? Another Docker daemon may have left one for the same addresses"
            )

    def end(self) -> None:
        """Kill everything, keep the log segments if asked, remove the data."""
        with ExitStack() as steps:
            steps.callback(shutil.rmtree, self._data, ignore_errors=True)
            if self._options.keep_storage:
                steps.callback(self.collect_storage, self._run_dir)
            steps.callback(self._place.remove)

    def _format(self, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        said = Said()
        argv = jvm.command("java", LIBRARIES, "kafka.tools.StorageTool", arguments, heap_mb=128)
        mounts = [mount(self._data), mount(self._run_dir / "logs", read_only=True)]
        settings = {**self._settings_of("format", mounts), "network_mode": "none"}
        image = self._images[self.kafka_version]
        tool = Container(self._place.client, f"{self._place.name}-format", image.name, argv, said, settings)
        status = tool.wait(timeout_s)
        if status is None:
            tool.kill()
            raise subprocess.TimeoutExpired(argv, timeout_s)
        out, err = (said.text[stream].decode(errors="replace") for stream in (1, 2))
        return subprocess.CompletedProcess(argv, status, out, err)

    # ---- what there is

    def unavailable(self, capability: type) -> str | None:
        if not isinstance(self, capability):
            return f"a cluster in Docker cannot do this: {capability.__name__}"
        return self._options.missing().get(capability) or self._links_lack(capability) or self._lacks_power(capability)

    # ---- processes

    def spawn(
        self,
        client: str,
        argv: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        with self._starting:
            if client not in self._clients:
                self._clients.append(client)
        if client not in self._place.network:
            self._place.network.add(client, self._place.labelled(client))
        outlet = Outlet(stderr)
        mounts = host.mounts(writable=[self._run_dir])
        settings = {**self._joined(client, mounts), "environment": host.environment(env), "working_dir": "/"}
        container = Container(
            self._place.client, self._name(client), host.ensure_image(self._place.client), list(argv), outlet, settings
        )
        self._containers[client] = container
        return WorkerProcess(container, outlet.reading)

    def start(self, node: str) -> None:
        if node not in self._planned:
            return
        with self._starting:
            if node not in self._containers or self.pid(node) is None:
                self._containers[node] = self._launch(node)

    def _launch(self, node: str) -> Container:
        image = self._images[self.version(node)]
        argv = jvm.command("java", LIBRARIES, "kafka.Kafka", [str(self._config(node))], self._options.heap_mb, image.flags)
        mounts = [mount(self._data / node), mount(self._config(node), read_only=True)]
        settings = {**self._joined(node, mounts), **self._limits()}
        return Container(self._place.client, self._name(node), image.name, argv, LogFile(self._log(node)), settings)

    def _limits(self) -> dict[str, Any]:
        """What a broker's container may use."""
        return {"mem_limit": f"{self._options.memory_mb}m", "nano_cpus": round(self._options.cpus * 1e9)}

    def _joined(self, node: str, mounts: list[Mount]) -> dict[str, Any]:
        """Settings of a container that lives in the namespaces of its helper, and dies with it."""
        helper = f"container:{self._place.network.container(node)}"
        return {**self._settings_of(node, mounts), "network_mode": helper, "pid_mode": helper}

    def _settings_of(self, node: str, mounts: list[Mount]) -> dict[str, Any]:
        return {"labels": self._place.labelled(node), "mounts": mounts, "user": host.user(), "pids_limit": _PIDS}

    def _name(self, node: str) -> str:
        """A name for a node's next container."""
        self._incarnations[node] = self._incarnations.get(node, 0) + 1
        return f"{self._place.name}-{node}-{self._incarnations[node]}"

    def kill(self, node: str) -> None:
        self._container(node).kill()

    def stop(self, node: str) -> None:
        self._container(node).signal("SIGTERM")

    def pid(self, node: str) -> int | None:
        return self._container(node).pid

    def status(self, node: str) -> int | None:
        return self._container(node).status

    def pause(self, node: str) -> None:
        self._container(node).signal("SIGSTOP")

    def resume(self, node: str) -> None:
        self._container(node).signal("SIGCONT")

    def process_state(self, node: str) -> str:
        return self._container(node).state()

    def _container(self, node: str) -> Container:
        if node not in self._containers:
            raise ClusterError(f"no node {node} has been started; there are {', '.join(sorted(self._containers)) or 'none'}")
        return self._containers[node]

    # ---- network

    def _links(self) -> Network:
        return self._place.network

    def heal(self) -> None:
        """Undrop everything, thaw everybody, start dead nodes, and wait (60 s) until all answer. Raises ClusterError."""
        self._place.network.undrop_all()
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(self.resume, list(self._containers)))
        self.await_answers()


def _nodes(options: Docker, place: Place) -> list[jvm.Node]:
    """The nodes, each at the address of its helper."""
    nodes = plan.nodes(options.brokers, options.controllers, plan.private)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        addresses = pool.map(lambda node: place.network.add(node.name, place.labelled(node.name)), nodes)
        return [_moved(node, address) for node, address in zip(nodes, addresses, strict=True)]


def _moved(node: jvm.Node, address: str) -> jvm.Node:
    return replace(node, listeners={name: (address, port) for name, (_, port) in node.listeners.items()})


def mount(path: Path, inside: str = "", *, read_only: bool = False) -> Mount:
    """A path of this machine at the same place in a container, or `inside`."""
    return Mount(inside or str(path), str(path), type="bind", read_only=read_only)
