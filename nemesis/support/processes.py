"""Processes of nodes: their ids, and starting those again that a fault took away."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.harness.api import Cluster, Killable, Receipt
from fencepost.nemesis.support.attempts import attempt_each
from fencepost.nemesis.support.strike import Strike, strike
from fencepost.nemesis.support.waiting import poll_until

Pids = dict[str, int | None]


def pids(cluster: Killable, nodes: Iterable[str]) -> Pids:
    """The process id of each node; None: dead."""
    return {node: cluster.pid(node) for node in nodes}


def known_pids(cluster: Cluster, nodes: Iterable[str]) -> Pids:
    """The process id of each node; empty where the cluster cannot show process ids."""
    if not isinstance(cluster, Killable) or cluster.unavailable(Killable):
        return {}
    return pids(cluster, nodes)


def alive(nodes: Iterable[str], seen: Mapping[str, int | None]) -> list[str]:
    """The nodes that had a process when they were looked at."""
    return [node for node in nodes if seen.get(node) is not None]


def lives_already(receipt: Receipt, now: Mapping[str, int | None]) -> dict[str, str]:
    """Of nodes that this fault took away, those that live when it is to be healed for the first time: another started them."""
    others = {} if receipt.healing else {node: pid for node, pid in now.items() if pid is not None}
    return {node: f"{node} did not stay away: it lives already, as process {pid}" for node, pid in others.items()}


@dataclass(frozen=True)
class Restart:
    """Nodes that healing started again.

    started: those that were dead.
    answers: whether each answers a request.
    after: the process ids in the end.
    problems: what went wrong, in words.
    """

    started: list[str]
    answers: dict[str, bool]
    after: Pids
    problems: list[str]

    @property
    def left(self) -> list[str]:
        """The nodes that are still dead."""
        return [node for node, pid in self.after.items() if pid is None]

    @property
    def healing(self) -> dict[str, Any]:
        """The evidence of it, for a receipt's `healing`."""
        return {"started": self.started, "after": self.after, "answers": self.answers}


def restart(cluster: Killable, nodes: Iterable[str], within_s: float) -> Restart:
    """Start those of the nodes that are dead, and wait until all of them answer, or for `within_s` seconds."""
    wanted = list(nodes)
    started = [node for node, pid in pids(cluster, wanted).items() if pid is None]
    problems = attempt_each(cluster.start, started)
    answers = poll_until(lambda: {node: cluster.answers(node) for node in wanted}, lambda seen: all(seen.values()), within_s)
    after = pids(cluster, wanted)
    problems += [_silence(node, after[node], within_s) for node, answered in answers.items() if not answered]
    return Restart(started, answers, after, problems)


def end_processes(
    cluster: Killable,
    nodes: Sequence[str],
    how: Callable[[str], None],
    within_s: float,
    undo: Callable[[str], None] | None = None,
) -> Strike[int | None]:
    """End the processes of those nodes that live, by `cluster.kill` or another call.

    A node is hit when it has another process than before, or none. undo: as for `strike`; `cluster.start` unless it is given.
    """
    return strike(
        nodes,
        how,
        look=cluster.pid,
        is_healthy=lambda pid: pid is not None,
        is_hit=operator.ne,
        undo=undo or cluster.start,
        within_s=within_s,
    )


def revive(cluster: Killable, nodes: Iterable[str]) -> None:
    """Have nodes run, whether they are dead or about to end: these are killed before."""
    wanted = list(nodes)
    attempt_each(cluster.kill, wanted)
    attempt_each(cluster.start, wanted)


def _silence(node: str, pid: int | None, waited_s: float) -> str:
    seen = "its process is gone" if pid is None else f"its process {pid} lives"
    return f"{node} did not answer within {waited_s:g} s of healing; {seen}"
