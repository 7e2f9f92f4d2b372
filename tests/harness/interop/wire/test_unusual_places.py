"""Anomalies in unusual places of a record of requests, each with a twin that differs in one detail and is lawful."""

from __future__ import annotations

import pytest
from support.histories import violated
from support.wire_records import Record, got, marker

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

A, B = (7, 0), (8, 0)
WHOLE = {"offset_commits": "recorded"}  # whoever commits passes the proxy


def judged(record, directory):
    run = directory / "run"
    run.mkdir()
    adopt(record.write(directory / "record"), run, WHOLE)
    return judge(open_run(run), here=True)


def commits(record, offset, group="g", partition=0, producer=A, owner=None):
    """TxnOffsetCommit of the transaction that is open. owner: a member and its generation."""
    place = {"topic": "in", "partition": partition}
    body = {"memberId": owner[0], "generationId": owner[1]} if owner else None
    named = {"transactional_id": "ab"[producer == B], "producer_id": producer[0], "producer_epoch": producer[1]}
    places = [{**place, "offset": offset}]
    return record.ask("TxnOffsetCommit", group=group, partitions=places, given={"partitions": [place]}, body=body, **named)


def told(record, offset, group="g", partition=0):
    """OffsetFetch that has to wait for open transactions, and its answer."""
    place = {"topic": "in", "partition": partition}
    body = {"groups": [{"groupId": group, "memberId": "m", "memberEpoch": 1}], "requireStable": True}
    given = {"partitions": [{**place, "offset": offset}]}
    return record.ask("OffsetFetch", 9, group=group, partitions=[place], given=given, body=body)


def offsets_only(last):
    """Two transactions that touch offsets alone, one with a record, and what a member is told at the end."""
    record = Record().initialise()
    for offset in (5, 7):
        record.ask("AddOffsetsToTxn", transactional_id="a", producer_id=7, producer_epoch=0, group="g")
        commits(record, offset).end()
    return told(record.transaction([(0, 0)]).read(got(0, 0), marker(1)), last)


def static_member(generation):
    """A static member that restarts: another member id, another instance of its producer; then the first one's commits."""
    record = Record().initialise("a", A).initialise("b", B)
    for number, (producer, owner) in enumerate(((A, ("m1", 3)), (B, ("m2", 3)), (A, ("m1", generation)))):
        name, sequence = "ab"[producer == B], number // 2
        record.add(producer, name).produce(sequence, 2 * number, producer)
        commits(record, 5 + number, producer=producer, owner=owner).end(producer=producer, transactional_id=name)
    return record


def two_groups(second):
    """Two groups of one input, each with offsets of two partitions, far from one another's."""
    record = Record().initialise()
    for number in range(2):
        record.add().produce(number, 2 * number)
        for group, partition, offset in (("one", 0, 7), ("one", 1, 3), ("two", 0, 2), ("two", 1, 9)):
            commits(record, second if number and (group, partition) == ("two", 1) else offset + number, group, partition)
        record.end()
    return record.read(got(0, 0), marker(1), got(1, 2), marker(3))


def interleaved(aborted):
    """Two producers' open transactions in one partition, of which the second is aborted; a reader is told which."""
    record = Record().initialise("a", A).initialise("b", B).add().produce(0, 0).add(B, "b").produce(0, 1, B)
    record.end().end(False, B, "b")
    return record.fetch(0, [got(0, 0), got(0, 1, B), marker(2), marker(3, "ABORT", B)], aborted=aborted).fetch(4)


def handed_over(error):
    """The id is handed over; the instance before commits then, and is refused or not."""
    record = Record().initialise().add().produce(0, 0)
    record.ask("InitProducerId", transactional_id="a", error="CONCURRENT_TRANSACTIONS").initialise(producer=(7, 2))
    record.add((7, 2)).produce(0, 2, (7, 2)).end(producer=(7, 2)).end(error=error)
    aborted = [] if error == "NONE" else [[7, 0]]
    batches = [got(0, 0), marker(1, "ABORT" if aborted else "COMMIT"), got(0, 2, (7, 2)), marker(3, producer=(7, 2))]
    return record.fetch(0, batches, aborted=aborted).fetch(4)


def past_an_open_one(level):
    """A reader that begins behind an open transaction."""
    record = Record().initialise("a", A).initialise("b", B).add().produce(0, 0)
    record.add(B, "b").produce(0, 1, B).end(producer=B, transactional_id="b")
    return record.read(got(0, 1, B), marker(2, producer=B), start=1, level=level).end()


def repeated_commit(read):
    """A commit without an answer, and once more with one; another transaction behind it."""
    record = Record().initialise().add().produce(0, 0).end(answered=False).end().transaction([(1, 2)])
    return record.read(*[got(0, 0)][:read], got(1, 2), marker(3))


def aborted_twice(aborted):
    """Two aborted transactions of one producer with another's between, listed in any order, or not wholly."""
    record = Record().initialise("a", A).initialise("b", B).transaction([(0, 0)], commit=False)
    record.transaction([(0, 2)], producer=B, transactional_id="b").transaction([(1, 4)], commit=False)
    batches = [got(0, 0), marker(1, "ABORT"), got(0, 2, B), marker(3, producer=B), got(1, 4), marker(5, "ABORT")]
    return record.fetch(0, batches, aborted=aborted).fetch(6)


def inside_a_batch(first):
    """A reader is given a batch from its middle, and goes on; another begins at the first record, or behind the first batch."""
    record = Record().initialise().add().produce(0, 0, records=2).produce(2, 2, records=3).produce(5, 5).end()
    one, two, last = got(0, 0, records=2), got(2, 2, records=3), got(5, 5)
    record.fetch(0, [one, two, last, marker(6)]).fetch(3, [two, last, marker(6)]).fetch(7)
    return record.read(*[one, two, last] if first else [one, last], connection=10)


CASES = {
    "offsets alone": (offsets_only, 5, ["torn-offset"], 7),
    "a static member": (static_member, 3, ["double-ownership"], 4),
    "two groups": (two_groups, 8, ["offset-regression"], 10),
    "interleaved": (interleaved, [[7, 0]], ["aborted-read", "lost-write", "protocol-violation"], [[8, 1]]),
    "handed over": (handed_over, "NONE", ["protocol-violation", "zombie-commit"], "PRODUCER_FENCED"),
    "past an open one": (past_an_open_one, 1, ["lso-overrun"], 0),
    "a repeated commit": (repeated_commit, 0, ["lost-write"], 1),
    "aborted twice": (aborted_twice, [[7, 0]], ["aborted-read"], [[7, 4], [7, 0]]),
    "inside a batch": (inside_a_batch, False, ["poll-skip"], True),
}


@pytest.mark.parametrize(("story", "guilty", "found", "innocent"), CASES.values(), ids=CASES)
def test_an_anomaly_and_its_twin(tmp_path, story, guilty, found, innocent):
    for name, detail, expected in (("guilty", guilty, found), ("innocent", innocent, [])):
        (tmp_path / name).mkdir()
        assert violated(judged(story(detail), tmp_path / name)) == expected, name
