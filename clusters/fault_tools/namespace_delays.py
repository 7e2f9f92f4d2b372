"""Packet delays in the present network namespace: the delay program, and the rules that send packets to it."""

from __future__ import annotations

from fencepost.clusters.fault_tools import packet_rules, queue_rules
from fencepost.clusters.fault_tools.delay_process import DelayProcess
from fencepost.harness.api import ClusterError, Losable, Slowable
from fencepost.harness.system.python_command import module_command


class NamespaceDelays(DelayProcess):
    """The delay program of the present network namespace, and its queue rules. Use it in that namespace."""

    error = ClusterError

    def __init__(self) -> None:
        super().__init__(module_command("fencepost.clusters.fault_tools.delay_program"))
        self._rules: dict[str, int] = {}  # address -> its rule
        queue_rules.open_chain()

    def _queue_packets(self, address: str) -> None:
        self._rules[address] = queue_rules.add_rule(address)

    def _unqueue_packets(self, address: str) -> None:
        queue_rules.delete_rule(self._rules[address])
        del self._rules[address]


def missing_capabilities() -> dict[str, str]:
    """Names of the capabilities that the present network namespace lacks, found out by a trial, each with the reason."""
    reasons = {Losable.__name__: packet_rules.loss_trouble(), Slowable.__name__: queue_rules.trouble()}
    return {name: reason for name, reason in reasons.items() if reason}
