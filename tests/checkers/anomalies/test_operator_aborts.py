"""What an operator's abort on a partition excuses in pipelines and programs: outputs that the log holds, and no others."""

from __future__ import annotations

import json

import pytest
from support.histories import History, violated

OPERATOR = {"operator_aborts": "open"}
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
