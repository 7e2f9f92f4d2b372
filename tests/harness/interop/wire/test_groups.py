"""Offsets of groups in a record of requests: planted violations, and each kind of evidence that is missing."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from support.histories import answer, violated
from support.wire_records import Record, got, marker

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.run import RunFile
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt

FENCED = "PRODUCER_FENCED"
WHOLE = {"offset_commits": "recorded"}  # whoever commits passes the proxy


def judged(record, directory, **contract):
    run = directory / "run"
    run.mkdir()
    adopt(record.write(directory / "record"), run, contract)
    return judge(open_run(run), here=True)


def rows(record, directory, f):
    judged(record, directory, **WHOLE)
    return [row for row in pq.read_table(directory / "run" / RunFile.HISTORY).to_pylist() if row["f"] == f]


def commits(record, offset, group="g", **more):
    """TxnOffsetCommit of the transaction that is open."""
    place = {"topic": "in", "partition": 0}
    given = {"partitions": [{**place, **({"error": more["error"]} if "error" in more else {})}]}
    producer = {"transactional_id": "a", "producer_id": 7, "producer_epoch": 0}
    return record.ask("TxnOffsetCommit", group=group, partitions=[{**place, "offset": offset}], given=given, **producer, **more)


def fetches(record, offset, group="g", member="m", stable=True, answered=True, **place):
    """OffsetFetch, and the offset that its answer has (-1: none)."""
    body = {"groups": [{"groupId": group, "memberId": member, "memberEpoch": 1}], "requireStable": stable}
    given = {"partitions": [{"topic": "in", "partition": 0, "offset": offset, **place}]}
    asked = [{"topic": "in", "partition": 0, **{key: place[key] for key in ("group", "topic_id", "topic") if key in place}}]
    return record.ask("OffsetFetch", 9, group=group, partitions=asked, given=given, body=body, answered=answered)


def elsewhere(record):
    """Another broker has answered the last request."""
    record.lines[-2]["node"] = "n2"
    return record


def work(record, sequence, offset, commit=True):
    """A transaction: a record to `t-0`, and the offset of the input behind it."""
    record.add().produce(sequence, sequence * 2)
    return commits(record, offset).end(commit)


def began():
    return Record().initialise()


def read(record, *sequences):
    return record.read(*(batch for n in sequences for batch in (got(n, 2 * n), marker(2 * n + 1))))


def test_what_members_are_told_is_an_operation_of_theirs(tmp_path):
    record = fetches(fetches(work(fetches(began(), -1), 0, 6), 6, member="m"), 6, member="n")
    told = rows(record, tmp_path, "committed")
    assert [json.loads(row["detail"])["offsets"] for row in told] == [{"in-0": None}, {"in-0": 6}, {"in-0": 6}]
    assert [row["process"] for row in told] == [told[0]["process"]] * 2 + [told[0]["process"] + 1]
    assert {(row["role"], row["type"]) for row in told} == {("member", "ok")}


def test_a_lawful_group_is_compared(tmp_path):
    record = read(fetches(work(fetches(work(began(), 0, 6), 6), 1, 7), 7), 0, 1)
    verdict = judged(record, tmp_path, **WHOLE)
    assert (verdict["verdict"], violated(verdict)) == ("valid", [])
    for name, count in (("offset-regression", 1), ("dirty-offset", 2), ("phantom-offset", 3), ("torn-offset", 4)):
        assert answer(verdict, name)["compared"] == count, name
        assert answer(verdict, name)["verdict"] not in ("violated", "unknown"), name


def test_a_group_whose_offset_goes_back(tmp_path):
    record = work(work(began(), 0, 7), 1, 6)
    assert violated(judged(record, tmp_path)) == ["offset-regression"]


@pytest.mark.parametrize(("silence_s", "found"), [(90, "unknown"), (30, "violated")])
def test_a_group_whose_offsets_may_have_expired(tmp_path, silence_s, found):
    record = work(began(), 0, 7)
    record.now += silence_s * 1_000_000_000
    verdict = judged(work(record, 1, 6), tmp_path, offset_expiry="60000")
    assert answer(verdict, "offset-regression")["verdict"] == found


def test_one_that_somebody_may_have_put_back_is_unknown(tmp_path):
    """A member was told the lower one in between: an operator may have reset it, beside the proxy."""
    record = work(fetches(work(work(began(), 0, 5), 1, 7), 5), 2, 6)
    verdict = judged(record, tmp_path)
    assert (violated(verdict), answer(verdict, "offset-regression")["verdict"]) == ([], "unknown")
    (tmp_path / "whole").mkdir()
    assert "offset-regression" in violated(judged(record, tmp_path / "whole", **WHOLE))


def test_a_partition_of_which_an_offset_from_before_the_record_is_told_after_a_commit_is_left_out(tmp_path):
    """As when an operator resets a group."""
    verdict = judged(work(fetches(work(began(), 0, 7), 0), 1, 6), tmp_path, **WHOLE)
    assert violated(verdict) == []
    assert "outside of transactions" in str(verdict["weakened"])


def test_an_offset_that_is_told_before_its_commit_is_called(tmp_path):
    record = fetches(began(), -1).add().produce(0, 0)
    record = fetches(commits(record, 6), 6).end()
    verdict = judged(record, tmp_path)
    assert (violated(verdict), answer(verdict, "dirty-offset")["verdict"]) == ([], "unknown"), "another may have committed it"
    (tmp_path / "whole").mkdir()
    assert violated(judged(record, tmp_path / "whole", **WHOLE)) == ["dirty-offset"]


def test_an_offset_of_nobody(tmp_path):
    record = fetches(work(began(), 0, 6), 9)
    verdict = judged(record, tmp_path)
    assert (violated(verdict), answer(verdict, "phantom-offset")["verdict"]) == ([], "unknown")
    (tmp_path / "whole").mkdir()
    assert violated(judged(record, tmp_path / "whole", **WHOLE)) == ["phantom-offset"]


def test_an_offset_of_a_transaction_that_was_aborted(tmp_path):
    record = fetches(work(work(began(), 0, 6), 1, 7, commit=False), 7)
    assert violated(judged(record, tmp_path, **WHOLE)) == ["torn-offset"]


def test_offsets_that_are_not_there_at_the_end(tmp_path):
    """The last answer had to wait for what was open, and nobody commits behind it."""
    record = fetches(work(work(began(), 0, 6), 1, 7), 6)
    assert violated(judged(record, tmp_path, **WHOLE)) == ["torn-offset"]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(fetches(work(work(began(), 0, 6), 1, 7), 6, stable=False), id="it need not wait for the markers"),
        pytest.param(work(fetches(work(began(), 0, 6), -1), 1, 7), id="somebody commits behind it"),
        pytest.param(fetches(commits(work(began(), 0, 6).add(), 7).end(answered=False), 6), id="the outcome is not known"),
        pytest.param(elsewhere(fetches(work(work(began(), 0, 6), 1, 7), 6)), id="by another broker"),
    ],
)
def test_nobody_knows_what_the_group_had_at_the_end(record, tmp_path):
    verdict = judged(record, tmp_path, **WHOLE)
    assert violated(verdict) == []


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(fetches(work(began(), 0, 6), 9, answered=False), id="no answer is known"),
        pytest.param(fetches(work(began(), 0, 6), 9, error="UNSTABLE_OFFSET_COMMIT"), id="an error"),
        pytest.param(fetches(work(began(), 0, 6), 3), id="it may be from before the record"),
        pytest.param(fetches(work(began(), 0, 6), 9, topic="x1", topic_id="x1"), id="the topic's name is not known"),
        pytest.param(fetches(work(began(), 0, 6), 9, group="other"), id="another group's"),
        pytest.param(fetches(commits(work(began(), 0, 6).add(), 9, answered=False).end(False), 9), id="an unanswered commit"),
        pytest.param(fetches(commits(work(began(), 0, 6).add(), 9, error="REQUEST_TIMED_OUT").end(), 9), id="a failed commit"),
        pytest.param(fetches(commits(work(began(), 0, 6).add(), 8, altered=True).end(), 9), id="an altered commit"),
    ],
)
def test_what_is_not_told_accuses_nobody(record, tmp_path):
    assert violated(judged(record, tmp_path, **WHOLE)) == []


def tries(record, offset, error):
    """A transaction with an offset that its coordinator refuses to add, or does not add as far as is known."""
    return commits(work(record, 0, 6).add().produce(1, 2), offset, error=error)


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(fetches(tries(began(), 9, "ILLEGAL_GENERATION").end(), 9), ["torn-offset"], id="refused"),
        pytest.param(fetches(tries(began(), 9, "INVALID_PRODUCER_EPOCH").end(False), 9), ["torn-offset"], id="fenced"),
        pytest.param(fetches(tries(began(), 9, "NOT_COORDINATOR").end(), 9), [], id="perhaps added"),
        pytest.param(fetches(tries(began(), 9, "ILLEGAL_GENERATION").end(), 6), [], id="another one is told"),
        pytest.param(fetches(commits(tries(began(), 9, "ILLEGAL_GENERATION"), 9).end(), 9), [], id="refused, and then granted"),
        pytest.param(fetches(work(work(began(), 0, 6), 1, 9, commit=False), 9), ["torn-offset"], id="aborted"),
        pytest.param(fetches(commits(work(began(), 0, 6).add(), 9).end(error=FENCED), 9), ["torn-offset"], id="end refused"),
    ],
)
def test_an_offset_that_was_refused_or_aborted_and_is_told(record, found, tmp_path):
    """Whoever begins there skips what nobody has processed."""
    assert violated(judged(record, tmp_path, **WHOLE)) == found


def test_a_refused_request_that_the_proxy_had_repeated_may_have_been_granted(tmp_path):
    record = tries(began(), 9, "ILLEGAL_GENERATION")
    record.lines.append({"at": "forwarded", "n": record.number, "forwarded_ns": record.now + 2, "copy": 2})
    assert violated(judged(fetches(record.end(), 9), tmp_path, **WHOLE)) == []


def test_an_offset_of_a_transaction_without_an_end_that_is_told_is_unknown(tmp_path):
    verdict = judged(fetches(commits(work(began(), 0, 6).add(), 9), 9), tmp_path, **WHOLE)
    assert violated(verdict) == []
    assert {answer(verdict, name)["verdict"] for name in ("torn-offset", "dirty-offset", "phantom-offset")} == {"unknown"}
    assert "of which the record has no end" in str(verdict["weakened"])


@pytest.mark.parametrize("before", [True, False])
def test_what_the_group_may_have_had_before_the_record_accuses_nobody(tmp_path, before):
    """A member that has processed nothing commits the group's offset once more. Another one, told first, says otherwise."""
    record = began() if before else fetches(began(), 5)
    verdict = judged(work(fetches(work(record, 0, 6, commit=False), 6), 1, 7), tmp_path, **WHOLE)
    assert violated(verdict) == ([] if before else ["torn-offset"])
    assert ("may have had before the record" in str(verdict["weakened"])) == before


@pytest.mark.parametrize(("error", "known"), [("NONE", False), ("UNKNOWN_SERVER_ERROR", False), ("ILLEGAL_GENERATION", True)])
def test_a_group_to_which_somebody_commits_outside_of_transactions_is_left_out(tmp_path, error, known):
    place = {"topic": "in", "partition": 0}
    record = work(began(), 0, 7).ask(
        "OffsetCommit", 8, group="g", partitions=[{**place, "offset": 2}], given={"partitions": [{**place, "error": error}]}
    )
    verdict = judged(work(record, 1, 3), tmp_path)
    assert ("offset-regression" in violated(verdict)) == known
    assert ("outside of transactions" in str(verdict["weakened"])) != known


def test_groups_of_one_topic_are_compared_by_themselves(tmp_path):
    record = began().add().produce(0, 0)
    record = commits(record, 7, "one").end().add().produce(1, 2)
    verdict = judged(commits(record, 3, "two").end(), tmp_path)
    assert violated(verdict) == []
    record = commits(record.add().produce(2, 4), 2, "two").end()
    (tmp_path / "two").mkdir()
    assert violated(judged(record, tmp_path / "two")) == ["offset-regression"]


def shared(*owners):
    """Transactions of two producers in turn with offsets of one partition, each in the name of a member and its generation."""
    record, offset = Record().initialise("a", (7, 0)).initialise("b", (8, 0)), 4
    for number, (producer, member, generation) in enumerate(owners):
        named = {"transactional_id": "a" if producer == 7 else "b", "producer": (producer, 0)}
        offset += 1
        record.add(**named).produce(number, 2 * number, (producer, 0))
        places = [{"topic": "in", "partition": 0, "offset": offset}]
        body = {"memberId": member, "generationId": generation} if member else None
        record.ask("TxnOffsetCommit", group="g", partitions=places, given={"partitions": [{"topic": "in", "partition": 0}]},
            body=body, transactional_id=named["transactional_id"], producer_id=producer, producer_epoch=0)  # fmt: skip
        record.end(**named)
    return record


@pytest.mark.parametrize(
    ("again", "found"),
    [((7, "m", 3), ["double-ownership"]), ((7, "m", 5), []), ((7, "n", 3), []), ((7, "", -1), [])],
    ids=["the same generation", "a later one", "another member", "not said"],
)
def test_two_members_in_one_generation(tmp_path, again, found):
    """Whoever lost the partition, and commits in the name of the generation that had it, has to be fenced (KIP-447)."""
    assert violated(judged(shared((7, "m", 3), (8, "n", 4), again), tmp_path)) == found


def test_a_request_about_several_groups_says_whose_each_offset_is(tmp_path):
    record = fetches(work(began(), 0, 6), 9, group="other")
    record.lines[-1]["partitions"].append({"topic": "in", "partition": 0, "offset": 9, "group": "g"})
    for line in record.lines[-2:]:
        line["partitions"][0]["group"] = "other"
    assert violated(judged(record, tmp_path, **WHOLE)) == ["phantom-offset"]
