"""Exhaustive exploration of the wire's machine on small bounds: all states, all lawful exchanges, and mutants told from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from fencepost.checkers.wire.machine import Machine
from fencepost.checkers.wire.states import (
    BUSY,
    FENCED,
    KNOWN,
    MAPPED,
    MAPPING,
    NONE,
    STATE,
    Answer,
    Api,
    Phase,
    Request,
    State,
)
from fencepost.checkers.wire.transitions import TRANSITIONS, Transition

Exchange = tuple[Request, Answer]
PRODUCERS, EPOCHS, PARTITIONS = (7, 8), (0, 1), ("a", "b")
BOUND = 1  # the last epoch that a client gets
FIRST = State(Phase.EMPTY, 7, 0)


def requests() -> list[Request]:
    """What two clients may send, who know two producer ids and two epochs each, about two partitions."""
    named = list(product(PRODUCERS, EPOCHS))
    sent = [Request(Api.INIT, 4), *(Request(Api.INIT, 4, *who) for who in named)]
    for who, name in product(named, PARTITIONS):
        sent.append(Request(Api.PARTITIONS, 3, *who, partitions=frozenset({name})))
        sent.append(Request(Api.PRODUCE, 12, *who, partitions=frozenset({name})))
    sent += [Request(Api.OFFSETS, 3, *who, partitions=frozenset({"group g"})) for who in named]
    sent += [Request(Api.END, version, *who, committed) for version, who, committed in product((4, 5), named, (True, False))]
    return sent


def answers(request: Request) -> list[Answer]:
    """All answers to a request that the machine tells apart."""
    given = [Answer(NONE, *who) for who in product(PRODUCERS, (*EPOCHS, 2))]
    fine = given if request.api is Api.INIT or (request.api is Api.END and request.second) else [Answer()]
    refused = () if request.api is Api.PRODUCE else (BUSY, FENCED[0], *(() if request.api is Api.INIT else (STATE, MAPPING)))
    return [*fine, *map(Answer, refused)]


EXCHANGES: list[Exchange] = [(request, answer) for request in requests() for answer in answers(request)]


@dataclass(frozen=True)
class Mutant:
    """The transitions, one of them without one of its conditions. unseen: why no client can tell."""

    name: str
    transition: Transition
    transitions: Sequence[Transition]
    unseen: str = ""

    @property
    def expires(self) -> bool:
        """True if it can be told only where ids expire."""
        if self.transition.to is Phase.DEAD:
            return True
        return self.transition.phases == (Phase.DEAD,) and set(self.transition.guards) != set(self._own.guards)

    @property
    def _own(self) -> Transition:
        return next(other for other in self.transitions if other.name == self.transition.name)


def mutants() -> Iterator[Mutant]:
    """Each transition without each of its guards, and without its condition on the phase; made of the data."""
    for number, transition in enumerate(TRANSITIONS):
        before, behind = TRANSITIONS[:number], TRANSITIONS[number + 1 :]
        for guard in transition.guards:
            weaker = replace(transition, guards=tuple(other for other in transition.guards if other is not guard))
            yield Mutant(f"{transition.name} without {guard.name}", transition, [*before, weaker, *behind])
        if not set(KNOWN) <= set(transition.phases):
            weaker = replace(transition, phases=MAPPED if Phase.DEAD in transition.phases else KNOWN)
            yield Mutant(f"{transition.name} in any phase", transition, [*before, weaker, *behind], transition.unseen)


def reachable(machine: Machine, starts: Iterable[State] = (FIRST,)) -> dict[State, set[str]]:
    """All states that can be reached, each with the names of the transitions that lead on from it."""
    found: dict[State, set[str]] = {}
    todo = list(starts)
    while todo:
        state = todo.pop()
        if state in found:
            continue
        found[state] = set()
        moves = [*machine.steps(state), *(move for exchange in EXCHANGES for move in machine.taken(state, *exchange))]
        for transition, then in moves:
            found[state].add(transition.name)
            todo.append(then)
    return found


@dataclass
class Moves:
    """The states after each lawful exchange of a machine, looked up once for each state."""

    machine: Machine
    known: dict[State, dict[Exchange, frozenset[State]]] = field(default_factory=dict)

    def of(self, state: State) -> dict[Exchange, frozenset[State]]:
        """Exchange -> the states that may follow, with what the coordinator may do by itself afterwards."""
        if state not in self.known:
            after = ((exchange, self.machine.after(state, *exchange)) for exchange in EXCHANGES)
            self.known[state] = {exchange: self.machine.closed(then) for exchange, then in after if then}
        return self.known[state]

    def all_of(self, states: Iterable[State]) -> dict[Exchange, frozenset[State]]:
        """The same for a set of possible states."""
        joined: dict[Exchange, frozenset[State]] = {}
        for state in states:
            for exchange, then in self.of(state).items():
                joined[exchange] = joined[exchange] | then if exchange in joined else then
        return joined


def telling_trace(mutant: Machine, machine: Moves, depth: int) -> tuple[Exchange, ...] | None:
    """A shortest trace of exchanges that a mutant answers so and that the machine forbids; None: none of this length.

    The trace begins where an id has just been initialised for the first time.
    """
    weaker = Moves(mutant)
    start = (mutant.closed([FIRST]), machine.machine.closed([FIRST]))
    layer: dict[tuple[frozenset[State], frozenset[State]], tuple[Exchange, ...]] = {start: ()}
    seen = set(layer)
    for _ in range(depth):
        following = {}
        for (weak, strict), trace in layer.items():
            lawful = machine.all_of(strict)
            for exchange, after in weaker.all_of(weak).items():
                if exchange not in lawful:
                    return (*trace, exchange)
                if (pair := (after, lawful[exchange])) not in seen:
                    seen.add(pair)
                    following[pair] = (*trace, exchange)
        layer = following
    return None
