"""Additions that take effect at once: many requests under way stay few possibilities, and no judgement changes by it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from fencepost.checkers.wire import judging
from fencepost.checkers.wire.exchanges import Exchange
from fencepost.checkers.wire.judging import judged
from fencepost.checkers.wire.machine import Machine
from fencepost.checkers.wire.settling import Settling, kept_epochs
from fencepost.checkers.wire.states import BUSY, NONE, Answer, Api, Phase, Request, State
from tests.support.wire_exploration import EXCHANGES

INIT = Exchange(0, "n1", "c", 0, 5, Request(Api.INIT, 4), Answer(NONE, 7, 0))
END = Request(Api.END, 5, 7, 0, committed=True)
MANY = 24
FEW = 40


def produce(row, began, ended, error=NONE, epoch=0, partition=None):
    request = Request(Api.PRODUCE, 12, 7, epoch, partitions=frozenset({f"t-{row if partition is None else partition}"}))
    return Exchange(row, "n1", "c", began, ended, request, Answer(error))


def end(row, began, answer, request=END):
    return Exchange(row, "n1", "c", began, began + 5, request, answer)


NEXT = Answer(NONE, 7, 1)


def test_writes_under_way_at_once_are_few_possibilities(monkeypatch):
    monkeypatch.setattr(judging, "MOST", FEW)
    under_way = [produce(row, 10 + row, 100 + row) for row in range(1, MANY)]
    result = judged(Machine(), [INIT, *under_way, end(MANY, 200, NEXT)])
    assert (result.compared, result.skipped, result.breaches) == (MANY, 0, ())
    wrong = judged(Machine(), [INIT, *under_way, end(MANY, 200, Answer(NONE, 7, 0))])
    assert [breach.exchange.row for breach in wrong.breaches] == [MANY]


def test_writes_that_are_refused_while_the_last_transaction_ends_are_few_possibilities(monkeypatch):
    """Each of them may begin the next transaction after all, until an epoch grows. A rival asks for it in vain meanwhile."""
    monkeypatch.setattr(judging, "MOST", 4 * FEW)
    ended = [produce(1, 10, 15), end(2, 20, NEXT)]
    refused = [produce(row, 10 * row, 10 * row + 15, BUSY, 1, row % 3) for row in range(3, MANY)]
    rivals = [end(100 + row, 10 * row + 3, Answer(BUSY), Request(Api.INIT, 4)) for row in range(3, MANY)]
    abort = replace(END, epoch=1, committed=False)
    for given, guilty in ((Answer(NONE, 7, 2), False), (Answer(NONE, 7, 3), True)):
        result = judged(Machine(), [INIT, *ended, *refused, *rivals, end(MANY, 900, given, abort)])
        assert (result.compared, result.skipped) == (2 + len(rivals) + 1, 0)
        assert bool(result.breaches) == guilty


def test_an_addition_of_the_first_protocol_may_begin_the_next_transaction():
    """It must not be taken for a part of the open one, as its epoch goes on."""
    adds = [Request(Api.PARTITIONS, 3, 7, 0, partitions=frozenset({name})) for name in "ab"]
    commit = Request(Api.END, 3, 7, 0, committed=True)
    abort = replace(commit, committed=False)
    early = Exchange(1, "n1", "c", 10, 15, adds[0], Answer())
    late = Exchange(2, "n1", "c", 20, 60, adds[1], Answer())
    exchanges = [INIT, early, late, end(3, 30, Answer(), commit), end(4, 70, Answer(), abort)]
    assert kept_epochs(exchanges) == {(7, 0)}
    assert not judged(Machine(), exchanges).breaches
    assert judged(Machine(), [INIT, early, replace(late, ended=25), *exchanges[3:]]).breaches


def test_an_addition_waits_where_it_would_rule_out_what_was_logged_before():
    """A commit whose error says nothing was logged before the next record was sent, or never: both stay possible."""
    settling = Settling(expires=False)
    lost = Exchange(1, "n1", "c", 10, 15, END, Answer("COORDINATOR_NOT_AVAILABLE"))
    settling.open.update({1: lost, 2: produce(2, 20, 30)})
    settling.errors.add(1)
    state = State(Phase.ONGOING, 7, 0, began=0, partitions=frozenset({"t-9"}))
    assert settling.settled(state, frozenset()) == (state, frozenset())
    settling.open[2] = produce(2, 20, 30, partition=9)
    assert settling.settled(state, frozenset()) == (state, frozenset({2})), "it changes nothing, and rules out nothing"


def test_what_is_void_counts_as_done():
    settling = Settling(expires=False, open={1: replace(produce(1, 10, 15), answer=None)})
    assert settling.settled(State(Phase.EMPTY, 7, 1), frozenset())[1] == {1}
    assert settling.settled(State(Phase.EMPTY, 7, 0), frozenset())[1] == frozenset()


def test_an_initialisation_is_never_void_where_its_id_may_be_forgotten():
    named = Exchange(1, "n1", "c", 10, None, Request(Api.INIT, 4, 7, 0), None)
    after = State(Phase.EMPTY, 7, 3, last=(7, 2))
    assert Settling(expires=False, open={1: named}).settled(after, frozenset())[1] == {1}
    assert Settling(expires=True, open={1: named}).settled(after, frozenset())[1] == frozenset()


def random_story(rng, machine, second):
    """Exchanges that overlap, with errors that say nothing, copies and a second broker; most answers are lawful in some order."""
    first_only = (Api.PARTITIONS, Api.OFFSETS)
    pool = [(q, a) for q, a in EXCHANGES if not second or not (q.api in first_only or (q.api is Api.END and not q.second))]
    state, exchanges = State(Phase.EMPTY, 7, 0), []
    for row in range(1, rng.randint(3, 7)):
        state = rng.choice(sorted(machine.closed([state]), key=str))
        lawful = [(exchange, then) for exchange in pool for then in machine.after(state, *exchange)]
        weights = [4 if request.api is Api.PRODUCE else 1 for (request, _), _ in lawful]
        (request, answer), then = rng.choices(lawful, weights)[0]
        state = then if rng.random() < 0.7 else state
        if (draw := rng.random()) < 0.25:
            request, answer = rng.choice(pool)
        elif draw < 0.5:
            answer = Answer(rng.choice(["COORDINATOR_NOT_AVAILABLE", BUSY]))
        began, known = 10 * row + rng.randint(0, 5), rng.random() < 0.85
        ended, node = began + rng.choice((3, 15, 40, 60)), rng.choice(("n1", "n1", "n1", "n2"))
        times = rng.choice((1, 1, 1, 2))
        exchanges.append(Exchange(row, node, "c", began, ended if known else None, request, answer if known else None, times))
    return exchanges


@pytest.mark.parametrize("seed", range(4))
def test_no_judgement_changes_by_settling(seed, monkeypatch):
    """The twin tells all exchanges apart by whether they have taken effect."""
    rng, guilty = Random(seed), 0
    for number in range(120):
        machine = Machine(last_epoch=rng.choice((1, 5)), expires=rng.random() < 0.3)
        story = [INIT, *random_story(rng, machine, second=number % 3 > 0)]
        own = judged(machine, story)
        with monkeypatch.context() as patch:
            patch.setattr(Settling, "settled", lambda self, state, done: (state, done))
            twin = judged(machine, story)
        assert not twin.skipped
        assert own == twin or (own.compared, _rows(own)) == (twin.compared, _rows(twin)), story
        guilty += bool(twin.breaches)
    assert 20 < guilty < 100


def _rows(result):
    return [breach.exchange.row for breach in result.breaches]
