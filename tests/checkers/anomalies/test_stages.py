"""Programs in a row, and sinks: each stage is judged between its own two topics, and a store by its listing."""

from __future__ import annotations

import json

import pytest
from support.histories import History, answer, finding, violated

CONTRACT = {"application": "exactly-once"}


def stages(middle, end, first=10, second=10, **declared):
    """Inputs in-0@5, 6 and 7; outputs of both stages: (offset, input's offset). first, second: where their groups stand."""
    h = History()
    h.txn(0, {"in-0": [5, 6, 7]})
    h.final({"in-0": [5, 6, 7], "mid-0": [], "out-0": []})
    read = next(op for op in h.ops if op["final"] and op["isolation"] == "read_committed")
    outputs = [("mid-0", offset, of) for offset, of in middle] + [("out-0", offset, of) for offset, of in end]
    read["outputs"] = [{"partition": name, "offset": at, "v": h.v("in-0", of), "ended": h.now} for name, at, of in outputs]
    common = {"outputs": [1, 1], "ordered": False, "drained": True, "waited_s": 1.0, **declared}
    for group, came, went, fed in (("one", "in-0", "mid-0", True), ("two", "mid-0", "out-0", False)):
        own = {"group": group, "inputs": [came], "output_partitions": [went], "fed": fed}
        h.add(-1, "drain", isolation=None, detail=json.dumps({**common, **own}))
    for group, offsets in (("one", {"in-0": first}), ("two", {"mid-0": second})):
        h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": group, "offsets": offsets}))
    return h


ALL = [(0, 5), (1, 6), (2, 7)]


def test_each_input_once_through_both_stages_holds(judged):
    document = judged(stages(ALL, ALL), CONTRACT)
    assert violated(document) == []
    assert answer(document, "reprocessed")["compared"] == answer(document, "unprocessed")["compared"] == 6
    assert answer(document, "phantom-output")["compared"] == 6


def test_what_the_first_stage_repeats_the_second_may_have_twice(judged):
    twice = [*ALL, (3, 5)]
    document = judged(stages(twice, twice), CONTRACT)
    assert violated(document) == ["reprocessed"]
    sentence = finding(document, "reprocessed")["sentence"]
    assert sentence.startswith("Input record")
    assert "in-0@5" in sentence
    assert "has 2, mid-0@0 and mid-0@3" in sentence


def test_what_the_second_stage_repeats_is_its_own(judged):
    document = judged(stages(ALL, [*ALL, (3, 6)]), CONTRACT)
    assert violated(document) == ["reprocessed"]
    assert "has 2, out-0@1 and out-0@3" in finding(document, "reprocessed")["sentence"]
    assert "mid-0@1" in finding(document, "reprocessed")["sentence"]


def test_both_stages_may_repeat_and_each_has_a_finding(judged):
    document = judged(stages([*ALL, (3, 5)], [*ALL, (3, 5), (4, 6)]), CONTRACT)
    assert [row["anomaly"] for row in document["findings"]] == ["reprocessed", "reprocessed"]


@pytest.mark.parametrize(
    ("middle", "end", "where"),
    [
        (ALL[1:], ALL[1:], "in-0@5 lies below the offset that the group one committed"),
        (ALL, ALL[1:], "mid-0@0 lies below the offset that the group two committed"),
    ],
)
def test_an_input_that_is_lost_is_lost_in_a_stage(judged, middle, end, where):
    document = judged(stages(middle, end), CONTRACT)
    assert "unprocessed" in violated(document)
    assert where in finding(document, "unprocessed")["sentence"]


def test_what_the_second_stage_has_not_reached_is_not_held_against_it(judged):
    document = judged(stages(ALL, ALL[:1], second=1), CONTRACT)
    assert violated(document) == []
    assert answer(document, "unprocessed")["compared"] == 4


def test_what_the_second_stage_made_of_an_aborted_output_is_a_phantom(judged):
    """The first program aborted its output of in-0@7, and has not read that input again; the second one read it all the same."""
    document = judged(stages(ALL[:2], ALL, first=7), CONTRACT)
    assert violated(document) == ["phantom-output"]
    assert finding(document, "phantom-output")["sentence"].endswith(
        "names in-0@7, of which mid-0 has no output of the program before: it is not visible, so the program read what was "
        "aborted, or what was lost later."
    )
    assert [(row["partition"], row["offset"], row["role"]) for row in finding(document, "phantom-output")["records"]] == [
        ("in-0", 7, "sent"),
        ("out-0", 2, "read"),
    ]


@pytest.mark.parametrize("why", ["it was deleted", "nobody read it back", "one is not readable"])
def test_an_output_between_two_stages_that_may_be_there_is_missed_by_nobody(judged, why):
    h = stages(ALL[:2], ALL, first=7)
    for op in h.ops:
        if op["f"] == "final-read" and op["isolation"] == "read_committed" and why == "nobody read it back":
            op["detail"] = json.dumps({**json.loads(op["detail"]), "mid-0": [0, 1000, 1]})
        if op.get("outputs") and why == "one is not readable":
            op["outputs"].append({"partition": "mid-0", "offset": 2, "v": -1, "ended": h.now})
    document = judged(h, {**CONTRACT, **({"retention": "1000"} if why == "it was deleted" else {})})
    of_in_0 = [row for row in document["findings"] if any(record["partition"] == "in-0" for record in row["records"])]
    assert "phantom-output" not in [row["anomaly"] for row in of_in_0]


def test_the_second_stage_may_drop_what_the_first_one_repeats(judged):
    document = judged(stages([*ALL, (3, 5)], ALL), CONTRACT)
    assert violated(document) == ["reprocessed"]


TWO = [*ALL, (3, 5), (4, 6), (5, 7)]
FOUR = [*TWO, *((6 + at, of) for at, of in TWO)]


@pytest.mark.parametrize(
    ("middle", "end", "second", "found"),
    [
        (TWO, FOUR, 10, []),
        (TWO, FOUR[1:], 10, ["unprocessed"]),
        (TWO, [row for row in FOUR if row not in (TWO[0], TWO[3])], 10, ["unprocessed"]),
        (TWO, TWO, 3, []),  # of each input the second record lies beyond its offset
        (TWO, TWO, 4, ["unprocessed"]),
        ([*TWO, (6, 5)], FOUR, 10, ["reprocessed"]),  # it dropped what was repeated
        ([*TWO, (6, 5)], FOUR[1:], 10, ["reprocessed", "unprocessed"]),
        ([*TWO, (6, 5)], [*TWO, (6, 6), (7, 7)], 4, ["reprocessed"]),  # what it has reached may be one record and its repetition
        (TWO, [*FOUR, (12, 5)], 10, ["reprocessed"]),
    ],
)
def test_a_stage_makes_its_outputs_of_each_one_that_the_stage_before_makes_of_an_input(judged, middle, end, second, found):
    assert violated(judged(stages(middle, end, second=second, outputs=[2, 2]), CONTRACT)) == found


def test_an_input_that_is_there_twice_is_one_finding_of_the_stage_that_reads_it(judged):
    document = judged(stages([*ALL, (3, 5)], [*ALL, (3, 5), (4, 5)]), CONTRACT)
    assert [row["sentence"].partition(":")[0] for row in document["findings"]] == [
        "Input record in-0@5 has more outputs than the 1 that the program declares",
        "2 input records, mid-0@0 and mid-0@3, have more outputs than the 1 that the program declares each",
    ]
    document = judged(stages(TWO, FOUR[1:], outputs=[2, 2]), CONTRACT)
    assert finding(document, "unprocessed")["sentence"] == (
        "2 input records, mid-0@0 and mid-0@3, lie below the offset that the group two committed, but the complete "
        "read_committed final read has only 3 of 4 outputs of them."
    )


def test_the_order_of_keys_is_that_in_which_a_stage_reads_them(judged):
    turned = [(0, 6), (1, 5), (2, 7)]
    straight = judged(stages(ALL, ALL, ordered=True, keys=1), CONTRACT)
    assert "output-order" not in violated(straight)
    assert answer(straight, "output-order")["compared"] == 4
    document = judged(stages(turned, turned, ordered=True, keys=1), CONTRACT)
    assert "output-order" in violated(document)
    assert "mid-0@0" in finding(document, "output-order")["sentence"]  # the second stage has kept the order that it got


@pytest.mark.parametrize(("middle", "found"), [(1, []), (0, ["output-order"])])
def test_an_input_of_which_two_partitions_have_a_record_has_no_place_in_the_order_of_keys(judged, middle, found):
    """The second program has read mid-1 first, and each partition in its order; or mid-0 alone, in another order."""
    h = stages([(0, 5), (1, 5), (2, 6), (3, 6)], [(0, 6), (1, 5), (2, 5), (3, 6)], ordered=True, keys=1, outputs=[0, 2])
    for op in h.ops:
        for row in op.get("outputs") or ():
            if (row["partition"], row["offset"]) == ("mid-0", 3):
                row["partition"] = f"mid-{middle}"
        op["detail"] = op["detail"] and op["detail"].replace('["mid-0"]', '["mid-0", "mid-1"]')
        if op["f"] == "final-read":
            op["detail"] = json.dumps({**json.loads(op["detail"]), "mid-1": [0, 1000, 1000]})
    assert violated(judged(h, CONTRACT)) == found


# --------------------------------------------------------------------------------------------------
# The store of a sink
# --------------------------------------------------------------------------------------------------
def sink(items, whole=True, group="the store", **declared):
    """Inputs in-0@5, 6 and 7, the last of them aborted; the listing has items of inputs by their offsets."""
    h = History()
    h.txn(0, {"in-0": [5, 6]})
    h.txn(0, {"in-0": [7]}, "fail")
    h.final({"in-0": [5, 6]})
    listing(h, items, whole)
    own = {"group": group, "inputs": ["in-0"], "output_partitions": ["store-0"], "fed": True, "store": True}
    common = {"outputs": [1, 1], "ordered": False, "drained": True, "waited_s": 1.0}
    h.add(-1, "drain", isolation=None, detail=json.dumps({**common, **own, **declared}))
    h.add(-1, "group-offsets", isolation=None, detail=json.dumps({"group": group, "offsets": {"in-0": 8}}))
    return h


def listing(h, items, whole=True, reader=92):
    """What a final reader got of the store."""
    listed = [{"partition": "store-0", "offset": at, "v": h.v("in-0", of), "ended": h.now} for at, of in enumerate(items)]
    h.add(reader, "poll", final=True, role="final", outputs=listed)
    detail = json.dumps({"store-0": [0, len(items), len(items)]} if whole else {})
    h.add(reader, "final-read", type="ok" if whole else "info", final=True, role="final", detail=detail)


def test_a_store_with_each_input_once_holds(judged):
    document = judged(sink([6, 5]), CONTRACT)
    assert violated(document) == []
    assert answer(document, "reprocessed")["compared"] == answer(document, "unprocessed")["compared"] == 2


@pytest.mark.parametrize(
    ("items", "group", "name", "sentence"),
    [
        (
            [5, 6, 5],
            "g",
            "reprocessed",
            "the listing of the sink's store has 2, store-0@0 and store-0@2.",
        ),
        (
            [5],
            "the store",
            "unprocessed",
            "in-0@6 lies below the offset that the store committed, but the listing of the sink's store has no output of it.",
        ),
        ([5, 6, 7], "g", "phantom-output", "it is not visible, so the program read what was aborted."),
    ],
)
def test_a_store_is_judged_by_its_listing(judged, items, group, name, sentence):
    document = judged(sink(items, group=group), CONTRACT)
    assert violated(document) == [name]
    assert finding(document, name)["sentence"].endswith(sentence)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (([5], False), ([6, 5], True), []),
        (([6, 5], True), ([5], False), []),
        (([5, 6], True), ([6, 5], True), []),
        (([5, 6], True), ([6], True), ["unprocessed"]),
        (([5], True), ([6, 6], False), ["unprocessed"]),
        (([6, 5, 6], False), ([5], False), []),
        (([5], False), ([6, 5, 6], False), ["reprocessed"]),
    ],
)
def test_of_two_listings_the_last_whole_one_is_judged(judged, first, second, found):
    h = sink(*first)
    listing(h, *second, reader=93)
    assert violated(judged(h, CONTRACT)) == found


@pytest.mark.parametrize(("contract", "name"), [("exactly-once", "reprocessed"), ("at-least-once", "unprocessed")])
def test_without_a_whole_listing_nothing_is_judged_and_the_verdict_is_unknown(judged, contract, name):
    document = judged(sink([], whole=False), {"application": contract})
    assert answer(document, name)["verdict"] in ("not exercised", "unknown")
    assert document["verdict"] == "unknown"
