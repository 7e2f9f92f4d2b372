"""Dropped packets: nftables rules in the present network namespace, and the book of who is cut from whom and who loses what.

Pure netlink, no external programs. A rule drops what one address sends, on arrival, all of it or a random share, and counts it.
"""

from __future__ import annotations

import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.api import Pair

_TABLE, _CHAIN = "fencepost", "in"
_NFPROTO_IPV4, _ACCEPT, _DROP = 2, 1, 0
_PARTS = 1_000_000  # the fineness of a share
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
    """What a rule begins with that is about packets of one sender."""
    return list(ipv4addr(src=address))


def insert(chain: str, *expressions: list[Any]) -> int:
    """Append a rule; its handle. Raises NetlinkError."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        before = {rule.get_attr("NFTA_RULE_HANDLE") for rule in _rules(tables)}
        tables.rule("add", table=_TABLE, chain=chain, expressions=expressions)
        (handle,) = {int(rule.get_attr("NFTA_RULE_HANDLE")) for rule in _rules(tables)} - before
        return handle


def delete_rule(handle: int, chain: str = _CHAIN) -> None:
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        tables.rule("del", table=_TABLE, chain=chain, handle=handle)


def counters() -> dict[int, tuple[int, int]]:
    """Packets (seen, dropped) by each rule, by handle."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        return {int(rule.get_attr("NFTA_RULE_HANDLE")): _packets(rule) for rule in _rules(tables)}


def loss_trouble() -> str:
    """Why a share of packets cannot be dropped in the present namespace, found out by a rule that hits nobody; else empty."""
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
    """Go on with this rule for a random share of the packets: a random number, in network order, less than the share."""
    limit = {"attrs": [("NFTA_DATA_VALUE", struct.pack(">I", round(share * _PARTS)))]}
    drawn = {"NFTA_NG_DREG": _REGISTER, "NFTA_NG_MODULUS": _PARTS, "NFTA_NG_TYPE": _RANDOM, "NFTA_NG_OFFSET": 0}
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


class Drops(ABC):
    """Which pairs are dropped or lose packets now, by rules at their destinations. Safe to use from several threads."""

    def __init__(self) -> None:
        self._rules: dict[Pair, int] = {}  # handles of what is dropped now
        self._counted: dict[Pair, int] = {}  # packets of what was dropped before
        self._losing: dict[int, dict[Pair, int]] = {}  # handles, by the number that `lose` gave
        self._numbers = 0
        self._lock = threading.RLock()

    @abstractmethod
    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        """Make the rule at `destination`; its handle. Raises ClusterError for an unknown node."""

    @abstractmethod
    def _delete_rule(self, destination: str, handle: int) -> None: ...

    @abstractmethod
    def _counters(self, destination: str) -> dict[int, tuple[int, int]]:
        """Packets (seen, dropped) by each rule (by handle) at `destination`."""

    def drop(self, pairs: Iterable[Pair]) -> None:
        """Drop packets of each (source, destination) on arrival at the destination; counts from zero."""
        with self._lock:
            for pair in pairs:
                if pair not in self._rules:
                    self._rules[pair] = self._add_rule(*pair)
                    self._counted.pop(pair, None)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let each pair talk again; its count is kept."""
        with self._lock:
            mine = [pair for pair in pairs if pair in self._rules]
            self._counted.update(self.dropped_packets(mine))
            for pair in mine:
                self._delete_rule(pair[1], self._rules.pop(pair))

    def undrop_all(self) -> None:
        """Let every pair talk again, without any loss."""
        with self._lock:
            self.undrop(list(self._rules))
            for number in list(self._losing):
                self.unlose(number)

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """Lose a share of the packets of each pair, beside what is lost or dropped already; a number for `unlose`."""
        with self._lock:
            self._numbers += 1
            made = self._losing[self._numbers] = {}
            try:
                for pair in pairs:
                    made[pair] = self._add_rule(*pair, share)
            except Exception:
                self.unlose(self._numbers)
                raise
            return self._numbers

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End it; packets (seen, lost) of each pair since `lose`. Nothing for what has ended already."""
        with self._lock:
            made = self._losing.pop(number, {})
            counted = {destination: self._counters(destination) for destination in {pair[1] for pair in made}}
            for pair, handle in made.items():
                self._delete_rule(pair[1], handle)
            return {pair: counted[pair[1]][handle] for pair, handle in made.items()}

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Packets dropped for each pair since it was last dropped; 0 for a pair that never was."""
        with self._lock:
            wanted = list(pairs)
            live = {destination: self._counters(destination) for _, destination in set(wanted) & set(self._rules)}
            now = {pair: live[pair[1]][handle][-1] for pair, handle in self._rules.items() if pair[1] in live}
            return {pair: now.get(pair, self._counted.get(pair, 0)) for pair in wanted}
