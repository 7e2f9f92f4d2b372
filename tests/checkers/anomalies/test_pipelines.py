"""The anomalies of pipelines: as their slow twins say on random histories, and what lawful histories look like."""

import json
from random import Random

import pyarrow.parquet as pq
import pytest
from support.histories import KEPT, History, answer, finding, violated, write_history
from support.installed import DAMAGES
from support.judging import judge_here, no_session
from support.pipeline_reference import TWINS, PipelineHistory, by_records
from support.random_pipelines import pipeline_history

from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT as LAWFUL
from fencepost.checkers.selfcheck.selfcheck import selfcheck
from fencepost.harness.history.run_directory import open_run

CHECKS = [check for check in installed_checks()[0] if check.name in TWINS]
CYCLE = next(check for check in installed_checks()[0] if check.name == "G1c-wr")
CONTRACT = {"consumption": "recorded"}
SEEDS, NIGHTLY_SEEDS = 8, 4008


def compare(folder, seed):
    """Judge one history both ways; what was found."""
    ops = sorted(pipeline_history(Random(seed)), key=lambda op: op["time"])
    judge_here(folder, ops, CONTRACT, CHECKS)
    history = PipelineHistory(ops)
    expected = {name: twin(history) for name, twin in TWINS.items()}
    assert by_records(pq.read_table(folder / "anomalies.parquet").to_pylist()) == expected, seed
    return {name for name, matches in expected.items() if matches}


def test_random_pipelines_are_judged_as_by_the_reference(tmp_path):
    met = set().union(*(compare(tmp_path, seed) for seed in range(SEEDS)))
    assert len(met) >= 4, "histories without trouble prove little"


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(SEEDS, NIGHTLY_SEEDS, 200))
def test_many_random_pipelines_are_judged_as_by_the_reference(tmp_path, start):
    met = set().union(*(compare(tmp_path, seed) for seed in range(start, start + 200)))
    assert met == set(TWINS)


def processed(h, member, inputs, outputs, type="ok", at="in-0", offset=None):
    """A transaction that makes one output of each input; returns its number. inputs: (offset, v)."""
    number = h.txn(member, {"out-0": outputs}, type)
    records = [mop[2] for mop in h.ops[number]["mops"]]
    h.ops[number]["chains"] = [
        {"partition": at, "offset": place, "v": v, "output": output} for (place, v), output in zip(inputs, records, strict=True)
    ]
    h.ops[number]["offsets"] = [{"partition": at, "offset": inputs[-1][0] + 1 if offset is None else offset}]
    return number


def pipeline(*offsets):
    """A history with records of one committed transaction in in-0; and what they are: (offset, v)."""
    h = History()
    h.txn(0, {"in-0": list(offsets)})
    return h, [(offset, h.v("in-0", offset)) for offset in offsets]


def ended(h, final, offsets):
    """The final read, and the group's offsets at the end."""
    h.final(final)
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": offsets}}))
    return h


def names(document):
    return [name for name in violated(document) if name in TWINS]


def test_what_was_aborted_and_processed_again_is_processed_once(judged):
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a, b], [0, 1], "fail")
    processed(h, 3, [a, b], [3, 4])
    document = judged(ended(h, {"in-0": [5, 6], "out-0": [3, 4]}, 7), CONTRACT)
    assert names(document) == []
    assert {name: answer(document, name)["compared"] for name in ("reprocessed", "unprocessed", "torn-offset")} == {
        "reprocessed": 2,
        "unprocessed": 2,
        "torn-offset": 2,
    }


def test_an_aborted_output_that_a_reader_got_has_processed_nothing(judged):
    """Readers that return aborted records make no pipeline process twice, and no aborted input one that is due."""
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a, b], [0, 1], "fail")
    h.txn(0, {"in-0": [7]}, "fail")
    h.poll(9, {"out-0": [0, 1], "in-0": [7]})
    processed(h, 3, [a, b], [3, 4], offset=9)
    assert names(judged(ended(h, {"in-0": [5, 6], "out-0": [3, 4]}, 9), CONTRACT)) == []


def test_a_record_of_which_nothing_was_to_be_made_is_processed_by_the_commit(judged):
    h, (a,) = pipeline(5)
    number = h.txn(2, {})
    h.ops[number]["chains"] = [{"partition": "in-0", "offset": 5, "v": a[1], "output": None}]
    h.ops[number]["offsets"] = [{"partition": "in-0", "offset": 6}]
    assert names(judged(ended(h, {"in-0": [5]}, 6), CONTRACT)) == []


def test_a_record_that_no_transaction_processed_below_the_groups_offset_is_unprocessed(judged):
    """As a client does that skips records when its partitions move."""
    h, (a, _, c) = pipeline(5, 6, 7)
    processed(h, 2, [a], [0])
    processed(h, 2, [c], [2])
    document = judged(ended(h, {"in-0": [5, 6, 7], "out-0": [0, 2]}, 8), CONTRACT)
    assert names(document) == ["unprocessed"]
    assert finding(document, "unprocessed")["sentence"] == (
        "Input record in-0@6 lies below the offset that the group committed, but no transaction processed it."
    )


def test_a_commit_of_unknown_outcome_whose_outputs_are_there_is_a_commit(judged):
    h, (a,) = pipeline(5)
    processed(h, 2, [a], [0], "info")
    assert names(judged(ended(h, {"in-0": [5], "out-0": [0]}, 6), CONTRACT)) == []


def test_offsets_of_a_transaction_whose_outputs_are_nowhere_are_torn(judged):
    h, (a,) = pipeline(5)
    processed(h, 2, [a], [0], "info")
    document = judged(ended(h, {"in-0": [5], "out-0": []}, 6), CONTRACT)
    assert names(document) == ["torn-offset", "unprocessed"]
    assert finding(document, "torn-offset")["sentence"] == (
        "Transaction 0 of process 2 ended without a known outcome, but the group's offset at the end, in-0@6, is one that only "
        "it was to commit."
    )


@pytest.mark.parametrize(("type", "names"), [("info", []), ("fail", ["torn-offset"])])
def test_outputs_that_were_deleted_do_not_say_that_their_transaction_was_aborted(judged, type, names):
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a], [0])
    processed(h, 2, [b], [2], type)
    assert violated(judged(ended(h, {"in-0": [5, 6], "out-0": []}, 7), {**CONTRACT, "retention": "60000"})) == names


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_that_never_happened_has_moved_no_offset(judged, fenced):
    """The log holds its outputs as aborted, or it had been fenced: whoever reads on from the older offset does right."""
    h, (a, b) = pipeline(5, 6)
    own = {"transactional_id": "id"}
    if fenced:
        h.add(2, "initialise", **own)
        h.add(3, "initialise", **own)
    number = processed(h, 2, [a, b], [0, 1])
    h.ops[number] |= own
    processed(h, 3, [a], [3])
    processed(h, 3, [b], [5])
    h.final({"in-0": [5, 6], "out-0": [3, 5]}, {"in-0": [5, 6], "out-0": [3, 5] if fenced else [0, 1, 3, 5]})
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": 7}}))
    document = judged(h, CONTRACT)
    assert violated(document) == ["false-ack"]
    assert answer(document, "offset-regression")["compared"] == 1


def test_a_group_without_an_offset_and_one_with_a_lower_one_are_reported_apart(judged):
    h, (a,) = pipeline(5)
    h.txn(0, {"in-1": 5})
    number = processed(h, 2, [a], [0])
    h.ops[number]["offsets"] = [{"partition": at, "offset": 6} for at in ("in-0", "in-1")]
    h.final({"in-0": [5], "in-1": [5], "out-0": [0]})
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": None, "in-1": 3}}))
    assert finding(judged(h, CONTRACT), "torn-offset")["sentence"] == (
        "Transaction 0 of process 2 was acknowledged as committed, but the group has no offset at the end where it committed "
        "one, in-0@6, and the group's offsets at the end lie below those that it committed, in-1@6."
    )


MINUTE_NS = 60_000_000_000


@pytest.mark.parametrize(
    ("expiry", "apart", "found"),
    [("none", 90, True), ("120000", 90, True), ("60000", 90, False), ("60000", 50, True)],
)
def test_a_group_whose_offsets_brokers_may_have_forgotten(judged, expiry, apart, found):
    """It was silent for longer than offsets.retention.minutes, and began anew: what it commits and makes then accuses nobody."""
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a, b], [0, 1])
    h.now += apart * MINUTE_NS // 60
    processed(h, 3, [a], [3])
    document = judged(ended(h, {"in-0": [5, 6], "out-0": [0, 1, 3]}, 6), {**CONTRACT, "offset_expiry": expiry})
    assert names(document) == (["offset-regression", "reprocessed"] if found else [])
    some = {answer(document, name)["verdict"] for name in ("offset-regression", "reprocessed")}
    assert some == {"violated" if found else "unknown"}
    assert ("offset_expiry" in str(answer(document, "offset-regression")["reason"])) != found


@pytest.mark.parametrize(("expiry", "answered"), [("none", "violated"), ("120000", "violated"), ("60000", "unknown")])
def test_a_group_that_has_no_offset_at_the_end_after_a_silence(judged, expiry, answered):
    h, (a,) = pipeline(5)
    processed(h, 2, [a], [0])
    h.now += 90 * MINUTE_NS // 60
    document = judged(ended(h, {"in-0": [5], "out-0": [0]}, None), {**CONTRACT, "offset_expiry": expiry})
    assert answer(document, "torn-offset")["verdict"] == answered


@pytest.mark.parametrize(("later", "answered"), [(None, "violated"), ("info", "unknown"), ("fail", "unknown")])
def test_what_brokers_forget_leaves_no_lower_offset_unless_somebody_committed_it_since(judged, later, answered):
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a], [0])
    processed(h, 2, [b], [2])
    h.now += 90 * MINUTE_NS // 60
    if later:
        processed(h, 3, [a], [4], later)
    document = judged(ended(h, {"in-0": [5, 6], "out-0": [0, 2]}, 6), {**CONTRACT, "offset_expiry": "60000"})
    assert answer(document, "torn-offset")["verdict"] == answered


def test_a_regression_before_the_silence_is_found(judged):
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [b], [0])
    processed(h, 3, [a], [2])
    h.now += 90 * MINUTE_NS // 60
    processed(h, 2, [a], [4], "fail")
    document = judged(ended(h, {"in-0": [5, 6], "out-0": [0, 2]}, 6), {**CONTRACT, "offset_expiry": "60000"})
    assert answer(document, "offset-regression")["verdict"] == "violated"


def lawful_pipeline():
    """Two members side by side, each with a partition of its own."""
    h = History()
    h.txn(0, {"in-0": list(range(0, 20, 2)), "in-1": list(range(0, 20, 2))})
    for place in range(0, 20, 2):
        for member, at in ((2, "in-0"), (3, "in-1")):
            number = processed(h, member, [(place, h.v(at, place))], [4 * place + member], at=at)
        began = h.ops[number]["time"]  # of member 3, which has not decided yet
        detail = {"offsets": {"in-0": place + 1, "in-1": place - 1 if place else None}}
        h.add(2, "committed", detail=json.dumps(detail), time=began + 1, end=began + 2)
        h.add(2, "committed", detail=json.dumps({"offsets": {"in-0": place + 1, "in-1": place + 1}}))
    numbers = list(range(0, 20, 2))
    h.final({"in-0": numbers, "in-1": numbers, "out-0": sorted(4 * place + member for place in numbers for member in (2, 3))})
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": "g", "offsets": {"in-0": 19, "in-1": 19}}))
    return h


def test_every_damage_to_a_pipeline_is_found(tmp_path):
    write_history(tmp_path, lawful_pipeline().ops)
    (tmp_path / "plan.json").write_text(json.dumps({"contract": {**LAWFUL, **CONTRACT}}))
    own = [damage for damage in DAMAGES if damage.plant.__module__.endswith(".pipeline_damages")]
    clean, *rows = selfcheck(open_run(tmp_path), no_session, checks=[*CHECKS, CYCLE], damages=own)
    assert clean.ok, clean.note
    assert [(row.damage, row.ok, row.note) for row in rows if not row.ok] == []
    assert len(rows) == len(own) == len(TWINS) + 1
    assert next(row.anomalies for row in rows if row.damage == "poll successor") == ("G1c-wr",)


def test_without_members_pipelines_are_not_judged(judged):
    h, _ = pipeline(5)
    document = judged(ended(h, {"in-0": [5]}, 0))
    assert answer(document, "unprocessed")["verdict"] == "not exercised"
    assert "no consumer is a member of a group" in answer(document, "unprocessed")["reason"]


def fetched_during_a_transaction(offset, type="ok", **fields):
    """Fetch of the group's offset while a transaction that is to commit 6 is under way; an earlier one committed 4."""
    h, _ = pipeline(2, 3, 5)
    processed(h, 1, [(3, h.v("in-0", 3))], [0])
    number = processed(h, 2, [(5, h.v("in-0", 5))], [4], type)
    op = h.ops[number]
    op.update(fields)
    h.add(
        9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": offset}}), time=op["time"] + 1, end=op["time"] + 2
    )
    return h


@pytest.mark.parametrize(
    ("offset", "type", "fields", "guilty"),
    [
        (6, "ok", {}, True),
        (6, "info", {}, True),
        (4, "ok", {}, False),
        (6, "info", {"end": None, "decided": None}, False),  # when it called commit is unknown
        (6, "fail", {}, False),  # torn-offset
        (6, "ok", {"decided": 0}, False),
    ],
)
def test_no_member_fetches_an_offset_before_its_commit_is_called(tmp_path, offset, type, fields, guilty):
    h = fetched_during_a_transaction(offset, type, **fields)
    ops = sorted(h.ops, key=lambda op: op["time"])
    document = judge_here(tmp_path, ops, CONTRACT, CHECKS)
    assert ("dirty-offset" in violated(document)) == guilty
    if guilty:
        assert "was told the group's offset in-0@6, before transaction" in finding(document, "dirty-offset")["sentence"]


def told(*answers, type="ok", at_end=6, **contract):
    """A pipeline that commits in-0@6; what somebody is told of the group's offset; the contract under which it is judged."""
    h, (a,) = pipeline(5)
    processed(h, 2, [a], [0], type)
    for answer_ in answers:
        h.add(9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": answer_}}))
    final = {"in-0": [5], "out-0": [0] if type == "ok" else []}
    return ended(h, final, at_end), {**CONTRACT, **contract}


@pytest.mark.parametrize("f", ["poll", "committed", "seek", "subscribe", ""])
def test_a_member_that_got_the_partition_back_may_commit_there_again(judged, f):
    """Whichever operation tells of the assignment; what it says besides is compared as ever."""
    h, records = pipeline(5, 6, 7)
    for member, record, place in zip((2, 3), records, (0, 2), strict=False):
        processed(h, member, [record], [place])
    own = {"offsets": {"in-0": 7}} if f == "committed" else {"positions": {"in-0": 7}} if f == "seek" else {}
    if f:
        h.add(2, f, role="member", detail=json.dumps({**own, "rebalances": [["assigned", ["in-0"]]]}))
    processed(h, 2, [records[2]], [4])
    document = judged(ended(h, {"in-0": [5, 6, 7], "out-0": [0, 2, 4]}, 8), CONTRACT)
    assert names(document) == ([] if f else ["double-ownership"])
    assert answer(document, "phantom-offset")["compared"] == 1 + (f == "committed")


def test_an_offset_that_somebody_is_told_is_one_that_somebody_was_to_commit(judged):
    document = judged(*told(6, 999, 999))
    assert names(document) == ["phantom-offset"]
    assert finding(document, "phantom-offset")["sentence"] == (
        "Process 9 was told the group's offset in-0@999 (the first of 2 such answers), which no operation was to commit."
    )
    assert answer(document, "phantom-offset")["compared"] == 4


def test_the_groups_offset_at_the_end_is_one_that_somebody_was_to_commit(judged):
    h, contract = told(at_end=100_006)
    document = judged(h, contract)
    assert names(document) == ["phantom-offset"]
    assert finding(document, "phantom-offset")["sentence"] == (
        "The group's offset at the end is in-0@100006, which no operation was to commit."
    )


@pytest.mark.parametrize("type", ["ok", "info", "fail"])
def test_an_offset_of_whatever_commit_is_no_phantom(judged, type):
    """What became of the commit is another question; and no offset at all is nobody's."""
    document = judged(*told(None, 6, type=type))
    assert "phantom-offset" not in names(document)
    assert answer(document, "phantom-offset")["verdict"] in KEPT


def test_an_offset_that_is_told_before_its_operation_begins_is_nobodys(judged):
    h, (a,) = pipeline(5)
    processed(h, 2, [a], [0])
    h.add(9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": 7}}))
    processed(h, 2, [a], [2], offset=7)
    assert "phantom-offset" in names(judged(h, {**CONTRACT, "final_read": "false"}))


def test_an_offset_that_another_group_commits_is_somebodys(judged):
    """The history tells who commits, and not for which group."""
    h, (a, b) = pipeline(5, 6)
    processed(h, 2, [a], [0])
    processed(h, 3, [b], [2])
    h.add(9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": 6}}))
    h.add(9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": 7}}))
    assert "phantom-offset" not in names(judged(ended(h, {"in-0": [5, 6], "out-0": [0, 2]}, 7), CONTRACT))


@pytest.mark.parametrize(("offset", "verdict"), [(999, "unknown"), (6, "held without occasion")])
def test_where_others_commit_too_an_offset_of_nobody_is_unknown(judged, offset, verdict):
    document = judged(*told(offset, offset_commits="unrecorded"))
    assert answer(document, "phantom-offset")["verdict"] == verdict
    assert ("phantom-offset could not be judged" in document["reason"]) == (verdict == "unknown")
    assert names(document) == []


def test_where_nobodys_commits_are_in_the_history_nothing_is_compared(judged):
    """As of consumers that commit automatically, in a workload of somebody's own."""
    h, _ = pipeline(5)
    h.add(9, "committed", role="reader", detail=json.dumps({"offsets": {"in-0": 6}}))
    document = judged(ended(h, {"in-0": [5]}, 6), CONTRACT)
    assert answer(document, "phantom-offset")["verdict"] == "not exercised"
