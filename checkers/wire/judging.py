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
from fencepost.checkers.wire.settling import Done, Possibility, Settling, is_void, kept_epochs
from fencepost.checkers.wire.states import BUSY, IMPLYING, NO_PRODUCER, NONE, Api, Phase, Producer, Request, State

MOST = 4096  # possibilities
MOST_STEPS = 1_000_000  # for one answer; records of ours took 34,000 at most, and 200 on average
NAMED = 3  # states that a sentence names
TOO_MANY = f"more than {MOST:,} states were possible at once, or more steps than {MOST_STEPS:,} to find them"


class TooMany(Exception):
    """More possibilities than `MOST`, or steps than are left."""


class Steps:
    """The steps that may still be taken: looks at one exchange under way in one possibility.

    exchanges: how many are to be judged, of all ids that share them.
    """

    def __init__(self, exchanges: int) -> None:
        self._left = 5 * MOST_STEPS + 2_000 * exchanges
        self._of_answer = 0

    @property
    def over(self) -> bool:
        """True if none is left."""
        return self._left < 0

    def begin(self) -> None:
        """Steps for another answer."""
        self._of_answer = 0

    def take(self, count: int) -> None:
        """Raise TooMany when this answer takes too many, or none is left."""
        self._left -= count
        self._of_answer += count
        if self._of_answer > MOST_STEPS or self.over:
            raise TooMany


def judged(machine: Machine, exchanges: Sequence[Exchange], steps: Steps | None = None) -> Judged:
    """The judgement of one transactional id's exchanges, in any order. steps: those that several ids share."""
    settling = Settling(machine.expires, kept_epochs(exchanges))
    return _Judgement(machine, settling, steps or Steps(len(exchanges))).of(exchanges)


@dataclass
class _Judgement:
    """What is known while the exchanges are gone through in the order of time.

    settling: the exchanges under way, those among them whose answer said nothing, and which of them need not be told apart.
    steps: those that may still be taken.
    nodes: the brokers that granted something as coordinators, in order, without repetitions in a row.
    forgot: too much was possible at some time: nothing is known until an InitProducerId tells.
    skipped: answers that were not compared for that reason.
    given: the first exchange by which each producer id and epoch was given.
    """

    machine: Machine
    settling: Settling
    steps: Steps = field(default_factory=lambda: Steps(0))
    possible: frozenset[Possibility] = frozenset((state, frozenset()) for state in START)
    nodes: list[str] = field(default_factory=list)
    compared: int = 0
    skipped: int = 0
    forgot: bool = False
    given: dict[Producer, Exchange] = field(default_factory=dict)
    breaches: list[Breach] = field(default_factory=list)

    @property
    def open(self) -> dict[int, Exchange]:
        return self.settling.open

    @property
    def errors(self) -> set[int]:
        return self.settling.errors

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
        if self.steps.over:
            self._skip(number, exchange)
            return
        try:
            self._answer(number, exchange)
        except TooMany:  # before anything was changed
            self._forget()
            with suppress(TooMany):
                self._answer(number, exchange)
                return
            self._skip(number, exchange)

    def _skip(self, number: int, exchange: Exchange) -> None:
        """An answer may have told something, and nobody knows what."""
        del self.open[number]
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
        if exchange.answer.error == NONE and exchange.answer.producer != NO_PRODUCER:
            self.given.setdefault(exchange.answer.named, exchange)
        self._prune()

    def _note_granting(self, exchange: Exchange) -> None:
        """The broker coordinates the id, if it granted something that coordinators do: leaders take records, too."""
        granted = exchange.answer is not None and exchange.answer.error == NONE and exchange.request.api not in IMPLYING
        if granted and self.nodes[-1:] != [exchange.node]:
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
        replaced = exchange.node in self.nodes[:-1] and self.nodes[-1] != exchange.node
        if not replaced or exchange.request.api in IMPLYING:
            rules = self.machine.broken(states, exchange.request, exchange.answer)
            sentences = tuple(f"{rule.sentence} ({rule.source})" for rule in rules)
            known = self.machine.known_breach(states, exchange.request, exchange.answer)
            why = f"{known.sentence} ({known.source})" if known else ""
            raised = self._raised(states, exchange.request)
            self.breaches.append(Breach(exchange, tuple(rule.name for rule in rules), sentences, _words(states), raised, why))
        for number in filter(self.settling.is_lasting, list(self.open)):
            del self.open[number]
        self.errors.clear()
        after = self.machine.after(next(iter(START)), exchange.request, exchange.answer)
        return frozenset((state, frozenset()) for state in after)

    def _raised(self, states: set[State], request: Request) -> str:
        """How the epoch came to be higher than a request's in all possible states, in words; empty: it is not.

        A coordinator that aborts by itself raises it too, which no exchange shows.
        """
        older = {(state.producer, state.epoch) for state in states if request.api is not Api.INIT}
        if not older or not all(producer == request.producer and epoch > request.epoch for producer, epoch in older):
            return ""
        producer, epoch = min(older)
        if (giver := self.given.get((producer, epoch))) is not None:
            return f"epoch {epoch} had been given in answer to {giver.request} of {giver.client}"
        return f"no answer had given epoch {epoch}: the coordinator had raised it to abort a transaction, or for a lost request"

    def _forget(self) -> None:
        """Begin anew, as at the start of the record. The next epoch voids requests without an answer, but for InitProducerId."""
        self.forgot, self.possible = True, frozenset((state, frozenset()) for state in START)
        for number in filter(self.settling.is_lasting, list(self.open)):
            if self.open[number].request.api is not Api.INIT:
                del self.open[number]
                self.errors.discard(number)

    def _reached(self) -> frozenset[Possibility]:
        """All that is possible now: any of the exchanges under way may have taken effect, in any order, and the coordinator may
        have done its own steps between them."""
        self.steps.begin()
        reached = {then for state, done in self.possible for then in self._spread(state, done)}
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
        self.steps.take(len(self.open))
        for number, exchange in self.open.items():
            if number in done or self._waits(number, exchange, done):
                continue
            if state.phase is Phase.UNKNOWN and self.settling.is_lasting(number):
                continue  # it changes nothing here, and may as well take effect later
            for then in self._effects(number, exchange, state):
                over = done | {number}
                if then != state:  # logged behind what was answered by an error before it was sent, which counts no more
                    over |= self.settling.logged_before(exchange)
                yield from self._spread(then, over)

    def _spread(self, state: State, done: Done) -> Iterator[Possibility]:
        """A possibility, and what may follow by what the coordinator does by itself."""
        self.steps.take(len(self.open))
        state, done = self.settling.settled(state, done)
        return (self.settling.settled(then, done) for then in self.machine.closed([state]))

    def _effects(self, number: int, exchange: Exchange, state: State) -> Iterable[State]:
        """The states after an exchange takes effect in a state. Of a refusal that says nothing as yet it may be none: by the time
        it comes, its broker may be known as the coordinator, and then it has to have taken effect."""
        answer, request = exchange.answer, exchange.request
        if answer is None or number in self.errors or not self.machine.constrains(request.api, answer.error):
            return self.machine.applied(state, request)
        if not self._telling(exchange):
            return self.machine.applied(state, request) | {state}
        return self.machine.after(state, request, answer)

    def _waits(self, number: int, exchange: Exchange, done: Done) -> bool:
        """True if an equal exchange whose answer says nothing is older: which of them takes effect first is all the same."""
        if not self.settling.is_lasting(number):
            return False
        self.steps.take(len(self.open))
        return any(
            one.request == exchange.request and other not in done and self.settling.is_lasting(other)
            for other, one in self.open.items()
            if other < number
        )

    def _prune(self) -> None:
        """Forget exchanges without an answer that have taken effect, or can have none any more, in all that is possible."""
        for number in filter(self.settling.is_lasting, list(self.open)):
            if all(number in done or is_void(self.open[number].request, state) for state, done in self.possible):
                del self.open[number]
                self.errors.discard(number)
                self.possible = frozenset((state, done - {number}) for state, done in self.possible)


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
