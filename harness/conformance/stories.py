"""The stories that a fault is put through on a running cluster.

Every story begins on a whole cluster and leaves a whole cluster: the kit reports what a fault did not heal, and heals it itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from fencepost.harness.api import Cluster, Fault, Killable, Pausable, Receipt
from fencepost.harness.api.words import and_more
from fencepost.harness.conformance import effect_checks, receipt_checks, snapshot
from fencepost.harness.conformance.deadline import CallResult
from fencepost.harness.conformance.doubles import FixedRoles, RefusingCluster
from fencepost.harness.conformance.effect_checks import Observations
from fencepost.harness.conformance.fixture import (
    IN_TIME,
    RETURN_RECEIPT,
    Bounds,
    ClusterUnusable,
    Fixture,
    bounds_for,
    no_care,
    require_returned,
)
from fencepost.harness.conformance.receipt_checks import Flaw
from fencepost.harness.conformance.results import STORIES, StoryResult, result_of, targets_in_words, unplayed
from fencepost.harness.plugins.fault_validation import lacks

ON_CLUSTER = tuple(STORIES)[2:-1]


class Kit:
    """Plays the stories of one fault on one cluster, which must be whole. `unusable`: the cluster cannot be used any more.

    seed: of all choices of the fault.
    bounds: by default those that fit the cluster.
    tend: called while waiting; replaces clients that died.
    alive: how many operations the workload has completed; None when there is no workload.
    stories: those that are wanted; the fault strikes a whole cluster in any case, because the others need its choice.
    """

    def __init__(
        self,
        cluster: Cluster,
        fault: Fault,
        seed: int,
        bounds: Bounds | None = None,
        tend: Callable[[], None] = no_care,
        alive: Callable[[], int] | None = None,
        stories: Collection[str] = ON_CLUSTER,
    ) -> None:
        self._wanted = tuple(story for story in ON_CLUSTER if story in stories)
        self._cluster, self._fixture = cluster, Fixture(cluster, fault, seed, bounds or bounds_for(cluster), tend, alive)
        self._fixed_roles = FixedRoles(cluster, {})
        self._receipts: list[Receipt] = []
        self.unusable = False

    def play(self) -> Iterator[StoryResult]:
        """Results, one story after the other. Raises HarnessError when the cluster is not whole to begin with."""
        if reasons := lacks(self._fixture.fault, self._cluster):
            yield from unplayed(self._wanted, f"unavailable here, because {'; '.join(reasons.values())}")
            return
        self._fixture.require_whole("before the first story")
        played: list[str] = []
        try:
            for result in self._stories() if self._wanted else ():
                played.append(result.story)
                if result.story in self._wanted:
                    yield result
        except ClusterUnusable as unusable:
            self.unusable = True
            if unusable.result and unusable.result.story not in played:
                played.append(unusable.result.story)
                yield unusable.result  # also when it was not wanted: it is why the others are not played
            yield from unplayed([story for story in self._wanted if story not in played], f"not played: {unusable}")

    def hold(self) -> Receipt | None:
        """Strike once more and leave it like that; None when the fault raised or hung."""
        answer = self._fixture.strike(self._cluster)
        return answer.value if isinstance(answer.value, Receipt) else None

    # -- a whole cluster -------------------------------------------------------------------------
    def _stories(self) -> Iterator[StoryResult]:
        before, self._began_ns = self._fixture.take(), time.monotonic_ns()
        answer = self._fixture.strike(self._fixed_roles)
        seen = self._fixture.observed(before)
        yield self._inject_result(answer)
        if not isinstance(answer.value, Receipt):
            require_returned(answer, "inject")
            self._fixture.restore("inject")
            raise ClusterUnusable("inject gave no receipt on a whole cluster")
        receipt: Receipt = answer.value
        self._receipts.append(receipt)
        yield self._receipt_result(receipt)
        yield self._effect_result(receipt, seen)
        yield from self._heal_results(receipt, seen)
        others: dict[str, Callable[[], StoryResult]] = {
            "heals its own": self._heals_its_own,
            "same seed": self._same_seed,
            "dead node": lambda: self._on_a_hurt_target("dead node", Killable, "kill", "start", receipt),
            "frozen node": lambda: self._on_a_hurt_target("frozen node", Pausable, "pause", "resume", receipt),
            "broke off": self._breaks_off,
        }
        for story, play in others.items():
            if story in self._wanted:
                yield play()

    def _inject_result(self, answer: CallResult) -> StoryResult:
        if problem := answer.problem():
            change = IN_TIME if answer.hung else "on a whole cluster inject must strike, or say in a receipt why it could not"
            return StoryResult("inject", False, f"inject {problem}", change)
        if not isinstance(answer.value, Receipt):
            return StoryResult("inject", False, f"inject returned {type(answer.value).__name__}", RETURN_RECEIPT)
        return StoryResult("inject", True, f"{targets_in_words(answer.value)} in {answer.took_s:.1f} s")

    def _receipt_result(self, receipt: Receipt) -> StoryResult:
        flaws = receipt_checks.malformed(receipt, self._fixture.fault, (*snapshot.servers(self._cluster), *self._cluster.clients))
        flaws += receipt_checks.untimely("injected_ns", receipt.injected_ns, self._began_ns, time.monotonic_ns())
        return result_of("receipt", flaws, f"effective {str(receipt.effective).lower()}, evidence {', '.join(receipt.evidence)}")

    def _effect_result(self, receipt: Receipt, seen: Observations) -> StoryResult:
        """Judge the claimed effect: the kit must see it right after `inject`, and for as long as the fault is active."""
        if flaws := receipt_checks.false_claims(receipt, seen.before, seen.during):
            return result_of("effect", flaws, "")
        if not receipt.effective:
            return StoryResult("effect", None, f"it says itself that nothing was hurt: {receipt.note}")
        effect = effect_checks.claimed(self._fixture.fault, receipt, seen)
        if not effect.flaws:
            time.sleep(self._fixture.bounds.active_s)
            later = effect_checks.claimed(self._fixture.fault, receipt, self._fixture.observed(seen.before))
            text = f"{self._fixture.bounds.active_s:g} s after inject, with the fault said to be active"
            effect = replace(effect, flaws=tuple((f"{text}: {flaw}", change) for flaw, change in later.flaws))
        shown = "; ".join(effect.seen[:3]) + and_more(len(effect.seen) - 3)
        if effect.unobservable and not effect.flaws:
            unseen = f"not observable: {', '.join(effect.unobservable)}"
            return StoryResult("effect", None, "; ".join(filter(None, [shown, unseen])), observable=False)
        return result_of("effect", effect.flaws, shown)

    def _heal_results(self, receipt: Receipt, seen: Observations) -> Iterator[StoryResult]:
        began = time.monotonic()
        answer = self._fixture.heal(receipt)
        flaws = self._fixture.heal_flaws(answer)
        if not flaws:
            flaws = [
                *receipt_checks.unproven_healing(answer.value, receipt),
                *receipt_checks.untimely("healed_ns", answer.value.healed_ns, self._began_ns, time.monotonic_ns()),
                *effect_checks.other_processes(receipt, answer.value, seen.before, self._fixture.take(snapshot.PROCESS)),
                *self._fixture.still_measured(seen),
                *self._fixture.remaining_damage(),
                *self._fixture.workload_stopped(),
            ]
        yield result_of("heal", flaws, f"whole, and the workload goes on, {time.monotonic() - began:.1f} s after heal was called")
        require_returned(answer, "heal")
        if flaws:
            self._fixture.restore("heal")
        before = self._fixture.take()
        healed = replace(receipt, healing=answer.value.healing) if isinstance(answer.value, Receipt) else receipt
        again = self._fixture.heal(healed)
        flaws = self._fixture.heal_flaws(again)
        if not flaws:
            changed = snapshot.changes(before, self._fixture.take(), but=(snapshot.ANSWERS, snapshot.LEADER, snapshot.SERVICE))
            flaws = [(f"healing again changed: {text}", "undo only what is still hurt") for text in changed]
        yield result_of("heal twice", flaws or self._fixture.remaining_damage(), "nothing changed")
        self._fixture.restore("heal twice", again)

    # -- side by side with others ----------------------------------------------------------------
    def _heals_its_own(self) -> StoryResult:
        """Heal while another fault is active, which has frozen a broker and cut a pair: both must stay as they are."""
        answer = self._fixture.strike(self._fixed_roles)
        if not isinstance(answer.value, Receipt):
            self._fixture.restore("heals its own", answer)
            return StoryResult(
                "heals its own", False, f"its second inject {answer.problem()}", "strike as often as it is asked to"
            )
        self._receipts.append(answer.value)
        node, pair = self._hurt_bystanders(answer.value)
        healed = self._fixture.heal(answer.value)
        flaws = self._fixture.heal_flaws(healed)
        if node and not flaws and self._fixture.state(node) != snapshot.FROZEN:
            flaws.append((f"{node}, which another fault had frozen, woke up", "heal only nodes in the receipt's targets"))
        if pair and not flaws and self._fixture.connected(pair):
            flaws.append((f"{pair[0]}>{pair[1]}, which another fault had cut, is open", "undrop only the receipt's pairs"))
        self._restore_bystanders(node, pair, healed)
        others = [f"{node} stayed frozen"] * bool(node) + [f"{pair[0]}>{pair[1]} stayed cut" if pair else ""]
        if not any(others):
            return StoryResult("heals its own", None, "nobody was left to be hurt by another")
        return result_of("heals its own", flaws, " and ".join(filter(None, others)))

    def _hurt_bystanders(self, receipt: Receipt) -> tuple[str, tuple[str, str] | None]:
        """Freeze a broker that is no target, and cut a pair of servers that is not cut; what cannot be had is empty.

        The pair has no client: where clients share one address (ssh), no single one can be cut.
        """
        cluster: Any = self._cluster
        free = [node for node in self._cluster.brokers if node not in receipt.targets]
        open_now = [pair for pair, arrived in self._fixture.take(snapshot.NETWORK).of(snapshot.NETWORK).items() if arrived]
        apart = [(pair.split(">")[0], pair.split(">")[1]) for pair in open_now]
        servers = {*cluster.brokers, *cluster.controllers}
        pair = next((pair for pair in reversed(apart) if pair not in receipt.pairs and servers.issuperset(pair)), None)
        node = next(
            (node for node in reversed(free) if snapshot.can(cluster, Pausable) and self._fixture.state(node) == "awake"), ""
        )
        if node:
            cluster.pause(node)
            self._fixture.wait(lambda: self._fixture.state(node) == snapshot.FROZEN, self._fixture.bounds.heal_s)
        if pair:
            cluster.drop([pair])
        return node, pair

    def _restore_bystanders(self, node: str, pair: tuple[str, str] | None, healed: CallResult) -> None:
        require_returned(healed, "heals its own")
        cluster: Any = self._cluster
        if node:
            cluster.resume(node)
        if pair:
            cluster.undrop([pair])
        self._fixture.restore("heals its own")

    def _same_seed(self) -> StoryResult:
        """Strike again with the same seed and the same nodes for each role: the targets must be the same."""
        for _ in range(self._fixture.bounds.repeats):
            answer = self._fixture.strike(self._fixed_roles)
            if isinstance(answer.value, Receipt):
                self._receipts.append(answer.value)
                require_returned(self._fixture.heal(answer.value), "same seed")
            self._fixture.restore("same seed", answer)
        choices = list(dict.fromkeys(targets_in_words(receipt) for receipt in self._receipts))
        flaws = [(f"it chose {' and then '.join(choices)}", "draw every choice from `rng`, and ask for roles by cluster.roles()")]
        return result_of("same seed", flaws if len(choices) > 1 else [], f"{len(self._receipts)} times {choices[0]}")

    # -- when things are bad already -------------------------------------------------------------
    def _on_a_hurt_target(self, story: str, capability: type, hurt: str, undo: str, first: Receipt) -> StoryResult:
        """Strike while the node that the same seed chose before is dead or frozen."""
        cluster: Any = self._cluster
        if not snapshot.can(cluster, capability):
            return StoryResult(story, None, f"unavailable here, because {cluster.unavailable(capability) or capability.__name__}")
        node = next((node for node in first.targets if node in cluster.brokers), cluster.brokers[0])
        getattr(cluster, hurt)(node)
        self._fixture.wait(
            lambda: snapshot.down(self._fixture.take(snapshot.PROCESS, snapshot.STATE), node), self._fixture.bounds.heal_s
        )
        before = self._fixture.take()
        answer = self._fixture.strike(self._fixed_roles)
        flaws, seen = _flaws_on_a_hurt_target(answer, self._fixture.fault, self._fixture.observed(before))
        require_returned(answer, story)
        receipt = answer.value if isinstance(answer.value, Receipt) else Receipt(effective=False)
        healed = self._fixture.heal(receipt)
        flaws += self._fixture.heal_flaws(healed)
        require_returned(healed, story)
        if self._fixture.take(snapshot.PROCESS).of(snapshot.PROCESS).get(node) is not None or undo == "start":
            getattr(cluster, undo)(node)
        flaws += self._fixture.remaining_damage()
        self._fixture.restore(story)
        return result_of(story, flaws, f"{node}: {seen}")

    def _breaks_off(self) -> StoryResult:
        """Refuse calls after the first that hurts, one in each strike: the damage done by then must be healed."""
        seen: list[str] = []
        for number in range(1, self._fixture.bounds.breaks + 1):
            double = RefusingCluster(self._fixed_roles, self._fixture.fault.needs, number)
            answer = self._fixture.strike(double)
            require_returned(answer, "broke off")
            receipt = answer.value if isinstance(answer.value, Receipt) else Receipt(effective=False)
            healed = self._fixture.heal(receipt)
            flaws = self._fixture.heal_flaws(healed)
            require_returned(healed, "broke off")
            flaws += self._fixture.remaining_damage()
            self._fixture.restore("broke off")
            if flaws:
                change = "undo in inject before you raise, or let heal put right all that your kind of fault may have hurt"
                text = f"{double.refused or 'nothing'} was refused; {'; '.join(text for text, _ in flaws)}"
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


def _flaws_on_a_hurt_target(answer: CallResult, fault: Fault, seen: Observations) -> tuple[list[Flaw], str]:
    """Flaws of a fault whose target was hurt already, and what it did."""
    if answer.hung:
        return [(f"inject {answer.problem()}", IN_TIME)], ""
    if answer.error is not None:
        expected = "raise fencepost.harness.api.ClusterError, or return a receipt with effective=False and a note"
        return ([], answer.problem()) if answer.refused else ([(f"inject {answer.problem()}", expected)], "")
    if not isinstance(answer.value, Receipt):
        return [(f"inject returned {type(answer.value).__name__}", RETURN_RECEIPT)], ""
    receipt: Receipt = answer.value
    flaws = receipt_checks.false_claims(receipt, seen.before, seen.during)
    if receipt.effective and not flaws:
        flaws = [*effect_checks.claimed(fault, receipt, seen).flaws]
    if receipt.effective is False and not receipt.note:
        flaws.append(("effective is False, and note is empty", "say in note why nothing was hurt"))
    return flaws, f"effective {str(receipt.effective).lower()}{': ' if receipt.note else ''}{receipt.note}"
