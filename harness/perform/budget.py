"""The budget of faults: how many servers all of them together may hurt at a time.

A fault acts on the cluster through a `View` of its own. A call that takes a node (a kill, a stop, a freeze, a full disk, a cut)
is entered in the `Ledger` before it is made, and refused when it would hurt more than the budget allows; the call that undoes it
removes the entry. Other calls that change something (a slow link, a wrong clock, a setting) are noted, take no node and cost
nothing. A pair that several faults cut opens when the last of them is healed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fencepost.harness.api import Admin, Cluster, ClusterError, OverBudget, Pair, SharedState, Skewable
from fencepost.harness.api.clusters import second_of
from fencepost.harness.api.declarations import declarations
from fencepost.harness.api.effects import Effect, effects_of
from fencepost.harness.api.faults import State
from fencepost.harness.api.plans import Budget

_ADMIN_CALLS = effects_of([Admin])
_CHANGES = (Effect.CHANGES, Effect.PREPARES)


Groups = Sequence[tuple[str, Sequence[str]]]


@dataclass
class _Entry:
    """The nodes and links that one fault hurts.

    what: the fault's kind, for sentences.
    nodes: servers that it takes.
    pairs: links between servers that it cuts.
    cut: `pairs`, and the links of clients that it cuts, which cost nothing.
    """

    what: str
    nodes: set[str] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)
    cut: set[Pair] = field(default_factory=set)


class Ledger:
    """The nodes and links that each active fault hurts. Safe to use from several threads.

    A node that was killed or frozen stays entered after its fault was healed, until it answers.
    """

    def __init__(self, cluster: Cluster, budget: Budget, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._cluster, self._budget, self._now_ns = cluster, budget, now_ns
        self._struck_ns: dict[int, int] = {}
        self._clusters = _clusters(cluster)
        self._servers = {node for groups in self._clusters for _, members in groups for node in members}
        self._entries: dict[int, _Entry] = {}
        self._recovering: set[str] = set()
        self._refused: set[int] = set()
        self._changed: set[int] = set()
        self._clock_s: dict[int, float] = {}
        self._lock = threading.Lock()
        self.links = threading.Lock()  # held while links are cut or mended, so that nobody mends what another is cutting
        self.shared = SharedState()  # of all faults whose views are made here
        self.strike: Callable[[int, str, Mapping[str, Any], float], bool | None] | None = None  # injects for the fault with an id
        self.over = False  # no fault may begin to hurt anything any more

    def view(self, id_: int, what: str, strikes: bool = False, needs: Iterable[type] = ()) -> View:
        """The cluster as the fault with this id, which needs these capabilities, may use it, to strike or to heal."""
        return View(self._cluster, self, id_, what, strikes, needs)

    def take(self, id_: int, what: str, nodes: Iterable[str] = (), pairs: Iterable[Pair] = ()) -> None:
        """Enter what a fault is about to hurt. Raises OverBudget, and enters nothing, when it is too much."""
        self._forget_recovered()
        with self._lock:
            old = self._entries.get(id_, _Entry(what))
            wanted = set(pairs)
            new = _Entry(what, old.nodes | self._of_servers(nodes), old.pairs | self._between_servers(wanted), old.cut | wanted)
            others = self._hurt({other: entry for other, entry in self._entries.items() if other != id_})
            before = others | sides(old.nodes, old.pairs, others)
            after = others | sides(new.nodes, new.pairs, others)
            if after > before and (reason := self._too_many(after, after - before, others)):
                self._refused.add(id_)
                raise OverBudget(f"over the test's budget: {reason}. {self._holders(id_)}".strip())
            self._entries[id_] = new
            self._struck_ns.setdefault(id_, self._now_ns())

    def give_back(self, id_: int, node: str) -> None:
        """Release a node that the fault has restored; it still counts as hurt until it answers."""
        with self._lock:
            entry = self._entries.get(id_)
            if entry and node in entry.nodes:
                entry.nodes.discard(node)
                self._recovering.add(node)

    def mend(self, id_: int, pairs: Iterable[Pair]) -> None:
        """Release pairs that the fault has opened again."""
        with self._lock:
            if entry := self._entries.get(id_):
                mended = set(pairs)
                entry.pairs -= mended
                entry.cut -= mended

    def cut(self, besides: int | None = None) -> set[Pair]:
        """The pairs that faults cut now, without those of the fault `besides`."""
        with self._lock:
            return {pair for id_, entry in self._entries.items() if id_ != besides for pair in entry.cut}

    def note_change(self, id_: int) -> None:
        """Note that the fault is about to change something that takes no node."""
        with self._lock:
            self._changed.add(id_)
            self._struck_ns.setdefault(id_, self._now_ns())

    def note_clock(self, id_: int, ahead_s: float) -> None:
        """Note that the fault is about to set a node's clock so many seconds ahead (negative: behind)."""
        with self._lock:
            self._clock_s[id_] = max(self._clock_s.get(id_, 0.0), ahead_s, key=abs)

    def clock_s(self, id_: int) -> float:
        """The seconds by which the fault has set a clock ahead (negative: behind), or tried to, where it did so most."""
        with self._lock:
            return self._clock_s.get(id_, 0.0)

    def struck_ns(self, id_: int) -> int | None:
        """The time just before the fault's first call that hurts or changes something (ns); None: it has made none."""
        with self._lock:
            return self._struck_ns.get(id_)

    def release(self, id_: int) -> None:
        """Release all entries of a fault that is healed."""
        with self._lock:
            if entry := self._entries.pop(id_, None):
                self._recovering |= entry.nodes

    def only_refused(self, id_: int) -> bool:
        """True if the fault was refused something and has hurt nothing else."""
        with self._lock:
            return id_ in self._refused and id_ not in self._entries and id_ not in self._changed

    def hurt(self, besides: int | None = None) -> set[str]:
        """The servers that are hurt now, without those of the fault `besides`."""
        with self._lock:
            return self._hurt({id_: entry for id_, entry in self._entries.items() if id_ != besides})

    def held(self) -> set[str]:
        """The servers that faults hurt now, without those that still recover."""
        with self._lock:
            held = set[str]().union(*(entry.nodes for entry in self._entries.values()))
            for entry in self._entries.values():
                held |= sides(set(), entry.pairs, held)
            return held

    def _hurt(self, entries: Mapping[int, _Entry]) -> set[str]:
        hurt = self._recovering.union(*(entry.nodes for entry in entries.values()))
        for entry in entries.values():
            hurt |= sides(set(), entry.pairs, hurt)
        return hurt

    def _forget_recovered(self) -> None:
        """Release nodes that answer again. They are probed outside the lock: a silent node takes until its timeout."""
        answers = getattr(self._cluster, "answers", lambda node: True)
        back = {node for node in set(self._recovering) if answers(node)}
        with self._lock:
            self._recovering -= back

    def _too_many(self, hurt: set[str], new: set[str], others: set[str]) -> str:
        """The reason why so many may not be hurt; empty when they may. The budget is that of each Kafka cluster.

        new: of `hurt` what the fault adds.
        others: what other faults hurt.
        """
        reasons = []
        for groups in self._clusters:
            servers = {node for _, members in groups for node in members}
            if new & servers:
                reasons.append(self._too_many_of(groups, hurt & servers, alone=not others & servers))
        return "; ".join(filter(None, reasons))

    def _too_many_of(self, groups: Groups, hurt: set[str], *, alone: bool) -> str:
        """The same for one Kafka cluster. A single fault may hurt a majority, unless the test forbids it."""
        most, keep = self._budget.nodes, self._budget.keep_quorum
        if most is not None and len(hurt) > most:
            return f"{', '.join(sorted(hurt))} would be hurt at a time; {most} may be"
        if keep if keep is not None else (most is None and not alone):
            for what, members in groups:
                few, away = (len(members) - 1) // 2, sorted(hurt & set(members))
                if len(away) > few:
                    return f"{', '.join(away)} of {len(members)} {what} would be hurt at a time; most of them must stay well"
        return ""

    def _holders(self, id_: int) -> str:
        held = [
            f"{entry.what} (fault {other})"
            for other, entry in self._entries.items()
            if other != id_ and (entry.nodes or entry.pairs)
        ]
        waiting = [f"{node} does not answer yet" for node in sorted(self._recovering)]
        return f"Active: {', '.join([*held, *waiting])}" if held or waiting else ""

    def _of_servers(self, nodes: Iterable[str]) -> set[str]:
        return {node for node in nodes if node in self._servers}

    def _between_servers(self, pairs: Iterable[Pair]) -> set[Pair]:
        return {pair for pair in pairs if pair[0] in self._servers and pair[1] in self._servers}


def _clusters(cluster: Cluster) -> list[Groups]:
    """The servers of each Kafka cluster of a test of which most have to stay well, with what they are called."""
    second = second_of(cluster)
    first = [("brokers", cluster.brokers), ("controllers", cluster.controllers)]
    return [first, [("brokers of the second cluster", second.brokers)]] if second else [first]


class View:
    """A cluster whose hurting calls are entered in a ledger. Everything else is the cluster's own.

    strikes: True if it is for injecting; once the faults are over, it then refuses calls that hurt or change something.
    """

    def __init__(self, cluster: Any, ledger: Ledger, id_: int, what: str, strikes: bool, needs: Iterable[type] = ()) -> None:
        self._cluster, self._ledger, self._id, self._what, self._strikes = cluster, ledger, id_, what, strikes
        self._effects = declarations(needs).effects

    def __getattr__(self, name: str) -> Any:
        call, effect = getattr(self._cluster, name), self._effects.get(name)
        if effect in _CHANGES:
            return partial(self._change, partial(self._skew, call) if name == Skewable.skew.__name__ else call)
        entered: dict[Effect | None, Callable[..., Any]] = {
            Effect.HURTS_NODE: self._hurt,
            Effect.RESTORES_NODE: self._restore,
            Effect.CUTS_LINKS: self._cut,
            Effect.MENDS_LINKS: self._mend,
        }
        return partial(entered[effect], call) if effect in entered else call

    def shared(self, kind: type[State]) -> State:
        return self._ledger.shared.get(kind)

    def strike_now(self, kind: str, options: Mapping[str, Any], lasts_s: float) -> bool | None:
        if self._ledger.strike is None:
            raise ClusterError(f"{kind} cannot be injected here: nothing performs faults")
        return self._ledger.strike(self._id, kind, options, lasts_s)

    def admin(self) -> Any:
        return AdminView(self._cluster.admin(), self._change)

    def _hurt(self, call: Callable[..., Any], node: str, *arguments: Any, **named: Any) -> Any:
        self._refuse_if_over()
        self._ledger.take(self._id, self._what, [node])
        return call(node, *arguments, **named)

    def _restore(self, call: Callable[..., Any], node: str, *arguments: Any, **named: Any) -> Any:
        done = call(node, *arguments, **named)
        self._ledger.give_back(self._id, node)
        return done

    def _change(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self._refuse_if_over()
        self._ledger.note_change(self._id)
        return call(*arguments, **named)

    def _skew(self, call: Callable[..., Any], node: str, ahead_s: float) -> Any:
        self._ledger.note_clock(self._id, ahead_s)
        return call(node, ahead_s)

    def _cut(self, call: Callable[[Iterable[Pair]], Any], pairs: Iterable[Pair]) -> None:
        self._refuse_if_over()
        wanted = list(pairs)
        with self._ledger.links:
            self._ledger.take(self._id, self._what, pairs=wanted)
            call(wanted)

    def _mend(self, call: Callable[[Iterable[Pair]], Any], pairs: Iterable[Pair]) -> None:
        """Open pairs, but for those that another fault cuts as well: they stay cut until it opens them."""
        wanted = list(pairs)
        with self._ledger.links:
            others = self._ledger.cut(besides=self._id)
            call([pair for pair in wanted if pair not in others])
            self._ledger.mend(self._id, wanted)

    def _refuse_if_over(self) -> None:
        if self._strikes and self._ledger.over:
            raise ClusterError(f"{self._what} (fault {self._id}) was given up: it was still injecting long after the faults' end")


class AdminView:
    """A cluster's admin whose changing calls go through `change`."""

    def __init__(self, admin: Any, change: Callable[..., Any]) -> None:
        self._admin, self._change = admin, change

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._admin, name)
        return partial(self._change, call) if _ADMIN_CALLS.get(name) in _CHANGES else call


def sides(nodes: set[str], pairs: Iterable[Pair], known: Iterable[str] = ()) -> set[str]:
    """The nodes, and with them the smaller side of every cut: the fewest nodes without which no cut pair is left.

    The search is greedy, the node with most cuts first, which is exact for the cuts there are (one from all, halves, a bridge).

    known: nodes that are hurt anyway; what is cut from them costs nothing more.
    """
    hurt = set(nodes)
    away = hurt | set(known)
    edges = {frozenset(pair) for pair in pairs if not away & set(pair)}
    while edges:
        counts: dict[str, int] = {}
        for node in sorted(node for edge in edges for node in edge):
            counts[node] = counts.get(node, 0) + 1
        worst = max(counts, key=lambda node: counts[node])
        hurt.add(worst)
        edges = {edge for edge in edges if worst not in edge}
    return hurt
