"""Which records a transaction coordinator may log behind which (KIP-98, KIP-360, KIP-890).

A coordinator logs where it means to go with a transactional id, and goes there once enough replicas have the record. Where they
do not have it in time it answers with an error and stays where it was, although the record is in its log: such a record is
*taken back*, and the next one follows what was before it. The next coordinator begins with the last record.
"""

from __future__ import annotations

import numpy as np

from fencepost.checkers.model.arrays import Bools, Ints, positions_in
from fencepost.checkers.model.values import NONE
from fencepost.checkers.pipeline.coordinator_log import States
from fencepost.checkers.pipeline.stored_logs import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    FENCE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    REMOVED,
    STATES,
)

BEGINNING = len(STATES)  # the state of a transactional id that has no record
LAST_EPOCH = (1 << 15) - 2  # of a producer id, at which a coordinator gives another one; a fence or an end raises it by one more
# No Empty keeps it, as a repeated InitProducerId keeps any other: Kafka refuses that (`prepareIncrementProducerEpoch`)
CLOSED = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
OPEN = (ONGOING, FENCE)


class Steps:
    """The lawful steps between the records of transactional ids."""

    def __init__(self, states: States) -> None:
        self.states = states
        self._width = int(states.listed.max(initial=0)) + 1
        self._sizes = np.diff(states.bounds)
        self._there = np.repeat(np.arange(len(states)), self._sizes) * self._width + states.listed
        self._new = self._first_of_producer()
        self._only = self._new & self._first_producer()

    def lawful(self, before: Ints, now: Ints) -> Bools:
        """True for each pair of records of one id where the second may be logged while the first is what holds.

        before: position of a record; NONE: none holds.
        """
        states, begins = self.states, before == NONE
        before = np.maximum(before, 0)
        then = np.where(begins, BEGINNING, states.state[before])
        state, epoch, held = states.state[now], states.producer_epoch[now], states.producer_epoch[before]
        same, by = states.producer_id[now] == states.producer_id[before], epoch - held
        closed, opened = np.isin(then, CLOSED), np.isin(then, OPEN)
        unknown = (then == BEGINNING) | (then == REMOVED)
        given = (epoch == 0) & self._new[now]
        begun = np.where(then == BEGINNING, (epoch == 0) & self._only[now], (then == REMOVED) & given)
        renewed = np.where(same, (by >= 0) & (by <= 1) & (held < LAST_EPOCH), given & (held >= LAST_EPOCH))
        kept = self._kept(before, now)
        equal = kept & (self._sizes[before] == self._sizes[now])
        nothing = closed & (self._sizes[now] == 0) & ((by == 1) | ((by == 0) & (held > LAST_EPOCH)))
        announced = (states.next_producer_id[before] != NONE) & (states.producer_id[now] == states.next_producer_id[before])
        ended = np.where(same, by == 0, announced & (epoch == 0))
        lawful: Bools = np.select(
            [
                state == EMPTY,
                state == ONGOING,
                state == PREPARE_COMMIT,
                state == PREPARE_ABORT,
                state == COMPLETE_COMMIT,
                state == COMPLETE_ABORT,
                state == DEAD,
                state == FENCE,
            ],
            [
                begun | (closed & renewed),
                same & (by == 0) & (closed | ((then == ONGOING) & kept)),
                same & (then == ONGOING) & (by >= 0) & (by <= 1) & equal,
                same & ((opened & (by >= 0) & equal) | nothing),
                (then == PREPARE_COMMIT) & ended,
                (then == PREPARE_ABORT) & ended,
                closed,
                same & (then == ONGOING),
            ],
            closed | unknown | (then == DEAD),  # a removal
        ).astype(np.bool_)
        return lawful

    def _kept(self, before: Ints, now: Ints) -> Bools:
        """True for each pair where all partitions of the first record are among those of the second."""
        sizes = self._sizes[before]
        owner = np.repeat(np.arange(len(before)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = np.ones(len(before), dtype=np.bool_)
        if len(owner):
            wanted = now[owner] * self._width + self.states.listed[self.states.bounds[before][owner] + within]
            kept[owner[positions_in(self._there, wanted) == NONE]] = False
        return kept

    def _first_producer(self) -> Bools:
        """True for each record before which its transactional id has no producer id: a coordinator that could not log the first
        one keeps it."""
        states, own = self.states, np.arange(len(self.states))
        last = np.maximum.accumulate(np.where(states.producer_id >= 0, own, NONE))
        before = np.concatenate([[NONE], last[:-1]])[: len(states)]
        begin = np.maximum.accumulate(np.where(states.first, own, 0))
        return np.asarray(before < begin)

    def _first_of_producer(self) -> Bools:
        """True for each record with a producer id that no record of its transactional id had before."""
        states, own = self.states, np.arange(len(self.states))
        order = np.lexsort((own, states.producer_id, states.ident))
        first = np.ones(len(states), dtype=np.bool_)
        first[1:] = (np.diff(states.producer_id[order]) != 0) | (np.diff(states.ident[order]) != 0)
        new = np.empty(len(states), dtype=np.bool_)
        new[order] = first
        return new
