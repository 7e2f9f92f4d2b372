"""The proxies before the brokers of a cluster in Docker: a container for each, of the broker's image, beside the broker's own.

It lives in the namespaces of the broker's helper, so that it has the broker's address, and every packet to the broker passes the
helper's rules before it comes to the proxy. It outlives the broker's container, and dies with the helper.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docker.types import Mount

from fencepost.clusters.docker.container import Container, LogFile
from fencepost.clusters.docker.run_resources import mount
from fencepost.clusters.kafka.proxies import HEAP_MB
from fencepost.harness.api import ClusterError
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.build import PROXY
from fencepost.harness.proxy.control import Control
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import START_S, Settings, command, started

ENVIRONMENT = {"JDK_JAVA_OPTIONS": ""}  # an image may have options for brokers there


class ContainerProxy:
    """A proxy in a container (`clusters.kafka.proxies.RunningProxy`).

    libraries: the class path of Kafka's jars in the image.
    settings_of: the container's settings with these mounts.
    Raises ClusterError, and CampaignError when the proxy refuses its settings.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        image: str,
        libraries: str,
        settings: Settings,
        container: Mapping[str, Any],
        log: LogFile,
    ) -> None:
        output = _Output(log)
        argv = command(with_proxy(libraries), HEAP_MB, program="java")
        self._container = Container(client, name, image, argv, output, container)
        try:
            self._container.socket.sendall(settings.line())
            answer = started(output.first_line(name))
        except BaseException:
            self._container.kill()
            raise
        self.control = Control(answer["control"])

    def is_alive(self) -> bool:
        return self._container.pid is not None

    def end(self) -> None:
        self._container.kill()


def mounts(run_dir: Path) -> list[Mount]:
    """What the container needs of this machine: the jar of the proxy, and the place of its record."""
    return [mount(PROXY.jar, read_only=True), mount(run_dir / RunFile.WIRE_LINES)]


class _Output:
    """The first line of JSON on standard output, and a log of what comes on the other stream."""

    def __init__(self, log: LogFile) -> None:
        self._log, self._text = log, b""
        self._lines: queue.Queue[bytes] = queue.Queue()

    def write(self, stream: int, data: bytes) -> None:
        if stream != 1:
            self._log.write(stream, data)
            return
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            self._lines.put(line)

    def close(self) -> None:
        self._lines.put(b"")  # no more comes
        self._log.close()

    def first_line(self, name: str) -> bytes:
        """The line; empty when it ended without one. Raises ClusterError."""
        try:
            while (line := self._lines.get(timeout=START_S)) and not line.startswith(b"{"):
                continue
        except queue.Empty as error:
            raise ClusterError(f"{name} said nothing within {START_S:.0f} s") from error
        return line
