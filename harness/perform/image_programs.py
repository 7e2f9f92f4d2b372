"""Programs that are images: each runs in a container of its own at the node of its worker, which cannot start containers.

The worker asks over its standard output (`harness.perform.remote_program`), the performer has the cluster run the image, and says
when it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fencepost.harness.api import Cluster, ClusterError, RunningImages, Spawned
from fencepost.harness.perform.instance import LOG, directory_of

Message = Mapping[str, Any]


class ImagePrograms:
    """The programs of a run's instances. Safe to use from several threads.

    image: of the container of each.
    argv: the words of its command.
    """

    def __init__(self, cluster: Cluster, run_dir: Path, image: str, argv: tuple[str, ...]) -> None:
        self._cluster, self._run_dir, self._image, self._argv = cluster, run_dir, image, argv

    def take(self, slot: int, message: Message, send: Callable[[Message], None]) -> None:
        """Carry out a request of a worker.

        send: answers the worker, also later when the program has ended.
        """
        node = f"c{slot}"
        if message["do"] == "start":
            self._start(slot, node, message["environment"], send)
        elif isinstance(self._cluster, RunningImages):
            self._cluster.signal_image(node, "SIGTERM" if message["do"] == "end" else "SIGKILL")

    def _start(self, slot: int, node: str, environment: Mapping[str, str], send: Callable[[Message], None]) -> None:
        if not isinstance(self._cluster, RunningImages):
            send({"problem": 'an image can only be run on a cluster in Docker ([test.cluster] kind = "docker")'})
            return
        try:
            log, directory = self._run_dir.resolve() / "logs" / node / LOG, directory_of(self._run_dir, slot)
            program = self._cluster.run_image(node, self._image, self._argv, environment, log, directory)
        except ClusterError as error:
            send({"problem": str(error)})
            return
        send({"started": True})
        threading.Thread(target=self._await_end, args=(program, send), daemon=True).start()

    def _await_end(self, program: Spawned, send: Callable[[Message], None]) -> None:
        status = program.wait()
        send({"ended": status})
