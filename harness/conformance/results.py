"""The stories, and the result of one: passed, failed or not played; what was seen, and what to change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.api import Exit, Receipt

STORIES = {
    "interface": "the class is what a fault must be",
    "options": "options that cannot be meant are refused before a cluster starts",
    "inject": "it strikes a whole cluster, and comes back",
    "receipt": "its receipt is plain, complete, and names who was hurt",
    "effect": "what it claims to have done was seen by somebody else",
    "heal": "healed: everybody lives, answers, talks and is in sync, and the workload goes on",
    "heal twice": "healing again does no harm and changes nothing",
    "heals its own": "what somebody else hurt at the same time stays hurt",
    "same seed": "the same seed chooses the same again",
    "dead node": "its target is dead already: no hang, no false claim, and healed after",
    "frozen node": "its target is frozen already: likewise",
    "broke off": "inject breaks off halfway, heal gets a receipt without targets, and all is whole",
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
