"""Anomalies that a record of requests shows, found by the ordinary checks; and what looks like one, and is none."""

from __future__ import annotations

import pytest
from support.histories import answer, violated
from support.wire_records import Record, got, marker

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

OTHER = (8, 0)


def judged(record, directory, **contract):
    run = directory / "run"
    run.mkdir()
    adopt(record.write(directory / "record"), run, contract)
    return judge(open_run(run), here=True)


def began():
    return Record().initialise()


def lawful():
    """A committed and an aborted transaction, read at both levels."""
    record = began().transaction([(0, 0), (1, 1)]).transaction([(2, 3), (3, 4)], commit=False).transaction([(4, 6)])
    one, two, last = [got(0, 0), got(1, 1), marker(2)], [got(2, 3), got(3, 4), marker(5, "ABORT")], [got(4, 6), marker(7)]
    record.fetch(0, [*one, *two, *last], aborted=[[7, 3]]).fetch(8)
    return record.fetch(0, one + two + last, level=0, connection=10).fetch(8, level=0, connection=10)


def test_a_lawful_record_is_valid(tmp_path):
    verdict = judged(lawful(), tmp_path)
    assert (verdict["verdict"], violated(verdict)) == ("valid", [])
    for name in ("aborted-read", "dirty-read", "lso-overrun", "lost-write", "duplicate", "torn-transaction", "poll-skip"):
        assert answer(verdict, name)["verdict"] not in ("violated", "unknown"), name
    for name in ("unproven-ack", "wrong-error"):
        assert answer(verdict, name)["verdict"] == "not exercised", "what clients reported is not on the wire"
    assert answer(verdict, "lost-write")["compared"] == 3
    assert answer(verdict, "aborted-read")["compared"] == 2


def test_an_aborted_record_that_the_answer_does_not_list(tmp_path):
    record = began().transaction([(0, 0)], commit=False).read(got(0, 0), marker(1, "ABORT"))
    assert violated(judged(record, tmp_path)) == ["aborted-read"]


def test_a_committed_record_that_a_reader_is_not_given(tmp_path):
    record = began().transaction([(0, 0), (1, 1), (2, 2)]).read(got(0, 0), got(2, 2))
    assert "lost-write" in violated(judged(record, tmp_path))


def told_aborted(record, first=0, offset=0, level=1, listed=(7, 0), kind="ABORT"):
    """A reader gets a batch, and is told that the transaction that begins there is aborted; nothing lies behind it."""
    batches = [got(first, offset), marker(offset + 1, kind)]
    return record.fetch(offset, batches, aborted=[list(listed)], level=level).fetch(offset + 2, level=level)


def ended_twice():
    return began().add().produce(0, 0).end(False).end()


def sent_again():
    """The broker takes the batch for the one of the aborted transaction before: librdkafka's swallowed write."""
    return began().transaction([(0, 0)], commit=False).add().produce(0, 0).end()


def not_added():
    return began().produce(0, 0).end()


SECOND = began().transaction([(0, 0)], commit=False).transaction([(1, 2)])


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(told_aborted(began().transaction([(0, 0)])), True, id="committed"),
        pytest.param(told_aborted(SECOND, 1, 2, listed=(7, 2)), True, id="committed after another"),
        pytest.param(told_aborted(began().transaction([(0, 0)], commit=False)), False, id="aborted"),
        pytest.param(told_aborted(began().add().produce(0, 0).end(answered=False)), False, id="no answer to the commit"),
        pytest.param(told_aborted(began().add().produce(0, 0).end(error="PRODUCER_FENCED")), False, id="the commit was refused"),
        pytest.param(told_aborted(began().add().produce(0, 0)), False, id="no end"),
        pytest.param(told_aborted(began().add().produce(0, None).end()), False, id="no answer to the Produce"),
        pytest.param(told_aborted(ended_twice()), False, id="an abort came first"),
        pytest.param(told_aborted(sent_again()), False, id="the batch of another transaction"),
        pytest.param(told_aborted(not_added()), False, id="the partition was not added"),
        pytest.param(
            told_aborted(began().transaction([(0, 0)]), listed=(9, 0), kind="COMMIT"), False, id="another producer is listed"
        ),
        pytest.param(
            told_aborted(began().transaction([(0, 0)]), listed=(7, 5), kind="COMMIT"), False, id="another offset is listed"
        ),
        pytest.param(told_aborted(began().transaction([(0, 0)]), level=0), False, id="a read_uncommitted reader"),
    ],
)
def test_a_committed_batch_that_a_reader_is_told_is_aborted(tmp_path, record, found):
    """The reader drops it, and no later record says that it went on: so it is the answer that accuses the broker."""
    verdict = judged(record, tmp_path)
    assert not found or "protocol-violation" in violated(verdict)
    sentences = [finding["sentence"] for finding in verdict["findings"] if "is aborted" in finding["sentence"]]
    assert len(sentences) == found


@pytest.mark.parametrize(("kind", "level", "found"), [("ABORT", 1, True), ("COMMIT", 1, False), ("ABORT", 0, False)])
def test_a_committed_batch_whose_marker_aborts(tmp_path, kind, level, found):
    """Whatever the list says: the next marker of its producer behind it is that of its transaction."""
    record = began().transaction([(0, 0), (1, 1)]).fetch(0, [got(0, 0), got(1, 1), marker(2, kind)], level=level)
    verdict = judged(record.fetch(3, level=level), tmp_path)
    assert violated(verdict) == (["protocol-violation"] if found else [])


def test_a_marker_behind_a_gap_may_be_of_a_later_transaction(tmp_path):
    """Compaction takes the markers of commits, and the records of transactions that were aborted, before their markers."""
    record = began().transaction([(0, 0)]).transaction([(1, 2)], commit=False)
    assert violated(judged(record.fetch(0, [got(0, 0), marker(3, "ABORT")]).fetch(4), tmp_path)) == []


def test_an_operator_may_abort_on_single_partitions(tmp_path):
    verdict = judged(told_aborted(began().transaction([(0, 0)])), tmp_path, operator_aborts="open")
    assert "protocol-violation" not in violated(verdict)


def test_one_that_a_second_reader_was_given(tmp_path):
    record = began().transaction([(0, 0), (1, 1), (2, 2)]).read(got(0, 0), got(2, 2)).read(got(0, 0), got(1, 1), connection=10)
    assert violated(judged(record, tmp_path)) == ["poll-skip"]


def test_a_reader_that_began_behind_a_record_misses_nothing(tmp_path):
    """`auto.offset.reset` = latest: nobody needs to read what lies before."""
    record = began().transaction([(0, 0), (1, 1), (2, 2)]).read(got(1, 1), got(2, 2), start=1)
    assert violated(judged(record, tmp_path)) == []


def test_a_reader_that_went_elsewhere_misses_nothing(tmp_path):
    record = began().transaction([(0, 0), (1, 1), (2, 2)])
    record.fetch(0, [got(0, 0)]).fetch(1).fetch(2, [got(2, 2)]).fetch(3)
    assert violated(judged(record, tmp_path)) == []


def test_a_batch_that_was_appended_twice(tmp_path):
    """Its first answer was lost, and it was sent again."""
    record = began().add().produce(0, None, connection=2).produce(0, 1).end().read(got(0, 0), got(0, 1))
    assert "duplicate" in violated(judged(record, tmp_path))


def test_a_retry_that_was_appended_once(tmp_path):
    record = began().add().produce(0, None, connection=2).produce(0, 0).end().read(got(0, 0))
    verdict = judged(record, tmp_path)
    assert (violated(verdict), verdict["verdict"]) == ([], "valid")


def test_a_transaction_in_two_partitions_of_which_one_is_there(tmp_path):
    record = began().transaction([(0, 0), (0, 0, 1)]).transaction([(1, 2), (1, 2, 1)])
    record.read(got(0, 0), got(1, 2)).fetch(0, [got(1, 2)], partition=1, connection=10).fetch(3, partition=1, connection=10)
    found = violated(judged(record, tmp_path))
    assert {"torn-transaction", "lost-write"} & set(found)


def test_a_record_that_is_read_before_its_transaction_is_committed(tmp_path):
    record = began().add().produce(0, 0).read(got(0, 0)).end()
    assert violated(judged(record, tmp_path)) == ["dirty-read"]


@pytest.mark.parametrize(("level", "known"), [(1, False), (0, True)])
def test_a_record_of_a_transaction_that_nobody_ends(tmp_path, level, known):
    """Whether its end passed elsewhere, or the broker decided by itself, nobody knows."""
    record = began().transaction([(0, 0)]).add().produce(1, 2)
    verdict = judged(
        record.read(got(0, 0), marker(1), got(1, 2), level=level).read(got(0, 0), marker(1), connection=10), tmp_path
    )
    assert violated(verdict) == []
    assert ("whose end is not in the record" not in str(verdict["weakened"])) == known
    assert (answer(verdict, "dirty-read")["verdict"] != "unknown") == known


def test_a_read_uncommitted_reader_may_get_it_before(tmp_path):
    record = began().add().produce(0, 0).read(got(0, 0), level=0).end()
    assert violated(judged(record, tmp_path)) == []


def test_an_older_instance_that_commits(tmp_path):
    """Another one has initialised meanwhile: nobody may see what the older one commits then."""
    record = began().add().produce(0, 0).initialise(producer=(7, 1)).end().read(got(0, 0))
    assert "zombie-commit" in violated(judged(record, tmp_path))


@pytest.mark.parametrize("error", ["PRODUCER_FENCED", "INVALID_TXN_STATE"])
def test_a_commit_that_was_refused_commits_nothing(tmp_path, error):
    record = began().add().produce(0, 0).end(error=error).read(got(0, 0))
    assert "aborted-read" in violated(judged(record, tmp_path))


@pytest.mark.parametrize(
    "more", [{"answered": False}, {"error": "COORDINATOR_NOT_AVAILABLE"}, {"error": "CONCURRENT_TRANSACTIONS"}]
)
def test_a_commit_of_which_nobody_knows_the_outcome_accuses_nobody(tmp_path, more):
    record = began().add().produce(0, 0).end(**more)
    verdict = judged(record.read(got(0, 0)), tmp_path)
    assert violated(verdict) == []


def test_a_commit_that_was_refused_after_one_without_an_answer_may_have_been_done(tmp_path):
    record = began().add().produce(0, 0).end(answered=False).end(error="PRODUCER_FENCED").read(got(0, 0))
    assert violated(judged(record, tmp_path)) == []


def test_a_transaction_without_an_end_that_nobody_sees_is_no_anomaly(tmp_path):
    """Its producer died; the coordinator aborts it."""
    record = began().transaction([(0, 0)]).add().produce(1, 2).fetch(0, [got(0, 0), marker(1)]).fetch(2)
    record.fetch(2, [got(1, 2), marker(3, "ABORT")], aborted=[[7, 2]]).fetch(4)
    assert violated(judged(record, tmp_path)) == []


def test_records_that_were_not_acknowledged_are_not_promised(tmp_path):
    """The client commits all the same: whether the broker has them is not known."""
    record = began().add().produce(0, 0).produce(1, None, connection=2).produce(2, 1).end().read(got(0, 0), got(2, 1))
    assert violated(judged(record, tmp_path)) == []


def test_sends_that_ask_for_one_replica_promise_nothing(tmp_path):
    record = Record().produce(0, 0, OTHER, transactional=False, acks=1).produce(1, 1, OTHER, transactional=False)
    record.produce(2, 2, OTHER, transactional=False)
    record.read(got(1, 1, OTHER, transactional=False), got(2, 2, OTHER, transactional=False))
    assert violated(judged(record, tmp_path)) == []


def test_a_plain_send_that_is_gone(tmp_path):
    record = Record()
    for number in range(3):
        record.produce(number, number, OTHER, transactional=False)
    record.read(*(got(number, number, OTHER, transactional=False) for number in (0, 2)))
    verdict = judged(record, tmp_path)
    assert violated(verdict) == ["lost-write"]
    assert "producer 8, epoch 0, sequence 1" in str(verdict)


def test_a_batch_of_nobody_in_the_record_is_left_out(tmp_path):
    """Its producer did not pass the proxy: it is no phantom."""
    record = began().transaction([(0, 0)]).read(got(0, 0), marker(1), got(5, 2, OTHER), marker(3, producer=OTHER))
    verdict = judged(record, tmp_path)
    assert (violated(verdict), verdict["verdict"]) == ([], "valid")
    assert "did not pass a proxy" in str(verdict["weakened"])
    assert answer(verdict, "phantom")["verdict"] == "not exercised"
    (tmp_path / "alone").mkdir()
    alone = judged(began().transaction([(0, 0)]).read(got(0, 0), marker(1)), tmp_path / "alone")
    assert answer(alone, "phantom")["verdict"] != "not exercised"


def test_a_topic_that_deletes_records_loses_none(tmp_path):
    record = began().transaction([(0, 0), (1, 1), (2, 2)])
    record.read(got(0, 0), got(2, 2), log_start=0).fetch(3, log_start=2)
    assert violated(judged(record, tmp_path)) == []


def test_a_commit_that_a_rule_of_the_proxy_has_altered_says_nothing(tmp_path):
    """It is recorded as it came, and the broker may have been asked to abort."""
    record = began().add().produce(0, 0).end(commit=False, altered=True).read(got(0, 0))
    assert violated(judged(record, tmp_path)) == []


def test_a_retry_that_its_client_made_anew(tmp_path):
    """Its checksum is another one, its sequence number the same: it is one batch."""
    record = began().add().produce(0, None, connection=2).produce(0, 0, crc=555).end().read(got(0, 0), marker(1))
    assert set(violated(judged(record, tmp_path))) <= {"sequence-reuse"}


def test_a_sequence_number_for_another_batch_in_the_next_transaction(tmp_path):
    """The broker takes it for a retry of the former, and writes nothing (KAFKA-17754)."""
    record = began().transaction([(0, 0)]).add().produce(0, 0, crc=555).end().read(got(0, 0), marker(1))
    assert "swallowed-write" in violated(judged(record, tmp_path))


@pytest.mark.parametrize("first", [1, 2])
def test_a_reader_whose_fetches_without_records_were_not_recorded_skips_nothing(tmp_path, first):
    """Its session went on by one of them, so that the next answer is about a partition that no request names."""
    record = began().transaction([(0, 0), (1, 1), (2, 2)])
    record.fetch(0, [got(0, 0)]).fetch(0, [got(number, number) for number in range(first, 3)])
    del record.lines[-2]["partitions"][0]
    record.fetch(3).read(got(0, 0), got(1, 1), got(2, 2), connection=10)
    assert violated(judged(record, tmp_path)) == []


# --------------------------------------------------------------------------------------------------
# Sequence numbers, epochs and checksums in unusual places
# --------------------------------------------------------------------------------------------------
LAST = 2**31 - 1  # the highest sequence number


def at_the_end_of_sequence_numbers(transactional):
    numbers = [LAST - 1, LAST, 0, 1]
    if transactional:
        record, producer = began().transaction([(first, offset) for offset, first in enumerate(numbers)]), (7, 0)
    else:
        record, producer = Record(), OTHER
        for offset, first in enumerate(numbers):
            record.produce(first, offset, OTHER, transactional=False)
    return record, [got(first, offset, producer, transactional=transactional) for offset, first in enumerate(numbers)]


@pytest.mark.parametrize("transactional", [True, False])
def test_sequence_numbers_begin_anew_behind_the_highest_one(tmp_path, transactional):
    record, batches = at_the_end_of_sequence_numbers(transactional)
    verdict = judged(record.read(*batches), tmp_path)
    assert (violated(verdict), verdict["verdict"]) == ([], "valid")
    assert answer(verdict, "order-inversion")["compared"] == 3


@pytest.mark.parametrize("transactional", [True, False])
def test_batches_that_lie_the_other_way_round_there(tmp_path, transactional):
    record, (first, second, third, last) = at_the_end_of_sequence_numbers(transactional)
    for line in record.lines:
        for place in line.get("partitions") or ():
            if "base_offset" in place:
                place["base_offset"] = {1: 2, 2: 1}.get(place["base_offset"], place["base_offset"])
    turned = [{**third, "base_offset": 1, "last_offset": 1}, {**second, "base_offset": 2, "last_offset": 2}]
    assert violated(judged(record.read(first, *turned, last), tmp_path)) == ["order-inversion"]


def test_the_words_for_a_batch_over_the_highest_sequence_number(tmp_path):
    record = Record().produce(LAST, 0, OTHER, transactional=False, records=2)
    for number in (1, 2):
        record.produce(number, number + 1, OTHER, transactional=False)
    record.read(got(1, 2, OTHER, transactional=False), got(2, 3, OTHER, transactional=False))
    assert f"sequences {LAST} to 0" in str(judged(record, tmp_path)["findings"])


def second_protocol(record, epoch, requests):
    """A transaction of KIP-890: `requests` are made in its epoch, and EndTxn gives the next one."""
    requests(record, (7, epoch))
    return record.end(version=5, producer=(7, epoch), given={"producer_id": 7, "producer_epoch": epoch + 1})


def written(*sends):
    def write(record, producer):
        for first, offset in sends:
            record.produce(first, offset, producer, transactional_id="a")
            record.lines[-2 if offset is not None else -1]["version"] = 12

    return write


def late_end_between(record, producer):
    """The EndTxn of the transaction before comes once more, and is refused for its epoch."""
    written((0, 2))(record, producer)
    record.end(version=5, producer=(7, producer[1] - 1), error="PRODUCER_FENCED")
    written((1, 3))(record, producer)


def test_an_end_of_the_epoch_before_that_comes_late_ends_nothing(tmp_path):
    record = second_protocol(second_protocol(began(), 0, written((0, 0))), 1, late_end_between)
    record.read(got(0, 0), marker(1), got(0, 2, (7, 1)), got(1, 3, (7, 1)), marker(4, producer=(7, 1)))
    verdict = judged(record, tmp_path)
    assert (violated(verdict), verdict["verdict"]) == ([], "valid")


def test_an_end_of_its_own_epoch_that_is_refused_commits_nothing(tmp_path):
    record = second_protocol(began(), 0, written((0, 0)))
    written((0, 2))(record, (7, 1))
    record.end(version=5, producer=(7, 1), error="PRODUCER_FENCED")
    assert violated(judged(record.read(got(0, 0), marker(1), got(0, 2, (7, 1))), tmp_path)) == ["aborted-read"]


def test_an_abort_of_nothing_leaves_the_commit_before_alone(tmp_path):
    record = second_protocol(began(), 0, written((0, 0)))
    record.end(False, version=5, producer=(7, 1), given={"producer_id": 7, "producer_epoch": 2})
    record = second_protocol(record, 2, written((0, 2)))
    record.read(got(0, 0), marker(1), got(0, 2, (7, 2)), marker(3, producer=(7, 2)))
    assert (violated(verdict := judged(record, tmp_path)), verdict["verdict"]) == ([], "valid")


@pytest.mark.parametrize("error", ["MESSAGE_TOO_LARGE", None])
def test_a_broker_that_writes_checksums_anew(tmp_path, error):
    """As with LogAppendTime. The batch that had the sequence number before was refused, or never came; this one is the next."""
    record = began().add().produce(0, None, error=error or "NONE", connection=2).end(False)
    record.add().produce(0, 0, crc=555).end().read(got(0, 0, crc=777), marker(1))
    verdict = judged(record, tmp_path)
    assert (violated(verdict), verdict["verdict"]) == ([], "valid")


def test_the_batch_before_that_lies_there_all_the_same(tmp_path):
    """It had been appended, was aborted, and is what the reader gets: by its checksum."""
    record = began().add().produce(0, 0).end(False).add().produce(0, 2, crc=555).end()
    assert "aborted-read" in violated(judged(record.read(got(0, 0), marker(1, "ABORT"), got(0, 2, crc=555)), tmp_path))


@pytest.mark.parametrize("unanswered", [0, 1, 2])
def test_a_batch_without_an_answer_stands_in_the_order_of_the_calls(tmp_path, unanswered):
    """Its client commits all the same, and readers get it where it was called."""
    record = began().add()
    for number in range(3):
        record.produce(number, None if number == unanswered else number)
    record.end().read(got(0, 0), got(1, 1), got(2, 2), marker(3))
    assert violated(judged(record, tmp_path)) == []
