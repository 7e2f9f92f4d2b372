"""The stories that a fault is put through on a running cluster. Time, and what keeps clients alive, are given from outside.

Every story begins on a whole cluster and leaves one behind: what a fault did not heal the kit heals itself, after it was told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from harness.api import Cluster, Fault, Killable, Pausable, Receipt
from harness.conformance import receipt_checks, snapshot
from harness.conformance.deadline import Answer
from harness.conformance.doubles import FixedRoles, RefusingCluster
from harness.conformance.fixture import IN_TIME, RETURN_RECEIPT, Bounds, Ground, Stuck, nothing, usable
from harness.conformance.receipt_checks import Wrong
from harness.conformance.results import STORIES, StoryResult, ended, unplayed, whom
from harness.conformance.snapshot import Picture, take
from harness.plugins.fault_validation import lacks

ON_CLUSTER = tuple(STORIES)[2:-1]


class Kit:
    """Plays the stories of one fault on one cluster, which must be whole. `stuck`: it cannot be used any more.

    tend: called while waiting; replaces clients that died. alive: how much the workload has done so far; None when there is no
    workload to look at.
    """

    def __init__(
        self,
        cluster: Cluster,
        fault: Fault,
        seed: int,
        bounds: Bounds | None = None,
        tend: Callable[[], None] = nothing,
        alive: Callable[[], int] | None = None,
    ) -> None:
        self._cluster, self._on = cluster, Ground(cluster, fault, seed, bounds or Bounds(), tend, alive)
        self._fixed_roles = FixedRoles(cluster, {})
        self._chosen: list[Receipt] = []
        self.stuck = False

    def play(self) -> Iterator[StoryResult]:
        """Tell one story after the other. Raises HarnessError when the cluster is not whole to begin with."""
        if reasons := lacks(self._on.fault, self._cluster):
            yield from unplayed(ON_CLUSTER, f"unavailable here, because {'; '.join(reasons.values())}")
            return
        self._on.until_whole("before the first story")
        told: list[str] = []
        try:
            for one in self._stories():
                told.append(one.story)
                yield one
        except Stuck as stuck:
            self.stuck = True
            if stuck.told and stuck.told.story not in told:
                told.append(stuck.told.story)
                yield stuck.told
            yield from unplayed([story for story in ON_CLUSTER if story not in told], f"not played: {stuck}")

    def hold(self) -> Receipt | None:
        """Strike once more and leave it like that; None when the fault raised or hung."""
        answer = self._on.strike(self._cluster)
        return answer.value if isinstance(answer.value, Receipt) else None

    # -- a whole cluster -------------------------------------------------------------------------
    def _stories(self) -> Iterator[StoryResult]:
        before = take(self._cluster)
        answer = self._on.strike(self._fixed_roles)
        during = take(self._cluster)
        yield self._injected(answer)
        if not isinstance(answer.value, Receipt):
            usable(answer, "inject")
            self._on.restore("inject")
            raise Stuck("inject gave no receipt on a whole cluster")
        receipt: Receipt = answer.value
        self._chosen.append(receipt)
        yield self._received(receipt)
        yield _effect(receipt, before, during)
        yield from self._healed(receipt)
        yield self._heals_its_own()
        yield self._same_seed()
        yield self._when("dead node", Killable, "kill", "start", receipt)
        yield self._when("frozen node", Pausable, "pause", "resume", receipt)
        yield self._broke_off()

    def _injected(self, answer: Answer) -> StoryResult:
        if problem := answer.problem():
            change = IN_TIME if answer.hung else "on a whole cluster inject must strike, or say in a receipt why it could not"
            return StoryResult("inject", False, f"inject {problem}", change)
        if not isinstance(answer.value, Receipt):
            return StoryResult("inject", False, f"inject returned {type(answer.value).__name__}", RETURN_RECEIPT)
        return StoryResult("inject", True, f"{whom(answer.value)} in {answer.took_s:.1f} s")

    def _received(self, receipt: Receipt) -> StoryResult:
        wrong = receipt_checks.malformed(receipt, self._on.fault, (*snapshot.servers(self._cluster), *self._cluster.clients))
        return ended("receipt", wrong, f"effective {str(receipt.effective).lower()}, evidence {', '.join(receipt.evidence)}")

    def _healed(self, receipt: Receipt) -> Iterator[StoryResult]:
        began = time.monotonic()
        answer = self._on.heal(receipt)
        wrong = self._on.wrong_heal(answer)
        if not wrong:
            wrong = [*receipt_checks.unhealed(answer.value), *self._on.left(self._on.bounds.whole_s), *self._on.idle()]
        yield ended("heal", wrong, f"whole, and the workload goes on, {time.monotonic() - began:.1f} s after heal was called")
        usable(answer, "heal")
        if wrong:
            self._on.restore("heal")
        before = take(self._cluster)
        healed = replace(receipt, healing=answer.value.healing) if isinstance(answer.value, Receipt) else receipt
        again = self._on.heal(healed)
        wrong = self._on.wrong_heal(again)
        if not wrong:
            seen = snapshot.changes(before, take(self._cluster), but=(snapshot.ANSWERS,))
            wrong = [(f"healing again changed: {text}", "undo only what is still hurt") for text in seen]
        yield ended("heal twice", wrong or self._on.left(self._on.bounds.whole_s), "nothing changed")
        self._on.restore("heal twice", again)

    # -- side by side with others ----------------------------------------------------------------
    def _heals_its_own(self) -> StoryResult:
        """Another fault is on when this one is healed: a broker that is frozen, a pair that is cut."""
        answer = self._on.strike(self._fixed_roles)
        if not isinstance(answer.value, Receipt):
            self._on.restore("heals its own", answer)
            return StoryResult(
                "heals its own", False, f"its second inject {answer.problem()}", "strike as often as it is asked to"
            )
        self._chosen.append(answer.value)
        node, pair = self._hurt_others(answer.value)
        healed = self._on.heal(answer.value)
        wrong = self._on.wrong_heal(healed)
        if node and not wrong and self._on.state(node) != snapshot.FROZEN:
            wrong.append((f"{node}, which another fault had frozen, woke up", "heal only nodes in the receipt's targets"))
        if pair and not wrong and self._on.talks(pair):
            wrong.append((f"{pair[0]}>{pair[1]}, which another fault had cut, is open", "undrop only the receipt's pairs"))
        self._undo_others(node, pair, healed)
        others = [f"{node} stayed frozen"] * bool(node) + [f"{pair[0]}>{pair[1]} stayed cut" if pair else ""]
        if not any(others):
            return StoryResult("heals its own", None, "nobody was left to be hurt by another")
        return ended("heals its own", wrong, " and ".join(filter(None, others)))

    def _hurt_others(self, receipt: Receipt) -> tuple[str, tuple[str, str] | None]:
        """Freeze a broker that is no target, and cut a pair of servers that is not cut; what cannot be had is empty.

        Not of clients: where they share one address (ssh) nobody can cut a single one.
        """
        cluster: Any = self._cluster
        free = [node for node in self._cluster.brokers if node not in receipt.targets]
        open_now = [pair for pair, arrived in take(cluster, snapshot.NETWORK).of(snapshot.NETWORK).items() if arrived]
        apart = [(pair.split(">")[0], pair.split(">")[1]) for pair in open_now]
        servers = {*cluster.brokers, *cluster.controllers}
        pair = next((pair for pair in reversed(apart) if pair not in receipt.pairs and servers.issuperset(pair)), None)
        node = next((node for node in reversed(free) if snapshot.can(cluster, Pausable) and self._on.state(node) == "awake"), "")
        if node:
            cluster.pause(node)
            self._on.wait(lambda: self._on.state(node) == snapshot.FROZEN, self._on.bounds.heal_s)
        if pair:
            cluster.drop([pair])
        return node, pair

    def _undo_others(self, node: str, pair: tuple[str, str] | None, healed: Answer) -> None:
        usable(healed, "heals its own")
        cluster: Any = self._cluster
        if node:
            cluster.resume(node)
        if pair:
            cluster.undrop([pair])
        self._on.restore("heals its own")

    def _same_seed(self) -> StoryResult:
        """The seed is the same, and roles are remembered, so the choice must be too."""
        for _ in range(self._on.bounds.repeats):
            answer = self._on.strike(self._fixed_roles)
            if isinstance(answer.value, Receipt):
                self._chosen.append(answer.value)
                usable(self._on.heal(answer.value), "same seed")
            self._on.restore("same seed", answer)
        choices = list(dict.fromkeys(whom(one) for one in self._chosen))
        wrong = [(f"it chose {' and then '.join(choices)}", "draw every choice from `rng`, and ask for roles by cluster.roles()")]
        return ended("same seed", wrong if len(choices) > 1 else [], f"{len(self._chosen)} times {choices[0]}")

    # -- when things are bad already -------------------------------------------------------------
    def _when(self, story: str, capability: type, hurt: str, undo: str, first: Receipt) -> StoryResult:
        """The node that the same seed chose before is dead or frozen when the fault comes."""
        cluster: Any = self._cluster
        if not snapshot.can(cluster, capability):
            return StoryResult(story, None, f"unavailable here, because {cluster.unavailable(capability) or capability.__name__}")
        node = next((node for node in first.targets if node in cluster.brokers), cluster.brokers[0])
        getattr(cluster, hurt)(node)
        self._on.wait(lambda: snapshot.down(take(cluster, snapshot.PROCESS, snapshot.STATE), node), self._on.bounds.heal_s)
        before = take(cluster)
        answer = self._on.strike(self._fixed_roles)
        wrong, seen = _on_the_hurt(answer, before, take(cluster))
        usable(answer, story)
        receipt = answer.value if isinstance(answer.value, Receipt) else Receipt(effective=False)
        healed = self._on.heal(receipt)
        wrong += self._on.wrong_heal(healed)
        usable(healed, story)
        if take(cluster, snapshot.PROCESS).of(snapshot.PROCESS).get(node) is not None or undo == "start":
            getattr(cluster, undo)(node)
        wrong += self._on.left(self._on.bounds.whole_s)
        self._on.restore(story)
        return ended(story, wrong, f"{node}: {seen}")

    def _broke_off(self) -> StoryResult:
        """Calls after the first that hurts are refused, one strike for each; what is hurt by then must be healed."""
        seen: list[str] = []
        for number in range(1, self._on.bounds.breaks + 1):
            double = RefusingCluster(self._fixed_roles, self._on.fault.needs, number)
            answer = self._on.strike(double)
            usable(answer, "broke off")
            receipt = answer.value if isinstance(answer.value, Receipt) else Receipt(effective=False)
            healed = self._on.heal(receipt)
            wrong = self._on.wrong_heal(healed)
            usable(healed, "broke off")
            wrong += self._on.left(self._on.bounds.whole_s)
            self._on.restore("broke off")
            if wrong:
                change = "undo in inject before you raise, or let heal put right all that your kind of fault may have hurt"
                text = f"{double.refused or 'nothing'} was refused; {'; '.join(text for text, _ in wrong)}"
                return StoryResult("broke off", False, text, change)
            if not double.refused:
                break
            seen.append(double.refused)
        if not double.first and not seen:
            return StoryResult(
                "broke off", None, "could not be shown: no call that is known to hurt was seen, to break off after it"
            )
        return StoryResult(
            "broke off", True, f"at {', '.join(seen)}" if seen else f"it makes no call after {double.first}, which hurts"
        )


def _effect(receipt: Receipt, before: Picture, during: Picture) -> StoryResult:
    wrong = receipt_checks.dishonest(receipt, before, during)
    if not wrong and not receipt.effective:
        return StoryResult("effect", None, f"it says itself that nothing was hurt: {receipt.note}")
    seen = snapshot.changes(before, during)
    shown = "; ".join(seen[:3]) + (f" and {len(seen) - 3} more" if len(seen) > 3 else "")
    return ended("effect", wrong, shown or "by its own evidence, which differs before and during")


def _on_the_hurt(answer: Answer, before: Picture, during: Picture) -> tuple[list[Wrong], str]:
    """What a fault did whose target was hurt already."""
    if answer.hung:
        return [(f"inject {answer.problem()}", IN_TIME)], ""
    if answer.error is not None:
        expected = "raise harness.api.ClusterError, or return a receipt with effective=False and a note"
        return ([], answer.problem()) if answer.refused else ([(f"inject {answer.problem()}", expected)], "")
    if not isinstance(answer.value, Receipt):
        return [(f"inject returned {type(answer.value).__name__}", RETURN_RECEIPT)], ""
    receipt: Receipt = answer.value
    wrong = receipt_checks.dishonest(receipt, before, during)
    if receipt.effective is False and not receipt.note:
        wrong.append(("effective is False, and note is empty", "say in note why nothing was hurt"))
    return wrong, f"effective {str(receipt.effective).lower()}{': ' if receipt.note else ''}{receipt.note}"
