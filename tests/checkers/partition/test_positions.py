"""Where consumers stood: groups, rebalances, polls that nobody heard of. Each guilty story has an innocent one beside it."""

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


def told(*rebalances, **more):
    return json.dumps({"rebalances": [[word, ["t-0"]] for word in rebalances], **more})


def test_without_rebalances_only_single_polls_of_a_group_are_judged(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9, 5]})
    document = judged(h, GROUP)
    assert violated(document) == ["int-nonmonotonic-poll"]
    assert answer(document, "poll-skip")["verdict"] == "not exercised"
    assert "whose rebalances are not in the history" in answer(document, "poll-skip")["reason"]


@pytest.mark.parametrize(("second", "found"), [([9], ["poll-skip"]), ([5], ["nonmonotonic-poll"]), ([7], [])])
def test_a_member_that_keeps_a_partition_reads_it_like_one_that_was_assigned_it(judged, second, found):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=told("assigned"))
    h.poll(2, {"t-0": second})
    assert violated(judged(h, GROUP)) == found


@pytest.mark.parametrize("rebalances", [("revoked", "assigned"), ("assigned",), ("lost",), ("odd",)])
def test_across_a_rebalance_everything_is_possible(judged, rebalances):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=told("assigned"))
    h.poll(2, {"t-0": [9]}, detail=told(*rebalances))
    h.poll(2, {"t-0": [5]})
    assert violated(judged(h, GROUP)) == []


def test_after_a_rebalance_the_member_is_judged_again_from_its_next_operation_on(judged):
    """What was polled in the operation of the rebalance may come from before or after it."""
    h = written(5, 7, 9, 11)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=told("assigned"))
    h.poll(2, {"t-0": [9]}, detail=told("revoked", "assigned"))
    h.poll(2, {"t-0": [5]})
    h.poll(2, {"t-0": [9]})
    document = judged(h, GROUP)
    assert violated(document) == ["poll-skip"]
    assert answer(document, "poll-skip")["count"] == 1


@pytest.mark.parametrize(("rebalances", "found"), [((), []), (("assigned",), ["int-poll-skip"])])
def test_between_two_polls_of_one_operation_a_group_may_rebalance_unless_it_is_known_not_to(judged, rebalances, found):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5, 9]}, detail=told(*rebalances, parted=["t-0"]))
    assert violated(judged(h, GROUP)) == found


def test_in_a_history_with_groups_the_assigned_are_judged_as_ever(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.add(3, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.poll(3, {"t-0": [5]})
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == ["poll-skip"]


def test_an_assignment_after_a_subscription_begins_anew(judged):
    h = written(5, 7, 9)
    subscribed(h, 2)
    h.poll(2, {"t-0": [5]}, detail=told("assigned"))
    h.add(2, "assign", detail=json.dumps({"partitions": ["t-0"]}))
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, GROUP)) == []


@pytest.mark.parametrize("lost", [{"type": "info", "end": None}, {"type": "info", "detail": '{"unheard": true}'}])
def test_after_a_poll_that_nobody_heard_of_nobody_knows_the_position(judged, lost):
    """It may have returned record 7."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.add(2, "poll", **lost)
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == []


@pytest.mark.parametrize(
    ("f", "rewinds", "found"), [("crash", "kept", []), ("txn", "rewound", []), ("txn", "kept", ["poll-skip"])]
)
def test_a_client_that_is_replaced_begins_anew(judged, f, rewinds, found):
    """After a crash, and after whatever ended without known outcome where the client is Jepsen's."""
    h = written(5, 7, 9)
    h.poll(2, {"t-0": [5]})
    h.add(2, f, type="info")
    h.poll(2, {"t-0": [9]})
    assert violated(judged(h, {**ALONE, "aborted_polls": rewinds})) == found


@pytest.mark.parametrize("unheard", [True, False])
def test_what_a_lost_poll_may_have_returned_is_not_lost(judged, unheard):
    """Nobody got 7; a consumer that died over its poll may have. Where nothing is missing, it is lost."""
    h = History()
    for offset in (5, 7, 9):
        h.txn(0, {"t-0": offset})
    h.poll(2, {"t-0": [5]})
    h.add(2, "poll", type="info" if unheard else "ok", **({"end": None} if unheard else {}))
    h.poll(3, {"t-0": [9]})
    assert violated(judged(h, ALONE)) == ([] if unheard else ["lost-write"])


@pytest.mark.parametrize("way", ["read on", "sought back"])
def test_a_record_that_somebody_surely_passed_over_is_lost_whatever_others_may_have_got(judged, way):
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


def assigned(h, process, partitions=("t-0",), **detail):
    h.add(process, "assign", detail=json.dumps({"partitions": list(partitions), **detail}))


def test_who_went_back_to_the_start_gets_everything_from_there(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    h.poll(2, {"t-0": [7, 9]})
    document = judged(h, ALONE)
    assert violated(document) == ["poll-skip"]
    assert "Process 2 began at the log's start and got t-0@7 first, past t-0@5" in finding(document, "poll-skip")["sentence"]


def test_who_reads_on_and_then_goes_back_gets_everything_from_the_start_too(judged):
    """That it goes back is right; that the first record is not there is not."""
    h = written(5, 7, 9)
    assigned(h, 2)
    h.poll(2, {"t-0": [5, 7]})
    assigned(h, 2, seek_to_beginning=True)
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == ["poll-skip"]


def test_who_went_back_and_was_told_something_else_may_begin_anywhere(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    assigned(h, 2, partitions=["t-1"])
    assigned(h, 2)
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == []


def test_an_assignment_of_unknown_outcome_did_not_surely_go_back(judged):
    h = written(5, 7, 9)
    assigned(h, 2, seek_to_beginning=True)
    h.ops[-1]["type"] = "info"
    h.poll(2, {"t-0": [7, 9]})
    assert violated(judged(h, ALONE)) == []
