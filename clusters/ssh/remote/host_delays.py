"""Packets held back on this host: the program that does it, as long as the watcher lives, and the rules that bring them to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from clusters.fault_tools.delay_process import DelayProcess
from clusters.ssh.remote import host_rules


class HostDelays(DelayProcess):
    """Raises OSError or ProgramError where packets cannot be held back.

    The queue's number is that of the run's first port, which no other run on this host has.
    """

    def __init__(self, run: Path, settings: dict[str, Any]) -> None:
        self._number: int = settings["port"]
        self._about: dict[str, list[host_rules.Rule]] = {}
        self._rules = host_rules.queues(settings["token"], settings["sudo"], self._number)
        # sys.argv[0] is the file that we were carried here in
        super().__init__([*(["sudo", "-n"] if settings["sudo"] else []), sys.executable, sys.argv[0], "delay", str(run)])

    def about(self, address: str, matches: list[host_rules.Rule]) -> None:
        """Tell which packets of an address are meant, before it is slowed."""
        self._about[address] = [{**match, "do": host_rules.QUEUE, "number": self._number} for match in matches]

    def _queue_packets(self, address: str) -> None:
        self._rules.add(address, self._about[address])

    def _unqueue_packets(self, address: str) -> None:
        self._rules.remove(address)

    def end(self) -> None:
        """Let everything pass, at once."""
        for address in self._rules.names():
            self._rules.remove(address)
        self.close()
