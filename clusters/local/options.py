"""The options of the `local` cluster, and which capabilities this machine lacks with them."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.fault_tools import faketime
from clusters.fault_tools.disk_throttle import throttles
from clusters.fault_tools.network_capabilities import NEED_A_NETWORK
from clusters.kafka.options import FAST_DISK, SurroundedOptions
from clusters.local import sandbox
from harness.api import Fillable, Skewable, Throttleable


@dataclass(frozen=True, kw_only=True)
class LocalOptions(SurroundedOptions):
    """The options of `[test.cluster]` with `kind = "local"`."""

    loopback: bool = False  # no namespaces even where they are allowed
    slow_disks: bool = False  # lets a fault make the brokers' disks slow

    def mistakes(self) -> list[str]:
        found = super().mistakes()
        if (self.disk_mb or self.skewable) and self.loopback:
            found.append("disk_mb and skewable need a namespace to mount in, and loopback = true has none")
        return found

    def missing(self) -> dict[type, str]:
        found = {**super().missing(), **self._missing_of_the_box()}
        found[Throttleable] = self.no_slow_disk()
        if self.skewable:
            found[Skewable] = faketime.trouble()
        return {capability: reason for capability, reason in found.items() if reason}

    def no_slow_disk(self) -> str:
        """Why no disk can be slow; empty when it can."""
        return throttles.trouble() if self.slow_disks else FAST_DISK

    def _missing_of_the_box(self) -> dict[type, str]:
        if self.loopback:
            return dict.fromkeys(NEED_A_NETWORK, "the campaign asks for loopback = true, where nodes share one address")
        box = sandbox.box()
        if box.reason:
            return dict.fromkeys((*NEED_A_NETWORK, Fillable), box.reason)
        return {one: box.lacks[one.__name__] for one in (*NEED_A_NETWORK, Fillable) if one.__name__ in box.lacks}
