"""Values and keys of Jepsen's records that look like none: empty, absent, negative, as large as can be, of another type."""

from __future__ import annotations

import json

import pytest
from support.histories import violated
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def judged(folder, sent, polled):
    """The verdict where each of some (key, value) was sent in a transaction of its own, and one poll got (key, offset, value).

    Records of a key lie at 0, 2, 4, ...; between them are the markers.
    """
    operations, places = [("assign", [5, 6], [5, 6])], {}
    for key, value in sent:
        offset = places[str(key)] = places.get(str(key), -2) + 2
        operations.append(("txn", [["send", key, value]], [["send", key, [offset, value]]]))
    got = {}
    for key, offset, value in polled:
        got.setdefault(str(key), []).append([offset, value])
    operations.append(("poll", [["poll"]], [["poll", got]]))
    lines = [
        {"process": 9 if f != "txn" else 0, "type": type_, "f": f, "value": value}
        for f, planned, done in operations
        for type_, value in (("invoke", planned), ("ok", done))
    ]
    text = "".join(json.dumps({**line, "index": at, "time": 10 * at}) + "\n" for at, line in enumerate(lines))
    document = judge(open_run(adopted(text, folder, "history.json").dir), here=True)
    return document["verdict"], violated(document)


@pytest.mark.parametrize(
    "values",
    [
        ["", "a"],
        [0, 1],
        [-1, -2],
        [LEAST, MOST],
        ["a\tb\nc", 'q"\\'],
        ["\u00fc", "\U0001f986"],
        [1, "1"],
        ["nil", "null"],
        [10**30, 1],
    ],
)
def test_each_value_is_its_own(tmp_path, values):
    """Lawful, without the first one, and with one that nobody sent."""
    first, second = values
    sent, polled = [(5, first), (5, second)], [(5, 0, first), (5, 2, second)]
    assert judged(tmp_path, sent, polled) == ("valid", [])
    assert judged(tmp_path, sent, polled[1:]) == ("invalid", ["lost-write"])
    assert judged(tmp_path, sent[1:], [(5, 0, second), (5, 2, first)]) == ("invalid", ["phantom"])


@pytest.mark.parametrize("polled", [[(5, 0, 1), (5, 2, None)], [(5, 0, 1)], [(5, 2, None)]])
def test_a_tombstone_is_nobodys_and_nothing_is_said_of_it(tmp_path, polled):
    """Nobody could tell two of them apart."""
    assert judged(tmp_path, [(5, 1), (5, None), (5, 3)], [*polled, (5, 4, 3)]) == ("unknown", [])


@pytest.mark.parametrize("values", [["", ""], [7, 7]])
def test_two_records_of_one_value_cannot_be_told_apart(tmp_path, values):
    assert judged(tmp_path, [(5, value) for value in values], [(5, 0, values[0]), (5, 2, values[1])]) == ("unknown", [])


def test_a_key_is_a_partition_by_its_text(tmp_path):
    sent = [(5, 1), ("5", 2), ("", 1)]
    assert judged(tmp_path, sent, [(5, 0, 1), ("5", 2, 2), ("", 0, 1)]) == ("valid", [])
    assert judged(tmp_path, sent, [(5, 2, 2), ("", 0, 1)]) == ("invalid", ["lost-write"])
    assert judged(tmp_path, [(5, 1), ("5", 1)], [(5, 0, 1), (5, 2, 1)]) == ("unknown", [])


# --------------------------------------------------------------------------------------------------
# Tombstones
# --------------------------------------------------------------------------------------------------
SENT = [(5, 1), (5, 2), (6, 3)]
GOT = [("5", 0, 1), ("5", 2, 2), ("6", 0, 3)]


@pytest.mark.parametrize(
    ("sent", "polled"),
    [
        ([*SENT, (6, None)], [*GOT, ("6", 2, None)]),
        ([*SENT, (6, None)], GOT),
        (SENT, [*GOT, ("6", 2, None)]),
        (SENT, [GOT[0], ("5", 1, None), *GOT[1:]]),
        ([*SENT, (5, None), (5, None)], [*GOT, ("5", 4, None), ("5", 6, None)]),
        (SENT, [("5", 0, None), *GOT[1:]]),  # of one key at two offsets, or two at one: nobody can tell tombstones apart
        (SENT, [*GOT, ("5", 2, None)]),
    ],
)
def test_a_tombstone_has_no_name_and_accuses_nobody(tmp_path, sent, polled):
    assert judged(tmp_path, sent, polled) == ("unknown", [])


def test_what_others_show_beside_a_tombstone_is_found(tmp_path):
    operations = [
        ({"process": 0, "f": "txn"}, [["send", 5, 1]], [["send", 5, [0, 1]]]),
        ({"process": 0, "f": "txn"}, [["send", 6, None]], [["send", 6, [0, None]]]),
        ({"process": 8, "f": "poll"}, [["poll"]], [["poll", {"5": [[0, 1], [1, 1]]}]]),
    ]
    lines = [
        {**op, "type": type_, "value": value}
        for op, planned, done in operations
        for type_, value in (("invoke", planned), ("ok", done))
    ]
    text = "".join(json.dumps({**line, "index": at, "time": 10 * at}) + "\n" for at, line in enumerate(lines))
    document = judge(open_run(adopted(text, tmp_path, "history.json").dir), here=True)
    assert (document["verdict"], violated(document)) == ("invalid", ["duplicate"])
