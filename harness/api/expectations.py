"""Expectations of a test: the name of an anomaly, and a word behind it that widens or narrows what is meant.

`expect = "torn-transaction"`: it must be found; its consequences at the same transaction and partition may be found too.
`expect = "torn-transaction alone"`: they may not.
`tolerate = ["lost-write"]`: it may be found at the transactions and partitions of what is expected.
`tolerate = ["lost-write anywhere"]`: it may be found anywhere in the run.
"""

from __future__ import annotations

ALONE, ANYWHERE = "alone", "anywhere"


def anomaly_and_word(text: str) -> tuple[str, str]:
    """`lost-write anywhere` -> (`lost-write`, `anywhere`); the word is empty where there is none."""
    name, _, word = text.strip().partition(" ")
    return name, word.strip()
