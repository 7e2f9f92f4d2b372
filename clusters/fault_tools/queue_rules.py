"""nftables rules that send arriving packets to the packet queue of the present network namespace (`packet_queue.py`).

Their chain comes after the chain of the drops. While no process has the queue open, packets pass at once. Where the kernel has no
nftables `queue` expression, the older NFQUEUE target does the same.
"""

from __future__ import annotations

import struct
from typing import Any

from fencepost.clusters.fault_tools import packet_queue, packet_rules

_CHAIN, _AFTER_DROPS = "slow", 10
_BYPASS = 1


def open_chain() -> None:
    """Make the chain of these rules; it accepts everything else."""
    packet_rules.open_chain(_CHAIN, _AFTER_DROPS)


def add_rule(address: str) -> int:
    """Send what arrives from `address` to the queue; the rule's handle. Raises NetlinkError."""
    try:
        return packet_rules.insert(_CHAIN, packet_rules.sent_by(address), [_queue()])
    except Exception:  # noqa: BLE001 - netlink has errors of its own; this kernel's nftables has no queue
        return packet_rules.insert(_CHAIN, packet_rules.sent_by(address), [_older_queue()])


def trouble() -> str:
    """The reason why packets cannot be delayed in the present namespace, by a trial; else empty."""
    try:
        packet_queue.PacketQueue(packet_queue.TRIAL).close()
        open_chain()
        packet_rules.delete_rule(add_rule("0.0.0.1"), _CHAIN)
    except Exception as error:  # noqa: BLE001 - as above
        return f"this kernel hands no packets over (nfnetlink_queue; nft_queue or xt_NFQUEUE): {error}"
    return ""


def delete_rule(handle: int) -> None:
    packet_rules.delete_rule(handle, _CHAIN)


def _queue() -> Any:
    return packet_rules.expression("queue", NFTA_QUEUE_NUM=packet_queue.NUMBER, NFTA_QUEUE_TOTAL=1, NFTA_QUEUE_FLAGS=_BYPASS)


def _older_queue() -> Any:
    info = struct.pack("=HHHxx", packet_queue.NUMBER, 1, _BYPASS)  # struct xt_NFQ_info_v3
    return packet_rules.expression("target", NFTA_TARGET_NAME="NFQUEUE", NFTA_TARGET_REV=3, NFTA_TARGET_INFO=info)
