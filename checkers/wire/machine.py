"""The machine: which states may follow an exchange, and which rules forbid one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

from fencepost.checkers.wire.effects import initialised
from fencepost.checkers.wire.guards import Guard, Situation
from fencepost.checkers.wire.states import (
    FRESH,
    LAST_EPOCH,
    NONE,
    UNKNOWN,
    Answer,
    Api,
    Phase,
    Request,
    State,
)
from fencepost.checkers.wire.transitions import EXPIRATION, KNOWN_BREACHES, TRANSITIONS, Transition

NO_REQUEST, NO_ANSWER = Request(Api.INIT), Answer("")


@dataclass(frozen=True)
class Rule:
    """What an exchange breaks: a guard, or that its transitions are possible in other phases only.

    name: a short name. sentence: what should hold. source: who says so.
    """

    name: str
    sentence: str
    source: str


@dataclass(frozen=True)
class Machine:
    """The transitions, indexed.

    expires: ids may expire (`transactional.id.expiration.ms`) during the time that is judged.
    ages: transactions may be aborted for their age.
    last_epoch: the last epoch that a client gets.
    """

    transitions: Sequence[Transition] = TRANSITIONS
    expires: bool = False
    ages: bool = True
    last_epoch: int = LAST_EPOCH
    _closed: dict[State, frozenset[State]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _of(self) -> dict[tuple[Api, str], list[Transition]]:
        """The transitions of each request and answer."""
        index: dict[tuple[Api, str], list[Transition]] = {}
        for transition in self.transitions:
            for api in transition.apis:
                for error in transition.answers:
                    index.setdefault((api, error), []).append(transition)
        return index

    @cached_property
    def spontaneous(self) -> Sequence[Transition]:
        """The steps that a coordinator makes by itself."""
        left_out = {*(() if self.expires else (EXPIRATION,)), *(() if self.ages else ("timeout",))}
        return [transition for transition in self.transitions if not transition.apis and transition.name not in left_out]

    def constrains(self, api: Api, error: str) -> bool:
        """True if a transition names this answer; others are lawful everywhere, and the request may have been applied."""
        return (api, error) in self._of

    def taken(self, state: State, request: Request, answer: Answer) -> Iterator[tuple[Transition, State]]:
        """The transitions by which a request is answered so in a state, each with the state after it."""
        situation = Situation(state, request, answer, self.last_epoch)
        for transition in self._of.get((request.api, answer.error), ()):
            if state.phase in transition.phases and all(guard.holds(situation) for guard in transition.guards):
                yield transition, transition.effect(situation)

    def after(self, state: State, request: Request, answer: Answer) -> frozenset[State]:
        """The states that may follow an exchange; none: it is unlawful. Where nothing is known, only an answered InitProducerId
        tells something."""
        if state.phase is Phase.UNKNOWN:
            told = request.api is Api.INIT and answer.error == NONE
            return frozenset({initialised(Situation(state, request, answer, self.last_epoch)) if told else state})
        return frozenset(then for _, then in self.taken(state, request, answer))

    def applied(self, state: State, request: Request) -> frozenset[State]:
        """The states that may follow a request that was applied, and whose answer nobody has."""
        if state.phase is Phase.UNKNOWN:
            return frozenset({state})
        return frozenset(then for answer in self.answers(state, request) for then in self.after(state, request, answer)) - {state}

    def answers(self, state: State, request: Request) -> Iterator[Answer]:
        """Answers of success that may change a state, and those by which an open transaction is aborted."""
        given = ((-1, -1), (state.producer, state.epoch), (state.producer, state.epoch + 1), (FRESH, 0))
        own = given if request.api is Api.INIT or (request.api is Api.END and request.second) else given[:1]
        yield from (Answer(NONE, producer, epoch) for producer, epoch in own)
        if request.api is Api.INIT:
            yield Answer("CONCURRENT_TRANSACTIONS")

    def closed(self, states: Iterable[State]) -> frozenset[State]:
        """Some states, and all that may follow by what the coordinator does by itself."""
        return frozenset(then for state in states for then in self._closure(state))

    def _closure(self, state: State) -> frozenset[State]:
        if state not in self._closed:
            reached, todo = {state}, [state]
            while todo:
                for _, then in self.steps(todo.pop()):
                    if then not in reached:
                        reached.add(then)
                        todo.append(then)
            self._closed[state] = frozenset(reached)
        return self._closed[state]

    def steps(self, state: State) -> Iterator[tuple[Transition, State]]:
        """The steps that a coordinator may make by itself in a state. One epoch follows the last that clients get."""
        situation = Situation(state, NO_REQUEST, NO_ANSWER, self.last_epoch)
        for transition in self.spontaneous:
            if state.phase in transition.phases and all(guard.holds(situation) for guard in transition.guards):
                then = transition.effect(situation)
                if then.epoch <= self.last_epoch + 1:
                    yield transition, then

    def known_breach(self, states: Collection[State], request: Request, answer: Answer) -> Transition | None:
        """The known breach that an unlawful exchange is in some state; None: it is none."""
        situations = [Situation(state, request, answer, self.last_epoch) for state in states]
        alike = (one for one in KNOWN_BREACHES if request.api in one.apis and answer.error in one.answers)
        return next((one for one in alike if any(not [*self._missing(one, situation)] for situation in situations)), None)

    def broken(self, states: Collection[State], request: Request, answer: Answer) -> list[Rule]:
        """The rules that forbid an exchange in all of some states: those that the nearest transitions lack, by name."""
        misses: list[tuple[int, tuple[Rule, ...]]] = []
        for transition in self._of.get((request.api, answer.error), ()):
            for state in states:
                missing = tuple(self._missing(transition, Situation(state, request, answer, self.last_epoch)))
                misses.append((len(missing), missing))
        least = min((number for number, _ in misses), default=0)
        nearest = {rule for number, missing in misses if number == least for rule in missing}
        return sorted(nearest, key=attrgetter("name", "sentence"))  # states have no order

    def _missing(self, transition: Transition, situation: Situation) -> Iterator[Rule]:
        if situation.state.phase not in transition.phases:
            yield phase_rule(transition)
        yield from (guard_rule(guard) for guard in transition.guards if not guard.holds(situation))


def guard_rule(guard: Guard) -> Rule:
    """The rule of a guard."""
    return Rule(guard.name, guard.sentence, guard.source)


def phase_rule(transition: Transition) -> Rule:
    """The rule that a transition is possible in some phases only."""
    phases = ", ".join(phase.value for phase in transition.phases)
    answer = " or ".join(transition.answers)
    return Rule(transition.name, f"a request is answered {answer} by `{transition.name}` only in {phases}", transition.source)


START = frozenset({UNKNOWN})
