"""Packet delays on this host: the delay program, which lives as long as the watcher, and the rules that send packets to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fencepost.clusters.fault_tools.delay_process import DelayProcess
from fencepost.clusters.ssh.remote import host_rules


class HostDelays(DelayProcess):
    """Raises OSError or ProgramError where packets cannot be delayed.

    The queue's number is that of the run's first port, which no other run on this host has.
    """

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self._number: int = settings["port"]
        self._matches: dict[str, list[host_rules.Rule]] = {}
        self._rules = host_rules.queues(settings["token"], settings["sudo"], self._number)
        # sys.argv[0] is the zip file of this program
        super().__init__([*(["sudo", "-n"] if settings["sudo"] else []), sys.executable, sys.argv[0], "delay", str(run)])

    def set_matches(self, address: str, matches: list[host_rules.Rule]) -> None:
        """Set which packets of an address are delayed, before `slow`."""
        self._matches[address] = [{**match, "do": host_rules.QUEUE, "number": self._number} for match in matches]

    def _queue_packets(self, address: str) -> None:
        self._rules.add(address, self._matches[address])

    def _unqueue_packets(self, address: str) -> None:
        self._rules.remove(address)

    def end(self) -> None:
        """End all delays at once."""
        for address in self._rules.names():
            self._rules.remove(address)
        self.close()
