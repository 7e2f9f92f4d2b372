"""Dropped packets: nftables rules in the present network namespace, and the book of who is cut from whom.

Pure netlink, no external programs. A rule drops what one address sends, on arrival, and counts it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable

from pyroute2.nftables.expressions import genex, ipv4addr, verdict
from pyroute2.nftables.main import NFTables

from harness.api import Pair

_TABLE, _CHAIN = "fencepost", "in"
_NFPROTO_IPV4, _ACCEPT, _DROP = 2, 1, 0


def open_chain() -> None:
    """Make the empty input chain that rules go into; it accepts."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        tables.table("add", name=_TABLE)
        tables.chain("add", table=_TABLE, name=_CHAIN, hook="input", type="filter", policy=_ACCEPT)


def add_rule(address: str) -> int:
    """Drop what `address` sends here, counted from zero; the rule's handle."""
    matches = (ipv4addr(src=address), [genex("counter", {"bytes": 0, "packets": 0})], verdict(_DROP))
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        before = {rule.get_attr("NFTA_RULE_HANDLE") for rule in _rules(tables)}
        tables.rule("add", table=_TABLE, chain=_CHAIN, expressions=matches)
        (handle,) = {int(rule.get_attr("NFTA_RULE_HANDLE")) for rule in _rules(tables)} - before
        return handle


def delete_rule(handle: int) -> None:
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        tables.rule("del", table=_TABLE, chain=_CHAIN, handle=handle)


def counters() -> dict[int, int]:
    """Packets dropped by each rule, by handle."""
    with NFTables(nfgen_family=_NFPROTO_IPV4) as tables:
        return {int(rule.get_attr("NFTA_RULE_HANDLE")): _packets(rule) for rule in _rules(tables)}


def _rules(tables: NFTables) -> list[NFTables]:
    return [rule for rule in tables.get_rules() if rule.get_attr("NFTA_RULE_TABLE") == _TABLE]


def _packets(rule: NFTables) -> int:
    for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS"):
        if expression.get_attr("NFTA_EXPR_NAME") == "counter":
            return int(expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS"))
    raise LookupError("a rule without counter in the table fencepost")


class Drops(ABC):
    """Which pairs are dropped now, each by one rule at its destination. Safe to use from several threads."""

    def __init__(self) -> None:
        self._rules: dict[Pair, int] = {}  # handles of what is dropped now
        self._counted: dict[Pair, int] = {}  # packets of what was dropped before
        self._lock = threading.RLock()

    @abstractmethod
    def _add_rule(self, source: str, destination: str) -> int:
        """Make the rule at `destination`; its handle. Raises ClusterError for an unknown node."""

    @abstractmethod
    def _delete_rule(self, destination: str, handle: int) -> None: ...

    @abstractmethod
    def _counters(self, destination: str) -> dict[int, int]:
        """Packets counted by each rule (by handle) at `destination`."""

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
        with self._lock:
            self.undrop(list(self._rules))

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Packets dropped for each pair since it was last dropped; 0 for a pair that never was."""
        with self._lock:
            wanted = list(pairs)
            live = {destination: self._counters(destination) for _, destination in set(wanted) & set(self._rules)}
            now = {pair: live[pair[1]][handle] for pair, handle in self._rules.items() if pair[1] in live}
            return {pair: now.get(pair, self._counted.get(pair, 0)) for pair in wanted}
