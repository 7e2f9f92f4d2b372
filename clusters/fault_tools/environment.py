"""The environment of brokers that faults change: links, power, disks and clocks, for every provider that runs brokers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fencepost.clusters.fault_tools import clocks, disks
from fencepost.clusters.fault_tools.corruption import CorruptibleFiles
from fencepost.clusters.fault_tools.network_capabilities import NetworkCapabilities
from fencepost.clusters.fault_tools.power_failure import PowerFailure
from fencepost.clusters.kafka import broker_config
from fencepost.clusters.kafka.options import NO_SETTABLE_CLOCK, NO_SMALL_DISK, NodeOptions
from fencepost.harness.api import ClusterError

_TAIL = 1 << 16  # bytes at the end of a log that hold its newest lines


class BrokerEnvironment(NetworkCapabilities, PowerFailure, CorruptibleFiles):
    """`NetworkCapabilities`, `Powered`, `Corruptible`, `Fillable` (with `_disks`), `Skewable` (with `_clocks`)."""

    _disks: disks.NodeDisks | None = None
    _clocks: clocks.Clocks | None = None

    def __init__(self, nodes: Sequence[broker_config.PlannedNode], run_dir: Path, options: NodeOptions) -> None:
        super().__init__(nodes, run_dir, options)
        self._log_offsets: dict[str, int] = {}  # node -> the length of its log when the present fault began

    # ---- disks

    def fill_disk(self, node: str) -> None:
        self._log_offsets[node] = len(self._log_text(node))
        self._usable_disks().fill(self._checked_server(node))

    def clear_disk(self, node: str) -> None:
        self._usable_disks().clear(self._checked_server(node))
        self._log_offsets[node] = len(self._log_text(node))

    def disk_free(self, node: str) -> int:
        return self._usable_disks().free(self._checked_server(node))

    def disk_complaint(self, node: str) -> str:
        lines = self._log_text(self._checked_server(node))[self._log_offsets.get(node, 0) :].splitlines()
        return next((line.strip()[:500] for line in lines if disks.COMPLAINT in line), "")

    def _usable_disks(self) -> disks.NodeDisks:
        if self._disks is None:
            raise ClusterError(f"no disk can be filled: {NO_SMALL_DISK}")
        return self._disks

    # ---- clocks

    def skew(self, node: str, ahead_s: float) -> None:
        if self._clocks is None:
            raise ClusterError(f"no clock can be set: {NO_SETTABLE_CLOCK}")
        self._clocks.set([self._checked_server(node)], ahead_s)

    def clock_ahead(self, node: str) -> float | None:
        if self.pid(self._checked_server(node)) is None:
            return None
        return clocks.measured_offset_s(self.request_address(node), lambda: self._log_end(node))

    def _log_end(self, node: str) -> str:
        with self._log(node).open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
            return log.read().decode(errors="replace")

    # ---- healing

    def _heal_environment(self) -> None:
        """Remove the ballast from every disk, and set every clock right."""
        for node in self._planned if self._disks else ():
            self.clear_disk(node)
        if self._clocks:
            self._clocks.set(self._planned, 0.0)
