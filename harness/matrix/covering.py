"""A covering design: starts of a cluster, and the strikes of each, so that every pair of values of two factors is there.

Greedy, after AETG (Cohen, Dalal, Fredman, Patton 1997): each choice is the one with the most pairs that are not there yet. Among
equals a seeded order decides, so that the same seed gives the same design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from fencepost.harness.matrix.crossing import Crossing, Pair, Start, Strike, pairs, starts, strikes_at

SEED, MOST = 34, 24  # of the design that comes with fencepost; strikes of one test

CellPair = tuple[str, str]  # a cell, and a value of another factor


@dataclass(frozen=True)
class Block:
    """The strikes of one test, which has a start of its own.

    part: of several tests that have the same start, from 1.
    """

    start: Start
    part: int
    strikes: tuple[Strike, ...]

    @property
    def crossings(self) -> list[Crossing]:
        """In their order."""
        return [Crossing(strike=strike, start=self.start) for strike in self.strikes]


@cache
def design(seed: int = SEED, most: int = MOST) -> tuple[Block, ...]:
    """The design: its first tests have every pair of values that can be, all of them each cell with each value that it can have.

    most: strikes of a test.
    """
    rng = Random(seed)
    chosen = covering_starts(rng)
    missing = _Missing(chosen)
    blocks = [_block(start, 1, missing, rng, most) for start in chosen]
    part = 1
    while missing.pairs or missing.cells:
        part += 1
        more = [_block(start, part, missing, rng, most) for start in chosen]
        blocks += [block for block in more if block.strikes]
    return tuple(block for block in blocks if block.strikes)


def covering_starts(rng: Random) -> list[Start]:
    """Starts with every pair of their own factors' values that can be."""
    candidates = list(starts())
    missing = {pair for start in candidates for pair in pairs(start.values)}
    chosen: list[Start] = []
    while missing:
        rng.shuffle(candidates)
        best = max(candidates, key=lambda start: len(missing.intersection(pairs(start.values))))
        missing.difference_update(pairs(best.values))
        chosen.append(best)
    return chosen


class _Missing:
    """What no strike has yet: pairs of values, and cells with values."""

    def __init__(self, chosen: Sequence[Start]) -> None:
        self.candidates = {start: list(strikes_at(start)) for start in chosen}
        self._own = {
            (start, strike): (frozenset(pairs({**strike.values, **start.values})), frozenset(_cell_pairs(strike, start)))
            for start, some in self.candidates.items()
            for strike in some
        }
        self.pairs = {pair for own, _ in self._own.values() for pair in own}
        self.cells = {pair for _, own in self._own.values() for pair in own}

    def gain(self, start: Start, strike: Strike) -> tuple[int, int]:
        """How many pairs of values, and of cells and values, it would add."""
        own, cells = self._own[start, strike]
        return len(own & self.pairs), len(cells & self.cells)

    def take(self, start: Start, strike: Strike) -> None:
        """It is in the design."""
        own, cells = self._own[start, strike]
        self.pairs -= own
        self.cells -= cells


def _block(start: Start, part: int, missing: _Missing, rng: Random, most: int) -> Block:
    left = list(missing.candidates[start])
    rng.shuffle(left)
    taken: list[Strike] = []
    while left and len(taken) < most:
        best = max(left, key=lambda strike: missing.gain(start, strike))
        if missing.gain(start, best) == (0, 0):
            break
        missing.take(start, best)
        left.remove(best)
        taken.append(best)
    return Block(start, part, tuple(sorted(taken)))


def _cell_pairs(strike: Strike, start: Start) -> list[CellPair]:
    return [(str(strike.cell), value) for value in (strike.role, *start.values.values())]


def covered(crossings: Sequence[Crossing]) -> set[Pair]:
    """The pairs of values that some crossings have."""
    return {pair for crossing in crossings for pair in pairs(crossing.values)}
