"""Effects of the machine's transitions: the state after an exchange, or after a step that the coordinator makes by itself."""

from __future__ import annotations

from dataclasses import replace

from fencepost.checkers.wire.guards import Situation
from fencepost.checkers.wire.states import DEAD, FRESH, NO_EPOCH, NO_PRODUCER, NOBODY, Phase, State


def unchanged(s: Situation) -> State:
    """Nothing: the answer tells what is there."""
    return s.state


def initialised(s: Situation) -> State:
    """The id has the producer id and epoch of the answer. Those before are kept if the request named them (KIP-360)."""
    named = s.request.producer != NO_PRODUCER
    last = (s.state.producer, s.state.epoch) if named else NOBODY
    return State(Phase.EMPTY, s.answer.producer, s.answer.epoch, last)


def answered_again(s: Situation) -> State:
    """Nothing; but the answer tells the producer id where nobody saw the first one."""
    return replace(s.state, producer=s.answer.producer) if s.state.producer == FRESH != s.answer.producer >= 0 else s.state


def initialised_again(s: Situation) -> State:
    """No transaction is there; the rest stays."""
    return State(Phase.EMPTY, answered_again(s).producer, s.state.epoch, s.state.last)


def added(s: Situation) -> State:
    """A transaction is open, with these partitions besides."""
    own = s.state.partitions if s.state.phase is Phase.ONGOING else frozenset()
    return replace(
        s.state, phase=Phase.ONGOING, partitions=own | s.request.partitions, began=s.state.epoch, second=False, last=s.state.last
    )


def decided(to: Phase, s: Situation) -> State:
    """The transaction has its decision, and keeps its epoch (KIP-98)."""
    return replace(s.state, phase=to, second=False)


def decided_with_next_epoch(to: Phase, s: Situation) -> State:
    """The transaction has its decision, and the id the epoch of the answer (KIP-890)."""
    return replace(
        s.state,
        phase=to,
        producer=s.answer.producer,
        epoch=s.answer.epoch,
        last=(s.state.producer, s.state.epoch),
        second=True,
    )


def fenced(s: Situation) -> State:
    """The epoch is raised, and given to nobody; the transaction is going to be aborted."""
    last = (s.state.producer, s.state.epoch)
    return replace(s.state, phase=Phase.FENCING, epoch=s.state.epoch + 1, last=last, second=False)


def aborting(s: Situation) -> State:
    """The coordinator has logged that it aborts."""
    return replace(s.state, phase=Phase.PREPARE_ABORT)


def completed(s: Situation) -> State:
    """All markers are written, and the transaction has no partitions any more."""
    phase = Phase.COMPLETE_COMMIT if s.state.phase is Phase.PREPARE_COMMIT else Phase.COMPLETE_ABORT
    return replace(s.state, phase=phase, partitions=frozenset(), began=NO_EPOCH)


def completed_anew(s: Situation) -> State:
    """The same, and the id has a producer id that is given to nobody yet."""
    return replace(completed(s), producer=FRESH, epoch=0)


def expired(s: Situation) -> State:
    """The coordinator has forgotten the id; the producer id that it had is given to nobody again."""
    return replace(DEAD, last=(s.state.producer, s.state.epoch))
