"""The smallest example of each class of cycles: steps in the order of time, and in words.

    A1+0      operation 1 of process A sends a record to partition 0
    A1<0@2    it polls record number 2 of partition 0
    A1!       it calls commit
    A1.       it ends ok (and has called commit right before, if it had not)

All but those of `G1c-wr` are what a healthy Kafka may do: nothing is wrong with them beside their cycle. Each cycle is the
shortest of its class that needs no other anomaly. `checkers.selfcheck.schedules` makes histories of these lines.
"""

from __future__ import annotations

LEGEND = """`A+0`: A sends a record to partition 0. `A<1@0`: A polls record 0 of partition 1. `A!`: A calls commit. `A.`: A ends.
`A1` and `A2` are operations of one process."""
EXAMPLES = {
    "G1c-wr": ("A+0 B+1 A! B! A<1@0 B<0@0 A. B.", "A and B poll each other's records"),
    "G1c-wr-process": (
        "X+0 X! A1<0@0 A1. A2+1 A2. X<1@0 X.",
        "A1 polls X's record, X polls A2's, and A2 comes after A1 in their process",
    ),
    "G1c-wr-realtime": ("X+0 X! A<0@0 A. B+1 B. X<1@0 X.", "A polls X's record, X polls B's, and B began after A had ended"),
    "G0": ("A+0 B+1 A+1 B+0 A. B.", "A lies before B in one partition, and B before A in another"),
    "G0-process": (
        "X+1 A1+1 A1. A2+0 A2. X+0 X.",
        "X lies before A1 in one partition and after A2 in another, and A2 comes after A1 in their process",
    ),
    "G0-realtime": (
        "X+1 A+1 A. B+0 B. X+0 X.",
        "X lies before A in one partition and after B in another, and B began after A had ended",
    ),
    "G1c": ("A+1 B+1 B+0 B. A<0@0 A.", "A lies before B in one partition, and polls B's record in another"),
    "G1c-process": (
        "X+0 A1+0 A1. A2+1 A2. X<1@0 X.",
        "X lies before A1, polls A2's record, and A2 comes after A1 in their process",
    ),
    "G1c-realtime": (
        "X+0 A+0 A. B+1 B. X<1@0 X.",
        "X lies before A, polls B's record, and B began after A had ended",
    ),
    "G-single": ("Z+1 Z. R<1@0 A+1 A+0 A! R<0@0 A. R.", "R gets A's record in one partition, and not in another"),
    "G-single-process": (
        "Z+0 Z. A1+0 A1. A2<0@0 A2.",
        "A2 comes after A1 in their process, and polls up to right below A1's record",
    ),
    "G-single-realtime": ("Z+0 Z. A+0 A. R<0@0 R.", "R began after A had ended, and polls up to right below A's record"),
    "G2": ("Z+0 Z+1 Z. A<0@0 B<1@0 A+1 B+0 A. B.", "A and B each poll up to right below the other's record"),
    "G2-process": (
        "Z+0 Z+1 Z. B<1@0 A1+1 A1. A2<0@0 B+0 A2. B.",
        "A2 polls up to right below B's record, B up to right below A1's, and A2 comes after A1 in their process",
    ),
    "G2-realtime": (
        "Z+0 Z+1 Z. B<1@0 A+1 A. R<0@0 B+0 R. B.",
        "R polls up to right below B's record, B up to right below A's, and R began after A had ended",
    ),
}


def example(name: str) -> str:
    """The example of a class as text for a docstring."""
    steps, words = EXAMPLES[name]
    return f"Example, step by step::\n\n    {steps}\n\n{words[0].upper()}{words[1:]}.\n\n{LEGEND}"
