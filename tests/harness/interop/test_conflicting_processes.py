"""What processes of a Jepsen history say of one record or one offset, and cannot all be true: an anomaly, or unknown."""

from __future__ import annotations

import json

import pytest
from support.histories import violated
from support.jepsen_example import adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.history.run_directory import open_run


def did(process, f, value, completed, type="ok"):
    return process, type, f, value, completed


def sends(process, offset, value, type="ok"):
    """A plain send of a value to key 0, and the offset at which it was acknowledged."""
    return did(process, "send", [["send", 0, value]], [["send", 0, [offset, value]]], type)


def polls(process, *records, type="ok", key=0):
    """records: (offset, value)."""
    return did(process, "poll", [["poll"]], [["poll", {str(key): [list(record) for record in records]}]], type)


READERS = tuple(did(process, "assign", [0], [0]) for process in (5, 6))
REST = (sends(2, 7, 107), sends(2, 8, 108), polls(5, (7, 107), (8, 108)), polls(6, (7, 107), (8, 108)))
"""What is lawful beside it, so that much is compared."""


def edn(value):
    """JSON's values as EDN, with the first word of a micro-operation as a keyword."""
    if isinstance(value, dict):
        return "{" + " ".join(f"{key} {edn(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(edn, value)) + "]"
    return f":{value}" if value in ("send", "poll") else "nil" if value is None else str(value)


def lines(operations, form):
    made = []
    for process, type, fs, value, completed in operations:
        for kind, content, f in (("invoke", value, fs.split()[0]), (type, completed, fs.split()[-1])):
            number = len(made)
            if form == "edn":
                text = f"{{:process {process}, :type :{kind}, :f :{f}, :value {edn(content)}, :index {number}, :time {number}}}"
            elif form == "json":
                document = {"process": process, "type": kind, "f": f, "value": content, "index": number, "time": number}
                text = json.dumps(document)
            else:
                text = f"{process}\t:{kind}\t:{f}\t{edn(content)}"
            made.append(text + "\n")
    return "".join(made)


def judged(folder, operations, form="edn"):
    name = {"edn": "history.edn", "json": "history.json", "txt": "history.txt"}[form]
    return judge(open_run(adopted(lines([*READERS, *operations], form), folder, name).dir), here=True)


@pytest.mark.parametrize("form", ["edn", "json", "txt"])
def test_the_rest_is_valid(tmp_path, form):
    document = judged(tmp_path, [sends(0, 0, 1), polls(5, (0, 1)), polls(6, (0, 1)), *REST], form)
    assert (document["verdict"], violated(document)) == ("valid", [])


NAMES = ("duplicate", "inconsistent-offset", "lost-write", "phantom")
FOUND = {
    "two readers get two values at one offset": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 1)), polls(6, (0, 2))],
        ["duplicate", "inconsistent-offset"],
    ),
    "two sends are acknowledged at one offset": ([sends(0, 0, 1), sends(1, 0, 2), polls(5, (0, 1))], ["lost-write"]),
    "and nobody read there": ([sends(0, 0, 1), sends(1, 0, 2)], ["lost-write"]),
    "a reader gets another value than the one that was acknowledged there": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 2))],
        ["duplicate", "lost-write"],
    ),
    "one process gets two values at one offset": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 1)), polls(5, (0, 2))],
        ["duplicate", "inconsistent-offset"],
    ),
    "one poll does": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 1), (0, 2))],
        ["duplicate", "inconsistent-offset"],
    ),
    "a failed poll contradicts one that is ok": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 1)), polls(6, (0, 2), type="fail")],
        ["duplicate", "inconsistent-offset"],
    ),
    "a poll of unknown outcome does": (
        [sends(0, 0, 1), sends(1, 1, 2), polls(5, (0, 1)), polls(6, (0, 2), type="info")],
        ["duplicate", "inconsistent-offset"],
    ),
    "two readers get one value at two offsets": ([sends(0, 0, 1), polls(5, (0, 1)), polls(6, (3, 1))], ["duplicate"]),
    "of a send whose offset nobody was told": ([sends(0, None, 1), polls(5, (0, 1)), polls(6, (3, 1))], ["duplicate"]),
    "it lies elsewhere than where it was acknowledged": (
        [sends(0, 0, 1), polls(5, (3, 1)), polls(6, (3, 1))],
        ["duplicate"],
    ),
    "a value that nobody sent lies where another was acknowledged": (
        [sends(0, 0, 1), polls(5, (0, 99))],
        ["lost-write", "phantom"],
    ),
    "a value is there under another key": ([sends(0, 0, 1), polls(5, (0, 1)), polls(6, (0, 1), key=9)], ["phantom"]),
}


@pytest.mark.parametrize("form", ["edn", pytest.param("json", marks=pytest.mark.nightly), "txt"])
@pytest.mark.parametrize("case", FOUND)
def test_what_the_log_cannot_hold_is_found(tmp_path, case, form):
    """One cause is one finding: of two that were acknowledged at one offset below what readers got, one is a loss."""
    operations, names = FOUND[case]
    found = violated(judged(tmp_path, [*operations, *REST], form))
    assert [name for name in found if name in NAMES] == names


UNKNOWN = {
    "two processes send one value": ([sends(0, 0, 1), sends(1, 1, 1), polls(5, (0, 1), (1, 1))], "sent more than once"),
    "one operation sends a value twice": (
        [did(0, "txn", [["send", 0, 1], ["send", 0, 1]], [["send", 0, [0, 1]], ["send", 0, [1, 1]]]), polls(5, (0, 1))],
        "sent more than once",
    ),
    "a send is acknowledged at a negative offset": ([sends(0, -3, 1), polls(5, (0, 1))], "at a negative offset"),
    "it is, and nobody read it": ([sends(0, -3, 1)], "at a negative offset"),
    "a record is polled at a negative offset": ([sends(0, 0, 1), polls(5, (-3, 1))], "without an offset"),
    "at an offset that no log reaches": ([sends(0, 0, 1), polls(5, (10**23, 1))], "not understood|without an offset"),
    "a send is acknowledged there": ([sends(0, 10**23, 1), polls(5, (0, 1))], "not understood"),
    "an invocation of a send is completed as a transaction": (
        [did(0, "send txn", [["send", 0, 1]], [["send", 0, [0, 1]]]), polls(5, (0, 1))],
        "of another function",
    ),
    "a record is polled without a value": ([sends(0, 0, 1), polls(5, (0, None))], "without its key or its value"),
    "at half an offset": ([sends(0, 0.5, 1), polls(5, (0, 1))], "not understood"),
}


@pytest.mark.parametrize("form", ["edn", "json", "txt"])
@pytest.mark.parametrize("case", UNKNOWN)
def test_what_cannot_be_told_apart_is_unknown(tmp_path, case, form):
    operations, why = UNKNOWN[case]
    document = judged(tmp_path, [*operations, *REST], form)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert any(word in str(document["weakened"]) for word in why.split("|"))


@pytest.mark.parametrize("acknowledged", [[(0, 1), (0, 2)], [(8, 1)]])
def test_two_acknowledgements_at_one_offset_where_no_reader_went_on(tmp_path, acknowledged):
    """Nobody knows which of them is lost: it is the contradiction that is found."""
    operations = [sends(number, *one) for number, one in enumerate(acknowledged)]
    rest = [each for each in REST if each[2] == "send"]
    assert violated(judged(tmp_path, [*operations, *rest])) == ["inconsistent-offset"]


def test_a_producer_that_is_told_no_offset_says_minus_one(tmp_path):
    document = judged(tmp_path, [sends(0, -1, 1), polls(5, (0, 1)), polls(6, (0, 1)), *REST])
    assert (document["verdict"], violated(document)) == ("valid", [])


def test_what_contradicts_itself_hides_no_other_finding(tmp_path):
    operations = [sends(0, 0, 1), sends(1, 1, 1), sends(0, 2, 3), polls(5, (0, 1), (1, 1), (2, 3)), polls(6, (2, 3), (4, 3))]
    assert "duplicate" in violated(judged(tmp_path, [*operations, *REST]))
