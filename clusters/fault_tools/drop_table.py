"""The table of packet rules: which pairs of nodes are dropped or lose packets now, and by which rule."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress

from fencepost.clusters.fault_tools.undo import undo_each
from fencepost.harness.api import ClusterError, Pair


class DropTable(ABC):
    """The table of pairs that are dropped or lose packets now, by rules at some node. Safe to use from several threads.

    A rule leaves the table only when it was deleted: a deletion that fails raises ClusterError, and the next call tries it again.
    """

    def __init__(self) -> None:
        self._rules: dict[Pair, int] = {}  # handles of the rules of dropped pairs
        self._drop_counts: dict[Pair, int] = {}  # packets of rules that are deleted already
        self._undeleted: set[Pair] = set()  # pairs whose rule could not be deleted yet
        self._loss_rules: dict[int, dict[Pair, int]] = {}  # handles, by the number that `lose` returned
        self._loss_counts: dict[int, dict[Pair, tuple[int, int]]] = {}  # packets (seen, lost) while they end
        self._last_number = 0
        self._lock = threading.RLock()

    @abstractmethod
    def _add_rule(self, source: str, destination: str, share: float = 1.0) -> int:
        """Make the rule at `destination`; its handle. Raises ClusterError for an unknown node."""

    @abstractmethod
    def _delete_rule(self, node: str, handle: int) -> None:
        """Delete a rule; nothing if it is gone."""

    @abstractmethod
    def _counters(self, node: str) -> dict[int, tuple[int, int]]:
        """Packets (seen, dropped) by each rule (by handle) at `node`."""

    def _rule_node(self, source: str, destination: str) -> str:
        """The node that has the rules of a pair."""
        return destination

    def drop(self, pairs: Iterable[Pair]) -> None:
        """Drop packets of each (source, destination) on arrival at the destination; counts from zero."""
        wanted = list(pairs)
        with self._lock:
            DropTable.undrop(self, self._undeleted.intersection(wanted))  # an old rule has counted for an earlier fault
            for pair in wanted:
                if pair not in self._rules:
                    self._rules[pair] = self._add_rule(*pair)
                    self._drop_counts.pop(pair, None)

    def undrop(self, pairs: Iterable[Pair]) -> None:
        """Drop these pairs no longer; their counts are kept."""
        with self._lock:
            mine = [pair for pair in dict.fromkeys(pairs) if pair in self._rules]
            self._undeleted.update(mine)
            undo_each(lambda node: self._undrop_at(node, mine), self._rule_nodes(mine))

    def _undrop_at(self, node: str, pairs: Iterable[Pair]) -> None:
        packets = self._counters(node)

        def undrop(pair: Pair) -> None:
            handle = self._rules[pair]
            self._drop_counts[pair] = packets.get(handle, (0, self._drop_counts.get(pair, 0)))[-1]
            self._delete_rule(node, handle)
            del self._rules[pair]
            self._undeleted.discard(pair)

        undo_each(undrop, [pair for pair in pairs if self._rule_node(*pair) == node])

    def undrop_all(self) -> None:
        """End every drop and every loss."""
        with self._lock:
            undo_each(lambda undo: undo(), [lambda: self.undrop(list(self._rules)), self._unlose_all])

    def _unlose_all(self) -> None:
        undo_each(self.unlose, list(self._loss_rules))

    def lose(self, pairs: Iterable[Pair], share: float) -> int:
        """Lose a share of the packets of each pair, in addition to present faults; a number for `unlose`."""
        with self._lock:
            self._last_number += 1
            made = self._loss_rules[self._last_number] = {}
            try:
                for pair in pairs:
                    made[pair] = self._add_rule(*pair, share)
            except Exception:
                with suppress(ClusterError):  # the cause says more, and `undrop_all` ends what is left
                    self.unlose(self._last_number)
                raise
            return self._last_number

    def unlose(self, number: int) -> dict[Pair, tuple[int, int]]:
        """End a loss; packets (seen, lost) of each pair since `lose`. Empty for one that has ended already."""
        with self._lock:
            undo_each(lambda node: self._unlose_at(node, number), self._rule_nodes(self._loss_rules.get(number, {})))
            self._loss_rules.pop(number, None)
            return self._loss_counts.pop(number, {})

    def _unlose_at(self, node: str, number: int) -> None:
        packets, made, lost = self._counters(node), self._loss_rules[number], self._loss_counts.setdefault(number, {})

        def unlose(pair: Pair) -> None:
            lost[pair] = packets.get(made[pair], lost.get(pair, (0, 0)))
            self._delete_rule(node, made[pair])
            del made[pair]

        undo_each(unlose, [pair for pair in made if self._rule_node(*pair) == node])

    def dropped_packets(self, pairs: Iterable[Pair]) -> dict[Pair, int]:
        """Packets dropped for each pair since it was last dropped; 0 for a pair that never was."""
        with self._lock:
            wanted = list(pairs)
            rules = {pair: self._rules[pair] for pair in wanted if pair in self._rules}
            live = {node: self._counters(node) for node in self._rule_nodes(rules)}
            counters = {pair: live[self._rule_node(*pair)].get(handle) for pair, handle in rules.items()}
            return {pair: now[-1] if (now := counters.get(pair)) else self._drop_counts.get(pair, 0) for pair in wanted}

    def _rule_nodes(self, pairs: Iterable[Pair]) -> list[str]:
        return list(dict.fromkeys(self._rule_node(*pair) for pair in pairs))
