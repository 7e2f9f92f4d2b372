"""How the situations of the answers are brought about. Each function returns an answer, or makes one that does."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.clusters.probe.producer import OK, Producer
from fencepost.clusters.probe.stage import Stage, caught
from fencepost.clusters.probe.wire import Unreached

EXPIRED_MS = 1000
MOST_MS = 2**31 - 1

Play = Callable[[Stage], str]


def end(commit: bool) -> Callable[[Producer], str]:
    """EndTxn of a producer."""
    return lambda producer: producer.end(commit)[0]


def rolled_back(stage: Stage) -> str:
    """InitProducerId with a transaction open: the answer, and what became of the transaction."""
    old = stage.producer().begun()
    name, _ = old.initialise()
    return f"{name}, {old.state()}"


def next_epoch(stage: Stage) -> str:
    """InitProducerId of a known id: the answer, and by how much its epoch was raised."""
    old = stage.producer()
    name, new = old.initialise()
    steps = new.epoch - old.epoch if new.producer_id == old.producer_id else None
    return f"{name}, epoch + {steps}" if steps is not None else f"{name}, another producer id"


def first_epoch(stage: Stage) -> str:
    """InitProducerId of two unknown ids: the answer, and the epoch of the first."""
    first, second = stage.producer(), stage.producer()
    if first.producer_id == second.producer_id:
        return f"{OK}, producer id {first.producer_id} twice"
    return f"{OK}, epoch {first.epoch}"


def latest(stage: Stage) -> str:
    """InitProducerId, compared with what the coordinator describes."""
    own = stage.producer()
    known = stage.wire.described(own.name)
    same = (known["producerId"], known["producerEpoch"]) == (own.producer_id, own.epoch)
    return f"{OK}, {'the same' if same else 'others'}"


def repeated(first: bool, second: bool) -> Play:
    """EndTxn once more after the transaction is complete, by the same producer id and epoch."""

    def play(stage: Stage) -> str:
        producer = stage.producer().begun()
        producer.ended(first)
        return producer.end(second)[0]

    return play


def again(first: bool, second: bool) -> Play:
    """EndTxn after the transaction is complete, by the epoch that the answer to the first one gave."""
    return lambda stage: stage.producer().begun().ended(first).end(second)[0]


def while_ending(commit: bool, send: Callable[[Producer], str]) -> Play:
    """A request right after the answer to EndTxn."""
    return lambda stage: caught(send(producer) for producer in stage.deciding(commit))


def expired(send: Callable[[Producer], str]) -> Play:
    """A request of a producer whose transaction the coordinator has aborted for its age."""

    def play(stage: Stage) -> str:
        producer = stage.stranger().ready(EXPIRED_MS).begun()
        producer.await_state("CompleteAbort", "Empty")
        return send(producer)

    return play


def sequences(*sequences: int) -> Play:
    """Produce of one record after the other; the last answer, and whether its offset is that of the first."""

    def play(stage: Stage) -> str:
        producer = stage.producer().begun()
        answers = [producer.produce(0, sequence) for sequence in sequences]
        if any(name != OK for name, _ in answers[:-1]):
            raise Unreached(f"Produce before it was answered {answers[0][0]}")
        name, offset = answers[-1]
        return f"{name}, the same offset" if name == OK and offset == answers[0][1] and len(answers) > 1 else name

    return play


def late_record(stage: Stage) -> str:
    """Produce of the old epoch to a partition that has a marker of the newer one."""
    old = stage.producer().begun()
    if (name := old.produce(0, 0)[0]) != OK:
        raise Unreached(f"Produce before it was answered {name}")
    old.ready()
    old.await_state("Empty", "CompleteAbort")
    return old.produce(0, 1)[0]


def late_offsets(stage: Stage) -> str:
    """TxnOffsetCommit of the old epoch, after the new one has aborted a transaction with offsets of the group."""
    old = stage.producer().begun()
    if (name := old.add_offsets()) != OK or (name := old.commit_offsets()) != OK:
        raise Unreached(f"offsets before it were answered {name}")
    old.ready()
    return old.commit_offsets()


def unadded(stage: Stage) -> str:
    """Produce to a partition that no AddPartitionsToTxn has named."""
    return stage.producer().produce(0, 0)[0]


def expired_epoch(stage: Stage) -> str:
    """InitProducerId that names an old producer id and epoch (KIP-360)."""
    if stage.wire.versions["InitProducerId"] < 3:
        raise Unreached("InitProducerId names no producer before version 3")
    old = stage.zombie()
    return old.initialise(producerId=old.producer_id, producerEpoch=old.epoch)[0]


def too_long(stage: Stage) -> str:
    """InitProducerId with the longest transaction timeout that can be written."""
    return stage.stranger().initialise(MOST_MS)[0]
