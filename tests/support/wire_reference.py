"""The slow twin of the judgement of exchanges: all orders are tried, of a few exchanges without errors that say nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.checkers.wire.exchanges import Exchange
from fencepost.checkers.wire.machine import Machine
from fencepost.checkers.wire.states import State


def explained(machine: Machine, exchanges: Sequence[Exchange], start: State) -> bool:
    """True if there is an order of some exchanges, each at an instant of its own, in which each answer is lawful."""
    everything = frozenset(range(len(exchanges)))
    answered = frozenset(n for n in everything if exchanges[n].answer is not None)

    def follows(number: int, done: frozenset[int]) -> bool:
        """Whatever had been answered before it began has taken effect."""
        began = exchanges[number].began
        return all(other in done or (exchanges[other].ended or 0) >= began for other in answered - {number})

    def search(state: State, done: frozenset[int]) -> bool:
        if answered <= done:
            return True
        for now in machine.closed([state]):
            for number in everything - done:
                if not follows(number, done):
                    continue
                request, answer = exchanges[number].request, exchanges[number].answer
                after = machine.applied(now, request) if answer is None else machine.after(now, request, answer)
                if any(search(then, done | {number}) for then in after):
                    return True
        return False

    return search(start, frozenset())
