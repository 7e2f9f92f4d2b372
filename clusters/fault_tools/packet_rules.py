"""nftables rules in the present network namespace that drop packets of one sender, all of them or a random share, and count them.

Pure netlink, no external programs. Rules match packets on arrival.
"""

from __future__ import annotations

import errno
import struct
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

_TABLE, _CHAIN = "fencepost", "in"
_NFPROTO_IPV4, _ACCEPT, _DROP = 2, 1, 0
_SHARE_UNITS = 1_000_000  # the resolution of a share
_REGISTER, _RANDOM, _TO_NETWORK_ORDER, _LESS = 1, 1, 1, 2


def open_chain(chain: str = _CHAIN, priority: int = 0) -> None:
    """Make the empty input chain that rules go into; it accepts. Chains of a lower priority number come first."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        tables.table("add", name=_TABLE)
        tables.chain("add", table=_TABLE, name=chain, hook="input", type="filter", policy=_ACCEPT, priority=priority)


def add_rule(address: str, share: float = 1.0) -> int:
    """Drop this share of what `address` sends here, counted from zero; the rule's handle. Raises NetlinkError."""
    chance = [] if share >= 1 else _chance(share)
    return insert(_CHAIN, sent_by(address), [_counter()], chance, [_counter()], verdict(_DROP))


def sent_by(address: str) -> list[Any]:
    """The expressions that match the packets of one sender."""
    return list(ipv4addr(src=address))


def insert(chain: str, *expressions: list[Any]) -> int:
    """Append a rule; its handle. Raises NetlinkError."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        before = {rule.get_attr("NFTA_RULE_HANDLE") for rule in _rules(tables)}
        tables.rule("add", table=_TABLE, chain=chain, expressions=expressions)
        (handle,) = {int(rule.get_attr("NFTA_RULE_HANDLE")) for rule in _rules(tables)} - before
        return handle


def delete_rule(handle: int, chain: str = _CHAIN) -> None:
    """Delete a rule; nothing if it is gone. Raises NetlinkError."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        try:
            tables.rule("del", table=_TABLE, chain=chain, handle=handle)
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise


def counters() -> dict[int, tuple[int, int]]:
    """Packets (seen, dropped) by each rule, by handle."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        return {int(rule.get_attr("NFTA_RULE_HANDLE")): _packets(rule) for rule in _rules(tables)}


def loss_trouble() -> str:
    """The reason why a share of packets cannot be dropped in the present namespace, by a trial rule; else empty."""
    try:
        delete_rule(add_rule("0.0.0.1", 0.5))
    except Exception as error:  # noqa: BLE001 - netlink has errors of its own
        return f"this kernel takes no nftables rule with a random number (nft_numgen): {error}"
    return ""


def expression(name: str, **attributes: Any) -> dict[str, Any]:
    """An nftables expression by its netlink names (linux/netfilter/nf_tables.h)."""
    data = {"attrs": list(attributes.items())}
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", data)]}


def _chance(share: float) -> list[Any]:
    """The expressions that match a random share of the packets: a random number, in network order, less than the share."""
    limit = {"attrs": [("NFTA_DATA_VALUE", struct.pack(">I", round(share * _SHARE_UNITS)))]}
    drawn = {"NFTA_NG_DREG": _REGISTER, "NFTA_NG_MODULUS": _SHARE_UNITS, "NFTA_NG_TYPE": _RANDOM, "NFTA_NG_OFFSET": 0}
    turned = {"NFTA_BYTEORDER_SREG": _REGISTER, "NFTA_BYTEORDER_DREG": _REGISTER, "NFTA_BYTEORDER_OP": _TO_NETWORK_ORDER}
    size = {"NFTA_BYTEORDER_LEN": 4, "NFTA_BYTEORDER_SIZE": 4}
    return [
        expression("numgen", **drawn),
        expression("byteorder", **turned, **size),
        expression("cmp", NFTA_CMP_SREG=_REGISTER, NFTA_CMP_OP=_LESS, NFTA_CMP_DATA=limit),
    ]


def _counter() -> Any:
    return genex("counter", {"bytes": 0, "packets": 0})


def _rules(tables: NFTables) -> list[NFTables]:
    return [rule for rule in tables.get_rules() if rule.get_attr("NFTA_RULE_TABLE") == _TABLE]


def _packets(rule: NFTables) -> tuple[int, int]:
    """The first and the last of a rule's counters; zeros without any."""
    counted = [
        int(expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS"))
        for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS")
        if expression.get_attr("NFTA_EXPR_NAME") == "counter"
    ] or [0]
    return counted[0], counted[-1]
