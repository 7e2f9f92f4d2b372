"""The transitions of a transactional id at its coordinator, as data: KIP-98, with what KIP-360 and KIP-890 changed.

An exchange is lawful in a state if a transition allows its answer there. Errors that no transition names are lawful in every
state, for a coordinator may be loaded, moved or slow at any time; the request may then have been applied, also later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fencepost.checkers.wire import effects
from fencepost.checkers.wire import guards as g
from fencepost.checkers.wire.guards import HANDLING, Guard, Situation
from fencepost.checkers.wire.states import (
    ADDING,
    BUSY,
    ENDING,
    FENCED,
    IDLE,
    IMPLYING,
    KNOWN,
    MAPPED,
    MAPPING,
    NONE,
    STATE,
    Api,
    Phase,
    State,
)

Effect = Callable[[Situation], State]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A transition.

    name: a short name, unique.
    sentence: what happens.
    source: who says so.
    apis: the requests; none: the coordinator makes the step by itself.
    phases: where it is possible.
    guards: what has to hold besides.
    answers: the errors, or NONE, with which it is answered.
    effect: the state after it.
    to: the phase after it; None: the same.
    unseen: why exchanges do not tell whether it was taken in another phase; empty: they do.
    """

    name: str
    sentence: str
    source: str
    apis: tuple[Api, ...] = ()
    phases: tuple[Phase, ...]
    guards: tuple[Guard, ...] = ()
    answers: tuple[str, ...] = (NONE,)
    effect: Effect = effects.unchanged
    to: Phase | None = None
    unseen: str = ""


OWN = (g.OWN_PRODUCER, g.OWN_EPOCH)
ABORTED, COMMITTED = (Phase.PREPARE_ABORT, Phase.COMPLETE_ABORT), (Phase.PREPARE_COMMIT, Phase.COMPLETE_COMMIT)
COMPLETES = "the transaction before may have been completed the moment before, which no client sees"
AGED = "the transaction may have been aborted for its age before"
RETRIABLE = "no KIP: Kafka's error 51 is retriable; KIP-98 answers INVALID_TXN_STATE"

INITIALISING = (
    Transition(
        name="first initialisation",
        sentence="The coordinator does not know the id: it gets a new producer id.",
        source=f"{HANDLING}, InitProducerId, step 3",
        apis=(Api.INIT,),
        phases=(Phase.DEAD,),
        guards=(g.NEW_PRODUCER, g.FIRST_EPOCH),
        effect=effects.initialised,
        to=Phase.EMPTY,
    ),
    Transition(
        name="initialisation",
        sentence="No transaction is open: the epoch grows, and fences whoever had the one before.",
        source=f"{HANDLING}, InitProducerId, step 3; KIP-360",
        apis=(Api.INIT,),
        phases=IDLE,
        guards=(g.SAME_PRODUCER, g.NAMED_CURRENT, g.GROWS, g.GIVEN_TO_CLIENTS),
        effect=effects.initialised,
        to=Phase.EMPTY,
    ),
    Transition(
        name="repeated initialisation",
        sentence="The producer that got the current epoch asks once more, and gets it again.",
        source="KIP-360",
        apis=(Api.INIT,),
        phases=IDLE,
        guards=(g.NAMED_LAST, g.ANSWERED_CURRENT),
        effect=effects.initialised_again,
        to=Phase.EMPTY,
    ),
    Transition(
        name="new producer id",
        sentence="The epochs are exhausted: the id gets another producer id.",
        source="KIP-360",
        apis=(Api.INIT,),
        phases=IDLE,
        guards=(g.EXHAUSTED, g.NAMED_CURRENT, g.NEW_PRODUCER, g.FIRST_EPOCH),
        effect=effects.initialised,
        to=Phase.EMPTY,
        unseen=AGED,
    ),
    Transition(
        name="fencing abort",
        sentence="A transaction is open: the coordinator raises the epoch and aborts it; the client has to ask again.",
        source=f"{HANDLING}, InitProducerId, step 2",
        apis=(Api.INIT,),
        phases=(Phase.ONGOING,),
        answers=(BUSY,),
        effect=effects.fenced,
        to=Phase.FENCING,
    ),
    Transition(
        name="stale initialisation",
        sentence="A producer that is not the latest is fenced.",
        source="KIP-360; KIP-588",
        apis=(Api.INIT,),
        phases=KNOWN,
        guards=(g.NAMED_OLD,),
        answers=FENCED,
    ),
)
BEGINNING = (
    Transition(
        name="addition",
        sentence="Partitions, or the offsets of a group, are added to the transaction; the first ones begin it.",
        source=f"{HANDLING}, AddPartitionsToTxn and AddOffsetsToTxn, step 3",
        apis=ADDING,
        phases=(*IDLE, Phase.ONGOING),
        guards=OWN,
        effect=effects.added,
        to=Phase.ONGOING,
        unseen=COMPLETES,
    ),
    Transition(
        name="implied addition",
        sentence="A record, or an offset, adds its partition to the transaction; the first one begins it.",
        source="KIP-890, part 2",
        apis=IMPLYING,
        phases=(*IDLE, Phase.ONGOING),
        guards=OWN,
        effect=effects.added,
        to=Phase.ONGOING,
        unseen=COMPLETES,
    ),
    Transition(
        name="record before the marker",
        sentence="The transaction is decided, and its marker not yet in the partition: the leader takes one more record.",
        source="KIP-98, Coordinator-side Transaction Expiration: leaders learn of an epoch by its marker",
        apis=IMPLYING,
        phases=KNOWN,
        guards=(g.OWN_PRODUCER, g.BEGAN, g.INCLUDED),
    ),
    Transition(
        name="fenced addition",
        sentence="A producer of another epoch may add nothing.",
        source=f"{HANDLING}, AddPartitionsToTxn and AddOffsetsToTxn, step 2; KIP-588",
        apis=ADDING,
        phases=KNOWN,
        guards=(g.OWN_PRODUCER, g.OTHER_EPOCH),
        answers=FENCED,
    ),
    Transition(
        name="addition while ending",
        sentence="Nothing is added to a transaction that is decided.",
        source=f"{HANDLING}, AddPartitionsToTxn, step 3a, and AddOffsetsToTxn, step 3",
        apis=ADDING,
        phases=ENDING,
        guards=OWN,
        answers=(STATE,),
    ),
    Transition(
        name="offsets without a transaction",
        sentence="KIP-98 refuses offsets that would begin a transaction; Kafka takes them.",
        source=f"{HANDLING}, AddOffsetsToTxn, step 4",
        apis=(Api.OFFSETS,),
        phases=IDLE,
        guards=OWN,
        answers=(STATE,),
    ),
)


def _decisions() -> Sequence[Transition]:
    """EndTxn in its two directions."""
    made: list[Transition] = []
    for word, guard, to, done, other in (
        ("commit", g.COMMITS, Phase.PREPARE_COMMIT, COMMITTED, ABORTED),
        ("abort", g.ABORTS, Phase.PREPARE_ABORT, ABORTED, COMMITTED),
    ):
        made += [
            Transition(
                apis=(Api.END,),
                name=word,
                sentence=f"The coordinator logs that it {word}s, and keeps the epoch.",
                source=f"{HANDLING}, EndTxn, steps 3a and 5",
                phases=(Phase.ONGOING,),
                guards=(*OWN, g.FIRST_PROTOCOL, guard),
                effect=partial(effects.decided, to),
                to=to,
            ),
            Transition(
                apis=(Api.END,),
                name=f"{word} with the next epoch",
                sentence=f"The coordinator logs that it {word}s, and gives the producer the next epoch.",
                source="KIP-890, part 2",
                phases=(Phase.ONGOING,),
                guards=(*OWN, guard, g.ANSWERED_NEXT),
                effect=partial(effects.decided_with_next_epoch, to),
                to=to,
            ),
            Transition(
                apis=(Api.END,),
                name=f"repeated {word}",
                sentence=f"The same {word} comes once more.",
                source=f"{HANDLING}, EndTxn, steps 3b and 3c",
                phases=done,
                guards=(*OWN, g.BY_DIRECTION, guard, g.ANSWERED_CURRENT),
            ),
            Transition(
                apis=(Api.END,),
                name=f"repeated {word} of the epoch before",
                sentence=f"The same {word} comes once more, and gets the epoch that it had got.",
                source="KIP-890, part 2",
                phases=done,
                guards=(g.NAMED_LAST, g.BY_EPOCH, guard, g.ANSWERED_CURRENT),
                effect=effects.answered_again,
            ),
            Transition(
                apis=(Api.END,),
                name=f"{word} of what is decided otherwise",
                sentence=f"To {word} what was decided otherwise is refused.",
                source=f"{HANDLING}, EndTxn, step 3d",
                phases=other,
                guards=(*OWN, g.BY_DIRECTION, guard),
                answers=(STATE,),
            ),
            Transition(
                apis=(Api.END,),
                name=f"{word} of what was decided otherwise in the epoch before",
                sentence=f"To {word} what was decided otherwise is refused.",
                source="KIP-890, part 2",
                phases=other,
                guards=(g.NAMED_LAST, g.BY_EPOCH, guard),
                answers=(STATE,),
            ),
        ]
    return made


DECIDING = (
    *_decisions(),
    Transition(
        name="abort of nothing",
        sentence="An abort of what the coordinator does not know of succeeds, and gives the next epoch.",
        source="KIP-890, part 2",
        apis=(Api.END,),
        phases=IDLE,
        guards=(*OWN, g.ABORTS, g.ANSWERED_NEXT),
        effect=partial(effects.decided_with_next_epoch, Phase.PREPARE_ABORT),
        to=Phase.PREPARE_ABORT,
    ),
    Transition(
        name="end of nothing",
        sentence="Without a transaction there is nothing to end.",
        source=f"{HANDLING}, EndTxn, step 3d",
        apis=(Api.END,),
        phases=(Phase.EMPTY,),
        guards=OWN,
        answers=(STATE,),
    ),
    Transition(
        name="commit of nothing",
        sentence="In an epoch that followed a transaction, without one of its own, there is nothing to commit.",
        source="KIP-890, part 2: only an abort may come without a transaction",
        apis=(Api.END,),
        phases=(Phase.COMPLETE_COMMIT, Phase.COMPLETE_ABORT),
        guards=(*OWN, g.BY_EPOCH, g.COMMITS),
        answers=(STATE,),
    ),
    Transition(
        name="fenced end",
        sentence="A producer of another epoch may end nothing.",
        source=f"{HANDLING}, EndTxn, step 2; KIP-588",
        apis=(Api.END,),
        phases=KNOWN,
        guards=(g.OWN_PRODUCER, g.OTHER_EPOCH),
        answers=FENCED,
    ),
    Transition(
        name="early end",
        sentence="The end of a transaction comes while the one before is not complete.",
        source="no KIP: Kafka 4 answers so",
        apis=(Api.END,),
        phases=(Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT),
        guards=(g.OWN_PRODUCER, g.BY_EPOCH),
        answers=FENCED,
    ),
    Transition(
        name="fenced by the next producer id",
        sentence="The epochs are exhausted, and until all markers are written the id has the producer id before.",
        source="KIP-890, part 2",
        apis=(*ADDING, Api.END),
        phases=(Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT),
        guards=(g.LEFT_PRODUCER,),
        answers=FENCED,
    ),
    Transition(
        name="repeated end before an initialisation",
        sentence="An EndTxn in the last epoch of the producer id before comes once more when the id was initialised since.",
        source="KIP-890, part 2",
        apis=(Api.END,),
        phases=(Phase.EMPTY,),
        guards=(g.SECOND_PROTOCOL, g.NAMED_EXHAUSTED),
        answers=FENCED,
    ),
    Transition(
        name="unmapped",
        sentence="A request with another producer id than that of the id, or of an unknown id, is refused.",
        source=f"{HANDLING}, step 1 of each request",
        apis=(*ADDING, Api.END),
        phases=MAPPED,
        guards=(g.OTHER_PRODUCER,),
        answers=(MAPPING,),
    ),
    Transition(
        name="busy",
        sentence="The coordinator has work with the id, and the client has to ask again: nothing was done.",
        source=RETRIABLE,
        apis=(Api.INIT, *ADDING, Api.END),
        phases=MAPPED,
        answers=(BUSY,),
    ),
)
SPONTANEOUS = (
    Transition(
        name="timeout",
        sentence="The transaction is too old: the coordinator raises the epoch and aborts it.",
        source="KIP-98, Coordinator-side Transaction Expiration, step 1a",
        phases=(Phase.ONGOING,),
        effect=effects.fenced,
        to=Phase.FENCING,
    ),
    Transition(
        name="abort after fencing",
        sentence="The coordinator logs the abort with the raised epoch.",
        source="KIP-98, Coordinator-side Transaction Expiration, step 1a",
        phases=(Phase.FENCING,),
        effect=effects.aborting,
        to=Phase.PREPARE_ABORT,
    ),
    Transition(
        name="commit complete",
        sentence="All partitions have their COMMIT marker.",
        source="KIP-98, Data Flow, 5.3",
        phases=(Phase.PREPARE_COMMIT,),
        effect=effects.completed,
        to=Phase.COMPLETE_COMMIT,
    ),
    Transition(
        name="abort complete",
        sentence="All partitions have their ABORT marker.",
        source="KIP-98, Data Flow, 5.3",
        phases=(Phase.PREPARE_ABORT,),
        effect=effects.completed,
        to=Phase.COMPLETE_ABORT,
    ),
    Transition(
        name="abort complete with a new producer id",
        sentence="All partitions have their ABORT marker, which exhausted the epochs: the id has another producer id.",
        source="KIP-890, part 2",
        phases=(Phase.PREPARE_ABORT,),
        guards=(g.BEYOND,),
        effect=effects.completed_anew,
        to=Phase.COMPLETE_ABORT,
        unseen="only what the coordinator aborts by itself has such an epoch, and the steps to its end are its own",
    ),
    Transition(
        name="expiration",
        sentence="The id was not used for transactional.id.expiration.ms, and is forgotten.",
        source="KIP-98, Coordinator TransactionalId Expiration",
        phases=IDLE,
        effect=effects.expired,
        to=Phase.DEAD,
        unseen=AGED,
    ),
)
TRANSITIONS: Sequence[Transition] = (*INITIALISING, *BEGINNING, *DECIDING, *SPONTANEOUS)
KNOWN_BREACHES: Sequence[Transition] = (
    Transition(
        name="commit of what the coordinator itself has aborted",
        sentence="Kafka 4.0 to 4.4.0 takes it for a repeated EndTxn, as the coordinator's own abort has raised the epoch by one",
        source="KAFKA-20785",
        apis=(Api.END,),
        phases=ABORTED,
        guards=(g.NAMED_LAST, g.SECOND_PROTOCOL, g.BY_DIRECTION, g.COMMITS),
        answers=(STATE,),
    ),
    Transition(
        name="abort by an instance that was replaced",
        sentence="Kafka 4.4.0 takes it for a repeated EndTxn, the other way: another instance has raised the epoch by one",
        source="as KAFKA-20785",
        apis=(Api.END,),
        phases=COMMITTED,
        guards=(g.ONE_BEFORE, g.SECOND_PROTOCOL, g.BY_DIRECTION, g.ABORTS),
        answers=(STATE,),
    ),
    Transition(
        name="abort of what the coordinator itself has aborted",
        sentence="Kafka 4.4.0 takes it for a repeated EndTxn, as its own abort has raised the epoch by one, and the fenced "
        "producer gets that epoch",
        source="as KAFKA-20785",
        apis=(Api.END,),
        phases=ABORTED,
        guards=(g.NAMED_LAST, g.SECOND_PROTOCOL, g.BY_DIRECTION, g.ABORTS, g.ANSWERED_CURRENT),
    ),
)
"""Exchanges that no transition allows, and of which it is known why a release of Kafka makes them. No part of the machine."""
EXPIRATION = "expiration"
