"""Dropped packets: nftables rules in the present network namespace, and the book of who is cut from whom and who loses what.

Pure netlink, no external programs. A rule drops what one address sends, on arrival, all of it or a random share, and counts it.
"""

from __future__ import annotations

import errno
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from clusters.fault_tools.undo import one_by_one
from harness.api import ClusterError, Pair

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
    """Have it no longer; nothing if it is gone. Raises NetlinkError."""
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
    """Which pairs are dropped or lose packets now, by rules at some node. Safe to use from several threads.

    A rule is forgotten only when it is removed: what could not be undone is told in a ClusterError, and may be undone again.
    """

    def __init__(self) -> None:
        self._rules: dict[Pair, int] = {}  # handles of what is dropped now
        self._counted: dict[Pair, int] = {}  # packets of what was dropped before
        self._staying: set[Pair] = set()  # pairs whose rule should be gone and could not be removed
        self._losing: dict[int, dict[Pair, int]] = {}  # handles, by the number that `lose` gave
        self._lost: dict[int, dict[Pair, tuple[int, int]]] = {}  # packets (seen, lost) of those of them that end now
        self._numbers = 0
        self._lock = threading.RLock()

    @abstractmethod
    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        """Make the rule at `destination`; its handle. Raises ClusterError for an unknown node."""

    @abstractmethod
    def _delete_rule(self, keeper: str, handle: int) -> None:
        """Nothing if it is gone."""

    @abstractmethod
    def _counters(self, keeper: str) -> dict[int, tuple[int, int]]:
        """Packets (seen, dropped) by each rule (by handle) at `keeper`."""

    def _keeper(self, source: str, destination: str) -> str:
        """The node that has the rules of a pair."""
        return destination

    def drop(self, pairs: Iterable[Pair]) -> None:
        """Drop packets of each (source, destination) on arrival at the destination; counts from zero."""
        wanted = list(pairs)
        with self._lock:
            Drops.undrop(self, self._staying.intersection(wanted))  # an old rule has counted for somebody else
            for pair in wanted:
                if pair not in self._rules:
                    self._rules[pair] = self._add_rule(*pair)
                    self._counted.pop(pair, None)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Let each pair talk again; its count is kept."""
        with self._lock:
            mine = [pair for pair in dict.fromkeys(pairs) if pair in self._rules]
            self._staying.update(mine)
            one_by_one(lambda keeper: self._undrop_at(keeper, mine), self._keepers(mine))

    def _undrop_at(self, keeper: str, pairs: Iterable[Pair]) -> None:
        packets = self._counters(keeper)

        def undrop(pair: Pair) -> None:
            handle = self._rules[pair]
            self._counted[pair] = packets.get(handle, (0, self._counted.get(pair, 0)))[-1]
            self._delete_rule(keeper, handle)
            del self._rules[pair]
            self._staying.discard(pair)

        one_by_one(undrop, [pair for pair in pairs if self._keeper(*pair) == keeper])

    def undrop_all(self) -> None:
        """Let every pair talk again, without any loss."""
        with self._lock:
            one_by_one(lambda end: end(), [lambda: self.undrop(list(self._rules)), self._unlose_all])

    def _unlose_all(self) -> None:
        one_by_one(self.unlose, list(self._losing))

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """Lose a share of the packets of each pair, beside what is lost or dropped already; a number for `unlose`."""
        with self._lock:
            self._numbers += 1
            made = self._losing[self._numbers] = {}
            try:
                for pair in pairs:
                    made[pair] = self._add_rule(*pair, share)
            except Exception:
                with suppress(ClusterError):  # the cause says more, and what stays is ended by `undrop_all`
                    self.unlose(self._numbers)
                raise
            return self._numbers

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End it; packets (seen, lost) of each pair since `lose`. Nothing for what has ended already."""
        with self._lock:
            one_by_one(lambda keeper: self._unlose_at(keeper, number), self._keepers(self._losing.get(number, {})))
            self._losing.pop(number, None)
            return self._lost.pop(number, {})

    def _unlose_at(self, keeper: str, number: int) -> None:
        packets, made, lost = self._counters(keeper), self._losing[number], self._lost.setdefault(number, {})

        def unlose(pair: Pair) -> None:
            lost[pair] = packets.get(made[pair], lost.get(pair, (0, 0)))
            self._delete_rule(keeper, made[pair])
            del made[pair]

        one_by_one(unlose, [pair for pair in made if self._keeper(*pair) == keeper])

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Packets dropped for each pair since it was last dropped; 0 for a pair that never was."""
        with self._lock:
            wanted = list(pairs)
            rules = {pair: self._rules[pair] for pair in wanted if pair in self._rules}
            live = {keeper: self._counters(keeper) for keeper in self._keepers(rules)}
            found = {pair: live[self._keeper(*pair)].get(handle) for pair, handle in rules.items()}
            return {pair: now[-1] if (now := found.get(pair)) else self._counted.get(pair, 0) for pair in wanted}

    def _keepers(self, pairs: Iterable[Pair]) -> list[str]:
        return list(dict.fromkeys(self._keeper(*pair) for pair in pairs))
