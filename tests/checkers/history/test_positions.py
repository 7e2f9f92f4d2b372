"""Positions of consumers: groups, rebalances, polls without known result. Each anomaly has a lawful look-alike beside it."""

from __future__ import annotations

import json

import pytest
from support.histories import History, answer, finding, violated

GROUP = {"consumption": "subscribed", "first_poll": "anywhere", "final_read": "false"}
ALONE = {"first_poll": "anywhere", "final_read": "false"}


def written(*offsets):
    """Records at some offsets, and process 5, which is assigned the partition, gets all of them."""
    h = History()
    for offset in offsets:
        h.txn(0, {"t-0": offset})
    h.add(5, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.poll(5, {"t-0": offsets})
    return h


def subscribed(h, process):
    h.add(process, "subscribe", detail=json.dumps({"partitions": ["t-0"]}))


def rebalanced(*rebalances, **more):
    return json.dumps({"rebalances": [[word, ["t-0"]] for word in rebalances], **more})


def test_without_recorded_rebalances_a_group_member_is_judged_within_single_polls_only(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9, 5]})
    document = judged(h, GROUP)
    assert violated(document) == ["int-nonmonotonic-poll"]
    assert answer(document, "poll-skip")["verdict"] == "not exercised"
    assert "whose rebalances are not in the history" in answer(document, "poll-skip")["reason"]


@pytest.mark.parametrize(("second", "expected"), [([9], ["poll-skip"]), ([5], ["nonmonotonic-poll"]), ([7], [])])
def test_a_group_member_is_judged_from_poll_to_poll_while_it_owns_the_partition(judged, second, expected):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=rebalanced("assigned"))
    h.poll(2, {"t-0": second})
    assert violated(judged(h, GROUP)) == expected


@pytest.mark.parametrize("rebalances", [("revoked", "assigned"), ("assigned",), ("lost",), ("odd",)])
def test_a_group_member_may_skip_and_go_back_across_a_rebalance(judged, rebalances):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=rebalanced("assigned"))
    h.poll(2, {"t-0": [9]}, detail=rebalanced(*rebalances))
    h.poll(2, {"t-0": [5]})
    assert violated(judged(h, GROUP)) == []


@pytest.mark.parametrize(
    ("f", "own"),
    [("seek", {"positions": {"t-0": 6}}), ("seek", {"positions": {"t-1": 6}}), ("committed", {"offsets": {"t-0": 6}})],
)
@pytest.mark.parametrize("rebalances", [("revoked", "assigned"), ("lost",), ()])
def test_a_group_member_may_skip_across_a_rebalance_that_another_call_tells_of(judged, f, own, rebalances):
    """A driver's event may come at any time: the next operation that ends has it."""
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=rebalanced("assigned"))
    h.add(2, f, detail=rebalanced(*rebalances, **own))
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == ([] if rebalances else ["poll-skip"])


@pytest.mark.parametrize("told", [(), ("assigned",)])
def test_a_seek_that_tells_of_a_rebalance_leaves_an_assigned_client_anywhere(judged, told):
    """Its other partitions stay where they are. Only a member of a group is rebalanced, and who tells of it may be one."""
    h = written(5, 7)
    h.poll(2, {"t-0": [5, 7]})
    h.add(2, "seek", detail=json.dumps({"positions": {"t-1": 3}, "rebalances": [[word, ["t-0"]] for word in told]}))
    h.poll(2, {"t-0": [5]})
    assert violated(judged(h, {})) == ([] if told else ["nonmonotonic-poll"])


def test_after_a_rebalance_a_group_member_is_judged_from_its_next_operation_on(judged):
    """Records polled in the operation of the rebalance may come from before or after it."""
    h = written(5, 7, 9, 11)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=rebalanced("assigned"))
    h.poll(2, {"t-0": [9]}, detail=rebalanced("revoked", "assigned"))
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9]})
    document = judged(h, GROUP)
    assert violated(document) == ["poll-skip"]
    assert answer(document, "poll-skip")["count"] == 1


@pytest.mark.parametrize(("rebalances", "expected"), [((), []), (("assigned",), ["int-poll-skip"])])
def test_two_polls_of_one_operation_are_compared_only_when_the_history_excludes_a_rebalance_between_them(
    judged, rebalances, expected
):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5, 9]}, detail=rebalanced(*rebalances, parted=["t-0"]))
    assert violated(judged(h, GROUP)) == expected


def test_an_assigned_consumer_is_judged_as_usual_in_a_history_with_groups(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.add(3, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.poll(3, {"t-0": [5]})
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == ["poll-skip"]


def test_the_position_after_an_assignment_that_follows_a_subscription_is_unknown(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=rebalanced("assigned"))
    h.add(2, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == []


@pytest.mark.parametrize("lost", [{"type": "info", "end": None}, {"type": "info", "detail": '{"unheard": true}'}])
def test_the_position_after_a_poll_without_known_result_is_unknown(judged, lost):
    """It may have returned record 7."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.add(2, "poll", **lost)
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == []


@pytest.mark.parametrize(
    ("f", "rewinds", "expected"), [("crash", "kept", []), ("txn", "rewound", []), ("txn", "kept", ["poll-skip"])]
)
def test_the_position_of_a_replaced_consumer_is_unknown(judged, f, rewinds, expected):
    """After a crash, and after whatever ended without known outcome where the client is Jepsen's."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.add(2, f, type="info")
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, {**ALONE, "aborted_polls": rewinds})) == expected


@pytest.mark.parametrize("unheard", [True, False])
def test_a_record_that_a_poll_without_known_result_may_have_returned_is_not_lost(judged, unheard):
    """No poll returned 7. A consumer that died in its poll may have got it; if every result is known, 7 is lost."""
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": offset})
    h.poll(2, {"t-0": [5]})
    h.add(2, "poll", type="info" if unheard else "ok", **({"end": None} if unheard else {}))
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == ([] if unheard else ["lost-write"])


@pytest.mark.parametrize("way", ["read on", "sought back"])
def test_a_record_that_a_consumer_surely_passed_over_is_lost_whatever_other_polls_returned(judged, way):
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": offset})
    h.add(2, "poll", type="info", end=None)
    if way == "sought back":
        h.add(3, "assign", detail=json.dumps({"partitions": ["t-0"], "seek_to_beginning": True}))
    else:
        h.poll(3, {"t-0": [5]})
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == ["lost-write"]


UNHEARD = '{"unheard": true}'


def torn(h, passed):
    """A transaction of unknown outcome: a reader got its record in t-1, and nobody the one in t-0, which has no offset. Passed: a
    consumer reads on from what was in t-0 before to what was sent afterwards."""
    h.txn(0, {"t-0": 5})
    h.txn(1, {"t-0": None, "t-1": 3}, type="info")
    proof = h.ops[-1]["mops"][1]
    h.ops[-1]["mops"][1] = (*proof[:3], None, proof[4], None)
    h.poll(2, {"t-1": [3]})
    h.txn(0, {"t-0": 7})
    h.poll(3, {"t-0": [5, 7] if passed else [5]})


def test_a_record_without_offset_that_a_consumer_passed_is_missing_whatever_other_polls_returned(judged):
    h = History()
    torn(h, passed=True)
    h.poll(4, {"t-0": [7]})
    h.add(6, "txn", type="info", detail=UNHEARD)
    document = judged(h, ALONE)
    assert violated(document) == ["torn-transaction"]
    assert (
        "the record it wrote to t-0 (its offset is unknown) was read by nobody"
        in finding(document, "torn-transaction")["sentence"]
    )


@pytest.mark.parametrize("unheard", [True, False])
def test_a_record_without_offset_that_nobody_passed_leaves_the_verdict_open(judged, unheard):
    h = History()
    torn(h, passed=False)
    h.poll(4, {"t-0": [5]})
    if unheard:
        h.add(6, "txn", type="info", detail=UNHEARD)
    document = judged(h, ALONE)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert document["reason"].startswith("2 promised records were returned to nobody")  # and t-0@7


def test_what_two_consumers_passed_between_them_no_consumer_missed_by_chance(judged):
    """The record lies between 5 and 9, and 7 was sent meanwhile. A consumer read on from 5 to 7, and another from 7 to 9."""
    h = History()
    h.txn(0, {"t-0": 5})
    meanwhile = h.now
    h.txn(1, {"t-0": None})
    h.txn(2, {"t-0": 7})
    h.ops[-1]["time"] = meanwhile
    h.ops[-1]["mops"] = [(*mop[:4], meanwhile, mop[5]) for mop in h.ops[-1]["mops"]]
    h.txn(0, {"t-0": 9})
    h.poll(3, {"t-0": [5, 7]})
    h.add(6, "poll", type="info", detail=UNHEARD)
    stretches = History()
    stretches.ops, stretches.now = list(h.ops), h.now
    h.poll(4, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == ["lost-write"]
    stretches.poll(4, {"t-0": [(9, h.v("t-0", 9))]})
    assert violated(judged(stretches, ALONE)) == []


def test_a_poll_that_had_ended_before_a_record_was_sent_did_not_return_it(judged):
    h = History()
    h.add(6, "poll", type="info", detail=UNHEARD)
    for offset in (5, 7):
        h.txn(0, {"t-0": offset})
    h.poll(3, {"t-0": [7]})
    assert violated(judged(h, ALONE)) == ["lost-write"]


@pytest.mark.parametrize(("position", "expected"), [(5, []), (7, ["lost-write"])])
def test_a_consumer_returns_nothing_below_its_position(judged, position, expected):
    """6 was read by nobody; process 3 had come to 5, or beyond 6, when it polled without known result."""
    h = History()
    for offset in (5, 6, 7, 9):
        h.txn(0, {"t-0": offset})
    h.poll(4, {"t-0": [5]})
    h.poll(3, {"t-0": [position]})
    h.add(3, "poll", type="info", detail=UNHEARD)
    h.poll(2, {"t-0": [7]})
    h.poll(1, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == expected


def test_a_process_that_may_have_polled_before_began_nowhere_for_sure(judged):
    """The poll without known result may have returned 5."""
    h = History()
    for offset in (5, 7):
        h.txn(0, {"t-0": offset})
    h.add(3, "poll", type="info", detail=UNHEARD)
    h.poll(3, {"t-0": [7]})
    assert violated(judged(h, {**ALONE, "first_poll": "beginning"})) == []


@pytest.mark.parametrize(("detail", "expected"), [({}, ["int-poll-skip"]), ({"unheard": True}, [])])
def test_between_two_polls_of_an_operation_lies_perhaps_one_without_known_result(judged, detail, expected):
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5, 9]}, type="info", detail=json.dumps({"parted": ["t-0"], **detail}))
    assert violated(judged(h, ALONE)) == expected


def assigned(h, process, partitions=("t-0",), **detail):
    h.add(process, "assign", detail=json.dumps({"partitions": list(partitions), **detail}))


def test_a_consumer_that_seeks_to_the_start_must_get_every_record_from_there(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    h.poll(2, {"t-0": [7, 9]})
    document = judged(h, ALONE)
    assert violated(document) == ["poll-skip"]
    assert "Process 2 began at the log's start and got t-0@7 first, past t-0@5" in finding(document, "poll-skip")["sentence"]


def test_a_consumer_that_reads_and_then_seeks_to_the_start_must_get_every_record_from_there(judged):
    """Going back is lawful; lacking the first record is not."""
    h = written(5, 7, 9)
    assigned(h, 2)
    h.poll(2, {"t-0": [5, 7]})
    assigned(h, 2, seek_to_beginning=True)
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == ["poll-skip"]


def test_a_consumer_assigned_anew_after_seeking_to_the_start_may_begin_anywhere(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    assigned(h, 2, partitions=["t-1"])
    assigned(h, 2)
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == []


def test_an_assignment_of_unknown_outcome_may_not_have_sought_to_the_start(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    h.ops[-1]["type"] = "info"
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == []


# --------------------------------------------------------------------------------------------------
# Seeks
# --------------------------------------------------------------------------------------------------
def sought(h, process, positions, **more):
    h.add(process, "seek", detail=json.dumps({"positions": positions}), **more)


@pytest.mark.parametrize(
    ("place", "got", "expected", "words"),
    [
        (7, [7, 9], [], ""),
        (6, [7, 9], [], ""),
        (10, [], [], ""),
        (7, [9], ["poll-skip"], "Process 2 sought back to t-0@7, and got t-0@9 next, past t-0@7, which others got."),
        (0, [7, 9], ["poll-skip"], "Process 2 sought back to t-0@0, and got t-0@7 next, past t-0@5"),
        (7, [5, 7, 9], ["nonmonotonic-poll"], "Process 2 sought back to t-0@7, and got t-0@5 next, which lies below."),
    ],
)
def test_a_consumer_that_sought_back_goes_on_from_there(judged, place, got, expected, words):
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5, 7, 9]})
    sought(h, 2, {"t-0": place})
    h.poll(2, {"t-0": got})
    document = judged(h, ALONE)
    assert violated(document) == expected
    assert not expected or words in finding(document, expected[0])["sentence"]


def test_a_seek_beyond_all_that_was_read_may_lead_anywhere(judged):
    """It may have been beyond the end of the log, so that the client began anew."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    sought(h, 2, {"t-0": 8})
    h.poll(2, {"t-0": [5]})
    h.poll(3, {"t-0": [5]})
    sought(h, 3, {"t-0": 7})
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == []


def test_a_seek_in_one_partition_moves_no_consumer_in_another(judged):
    h = written(5, 7, 9)
    h.txn(0, {"t-1": 3})
    h.poll(2, {"t-0": [5], "t-1": [3]})
    sought(h, 2, {"t-1": 3})
    h.poll(2, {"t-0": [9], "t-1": [3]})
    assert violated(judged(h, ALONE)) == ["poll-skip"]


@pytest.mark.parametrize(
    "seek",
    [
        {"type": "info"},
        {"type": "fail"},
        {"detail": None},
        {"detail": json.dumps({"positions": {}})},
        {"detail": json.dumps({"positions": {"t-0": "end"}})},
        {"detail": json.dumps({"positions": {"t-0": -1}})},
        {"type": "info", "end": None, "detail": None},
    ],
)
def test_after_a_seek_of_which_nobody_knows_where_it_went_a_consumer_may_go_on_anywhere(judged, seek):
    h = written(5, 7, 9)
    for process, got in ((2, [5]), (3, [9])):
        h.poll(process, {"t-0": [5]})
        h.add(process, "seek", **{"detail": json.dumps({"positions": {"t-0": 5}}), **seek})
        h.poll(process, {"t-0": got})
    assert violated(judged(h, ALONE)) == []


@pytest.mark.parametrize(("events", "expected"), [((), ["poll-skip"]), (("revoked", "assigned"), [])])
def test_a_member_that_sought_back_goes_on_from_there_while_it_owns_the_partition(judged, events, expected):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5, 7]}, detail=rebalanced("assigned"))
    sought(h, 2, {"t-0": 5})
    h.poll(2, {}, detail=rebalanced(*events) if events else None)
    h.poll(2, {"t-0": [7]})
    assert violated(judged(h, GROUP)) == expected


def test_a_seek_that_tells_of_a_rebalance_leaves_the_place_of_a_member_unknown(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5, 7]}, detail=rebalanced("assigned"))
    h.add(2, "seek", detail=rebalanced("revoked", "assigned"))
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == []


@pytest.mark.parametrize("f", ["assign", "subscribe"])
@pytest.mark.parametrize("detail", [None, "[7]", "{"])
def test_a_move_that_does_not_say_where_to_may_have_gone_anywhere(judged, f, detail):
    h = written(5, 7, 9)
    for process, got in ((2, [5]), (3, [9])):
        h.poll(process, {"t-0": [5]})
        h.add(process, f, type="info", end=None, detail=detail)
        h.poll(process, {"t-0": got})
    assert violated(judged(h, ALONE)) == []
