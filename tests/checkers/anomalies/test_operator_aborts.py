"""What an operator's abort on a partition excuses in pipelines and programs: outputs that the log holds, and no others."""

from __future__ import annotations

import json

import pytest
from support.histories import History, violated, write_faults

OPERATOR = {"operator_aborts": "open"}
GROUPS = "__consumer_offsets-3"
KEY, LOG = "in-0/0/0", "g-counts-changelog-0"
PIPELINE = {"consumption": "recorded", **OPERATOR}
PROGRAM = {"application": "exactly-once", **OPERATOR}


def allowed(document):
    return [row["name"] for row in document["allowed"] if row["verdict"] == "violated"]


# --------------------------------------------------------------------------------------------------
# Pipelines of ours
# --------------------------------------------------------------------------------------------------
def processed(h, of, output, outcome="ok", offset=None):
    """A transaction that makes one output of an input, by their offsets; offset: that it commits, else the next one."""
    number = h.txn(2, {"out-0": [output]}, outcome)
    chain = {"partition": "in-0", "offset": of, "v": h.v("in-0", of), "output": h.ops[number]["mops"][0][2]}
    h.ops[number] |= {"chains": [chain], "offsets": [{"partition": "in-0", "offset": offset or of + 1}]}


def pipeline(outcome="ok", in_log=True, attempt=True, offset=6, read_uncommitted=True, shown=False):
    """Two inputs: of in-0@4 a transaction makes out-0@0, and of in-0@5 one makes out-0@2, which read_committed does not get; and
    the group's offset at the end.
    """
    h = History()
    h.txn(0, {"in-0": [4, 5]})
    processed(h, 4, 0, offset=None if attempt else 6)
    if attempt:
        processed(h, 5, 2, outcome)
    reads = {"in-0": [4, 5], "out-0": [0, 2] if shown else [0]}
    h.final(reads, {**reads, "out-0": [0, 2] if in_log and attempt else [0]})
    if not read_uncommitted:
        h.ops = [op for op in h.ops if not (op["final"] and op["isolation"] == "read_uncommitted")]
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": offset}}))
    return h


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_an_output_that_an_operator_aborted_is_in_the_log(judged, outcome):
    document = judged(pipeline(outcome), PIPELINE)
    assert violated(document) == []
    assert "unprocessed" in allowed(document)
    document = judged(pipeline(outcome, in_log=False), PIPELINE)
    assert "unprocessed" in violated(document)


def test_an_operator_makes_nobody_skip_an_input(judged):
    assert violated(judged(pipeline(attempt=False), PIPELINE)) == ["unprocessed"]


def test_what_its_client_aborted_no_operator_has_to_abort(judged):
    """The group has the offset of a transaction that was aborted: that is no operator's doing, in the log or not."""
    assert violated(judged(pipeline("fail"), PIPELINE)) == ["torn-offset", "unprocessed"]


def test_an_offset_of_a_transaction_of_unknown_outcome_may_be_committed_beside_an_output_that_is_hidden(judged):
    document = judged(pipeline("info"), PIPELINE)
    assert "torn-offset" in allowed(document)
    document = judged(pipeline("info", in_log=False), PIPELINE)
    assert violated(document) == ["torn-offset", "unprocessed"]


def test_an_operator_may_abort_on_the_groups_own_partition(judged):
    document = judged(pipeline(shown=True, offset=None), PIPELINE)
    assert violated(document) == []
    assert "torn-offset" in allowed(document)


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_where_nobody_read_the_whole_log_an_operator_may_have_hidden_it(judged, outcome):
    document = judged(pipeline(outcome, in_log=False, read_uncommitted=False), PIPELINE)
    assert "unprocessed" in allowed(document)
    assert not {"unprocessed", "torn-offset"} & set(violated(document))


def twice(told=None, again=6):
    """A member processes in-0@5 and 6; another one in-0@5 again, and commits `again`; told: the offset that it was told."""
    h = History()
    h.txn(0, {"in-0": [4, 5, 6]})
    processed(h, 4, 0)
    processed(h, 5, 2, offset=7)
    h.ops[-1]["chains"].append({**h.ops[-1]["chains"][0], "offset": 6, "v": h.v("in-0", 6)})
    if told is not None:
        h.add(3, "committed", isolation=None, detail=json.dumps({"offsets": {"in-0": told}}))
    number = h.txn(3, {"out-0": [4]})
    chain = {"partition": "in-0", "offset": 5, "v": h.v("in-0", 5), "output": h.ops[number]["mops"][0][2]}
    h.ops[number] |= {"chains": [chain], "offsets": [{"partition": "in-0", "offset": again}]}
    h.final({"in-0": [4, 5, 6], "out-0": [0, 2, 4]})
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": again}}))
    return h


def aborted_on(h, partition, at):
    """The receipt of a fault that has a transaction aborted on a partition, while the operation of this number is under way."""
    began = h.ops[at]["time"] + 1000
    evidence = json.dumps({"aborts": [{"partition": partition, "began_ns": began}]})
    return {
        "id": 0,
        "kind": "abort-transaction",
        "injected_ns": began,
        "healed_ns": began,
        "effective": True,
        "evidence": evidence,
    }


@pytest.mark.parametrize(
    ("partition", "at", "excused"),
    [
        (GROUPS, 2, True),
        (GROUPS, 1, False),
        ("out-0", 2, False),
        (GROUPS, 3, False),
    ],
)
def test_an_abort_on_the_groups_own_partition_has_a_member_read_on_from_an_older_offset(judged, tmp_path, partition, at, excused):
    h = twice()
    write_faults(tmp_path, aborted_on(h, partition, at))
    document = judged(h, PIPELINE)
    assert violated(document) == ([] if excused else ["offset-regression", "reprocessed"])
    assert {"offset-regression", "reprocessed"} <= set(allowed(document)) or not excused


@pytest.mark.parametrize(("told", "excused"), [(5, True), (7, False), (None, False)])
def test_a_member_that_was_told_an_older_offset_reads_on_from_it(judged, tmp_path, told, excused):
    h = twice(told)
    write_faults(tmp_path)
    assert violated(judged(h, PIPELINE)) == ([] if excused else ["offset-regression", "reprocessed"])


# --------------------------------------------------------------------------------------------------
# Programs
# --------------------------------------------------------------------------------------------------
def program(committed, uncommitted, **declared):
    """Inputs in-0@5, 6 and 7 of one key; outputs in out-0 at both levels: (offset, input's offset, count)."""
    h = History()
    h.txn(0, {"in-0": [5, 6, 7]})
    h.final({"in-0": [5, 6, 7], "out-0": []})
    for level, outputs in (("read_committed", committed), ("read_uncommitted", uncommitted)):
        first = next(op for op in h.ops if op["final"] and op["isolation"] == level)
        first["outputs"] = [
            {"partition": "out-0", "offset": at, "v": h.v("in-0", of), "ended": first["end"]} for at, of, _ in outputs
        ]
        first["counts"] = [{"partition": "out-0", "offset": at, "count": count} for at, _, count in outputs]
    detail = {"group": "g", "outputs": [1, 1], "output_partitions": ["out-0"], "ordered": False, "counts": True}
    h.add(-1, "drain", isolation=None, detail=json.dumps({**detail, "drained": True, "waited_s": 1.0, **declared}))
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": 8}}))
    return h


@pytest.mark.parametrize(("partition", "excused"), [(GROUPS, True), ("out-0", False)])
def test_a_program_may_process_again_what_an_abort_took_back(judged, tmp_path, partition, excused):
    outputs = [FIRST, SECOND, THIRD, (6, 6, 2)]
    h = program(outputs, outputs, counts=False)
    write_faults(tmp_path, aborted_on(h, partition, 0))
    assert violated(judged(h, PROGRAM)) == ([] if excused else ["reprocessed"])


FIRST, SECOND, THIRD = (0, 5, 1), (2, 6, 2), (4, 7, 3)


def test_an_output_of_a_program_that_an_operator_aborted_is_in_the_log(judged):
    document = judged(program([FIRST, THIRD], [FIRST, SECOND, THIRD]), PROGRAM)
    assert violated(document) == []
    assert {"unprocessed", "torn-state"} <= set(allowed(document))
    document = judged(program([FIRST, THIRD], [FIRST, THIRD]), PROGRAM)
    assert violated(document) == ["torn-state", "unprocessed"]


def test_a_state_that_lost_an_input_may_have_lost_it_by_an_abort_on_its_changelog(judged):
    outputs = [FIRST, (2, 6, 1), (4, 7, 2)]
    document = judged(program(outputs, outputs), PROGRAM)
    assert violated(document) == []
    assert "torn-state" in allowed(document)


def test_an_input_that_was_counted_twice_has_an_output_in_between(judged):
    """An abort on the group's own partition has it processed again: its second output says the count that is left out."""
    outputs = [FIRST, SECOND, (3, 6, 3), (5, 7, 4)]
    document = judged(program(outputs, outputs), PROGRAM)
    assert "torn-state" in allowed(document)
    assert "torn-state" not in violated(document)


def test_outputs_that_nobody_read_at_read_uncommitted_may_be_in_the_log(judged):
    h = program([FIRST, THIRD], [FIRST, THIRD])
    h.ops = [op for op in h.ops if not (op["final"] and op["isolation"] == "read_uncommitted")]
    assert violated(judged(h, PROGRAM)) == []


@pytest.mark.parametrize(
    ("partition", "excused"), [("g-repartition-0", True), ("in-0", False), ("out-0", False), (LOG, False), (GROUPS, False)]
)
def test_what_an_abort_hides_on_a_topic_of_the_programs_own_it_makes_nothing_of(judged, tmp_path, partition, excused):
    """An input's record in a repartition topic: neither its output nor its count in the state is to be had."""
    outputs = [FIRST, (4, 7, 2)]
    h = with_changelog(program(outputs, outputs), [keep(1), keep(2)])
    write_faults(tmp_path, aborted_on(h, partition, 0))
    document = judged(h, PROGRAM)
    assert violated(document) == ([] if excused else ["unprocessed", "wrong-state"])


# --------------------------------------------------------------------------------------------------
# Stores and changelogs
# --------------------------------------------------------------------------------------------------
UNSAID = dict.fromkeys(("timestamp", "producer_id", "producer_epoch", "transactional"))
ALL = [FIRST, SECOND, THIRD]


def with_changelog(h, logged, *copies, kind="counted", offset=8):
    """A changelog of records (number, or None: a tombstone; whether aborted), and copies of the store with what each has.

    An aborted one is followed by its marker. offset: of the group at the end.
    """
    entries = []
    for number, aborted in logged:
        producer = 70 + len(entries) if aborted else -1
        about = {"kind": kind, "number": number} if number is not None else {"kind": "removed", "number": -1}
        entries.append(entry(len(entries), name=KEY, producer_id=producer, transactional=aborted, **about))
        if aborted:
            marker = {"kind": "ABORT", "name": "", "number": -1}
            entries.append(entry(len(entries), producer_id=producer, transactional=True, **marker))
    h.add(-1, "read-log", isolation=None, role="harness", entries=entries)
    for slot, number in enumerate(copies, start=2):
        rows = [{"kind": "active", "name": "counts", "number": len(entries)}]
        rows += [{"kind": kind, "name": KEY, "number": number}] if number is not None else []
        rows = [{"partition": f"c{slot}:{LOG}", "offset": at, **UNSAID, **row} for at, row in enumerate(rows)]
        h.add(-1, "read-store", isolation=None, role="harness", entries=rows)
    group = next(op for op in h.ops if op["f"] == "group-offsets")
    group["detail"] = json.dumps({"group": "g", "offsets": {"in-0": offset}})
    return h


def entry(offset, **columns):
    return {"partition": LOG, "offset": offset, "timestamp": 0, "producer_epoch": 0, **columns}


def keep(number):
    return (number, False)


def hide(number):
    return (number, True)


@pytest.mark.parametrize(
    ("logged", "copy", "excused"),
    [
        ([keep(1), keep(2), hide(3)], 3, True),
        ([hide(3)], 3, True),
        ([keep(3), hide(None)], None, True),
        ([keep(1), keep(2), hide(3)], 4, False),  # a value that was never logged
        ([keep(1), hide(2), keep(3)], 2, False),  # the store has applied what came behind
        ([keep(1), keep(2), keep(3)], 2, False),
        ([keep(3)], None, False),
        ([keep(2), hide(3)], None, False),
    ],
)
def test_a_store_may_have_what_an_operator_aborted_in_its_changelog_and_nothing_else(judged, logged, copy, excused):
    document = judged(with_changelog(program(ALL, ALL), logged, copy), PROGRAM)
    assert ("store-divergence" in allowed(document), "store-divergence" in violated(document)) == (excused, not excused)


@pytest.mark.parametrize(
    ("logged", "excused"),
    [
        ([keep(1), keep(2), hide(3)], True),
        ([hide(3)], True),
        ([keep(1), hide(2), keep(2)], True),  # restored without the second input, it counted the third one
        ([keep(1), hide(2), hide(3)], True),
        ([keep(2)], False),
        ([hide(1), keep(1)], False),  # one is hidden, and two are lacking
        ([keep(2), hide(3), keep(None)], False),
        ([keep(3), keep(None)], False),
        ([], False),
    ],
)
def test_an_operator_hides_no_more_inputs_than_aborted_records_of_the_changelog_count(judged, logged, excused):
    if not logged:  # there is a changelog, and nothing of this key in it
        h = with_changelog(program(ALL, ALL), [keep(1)])
        next(op for op in h.ops if op["f"] == "read-log")["entries"][0]["name"] = "in-0/5/0"
    else:
        h = with_changelog(program(ALL, ALL), logged)
    document = judged(h, PROGRAM)
    found = {row["sentence"].count("has nothing of the key") for row in document["findings"] if row["anomaly"] == "wrong-state"}
    assert ("wrong-state" in allowed(document), "wrong-state" in violated(document)) == (excused, not excused)
    assert logged or 1 in found


@pytest.mark.parametrize(
    ("uncommitted", "count", "excused"),
    [
        (ALL, 3, True),  # the group's offset was hidden on its own partition
        ([FIRST, SECOND], 3, False),  # nobody made an output of the third input
        (ALL, 4, False),
        ([*ALL, (6, 7, 4)], 4, True),
    ],
)
def test_a_state_beyond_the_groups_offset_has_outputs_in_the_log(judged, uncommitted, count, excused):
    committed = [output for output in uncommitted if output in ALL]
    h = with_changelog(program(committed, uncommitted), [keep(count)], offset=7)
    document = judged(h, PROGRAM)
    assert ("wrong-state" in allowed(document), "wrong-state" in violated(document)) == (excused, not excused)


@pytest.mark.parametrize(
    ("logged", "offset", "uncommitted", "excused"),
    [
        ([keep(6), hide(7)], 8, ALL, True),
        ([hide(7)], 8, ALL, True),
        ([keep(6)], 8, ALL, False),
        ([hide(7), keep(6)], 8, ALL, False),
        ([keep(6), hide(6)], 8, ALL, False),
        ([keep(7)], 7, ALL, True),  # the group's offset was hidden on its own partition
        ([keep(7)], 7, [], False),
        ([keep(5)], 7, ALL, False),
    ],
)
def test_the_last_input_of_a_state_is_one_that_an_operator_may_have_hidden(judged, logged, offset, uncommitted, excused):
    h = program(uncommitted, uncommitted)
    values = [(h.v("in-0", of), aborted) for of, aborted in logged]
    document = judged(with_changelog(h, values, kind="last", offset=offset), PROGRAM)
    assert ("wrong-state" in allowed(document), "wrong-state" in violated(document)) == (excused, not excused)


def test_what_compaction_has_taken_from_a_changelog_may_have_been_aborted(judged):
    h = with_changelog(program(ALL, ALL), [keep(1), keep(2)])
    del next(op for op in h.ops if op["f"] == "read-log")["entries"][0]
    document = judged(h, PROGRAM)
    assert "wrong-state" in allowed(document)
    assert violated(document) == []


@pytest.mark.parametrize("key", ["in-0/5/0", "in-0/x/0"])
def test_a_key_of_no_input_is_not_an_operators_doing(judged, key):
    h = with_changelog(program(ALL, ALL), [keep(3), keep(1)])
    next(op for op in h.ops if op["f"] == "read-log")["entries"][1]["name"] = key
    assert violated(judged(h, PROGRAM)) == ["wrong-state"]


def test_without_a_whole_read_of_the_outputs_nobody_knows_what_was_processed(judged):
    h = with_changelog(program([FIRST, SECOND], [FIRST, SECOND]), [keep(3)], offset=7)
    h.ops = [op for op in h.ops if not (op["final"] and op["isolation"] == "read_uncommitted")]
    document = judged(h, PROGRAM)
    assert "wrong-state" in allowed(document)
    assert "wrong-state" not in violated(document)
