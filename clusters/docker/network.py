"""The network of a run: one internal bridge, and a helper container for every node.

A helper holds its node's address for the whole run, however often the node dies, and is the only one that may change rules
(NET_ADMIN in the node's network namespace, nothing else).
"""

from __future__ import annotations

import json
import queue
import threading
import time
from ast import literal_eval
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from docker.types import Mount

from fencepost.clusters.docker import helper_function, host_python
from fencepost.clusters.docker.container import Container
from fencepost.clusters.docker.helper_agent import LEASE_S
from fencepost.clusters.fault_tools.answer_shapes import OF_FUNCTIONS, OF_HELPERS, Nothing
from fencepost.clusters.fault_tools.link_table import LinkTable
from fencepost.clusters.fault_tools.probes import ProbeSeries
from fencepost.clusters.fault_tools.remote_probes import run_series
from fencepost.harness.api import ClusterError, PacketTimes, Pair
from fencepost.harness.system.answers import WrongAnswer, decoded, shaped, shown

T = TypeVar("T")

_READY_S = 60.0
_ANSWER_S = 30.0
_STATUS_S = 2.0
_MOST_ANSWER, _LONG = 64 << 20, 2000  # bytes of an answer, characters of an error


class Helper:
    """One node's helper: its address, and the agent inside (`helper_agent.py`), which answers one request at a time."""

    def __init__(self, client: Any, node: str, name: str, settings: Mapping[str, Any]) -> None:
        self.node = node
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._pending = b""
        self._errors: deque[str] = deque(maxlen=5)
        self._request_lock = threading.Lock()
        argv = [host_python.python(), "-m", "fencepost.clusters.docker.helper_agent"]
        self.container = Container(client, name, host_python.IMAGE, argv, self, settings)
        self.address = self.container.addresses[0]

    def write(self, stream: int, data: bytes) -> None:
        """Receive what the agent writes."""
        if stream != 1:
            self._errors += data.decode(errors="replace").splitlines()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > _MOST_ANSWER:
            self._pending = b""
            lines.append(b"an answer without end")
        for line in lines:
            try:
                self._replies.put(decoded(line, dict[str, Any]))
            except WrongAnswer as error:
                self._replies.put({"error": f"it answers what cannot be understood: {error}"})

    def close(self) -> None:
        container = getattr(self, "container", None)  # none yet when it ends at once
        status = container.wait(_STATUS_S) if container else None
        ended = "" if status is None or status < 0 else f" with status {status}"
        self._replies.put({"error": f"it ended{ended}: {' / '.join(self._errors) or 'it wrote nothing'}"})

    def await_ready(self) -> None:
        self._reply("ready", _READY_S)

    def ask(self, **request: Any) -> dict[str, Any]:
        """The agent's answer. Raises ClusterError with what went wrong."""
        with self._request_lock:
            try:
                self.container.socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError as error:
                raise ClusterError(f"the helper of {self.node} is gone: {error}") from error
            return self._reply(request["do"], _ANSWER_S)

    def _reply(self, do: str, timeout_s: float) -> dict[str, Any]:
        try:
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty as error:
            raise ClusterError(f"the helper of {self.node} said nothing within {timeout_s:.0f} s") from error
        if "error" in reply:
            raise ClusterError(f"the helper of {self.node}: {shown(reply['error'], _LONG)}")
        try:
            shaped(reply, OF_HELPERS.get(do, Nothing))
        except WrongAnswer as error:
            raise ClusterError(f"the helper of {self.node} answers `{do}` with what cannot be understood: {error}") from error
        return reply


class Network(LinkTable):
    """Nodes with an address and a helper each. Safe to use from several threads."""

    def __init__(self, client: Any, name: str, labels: Mapping[str, str]) -> None:
        super().__init__()
        self._client, self._name, self._labels = client, name, labels
        self._helpers: dict[str, Helper] = {}
        client.networks.create(name, driver="bridge", internal=True, labels=dict(labels), check_duplicate=True)
        threading.Thread(target=self._renew, daemon=True, name="lease").start()

    def __contains__(self, node: str) -> bool:
        return node in self._helpers

    def add(self, node: str, more_labels: Mapping[str, str], more_mounts: Sequence[Mount] = (), more_mb: int = 0) -> str:
        """Give `node` an address and a helper, dropping nothing; its address. Raises ClusterError."""
        settings = {
            "hostname": node,
            "network": self._name,
            "labels": {**self._labels, **more_labels},
            "mounts": [*host_python.mounts(), *more_mounts],
            "environment": host_python.environment(),
            "working_dir": "/",
            "cap_add": ["NET_ADMIN"],
            "mem_limit": f"{128 + more_mb}m",
            "pids_limit": 256,  # the node's own threads count in their own container
        }
        helper = Helper(self._client, node, f"{self._name}-{node}-helper", settings)
        helper.await_ready()
        with self._lock:
            self._helpers[node] = helper
        return helper.address

    def _renew(self) -> None:
        """Renew every helper's lease; a helper without one ends, and its node with it."""
        while True:
            time.sleep(LEASE_S / 6)
            for helper in list(self._helpers.values()):
                with suppress(ClusterError):
                    helper.ask(do="renew")

    def container(self, node: str) -> str:
        """The id of the helper, whose namespaces the node joins."""
        return self._helper(node).container.id

    def run_in_helper(self, node: str, function: Callable[..., T], *directories: Path) -> T:
        """The result (a literal) of a function that runs in the node's helper, as our own user."""
        argv = [
            host_python.python(),
            "-m",
            "fencepost.clusters.docker.helper_function",
            helper_function.reference(function),
            *map(str, directories),
        ]
        printed = self._helper(node).container.execute(argv, host_python.user())
        try:
            return cast(T, shaped(literal_eval(printed), OF_FUNCTIONS.get(function, Any)))
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise ClusterError(f"the helper of {node} answers what cannot be understood: {shown(printed)} ({error})") from error

    def probe(self, pairs: Iterable[Pair]) -> dict[Pair, bool]:
        """Return for each pair whether a datagram sent now arrives; for all at once, within `probe_timeout_s`."""
        return self._send(ProbeSeries(pairs, packets=2), self.probe_timeout_s()).arrived()

    def measure(self, pairs: Iterable[Pair], packets: int, size: int = 64, within_s: float = 1.0) -> dict[Pair, PacketTimes]:
        """The time that each of some datagrams took, for all pairs at once (`harness.api.Measurable`)."""
        return self._send(ProbeSeries(pairs, packets, size), within_s).times

    def _send(self, series: ProbeSeries, within_s: float) -> ProbeSeries:
        def send(source: str, links: Mapping[int, str]) -> None:
            to = {link: self._address(destination) for link, destination in links.items()}
            self._helper(source).ask(do="send", to=to, series=series.name, packets=series.packets, size=series.size)

        def receive(destination: str, known: int) -> Sequence[Any]:
            received: list[Any] = self._helper(destination).ask(do="received", series=series.name, known=known)["received"]
            return received

        def probe_time(pair: Pair, entry: Any) -> float | None:
            _, _, time_ms, address, _ = entry
            return float(time_ms) if address == self._address(pair[0]) else None  # else it is masqueraded: no rule matches

        return run_series(series, within_s, send, receive, probe_time)

    def missing_capabilities(self) -> dict[str, str]:
        """Names of the capabilities that it lacks, found out by a trial, each with the reason."""
        return dict(next(iter(self._helpers.values())).ask(do="missing_capabilities")["missing_capabilities"])

    def _address(self, node: str) -> str:
        return self._helper(node).address

    def _delay_at(self, source: str, destination: str, number: int, **how: float) -> None:
        self._helper(destination).ask(do="slow", number=number, address=self._address(source), how=how)

    def _undelay_at(self, source: str, destination: str, number: int) -> tuple[int, int]:
        seen, dropped = self._helper(destination).ask(do="unslow", number=number, address=self._address(source))["counted"]
        return int(seen), int(dropped)

    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        return int(self._helper(destination).ask(do="drop", address=self._address(source), share=share)["handle"])

    def _delete_rule(self, node: str, handle: int) -> None:
        self._helper(node).ask(do="undrop", handle=handle)

    def _counters(self, node: str) -> dict[int, tuple[int, int]]:
        counted = self._helper(node).ask(do="counters")["counters"]
        return {int(handle): (int(seen), int(dropped)) for handle, (seen, dropped) in counted.items()}

    def _helper(self, node: str) -> Helper:
        if node not in self._helpers:
            raise ClusterError(f"no node {node} in the network; there are {', '.join(self._helpers)}")
        return self._helpers[node]
