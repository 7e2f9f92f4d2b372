"""Counts, lists and suggestions in sentences: one way to write each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

LONGEST = 100  # letters of an unknown word that are shown
MOST_NAMED = 45  # known words that a sentence about an unknown one names; more are counted
MOST_ALIKE = 5  # words that are suggested
CLOSE = 0.6  # how alike two words are of which one may be the other misspelt (`difflib`)


def form(count: int, singular: str, several: str = "") -> str:
    """The form of a word that goes with a count: `record` or `records`, `was` or `were`."""
    return singular if count == 1 else several or f"{singular}s"


def plural(count: int, singular: str, several: str = "") -> str:
    """A count with its word: `1 finding`, `1,234 findings`."""
    return f"{count:,} {form(count, singular, several)}"


def and_more(count: int, before: str = " and ") -> str:
    """The number of those that are not named, ` and 3 more`; empty when there are none."""
    return f"{before}{count:,} more" if count > 0 else ""


def enumeration(parts: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def unknown_word(what: str, word: str, known: Sequence[str]) -> str:
    """`unknown option "tagret"; did you mean "target"? There are: count, target`.

    Of more than `MOST_NAMED` known words, which are names of plug-ins, the number is given, and the command that lists them.
    """
    shown = word if len(word) <= LONGEST else f"{word[: LONGEST - 20]}..."
    names = ", ".join(known) or "none"
    there = f"There are: {names}" if len(known) <= MOST_NAMED else f"There are {len(known)}: `fencepost plugins` lists them"
    return f'unknown {what} "{shown}"{did_you_mean(word, known) or "."} {there}'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "target"?` for a word that may be a known one misspelt, or a part of some; empty when it resembles none."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=CLOSE) or [
        name for name in names if word.lower() in re.split(r"[-_. ]", name.lower())
    ]
    return f"; did you mean {enumeration([_quoted(name) for name in near[:MOST_ALIKE]], 'or')}?" if near else ""


def _quoted(name: str) -> str:
    return f'"{name}"'
