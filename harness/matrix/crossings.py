"""What runs say of the crossings of the design, by each value of each factor, and which pairs of values they cover."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fencepost.harness.matrix.cells import Cell
from fencepost.harness.matrix.covering import design
from fencepost.harness.matrix.crossing import Crossing, Pair, crossing_of, pairs, possible_pairs
from fencepost.harness.matrix.factors import FACTORS, VALUES
from fencepost.harness.matrix.results import ABSENT, HELD, UNEXERCISED, VIOLATED, Strike

CROSSING_STATES: Mapping[str, str] = {
    VIOLATED: "a forbidden finding stands beside a fault that met it",
    HELD: "a fault met it, and no forbidden finding stands beside any",
    UNEXERCISED: "it was planned, and no fault struck, or those that struck met something else",
    ABSENT: "no run has planned it",
}


@dataclass(frozen=True, kw_only=True)
class CrossingResult:
    """A crossing with the faults that were to make it, or met it."""

    crossing: Crossing
    planned: Sequence[Strike] = ()
    met: Sequence[Strike] = ()

    @property
    def state(self) -> str:
        """One of `CROSSING_STATES`."""
        if any(strike.findings for strike in self.met):
            return VIOLATED
        if self.met:
            return HELD
        return UNEXERCISED if self.planned else ABSENT

    @property
    def words(self) -> str:
        """The result in a sentence."""
        found = sorted({finding for strike in self.met for finding in strike.findings})
        if found:
            return f"{VIOLATED}: {', '.join(found)}"
        if self.state != UNEXERCISED:
            return self.state
        telling = [strike for strike in self.planned if strike.struck] or self.planned
        reasons = sorted({reason for strike in telling if (reason := _other(self.crossing, strike))})
        return f"{UNEXERCISED}: {'; '.join(reasons)}" if reasons else UNEXERCISED


@dataclass(frozen=True, kw_only=True)
class Crossings:
    """All crossings of the design, and those that faults met besides.

    covered: the pairs of values that were met.
    """

    results: Sequence[CrossingResult]
    covered: frozenset[Pair]

    @property
    def uncovered(self) -> list[Pair]:
        """The pairs that can be, and were not met."""
        return sorted(possible_pairs() - self.covered)

    def counts(self) -> dict[tuple[str, str], Counter[str]]:
        """By factor and value: how many crossings are in each state."""
        made: dict[tuple[str, str], Counter[str]] = {(name, value): Counter() for name in FACTORS for value in VALUES[name]}
        for result in self.results:
            for place in result.crossing.values.items():
                made[place][result.state] += 1
        return made


def crossings(found: Iterable[tuple[Cell, Strike]]) -> Crossings:
    """What these faults say of the crossings."""
    planned: dict[Crossing, list[Strike]] = defaultdict(list)
    met: dict[Crossing, list[Strike]] = defaultdict(list)
    covered: set[Pair] = set()
    for cell, strike in found:
        if crossing := crossing_of(strike.crossing):
            planned[crossing].append(strike)
        if strike.struck and strike.judged:
            covered.update(pairs(strike.met))
            if crossing := _met(cell, strike):
                met[crossing].append(strike)
    every = dict.fromkeys([*(crossing for block in design() for crossing in block.crossings), *planned, *met])
    results = [CrossingResult(crossing=each, planned=planned[each], met=met[each]) for each in every]
    return Crossings(results=results, covered=frozenset(covered & possible_pairs()))


def _met(cell: Cell, strike: Strike) -> Crossing | None:
    """The crossing that a fault met; None: a factor is not known."""
    if strike.met.keys() < set(FACTORS):
        return None
    return crossing_of("/".join((str(cell), *(strike.met[name] for name in FACTORS[3:]))))


def _other(crossing: Crossing, strike: Strike) -> str:
    """Why a fault that was to make a crossing does not count for it."""
    if not strike.judged:
        return "its run has no verdict"
    if not strike.struck:
        return strike.note
    wrong = [
        f"{name} was {strike.met.get(name, 'not known')}"
        for name, value in crossing.values.items()
        if strike.met.get(name) != value
    ]
    return ", ".join(wrong)


def uncovered_lines(found: Crossings) -> list[str]:
    """The pairs that no fault met, those with one value in a line: `act kill with: id fresh, fenced; client java`."""
    by_one: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for factor, value, other, with_ in found.uncovered:
        by_one[factor, value][other].append(with_)
    return [
        f"{factor} {value} with: " + "; ".join(f"{other} {', '.join(values)}" for other, values in others.items())
        for (factor, value), others in by_one.items()
    ]
