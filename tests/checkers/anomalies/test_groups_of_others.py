"""Whose offsets are told at the end: no operation names the group of its process, and others may be looked at beside it."""

from __future__ import annotations

import json

import pytest
from support.histories import History, answer, violated
from support.pipeline_reference import TWINS, PipelineHistory

ELSEWHERE = {"consumption": "subscribed", "offset_commits": "unrecorded"}
RECORDED = {"consumption": "recorded", "offset_commits": "recorded"}
UNPROCESSED, TORN, PHANTOM = "unprocessed", "torn-offset", "phantom-offset"


def pipeline(*looks, inputs=(5, 6, 7), processed=(5, 6)):
    """A member makes an output of each of some inputs, one a transaction; looks: (group, its offset of in-0 at the end)."""
    h = History()
    h.txn(0, {"in-0": [*inputs]})
    for place, of in enumerate(processed):
        number = h.txn(1, {"out-0": [2 * place]})
        chain = {"partition": "in-0", "offset": of, "v": h.v("in-0", of), "output": h.ops[number]["mops"][0][2]}
        h.ops[number] |= {"chains": [chain], "offsets": [{"partition": "in-0", "offset": of + 1}]}
    h.final({"in-0": [*inputs], "out-0": [2 * place for place in range(len(processed))]})
    for group, offset in looks:
        h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": group, "offsets": {"in-0": offset}}))
    return h


def unknown(document):
    return {name for name in (UNPROCESSED, TORN, PHANTOM) if answer(document, name)["verdict"] == "unknown"}


@pytest.mark.parametrize("contract", [ELSEWHERE, RECORDED])
def test_the_offset_of_the_one_group_that_was_looked_at_is_that_of_the_members(judged, contract):
    document = judged(pipeline(("g", 7)), contract)
    assert (violated(document), unknown(document)) == ([], set())
    document = judged(pipeline(("g", 8), processed=(5, 7)), contract)
    assert violated(document) == [UNPROCESSED], "an operation was to commit this offset"


@pytest.mark.parametrize(("offset", "doubtful"), [(8, {UNPROCESSED, PHANTOM}), (3, {TORN, PHANTOM}), (None, {TORN})])
def test_an_offset_that_nobody_here_was_to_commit_may_be_another_groups(judged, offset, doubtful):
    document = judged(pipeline(("monitor", offset)), ELSEWHERE)
    assert (violated(document), unknown(document)) == ([], doubtful)
    document = judged(pipeline(("monitor", offset)), RECORDED)
    assert violated(document) == sorted(doubtful)


@pytest.mark.parametrize("contract", [ELSEWHERE, RECORDED])
@pytest.mark.parametrize("looks", [(("g", 7), ("monitor", 8)), (("monitor", 3), ("g", 7)), (("g", None), ("monitor", 7))])
def test_where_groups_have_different_offsets_nobody_knows_that_of_the_members(judged, contract, looks):
    """The last one that was told counted, whoever's it was."""
    h = pipeline(*looks)
    document = judged(h, contract)
    assert violated(document) == []
    assert {TORN, PHANTOM} <= unknown(document)
    assert answer(document, TORN)["reason"] == (
        "at the end the offsets of in-0 are told of the groups g and monitor, and nobody says in which one the members are"
    )
    assert not any(TWINS[name](PipelineHistory(h.ops)) for name in (UNPROCESSED, TORN))


def test_groups_that_agree_leave_no_doubt(judged):
    document = judged(pipeline(("g", 7), ("monitor", 7)), ELSEWHERE)
    assert (violated(document), unknown(document)) == ([], set())


def two_services(*groups):
    """Both read in-0; each makes an output of its own of each input, the second one a transaction behind."""
    h = pipeline(processed=(5, 6))
    h.ops = [op for op in h.ops if not op["final"]]
    for place, of in enumerate((5, 6)):
        number = h.txn(2, {"out-1": [2 * place]})
        chain = {"partition": "in-0", "offset": of, "v": h.v("in-0", of), "output": h.ops[number]["mops"][0][2]}
        h.ops[number] |= {"chains": [chain], "offsets": [{"partition": "in-0", "offset": of + 1}]}
    h.final({"in-0": [5, 6, 7], "out-0": [0, 2], "out-1": [0, 2]})
    for group in groups:
        h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": group, "offsets": {"in-0": 7}}))
    return h


@pytest.mark.parametrize("contract", [ELSEWHERE, RECORDED])
def test_each_of_two_groups_may_process_everything_once(judged, contract):
    document = judged(two_services("a", "b"), contract)
    assert violated(document) == []
    assert answer(document, "reprocessed")["verdict"] == answer(document, "offset-regression")["verdict"] == "unknown"
    assert answer(document, "reprocessed")["reason"] == (
        "the groups a and b were looked at, and nobody says in which one each member is"
    )


def test_one_group_may_not(judged):
    assert violated(judged(two_services("a"), RECORDED)) == ["offset-regression", "reprocessed"]


def test_what_lies_in_a_partition_of_one_group_is_found_beside_others(judged):
    """A group of each service's own input is no doubt about the other's."""
    h = two_services("a")
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "b", "offsets": {"in-1": 3}}))
    assert {"offset-regression", "reprocessed"} <= set(violated(judged(h, RECORDED)))
