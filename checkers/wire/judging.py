"""Recorded exchanges of a transactional id, judged by the machine: was there an order in which each of them is lawful?

An exchange took effect at some instant between being forwarded and being answered; one without an answer at any later instant, or
never. All states that are possible are kept, as a linearizability checker does (Wing and Gong; Lowe): a possibility is a state,
and which of the exchanges under way have taken effect. At an answer those remain in which that exchange has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from fencepost.checkers.wire.exchanges import Breach, Exchange, Judged
from fencepost.checkers.wire.machine import START, Machine
from fencepost.checkers.wire.states import BUSY, NO_PRODUCER, NONE, Api, Phase, State

MOST = 4096  # possibilities
NAMED = 3  # states that a sentence names
Done = frozenset[int]
Possibility = tuple[State, Done]
TOO_MANY = f"more than {MOST:,} states were possible at once"


class TooMany(Exception):
    """More possibilities than `MOST`."""


def judged(machine: Machine, exchanges: Sequence[Exchange]) -> Judged:
    """The judgement of one transactional id's exchanges, in any order."""
    return _Judgement(machine).of(exchanges)


@dataclass
class _Judgement:
    """What is known while the exchanges are gone through in the order of time.

    open: exchanges under way, and those whose answer says nothing, by number.
    errors: those of them that were answered by an error: what they logged counts until something else is logged.
    nodes: the brokers that granted something, in order, without repetitions in a row.
    forgot: too much was possible at some time: nothing is known until an InitProducerId tells.
    skipped: answers that were not compared for that reason.
    """

    machine: Machine
    possible: frozenset[Possibility] = frozenset((state, frozenset()) for state in START)
    open: dict[int, Exchange] = field(default_factory=dict)
    errors: set[int] = field(default_factory=set)
    nodes: list[str] = field(default_factory=list)
    compared: int = 0
    skipped: int = 0
    forgot: bool = False
    breaches: list[Breach] = field(default_factory=list)

    def of(self, exchanges: Sequence[Exchange]) -> Judged:
        """The judgement."""
        for _, answered, number, exchange in sorted(_moments(exchanges), key=lambda moment: moment[:3]):
            if answered:
                self._answer_or_forget(number, exchange)
            else:
                self.open[number] = exchange
        return Judged(self.compared, tuple(self.breaches), self.skipped)

    def _answer_or_forget(self, number: int, exchange: Exchange) -> None:
        """What an answer tells, or, where too much is possible, what it tells to somebody who knows nothing."""
        try:
            self._answer(number, exchange)
        except TooMany:  # before anything was changed
            self._forget()
            with suppress(TooMany):
                self._answer(number, exchange)
                return
            del self.open[number]  # it may have told something, and nobody knows what
            self.skipped += 1
            self._note_granting(exchange)

    def _answer(self, number: int, exchange: Exchange) -> None:
        """What an answer tells."""
        assert exchange.answer is not None
        if not self._telling(exchange):
            self.errors.add(number)
            self._prune()
            return
        known = any(state.phase is not Phase.UNKNOWN for state, _ in self.possible)
        before = self._reached()
        self.skipped += self.forgot and not known
        left = frozenset((state, done - {number}) for state, done in before if number in done)
        self.compared += known
        if not left:
            left = self._breach(exchange, before)
        del self.open[number]
        self.possible = left
        self._note_granting(exchange)
        self._prune()

    def _note_granting(self, exchange: Exchange) -> None:
        """The broker coordinates the id, if it granted something."""
        if exchange.answer is not None and exchange.answer.error == NONE and self.nodes[-1:] != [exchange.node]:
            self.nodes.append(exchange.node)

    def _telling(self, exchange: Exchange) -> bool:
        """True if the machine has something to say of an answer. The refusal of a broker that was not the last one to grant
        something may come of an old state."""
        assert exchange.answer is not None
        error = exchange.answer.error
        if not self.machine.constrains(exchange.request.api, error):
            return False
        return error in (NONE, BUSY) or self.nodes[-1:] in ([], [exchange.node])

    def _breach(self, exchange: Exchange, before: frozenset[Possibility]) -> frozenset[Possibility]:
        """The exchange is lawful in no possible state: noted, unless an old coordinator may have granted it.

        Nothing is known after it, but what an InitProducerId gave.
        """
        assert exchange.answer is not None
        states = {state for state, _ in before}
        if exchange.node not in self.nodes[:-1] or self.nodes[-1] == exchange.node:
            rules = self.machine.broken(states, exchange.request, exchange.answer)
            sentences = tuple(f"{rule.sentence} ({rule.source})" for rule in rules)
            self.breaches.append(Breach(exchange, tuple(rule.name for rule in rules), sentences, _words(states)))
        under_way = (item for item in self.open.items() if item[0] not in self.errors)
        self.open = {number: other for number, other in under_way if other.answer is not None}
        self.errors.clear()
        after = self.machine.after(next(iter(START)), exchange.request, exchange.answer)
        return frozenset((state, frozenset()) for state in after)

    def _forget(self) -> None:
        """Begin anew, as at the start of the record. The next epoch voids requests without an answer, but for InitProducerId."""
        self.forgot, self.possible = True, frozenset((state, frozenset()) for state in START)
        for number in filter(self._is_lasting, list(self.open)):
            if self.open[number].request.api is not Api.INIT:
                del self.open[number]
                self.errors.discard(number)

    def _reached(self) -> frozenset[Possibility]:
        """All that is possible now: any of the exchanges under way may have taken effect, in any order, and the coordinator may
        have done its own steps between them."""
        reached = {(then, done) for state, done in self.possible for then in self.machine.closed([state])}
        todo = list(reached)
        while todo:
            if len(reached) > MOST:
                raise TooMany
            state, done = todo.pop()
            new = set(self._next(state, done)) - reached
            reached |= new
            todo += new
        return frozenset(reached)

    def _next(self, state: State, done: Done) -> Iterator[Possibility]:
        """What may follow when one more exchange takes effect."""
        for number, exchange in self.open.items():
            if number in done or self._waits(number, exchange, done):
                continue
            if state.phase is Phase.UNKNOWN and self._is_lasting(number):
                continue  # it changes nothing here, and may as well take effect later
            for then in self._effects(number, exchange, state):
                over = done | {number}
                if then != state:  # logged behind what was answered by an error before it was sent, which counts no more
                    over |= {error for error in self.errors if (self.open[error].ended or 0) <= exchange.began}
                for closed in self.machine.closed([then]):
                    yield closed, over

    def _effects(self, number: int, exchange: Exchange, state: State) -> Iterable[State]:
        """The states after an exchange takes effect in a state. One whose answer says nothing has an effect or none."""
        answer = exchange.answer
        if answer is None or number in self.errors or not self._telling(exchange):
            unknown = self.machine.applied(state, exchange.request)
            return unknown if answer is None or number in self.errors else unknown | {state}
        return self.machine.after(state, exchange.request, answer)

    def _waits(self, number: int, exchange: Exchange, done: Done) -> bool:
        """True if an equal exchange whose answer says nothing is older: which of them takes effect first is all the same."""
        if not self._is_lasting(number):
            return False
        return any(
            one.request == exchange.request and other not in done and self._is_lasting(other)
            for other, one in self.open.items()
            if other < number
        )

    def _is_lasting(self, number: int) -> bool:
        """True if an exchange may take effect at any later time: it has no answer, or one that says nothing."""
        return self.open[number].answer is None or number in self.errors

    def _prune(self) -> None:
        """Forget exchanges without an answer that have taken effect, or can have none any more, in all that is possible."""
        for number in filter(self._is_lasting, list(self.open)):
            if all(number in done or self._void(self.open[number], state) for state, done in self.possible):
                del self.open[number]
                self.errors.discard(number)
                self.possible = frozenset((state, done - {number}) for state, done in self.possible)

    def _void(self, exchange: Exchange, state: State) -> bool:
        """True if a request can have no effect any more: its epoch is over, or its producer id."""
        request = exchange.request
        if state.phase in (Phase.UNKNOWN, Phase.DEAD) or request.producer == NO_PRODUCER:
            return False
        if request.producer != state.producer:
            return request.producer == state.last[0] or state.producer >= 0
        return request.epoch < state.epoch and request.named != state.last


def _moments(exchanges: Sequence[Exchange]) -> Iterator[tuple[int, int, int, Exchange]]:
    """The moments at which exchanges begin (0) and are answered (1), each copy of a request by itself."""
    number = 0
    for exchange in sorted(exchanges, key=lambda one: (one.began, one.row)):
        for copy in range(exchange.times):
            answered = exchange.answer is not None and copy == 0
            own = exchange if answered or exchange.answer is None else _unanswered(exchange)
            yield exchange.began, 0, number, own
            if answered and exchange.ended is not None:
                yield exchange.ended, 1, number, own
            number += 1


def _unanswered(exchange: Exchange) -> Exchange:
    """A further copy of a request, whose answer is not known."""
    row, node, client, began, request = exchange.row, exchange.node, exchange.client, exchange.began, exchange.request
    return Exchange(row, node, client, began, None, request, None)


def _words(states: Iterable[State]) -> str:
    words = sorted({str(state) for state in states})
    return ", ".join(words[:NAMED]) + (f" and {len(words) - NAMED} more" if len(words) > NAMED else "")
