"""The stories, and the result of one: passed, failed or not played; what was seen, and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.api import Exit, Receipt

STORIES = {
    "interface": "the class is what a fault must be",
    "options": "options that make no sense are refused before a cluster starts",
    "inject": "inject strikes a whole cluster, and returns",
    "receipt": "the receipt is plain JSON, complete, and names every node that was hurt",
    "effect": "the effect that the receipt claims shows in a snapshot of the cluster, or in its evidence",
    "heal": "after heal every node lives, answers and is reachable, replicas are in sync, and the workload goes on",
    "heal twice": "a second heal changes nothing",
    "heals its own": "a broker and a link that another fault hurts at the same time stay hurt",
    "same seed": "the same seed chooses the same targets again",
    "dead node": "the target is dead already: inject returns in time and claims nothing false, and heal leaves the cluster whole",
    "frozen node": "the target is frozen already: the same",
    "broke off": "a call of inject fails after one that hurts, heal gets a receipt without targets, and the cluster is whole",
    "harness died": "the harness is killed while the fault is on, and nothing is left on the machine",
}


@dataclass(frozen=True)
class StoryResult:
    """One story. ok: it passed, failed, or (None) could not be played or shown; then `seen` says why."""

    story: str
    ok: bool | None
    seen: str
    change: str = ""


def exit_code(results: Iterable[StoryResult]) -> Exit:
    """1 when a story failed; 2 when none did, but one could not be shown; else 0."""
    answers = {one.ok for one in results}
    return Exit.INVALID if False in answers else Exit.UNKNOWN if None in answers or not answers else Exit.VALID


def mark(ok: bool | None) -> str:
    return {True: "✓", False: "✗", None: "–"}[ok]  # noqa: RUF001 - the dash of a table


def markdown(kind: str, cluster: str, version: str, results: Sequence[StoryResult]) -> str:
    """One row of a compatibility table: `| kill | local | Kafka 4.3.0 | interface ✓ | inject ✓ | ...`."""
    cells = [kind, cluster, f"Kafka {version}" if version else "-", *(f"{one.story} {mark(one.ok)}" for one in results)]
    return "".join(f"| {cell} " for cell in cells) + "|"


def unplayed(stories: Iterable[str], why: str) -> list[StoryResult]:
    """Stories that could not be played, all for one reason."""
    return [StoryResult(story, None, why) for story in stories]


def result_of(story: str, flaws: Sequence[tuple[str, str]], seen: str) -> StoryResult:
    """A story that was played: every flaw, with every remedy once; or what was seen when nothing was."""
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
