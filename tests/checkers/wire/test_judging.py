"""The judgement of exchanges: stories, guilty and innocent for each rule, and the slow twin on random ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

import pytest

from fencepost.checkers.wire import judging
from fencepost.checkers.wire.exchanges import Exchange
from fencepost.checkers.wire.judging import judged
from fencepost.checkers.wire.machine import Machine
from fencepost.checkers.wire.settling import Settling
from fencepost.checkers.wire.states import (
    BUSY,
    FENCED,
    IMPLYING,
    LAST_EPOCH,
    MAPPING,
    NONE,
    STATE,
    Answer,
    Api,
    Phase,
    Request,
    State,
)
from tests.support.wire_exploration import EXCHANGES
from tests.support.wire_reference import explained

FINE, LATE = Answer(), "COORDINATOR_NOT_AVAILABLE"
A, B = frozenset({"a-0"}), frozenset({"b-0"})


def initialise(epoch, *, named=(-1, -1), producer=7):
    return Request(Api.INIT, 4, *named), Answer(NONE, producer, epoch)


def add(epoch, error=NONE, partitions=A, producer=7):
    return Request(Api.PARTITIONS, 3, producer, epoch, partitions=partitions), Answer(error)


def write(epoch, error=NONE, partitions=A):
    return Request(Api.PRODUCE, 12, 7, epoch, partitions=partitions), Answer(error)


def end(epoch, committed=True, error=NONE, producer=7):
    return Request(Api.END, 3, producer, epoch, committed), Answer(error)


def end2(epoch, committed=True, error=NONE, then=None):
    given = Answer(NONE, 7, epoch + 1 if then is None else then) if error == NONE else Answer(error)
    return Request(Api.END, 5, 7, epoch, committed), given


def story(*pairs, node="n1"):
    """Exchanges one after the other."""
    times = count(0, 10)
    return [Exchange(row, node, "c", at, at + 5, *pair) for row, (at, pair) in enumerate(zip(times, pairs, strict=False))]


def unanswered(exchange):
    return replace(exchange, ended=None, answer=None)


def broken(exchanges, **settings):
    """Of each breach: the row, and the names of the rules."""
    return [(breach.exchange.row, breach.rules) for breach in judged(Machine(**settings), exchanges).breaches]


FIRST = (initialise(0), add(0))
SECOND = (initialise(0), write(0))
LAST = (initialise(LAST_EPOCH), write(LAST_EPOCH))
EXHAUSTING = (Request(Api.END, 5, 7, LAST_EPOCH, True), Answer(NONE, 8, 0))
INNOCENT = {
    "commit": (*FIRST, end(0), add(0), end(0, False)),
    "commit, repeated": (*FIRST, end(0), end(0)),
    "abort, repeated": (*FIRST, end(0, False), end(0, False)),
    "abort after commit refused": (*FIRST, end(0), end(0, False, STATE)),
    "nothing to end": (initialise(0), end(0, True, STATE)),
    "busy": (*FIRST, end(0), add(0, BUSY), add(0)),
    "zombie refused": (*FIRST, end(0), initialise(1), add(0, FENCED[0]), end(0, True, FENCED[1])),
    "open transaction fenced": (*FIRST, (Request(Api.INIT, 4), Answer(BUSY)), initialise(2), end(0, True, FENCED[0])),
    "timed out": (*FIRST, end(0, True, FENCED[0])),
    "last epoch, asked for twice": (
        initialise(LAST_EPOCH - 1),
        *[initialise(LAST_EPOCH, named=(7, LAST_EPOCH - 1))] * 2,
        initialise(0, named=(7, LAST_EPOCH), producer=8),
    ),
    "bumped by its producer": (initialise(0), initialise(1, named=(7, 0)), initialise(1, named=(7, 0))),
    "stale initialisation refused": (initialise(0), initialise(1), (Request(Api.INIT, 4, 7, 0), Answer(FENCED[0]))),
    "other producer id": (*FIRST, end(0, True, MAPPING, producer=8)),
    "exhausted": (initialise(LAST_EPOCH), initialise(0, producer=8), add(LAST_EPOCH, MAPPING)),
    "second protocol": (*SECOND, end2(0), write(1), end2(1, False), write(2, partitions=B)),
    "second protocol, repeated": (*SECOND, end2(0), end2(0)),
    "second protocol, abort of nothing": (*SECOND, end2(0), end2(1, False)),
    "second protocol, commit of nothing": (*SECOND, end2(0), end2(1, True, STATE)),
    "second protocol, other direction": (*SECOND, end2(0), end2(0, False, STATE)),
    "second protocol, nothing written": (initialise(0), write(0, "NOT_LEADER_OR_FOLLOWER"), end2(0, True, STATE)),
    "second protocol, early end": (*SECOND, end2(0), end2(1, False, FENCED[0])),
    "nothing known": (add(3), end(3), end(3, False)),
    "offsets first": (initialise(0), (Request(Api.OFFSETS, 3, 7, 0, partitions=A), FINE), end(0)),
    "offsets first refused": (initialise(0), (Request(Api.OFFSETS, 3, 7, 0, partitions=A), Answer(STATE))),
    "addition while it ends": (*FIRST, end(0), add(0, STATE)),
    "last epoch, aborted by the coordinator": (*LAST, (Request(Api.INIT, 4), Answer(BUSY)), initialise(1, producer=8)),
    "last epoch, timed out, and asked for the next": (
        *LAST,
        initialise(0, named=(7, LAST_EPOCH), producer=8),
        add(0, producer=8),
    ),
    "last epoch, timed out, and refused": (*LAST, add(LAST_EPOCH, MAPPING), initialise(1, producer=8)),
    "last epoch, zombies while it ends": (
        *LAST,
        EXHAUSTING,
        add(0, FENCED[0]),
        end(LAST_EPOCH, True, FENCED[1]),
        add(0, MAPPING),
    ),
    "last epoch, repeated": (*LAST, EXHAUSTING, EXHAUSTING, add(0, producer=8)),
    "last epoch, repeated after an initialisation": (
        initialise(LAST_EPOCH),
        initialise(0, producer=8),
        end2(LAST_EPOCH, True, FENCED[0]),
        end2(LAST_EPOCH, False, MAPPING),
    ),
}
GUILTY = {
    "abort acknowledged after a commit": ((*FIRST, end(0), end(0, False)), "abort"),
    "commit acknowledged after an abort": ((*FIRST, end(0, False), end(0)), "commit"),
    "commit acknowledged without a transaction": ((initialise(0), end(0)), "commit"),
    "old epoch accepted": ((*FIRST, end(0), initialise(1), add(0)), "epoch"),
    "old epoch ends": ((initialise(0), initialise(1), add(1), end(0)), "epoch"),
    "epoch goes back": ((initialise(3), initialise(2)), "epoch grows"),
    "epoch given twice": ((initialise(3), initialise(3)), "epoch grows"),
    "epoch that clients do not get": ((initialise(LAST_EPOCH), initialise(LAST_EPOCH + 1)), "epoch of a client"),
    "epoch that clients do not get, asked for by name": (
        (initialise(LAST_EPOCH), initialise(LAST_EPOCH + 1, named=(7, LAST_EPOCH))),
        "epoch of a client",
    ),
    "another producer id before epochs are exhausted": ((initialise(0), initialise(0, producer=8)), "exhausted"),
    "former producer id given again": (
        (initialise(LAST_EPOCH), initialise(0, named=(7, LAST_EPOCH), producer=8), initialise(1, producer=7)),
        "producer kept",
    ),
    "other producer id accepted": ((initialise(0), add(0, producer=8)), "producer"),
    "current epoch refused": ((initialise(0), add(0, FENCED[0])), "other epoch"),
    "own producer id refused": ((initialise(0), add(0, MAPPING)), "other producer"),
    "open transaction not ended": ((*FIRST, end(0, True, STATE)), "commit of what is decided otherwise"),
    "stale initialisation accepted": ((initialise(0), initialise(1), initialise(2, named=(7, 0))), "named current"),
    "latest initialisation refused": ((initialise(0), (Request(Api.INIT, 4, 7, 0), Answer(FENCED[0]))), "named old"),
    "second epoch of another producer id": ((initialise(LAST_EPOCH), initialise(1, producer=8)), "first epoch"),
    "second epoch of another producer id after an abort by its producer": (
        (initialise(LAST_EPOCH), add(LAST_EPOCH), end(LAST_EPOCH, False), initialise(1, producer=8)),
        "first epoch",
    ),
    "last epoch, aborted by the coordinator, and the same producer id": (
        (*LAST, (Request(Api.INIT, 4), Answer(BUSY)), initialise(1)),
        "epoch grows",
    ),
    "last epoch, zombie refused as if it ended still": ((*LAST, EXHAUSTING, add(0, producer=8), add(0, FENCED[0])), "producer"),
    "last epoch, the next producer id refused": (
        (initialise(LAST_EPOCH), initialise(0, producer=8), add(0, FENCED[0], producer=8)),
        "other epoch",
    ),
    "last epoch, repeated by the first protocol after an initialisation": (
        (initialise(LAST_EPOCH), initialise(0, producer=8), end(LAST_EPOCH, True, FENCED[0])),
        "producer",
    ),
    "second protocol, epoch kept": ((*SECOND, end2(0, then=0)), "next epoch answered"),
    "second protocol, epoch used once more": ((*SECOND, end2(0), write(0, partitions=B)), "epoch"),
    "second protocol, other direction": ((*SECOND, end2(0), end2(0, False)), "commit"),
    "second protocol, commit of nothing": ((*SECOND, end2(0), end2(1)), "commit with the next epoch"),
    "second protocol, timed out and refused as if ended": ((*SECOND, end2(0, True, STATE)), "end of nothing"),
    "second protocol, timed out and granted as if ended": (
        (*SECOND, end2(0, True, FENCED[0]), end2(0, False)),
        "repetition by epoch",
    ),
    "second protocol, replaced and refused as if ended": (
        (initialise(0), initialise(1), add(1), end(1), end2(0, False, STATE)),
        "epoch",
    ),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_innocent(name):
    assert not broken(story(*INNOCENT[name]))


@pytest.mark.parametrize("name", GUILTY)
def test_guilty(name):
    pairs, rule = GUILTY[name]
    ((row, rules),) = broken(story(*pairs))
    assert row == len(pairs) - 1
    assert rule in rules, rules


@pytest.mark.parametrize("name", [*INNOCENT, *GUILTY])
def test_who_takes_records_does_not_coordinate(name):
    """Leaders, and the coordinators of groups, are other brokers: what they grant says nothing of who coordinates the id."""
    exchanges = story(*(INNOCENT[name] if name in INNOCENT else GUILTY[name][0]))
    apart = [replace(one, node="n2") if one.request.api in IMPLYING else one for one in exchanges]
    assert broken(apart) == broken(exchanges)


def test_the_refusal_of_a_former_coordinator_says_nothing_though_it_leads_partitions():
    exchanges = story(initialise(0), initialise(1), write(1), end2(0, True, STATE), node="n2")
    exchanges[1] = replace(exchanges[1], node="n1")
    assert not broken(exchanges)


@pytest.mark.parametrize(
    "asked",
    [(LAST[0], initialise(0, named=(7, LAST_EPOCH), producer=8)), (*LAST, EXHAUSTING)],
    ids=["initialisation", "end"],
)
def test_a_producer_id_whose_first_answer_was_lost_is_given_once_more(asked):
    """KIP-360: a repeated initialisation; KIP-890: a repeated end."""
    exchanges = story(*asked, add(LAST_EPOCH, MAPPING), asked[-1], (asked[-1][0], Answer(NONE, 9, 0)))
    lost = unanswered(exchanges[len(asked) - 1])
    exchanges[len(asked) - 1] = lost
    assert not broken(exchanges[:-1])
    assert [row for row, _ in broken(exchanges)] == [len(asked) + 2], "it is one and the same"


def test_a_breach_of_which_it_is_known_why_kafka_makes_it_names_the_issue():
    known = {name: [breach.known for breach in judged(Machine(), story(*pairs)).breaches] for name, (pairs, _) in GUILTY.items()}
    for name in ("timed out and refused", "timed out and granted", "replaced and refused"):
        ours = known.pop(f"second protocol, {name} as if ended")
        assert ["KAFKA-20785" in text for text in ours] == [True]
    assert [text for some in known.values() for text in some if text] == []


def raised(*pairs):
    return [breach.raised for breach in judged(Machine(), story(*pairs)).breaches]


def test_of_a_request_of_an_older_epoch_is_said_who_had_the_next_one():
    assert raised(*FIRST, end(0), initialise(1), add(0)) == ["epoch 1 had been given in answer to InitProducerId of c"]
    assert raised(*SECOND, end2(0), write(0, partitions=B)) == [
        "epoch 1 had been given in answer to EndTxn (commit) by producer id 7 in epoch 0 of c"
    ]
    assert raised(*FIRST, end(0, True, FENCED[0]), add(0)) == [
        "no answer had given epoch 1: the coordinator had raised it to abort a transaction, or for a lost request"
    ]
    assert raised(initialise(0), add(0, FENCED[0])) == [""], "it was refused for an epoch that is the current one"


def test_an_answer_that_nobody_has_may_come_of_an_effect_or_of_none():
    exchanges = story(*FIRST, end(0), end(0, False))
    assert broken(exchanges)
    exchanges[2] = unanswered(exchanges[2])
    assert not broken(exchanges), "the commit never arrived"
    assert not broken([*exchanges[:3], *story(*FIRST, end(0), end(0, False, STATE))[3:]]), "it had arrived"


def test_a_lost_request_may_arrive_at_any_later_time():
    """KIP-890: with the first protocol, a delayed EndTxn ends the next transaction of the same epoch."""
    pairs = (*FIRST, end(0), end(0), add(0), end(0, False, STATE))
    assert broken(story(*pairs))
    exchanges = story(*pairs)
    exchanges[2] = unanswered(exchanges[2])
    assert not broken(exchanges)
    second = story(*SECOND, end2(0), end2(0), write(1), end2(1, False, STATE))
    second[2] = unanswered(second[2])
    assert broken(second), "the second protocol has an epoch for each transaction"


def test_copies_may_arrive_later_too():
    pairs = (*FIRST, end(0), add(0), end(0, False, STATE))
    exchanges = story(*pairs)
    assert broken(exchanges)
    exchanges[2] = replace(exchanges[2], times=2)
    assert not broken(exchanges)


def test_an_error_that_says_nothing_may_hide_an_effect_until_another_one():
    assert not broken(story(*FIRST, end(0, True, LATE), end(0, False, STATE)))
    assert broken(story(*FIRST, end(0, True, LATE), end(0, False), end(0)))
    taken_back = story(*FIRST, end(0, True, LATE), end(0, False), add(0), end(0, False, STATE))
    assert broken(taken_back), "what was logged before the abort counts no more"


def test_exchanges_that_overlap_may_have_come_in_either_order():
    add_first, commit, abort = story(*FIRST, end(0), end(0, False, STATE))[1:]
    first = story(*FIRST)[0]
    assert not broken([first, add_first, replace(abort, began=21), replace(commit, ended=60)])
    early = replace(abort, began=16, ended=19)
    assert broken([first, add_first, early, replace(commit, began=20)])
    assert not broken([first, add_first, early, replace(commit, began=18)])


def test_the_refusal_of_a_broker_that_was_coordinator_before_says_nothing():
    exchanges = story(initialise(0), add(0, FENCED[0]))
    assert broken(exchanges)
    assert not broken([exchanges[0], replace(exchanges[1], node="n2")])
    granted = story(*FIRST, end(0), initialise(1), add(0))
    granted[3] = replace(granted[3], node="n2")
    assert not broken(granted), "n1 was coordinator before n2, and may not have known of the new epoch"


def test_ids_that_may_expire_may_get_another_producer_id():
    exchanges = story(initialise(0), initialise(0, producer=8))
    assert broken(exchanges)
    assert not broken(exchanges, expires=True)


def test_after_a_finding_nothing_is_known_until_the_next_initialisation():
    pairs = (*FIRST, end(0), end(0, False), end(0), end(0, False), initialise(1), add(0))
    assert [row for row, _ in broken(story(*pairs))] == [3, 7]


def test_too_many_possibilities_are_not_judged(monkeypatch):
    monkeypatch.setattr(judging, "MOST", 8)
    lost = [unanswered(exchange) for exchange in story(*(add(0, partitions=frozenset({f"t-{n}"})) for n in range(9)))]
    later = [replace(exchange, began=exchange.began + 6) for exchange in lost]
    result = judged(Machine(), [*story(initialise(0))[:1], *later, replace(story(end(0))[0], began=200, ended=210)])
    assert (result.compared, result.skipped, result.breaches) == (0, 1, ())


def test_after_too_many_possibilities_an_initialisation_tells_again(monkeypatch):
    monkeypatch.setattr(judging, "MOST", 8)
    lost = [unanswered(exchange) for exchange in story(*(add(0, partitions=frozenset({f"t-{n}"})) for n in range(9)))]
    begun, *later = story(initialise(0), end(0), initialise(1), add(1), end(1), end(1, False))
    late = [replace(exchange, began=exchange.began + 200, ended=exchange.ended + 200) for exchange in later]
    result = judged(Machine(), [begun, *(replace(one, began=one.began + 6) for one in lost), *late])
    assert (result.compared, result.skipped) == (3, 2)
    assert [breach.exchange.row for breach in result.breaches] == [5]


def test_more_steps_than_are_allowed_are_not_taken(monkeypatch):
    """A record from anywhere may say that all requests were under way at once."""
    monkeypatch.setattr(judging, "MOST_STEPS", 1000)
    pairs = [(add if number % 3 else end)(number) for number in range(600)]
    together = [replace(exchange, began=0, ended=10**18 + number) for number, exchange in enumerate(story(*pairs))]
    steps = judging.Steps(len(together))
    result = judged(Machine(), together, steps)
    assert (result.compared, result.skipped, result.breaches) == (0, 600, ())
    assert steps.over
    assert steps._left > -2 * 1000


def test_steps_are_shared_by_ids(monkeypatch):
    monkeypatch.setattr(judging, "MOST_STEPS", 1000)
    pairs = story(initialise(0), add(0), end(0), add(0), end(0))
    steps = judging.Steps(5)
    assert judged(Machine(), pairs, steps).compared == judged(Machine(), pairs).compared > 0
    steps._left = 0
    assert judged(Machine(), pairs, steps).skipped == 5


def test_an_answer_that_cannot_be_followed_tells_nothing_but_who_coordinates(monkeypatch):
    monkeypatch.setattr(judging, "MOST", 0)
    judgement = judging._Judgement(Machine(), Settling(expires=False))
    result = judgement.of([*story(initialise(0)), *story(end(0, False), node="n2")])
    assert (result.compared, result.skipped, result.breaches) == (0, 2, ())
    assert set(judgement.nodes) == {"n1", "n2"}


def test_an_initialisation_without_an_answer_may_still_fence_after_too_many_possibilities(monkeypatch):
    monkeypatch.setattr(judging, "MOST", 8)
    lost = [unanswered(exchange) for exchange in story(*(add(0, partitions=frozenset({f"t-{n}"})) for n in range(9)))]
    begun, rival, *later = story(initialise(0), initialise(0), end(0), initialise(1), add(1, FENCED[0]))
    late = [replace(exchange, began=exchange.began + 200, ended=exchange.ended + 200) for exchange in later]
    exchanges = [begun, unanswered(rival), *(replace(one, began=one.began + 20) for one in lost), *late]
    assert judged(Machine(), exchanges).skipped
    assert not judged(Machine(), exchanges).breaches
    assert judged(Machine(), [exchange for exchange in exchanges if exchange.row != rival.row or exchange.answer]).breaches


def test_nothing_is_found_with_a_lower_bound_where_everything_is_lawful(monkeypatch):
    rng, lawful, skipped = Random(4), 0, 0
    for _ in range(300):
        exchanges = [Exchange(-1, "n1", "c", -20, -10, *initialise(0)), *random_story(rng)]
        monkeypatch.setattr(judging, "MOST", 4096)
        if judged(Machine(last_epoch=1), exchanges).breaches:
            continue
        monkeypatch.setattr(judging, "MOST", rng.randint(3, 12))
        result = judged(Machine(last_epoch=1), exchanges)
        assert not result.breaches, exchanges
        lawful, skipped = lawful + 1, skipped + bool(result.skipped)
    assert lawful > 100
    assert skipped > 10


def random_story(rng):
    """A few exchanges that overlap, with answers that are mostly lawful in some order."""
    machine, state = Machine(last_epoch=1), State(Phase.EMPTY, 7, 0)
    exchanges = []
    for row in range(rng.randint(2, 5)):
        state = rng.choice(sorted(machine.closed([state]), key=str))
        lawful = [(exchange, then) for exchange in EXCHANGES for then in machine.after(state, *exchange)]
        (request, answer), then = rng.choice(lawful)
        if rng.random() < 0.3:
            request, answer = rng.choice(EXCHANGES)
        state = then
        began, lasts = 10 * row + rng.randint(0, 5), rng.choice((3, 15, 40))
        known = rng.random() < 0.85
        exchanges.append(Exchange(row, "n1", "c", began, began + lasts if known else None, request, answer if known else None))
    return exchanges


@pytest.mark.parametrize("seed", range(6))
def test_the_slow_twin_agrees(seed):
    rng, machine = Random(seed), Machine(last_epoch=1)
    start = Exchange(-1, "n1", "c", -20, -10, *initialise(0))
    answers = []
    for _ in range(60):
        exchanges = random_story(rng)
        answers.append(explained(machine, exchanges, State(Phase.EMPTY, 7, 0)))
        assert answers[-1] == (not judged(machine, [start, *exchanges]).breaches), exchanges
    assert {True, False} == set(answers)
