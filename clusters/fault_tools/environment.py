"""What surrounds the brokers of a cluster of ours and can be hurt, wherever they live: links, power, disks, clocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from clusters.fault_tools import clocks, disks
from clusters.fault_tools.network_capabilities import LinkFaults
from clusters.fault_tools.power_failure import PowerFaults
from clusters.kafka import broker_config
from clusters.kafka.options import OWN_CLOCK, OWN_DISK, KafkaOptions
from harness.api import ClusterError

_TAIL = 1 << 16  # bytes of a log that are enough to find what was just said


class Surroundings(LinkFaults, PowerFaults):
    """`LinkFaults`, `Powered`, `Fillable` (where there are `_disks`), `Skewable` (where there are `_clocks`)."""

    _disks: disks.Disks | None = None
    _clocks: clocks.Clocks | None = None

    def __init__(self, nodes: Sequence[broker_config.Node], run_dir: Path, options: KafkaOptions) -> None:
        super().__init__(nodes, run_dir, options)
        self._begins: dict[str, int] = {}  # node -> from where on its log may complain of the present fault

    # ---- disks

    def fill_disk(self, node: str) -> None:
        self._begins[node] = len(self._logged(node))
        self._small_disks().fill(self._a_server(node))

    def clear_disk(self, node: str) -> None:
        self._small_disks().clear(self._a_server(node))
        self._begins[node] = len(self._logged(node))

    def disk_free(self, node: str) -> int:
        return self._small_disks().free(self._a_server(node))

    def disk_complaint(self, node: str) -> str:
        said = self._logged(self._a_server(node))[self._begins.get(node, 0) :].splitlines()
        return next((line.strip()[:500] for line in said if disks.COMPLAINT in line), "")

    def _small_disks(self) -> disks.Disks:
        if self._disks is None:
            raise ClusterError(f"no disk can be filled: {OWN_DISK}")
        return self._disks

    # ---- clocks

    def skew(self, node: str, ahead_s: float) -> None:
        if self._clocks is None:
            raise ClusterError(f"no clock can be set: {OWN_CLOCK}")
        self._clocks.set([self._a_server(node)], ahead_s)

    def clock_ahead(self, node: str) -> float | None:
        if self.pid(self._a_server(node)) is None:
            return None
        return clocks.ahead(self.door(node), lambda: self._last_words(node))

    def _last_words(self, node: str) -> str:
        with self._log(node).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
            return log.read().decode(errors="replace")

    # ---- healing

    def _heal_surroundings(self) -> None:
        """Give back every disk's room, set every clock right."""
        for node in self._planned if self._disks else ():
            self.clear_disk(node)
        if self._clocks:
            self._clocks.set(self._planned, 0.0)
