"""The machine of a transactional id: all of it is reached, and each of its conditions is needed."""

from __future__ import annotations

import pytest

from fencepost.checkers.wire.machine import Machine
from fencepost.checkers.wire.states import DEAD, LAST_EPOCH, NONE, STATE, UNKNOWN, Answer, Api, Phase, Request, State
from fencepost.checkers.wire.transitions import TRANSITIONS
from tests.support.wire_exploration import BOUND, EXCHANGES, FIRST, Moves, Mutant, mutants, reachable, telling_trace

EXPIRING = Machine(last_epoch=BOUND, expires=True)
MOVES = [Moves(Machine(last_epoch=BOUND)), Moves(EXPIRING)]
STEPS = 4
OPEN = State(Phase.ONGOING, 7, 3, began=3, partitions=frozenset("a"))


def test_every_phase_is_reached_and_every_transition_taken():
    found = reachable(EXPIRING)
    assert {state.phase for state in found} == set(Phase) - {Phase.UNKNOWN}
    assert set().union(*found.values()) == {transition.name for transition in TRANSITIONS}


def test_no_state_is_dead_and_each_can_be_left_for_a_new_beginning():
    """From everywhere the id can be initialised anew."""
    for state in reachable(EXPIRING):
        fresh = [
            then
            for then in EXPIRING.closed([state])
            if then.phase in (Phase.DEAD, Phase.EMPTY) or then.phase.value[:8] == "Complete"
        ]
        assert fresh, state


def test_names_are_unique_and_every_transition_has_a_source():
    names = [transition.name for transition in TRANSITIONS]
    assert len(set(names)) == len(names)
    assert all(transition.source and transition.sentence for transition in TRANSITIONS)


def test_the_phase_after_a_transition_is_the_declared_one():
    for state in reachable(EXPIRING):
        moves = [*EXPIRING.steps(state), *(move for exchange in EXCHANGES for move in EXPIRING.taken(state, *exchange))]
        for transition, then in moves:
            lawful = {transition.to} if transition.to is not None else {state.phase, Phase.EMPTY}
            assert then.phase in lawful, (transition.name, state)


@pytest.mark.parametrize("mutant", list(mutants()), ids=lambda mutant: mutant.name)
def test_each_condition_is_needed(mutant: Mutant):
    """Without it, the machine would allow a trace that it forbids; where no client can see that, the data says why."""
    moves = MOVES[mutant.expires]
    trace = telling_trace(Machine(mutant.transitions, mutant.expires, last_epoch=BOUND), moves, 3 if mutant.unseen else STEPS)
    assert (trace is None) == bool(mutant.unseen)


def test_the_next_epoch_may_be_used_by_nobody_before_it_is_given():
    machine = Machine()
    end = Request(Api.END, 5, 7, 3, committed=True)
    assert {then.epoch for then in machine.after(OPEN, end, Answer(NONE, 7, 4))} == {4}
    assert not machine.after(OPEN, end, Answer(NONE, 7, 3))
    assert not machine.after(OPEN, end, Answer(STATE))


def test_an_exhausted_producer_id_is_followed_by_another_one():
    machine, last = Machine(), State(Phase.ONGOING, 7, LAST_EPOCH, began=LAST_EPOCH)
    end = Request(Api.END, 5, 7, LAST_EPOCH, committed=True)
    assert {(then.producer, then.epoch) for then in machine.after(last, end, Answer(NONE, 9, 0))} == {(9, 0)}
    assert not machine.after(last, end, Answer(NONE, 7, LAST_EPOCH + 1))


def test_where_nothing_is_known_everything_is_lawful_until_an_initialisation():
    machine = Machine()
    assert machine.after(UNKNOWN, Request(Api.END, 3, 7, 3), Answer(STATE)) == {UNKNOWN}
    assert machine.after(UNKNOWN, Request(Api.INIT), Answer(NONE, 7, 0)) == {FIRST}


def test_a_forgotten_id_is_given_a_new_producer_id():
    assert not Machine().after(DEAD, Request(Api.INIT), Answer(NONE, 9, 1))
    assert Machine().after(DEAD, Request(Api.INIT), Answer(NONE, 9, 0))
    (forgotten,) = [then for then in EXPIRING.closed([FIRST]) if then.phase is Phase.DEAD]
    assert not Machine().after(forgotten, Request(Api.INIT), Answer(NONE, FIRST.producer, 0)), "two instances would have it"
    assert Machine().after(forgotten, Request(Api.INIT), Answer(NONE, FIRST.producer + 1, 0))


def test_the_rule_that_an_exchange_breaks_is_named():
    machine, committed = Machine(), State(Phase.COMPLETE_COMMIT, 7, 3)
    rules = machine.broken([committed], Request(Api.END, 3, 7, 3, committed=False), Answer(NONE))
    assert {rule.name for rule in rules} >= {"commit"}
    rules = machine.broken([committed], Request(Api.PARTITIONS, 3, 7, 2, partitions=frozenset("a")), Answer(NONE))
    assert [rule.name for rule in rules] == ["epoch"]


def test_the_rules_that_an_exchange_breaks_have_one_order():
    """States come as a set, whose order changes from process to process."""
    states = sorted(reachable(EXPIRING), key=str)[:40]
    seen = 0
    for request, answer in EXCHANGES:
        orders = {tuple(EXPIRING.broken(some, request, answer)) for some in (states, states[::-1], states[7:] + states[:7])}
        assert len(orders) == 1
        seen += len(orders.pop()) > 1
    assert seen, "one rule alone has no order"
