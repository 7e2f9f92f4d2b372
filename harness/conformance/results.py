"""The stories, and the result of one: passed, failed or not played; what was seen, and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.harness.api import Receipt
from fencepost.harness.api.errors import Exit

STORIES = {
    "interface": "the class is what a fault must be",
    "options": "options that make no sense are refused before a cluster starts",
    "inject": "inject strikes a whole cluster, and returns",
    "receipt": "the receipt is plain JSON, complete, and names every node that was hurt",
    "effect": "the kit itself sees the effect that the receipt claims, until heal is called, and the evidence says what it saw",
    "heal": "after heal every node lives, answers and is reachable, replicas are in sync, nothing of the effect shows, and "
    "the workload goes on",
    "heal twice": "a second heal changes nothing",
    "heals its own": "a broker and a link that another fault hurts at the same time stay hurt",
    "same seed": "the same seed chooses the same targets again",
    "dead node": "the target is dead already: inject returns in time and claims nothing false, and heal leaves the cluster whole",
    "frozen node": "the target is frozen already: the same",
    "broke off": "a call of inject fails after one that hurts, heal gets a receipt without targets, and the cluster is whole",
    "harness died": "the harness is killed while the fault is on, and nothing is left on the machine",
}

PASSED, FAILED, NOT_OBSERVABLE, NOT_PLAYED = "passed", "failed", "not observable", "not played"
OUTCOMES = {PASSED: "✓", FAILED: "✗", NOT_OBSERVABLE: "○", NOT_PLAYED: "–"}  # noqa: RUF001 - the dash of a table


@dataclass(frozen=True)
class StoryResult:
    """The result of one story.

    ok: True if it passed; None: it was not played or could not be decided, and `seen` says why.
    seen: what the kit saw.
    change: what to change in the plug-in; empty when nothing is wrong.
    observable: False where it was played, and the kit cannot observe here what it would have to see.
    """

    story: str
    ok: bool | None
    seen: str
    change: str = ""
    observable: bool = True

    @property
    def outcome(self) -> str:
        """One of OUTCOMES."""
        if self.ok is None:
            return NOT_PLAYED if self.observable else NOT_OBSERVABLE
        return PASSED if self.ok else FAILED


def exit_code(results: Iterable[StoryResult]) -> Exit:
    """The exit code: 1 when a story failed; 2 when none did, but one could not be decided; else 0."""
    answers = {result.ok for result in results}
    return Exit.INVALID if False in answers else Exit.UNKNOWN if None in answers or not answers else Exit.VALID


def mark(result: StoryResult) -> str:
    """The result as one character."""
    return OUTCOMES[result.outcome]


def counted(results: Iterable[StoryResult]) -> str:
    """The number of results by outcome: `11 passed, 1 not observable, 1 not played`."""
    outcomes = [result.outcome for result in results]
    return ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in OUTCOMES if outcome in outcomes)


def markdown(kind: str, cluster: str, version: str, results: Sequence[StoryResult]) -> str:
    """One row of a compatibility table: `| kill | local | Kafka 4.3.0 | interface ✓ | inject ✓ | ...`."""
    cells = [kind, cluster, f"Kafka {version}" if version else "-", *(f"{result.story} {mark(result)}" for result in results)]
    return "".join(f"| {cell} " for cell in cells) + "|"


def unplayed(stories: Iterable[str], why: str) -> list[StoryResult]:
    """Stories that could not be played, all for one reason."""
    return [StoryResult(story, None, why) for story in stories]


def result_of(story: str, flaws: Sequence[tuple[str, str]], seen: str) -> StoryResult:
    """The result of a story that was played: every flaw, and every remedy once; or what was seen, when there is no flaw."""
    if not flaws:
        return StoryResult(story, True, seen)
    return StoryResult(
        story, False, "; ".join(text for text, _ in flaws), "; ".join(dict.fromkeys(change for _, change in flaws))
    )


def targets_in_words(receipt: Receipt) -> str:
    """The nodes and links that a fault chose, in words."""
    pairs = ", ".join(f"{source}>{destination}" for source, destination in receipt.pairs)
    words = [", ".join(receipt.targets) or "nobody", f"({receipt.role})" if receipt.role else "", f"[{pairs}]" if pairs else ""]
    return " ".join(filter(None, words))
