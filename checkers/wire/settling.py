"""Requests that add partitions, settled: those whose effect is the same whenever it comes take effect at once.

A client of the second protocol (KIP-890) has many Produce under way at once. Told apart by which of them have taken effect, k of
them are 2^k possibilities. But a state with more partitions allows whatever the same one with fewer allows (`included` is the
only guard that looks at them), and an addition can do nothing behind its transaction, whose epoch is over then. So an addition
under way takes effect as soon as its transaction is open, and what can have no effect any more counts as done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fencepost.checkers.wire.exchanges import Exchange
from fencepost.checkers.wire.states import ADDING, IMPLYING, NO_PRODUCER, NONE, Api, Phase, Producer, Request, State

Done = frozenset[int]
Possibility = tuple[State, Done]
ADDITIONS = (*ADDING, *IMPLYING)


def kept_epochs(exchanges: Iterable[Exchange]) -> frozenset[Producer]:
    """Producer ids and epochs in which several transactions may follow each other: EndTxn of the first protocol names them."""
    requests = (exchange.request for exchange in exchanges)
    return frozenset(request.named for request in requests if request.api is Api.END and not request.second)


@dataclass(frozen=True)
class Settling:
    """What settles.

    expires: ids may expire, so that an InitProducerId may have an effect at any later time.
    kept: see `kept_epochs`; an addition in one of them may begin the next transaction.
    open: the exchanges under way, by number, in the order in which they began.
    errors: those of them whose answer says nothing.
    """

    expires: bool
    kept: frozenset[Producer] = frozenset()
    open: dict[int, Exchange] = field(default_factory=dict)
    errors: set[int] = field(default_factory=set)

    def is_lasting(self, number: int) -> bool:
        """True if an exchange may take effect at any later time: it has no answer, or one that says nothing."""
        return self.open[number].answer is None or number in self.errors

    def logged_before(self, exchange: Exchange) -> Done:
        """Exchanges whose answer said nothing, and came before another one was sent: they were logged before it, or never."""
        return frozenset(error for error in self.errors if (self.open[error].ended or 0) <= exchange.began)

    def settled(self, state: State, done: Done) -> Possibility:
        """The possibility that allows whatever this one allows."""
        if state.phase in (Phase.UNKNOWN, Phase.DEAD):
            return state, done
        for number, exchange in self.open.items():
            if number in done:
                continue
            if self._adds(number, exchange, state, done):
                state, done = replace(state, partitions=state.partitions | exchange.request.partitions), done | {number}
            elif self._is_over(number, exchange.request, state):
                done |= {number}
        return state, done

    def _adds(self, number: int, exchange: Exchange, state: State, done: Done) -> bool:
        """True if an exchange adds to the open transaction, or is a record before the marker of one that is decided."""
        request = exchange.request
        if request.api not in ADDITIONS or request.named in self.kept or request.producer != state.producer:
            return False
        granted = exchange.answer is not None and exchange.answer.error == NONE
        if not granted and not self.is_lasting(number):
            return False
        included = request.partitions <= state.partitions
        if state.phase is Phase.ONGOING and request.epoch == state.epoch:
            return included or self.logged_before(exchange) - {number} <= done
        return granted and included and request.api in IMPLYING and request.epoch == state.began

    def _is_over(self, number: int, request: Request, state: State) -> bool:
        """True if an exchange may take effect at any later time, and can have none from this state on."""
        return self.is_lasting(number) and not (self.expires and request.api is Api.INIT) and is_void(request, state)


def is_void(request: Request, state: State) -> bool:
    """True if a request can have no effect any more: its epoch is over, or its producer id."""
    if state.phase in (Phase.UNKNOWN, Phase.DEAD) or request.producer == NO_PRODUCER:
        return False
    if request.producer != state.producer:
        return request.producer == state.last[0] or state.producer >= 0
    return request.epoch < state.epoch and (request.api is not Api.INIT or request.named != state.last)
