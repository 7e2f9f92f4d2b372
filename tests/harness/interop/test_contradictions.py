"""A history of others whose values contradict one another accuses nobody, and nothing is said to have held."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, violated
from support.jepsen_example import Adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run

EARLY, LATE = 5, 1 << 60
SENDER, READER, FINAL = 0, 2, 3  # rows of the history


def lawful():
    """A writer's two transactions, a reader that got the first one, and the final reads."""
    history = History()
    history.txn(0, {"t-0": [0, 1]})
    history.txn(0, {"t-0": [3, 4]})
    history.poll(1, {"t-0": [0, 1]})
    history.final({"t-0": [0, 1, 3, 4]})
    names = ("kind", "partition", "v", "offset", "began", "ended")
    return [{**op, "mops": [dict(zip(names, mop, strict=True)) for mop in op["mops"]]} for op in history.ops]


def judged(folder, rows):
    path = folder / "history.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA), path)
    return judge(open_run(Adopted(path, folder / "run").dir), here=True)


def test_the_whole_history_is_valid(tmp_path):
    document = judged(tmp_path, lawful())
    assert (document["verdict"], violated(document)) == ("valid", [])


WRONG = {
    "times of its records": [
        ((READER, "ended", EARLY), "a poll that had returned before it began seems to have read what was not sent yet"),
        ((FINAL, "ended", EARLY), "a final read that did"),
        ((READER, "ended", LATE), "one that returns after its end"),
        ((SENDER, "began", LATE), "a record that was sent after its operation"),
        ((SENDER, "ended", EARLY), "one that was acknowledged before"),
    ],
    "times below zero": [
        ((READER, "ended", -1), "a poll that returned before any clock had begun"),
        ((SENDER, "ended", -1), "a record that was acknowledged then"),
    ],
    "records of no kind": [
        ((SENDER, "kind", 7), "neither sent nor read"),
        ((READER, "partition", ""), "of no partition"),
        ((READER, "offset", -1), "got where no record lies"),
        ((SENDER, "offset", -5), "acknowledged there"),
    ],
    "records with an identity that is not theirs: `v` is process << 39 | op << 12": [
        ((READER, "v", 1 << 60), "no identity"),
        ((SENDER, "v", -7), "a record of nobody, sent"),
        ((SENDER, "v", 1 << 12), "another operation's"),
    ],
}


@pytest.mark.parametrize(
    ("why", "row", "name", "value"),
    [pytest.param(why, *change, id=words) for why, cases in WRONG.items() for change, words in cases],
)
def test_a_record_that_cannot_be_as_it_is(tmp_path, why, row, name, value):
    rows = lawful()
    rows[row]["mops"][0][name] = value
    is_unknown(judged(tmp_path, rows), why)


@pytest.mark.parametrize(
    ("span", "known"),
    [([0, 4, 4], True), ([0, 5, 5], False), ([0, 1000, 1000], False), ([1, 9, 9], True), ([-1, 9, 9], True)],
)
def test_a_final_read_that_says_less_than_it_polled(tmp_path, span, known):
    """What it did not get, and its end, prove nothing then."""
    rows = lawful()
    for row in rows:
        if row["f"] == "final-read":
            row["detail"] = json.dumps({"t-0": span, "t-1": [None, None, None]})
    document = judged(tmp_path, rows)
    assert (document["verdict"], violated(document)) == ("unknown" if known else "valid", [])
    assert ("read less than it polled" in str(document["weakened"])) == (known and span[0] >= 0)


@pytest.mark.parametrize(
    ("f", "detail"),
    [
        ("final-read", '{"t-0": 5}'),
        ("settle", '{"partitions": {"t-0": ["a", "b"]}}'),
        ("settle", '{"partitions": {"t-0": [3, 5]}, "bound_s": "long"}'),
        ("group-offsets", "[]"),
        ("group-offsets", '{"offsets": {"t-0": "x"}}'),
        ("committed", "{}x"),
        ("committed", "null"),
        ("committed", '{"group": "g"}'),
        ("drain", '{"outputs": 5}'),
        ("poll", '{"rebalances": [["assigned"]]}'),
        ("seek", '{"rebalances": 5}'),
    ],
)
def test_a_detail_that_is_not_as_documented_says_nothing(tmp_path, f, detail):
    """An offset of a group that is a text, or a program without its numbers of outputs, ended checks, or all of them."""
    rows = lawful()
    final = next(row for row in rows if row["f"] == "final-read")
    rows.append({**final, "index": len(rows), "op": 2, "f": f, "detail": detail, "time": LATE, "end": LATE})
    is_unknown(
        judged(tmp_path, rows), f"the `{f}` 2 of process {final['process']} has a `detail` that docs/history.md does not know"
    )


def test_a_record_that_one_operation_sends_twice(tmp_path):
    """Without a contradiction that is noticed one of the two would be lost."""
    rows = lawful()
    rows[SENDER]["mops"].append(rows[SENDER]["mops"][0])
    is_unknown(judged(tmp_path, rows), "sends a record twice")


@pytest.mark.parametrize("row", [READER, FINAL])
def test_a_record_that_was_polled_nobody_says_where(tmp_path, row):
    rows = lawful()
    rows[row]["mops"][0]["offset"] = None
    is_unknown(judged(tmp_path, rows), "does not say where records lie that process")


def test_a_producer_that_was_told_no_offset(tmp_path):
    for name, told in (("none", None), ("minus", -1)):
        rows = lawful()
        rows[SENDER]["mops"][0]["offset"] = told
        (tmp_path / name).mkdir()
        assert judged(tmp_path / name, rows)["verdict"] == "valid"


@pytest.mark.parametrize(
    ("row", "name", "value", "why"),
    [
        (SENDER, "decided", LATE, "or of its commit"),
        (SENDER, "decided", EARLY, "or of its commit"),
        (SENDER, "decided", -1, "times below zero"),
        (SENDER, "end", -7, "times below zero"),
        (FINAL, "time", -1, "times below zero"),
        (SENDER, "type", "done", "a value of `type` that"),
        (SENDER, "type", None, "a value of `type` that"),
        (SENDER, "intent", "perhaps", "a value of `intent` that"),
        (READER, "isolation", "serializable", "a value of `isolation` that"),
        (FINAL, "isolation", "read_uncommitted", "another isolation level than the process elsewhere"),
        (SENDER, "f", "write", "sends records, though `f` is neither"),
        (SENDER, "f", "send", "is to commit or to abort, and no transaction"),
        (SENDER, "end", 1_001_500_000, "before the one before in the process had ended"),
        (READER, "process", -3, "a negative process"),
        (SENDER, "intent", "abort", "is to abort, and called commit"),
    ],
)
def test_an_operation_that_cannot_be_as_it_is(tmp_path, row, name, value, why):
    rows = lawful()
    rows[row][name] = value
    is_unknown(judged(tmp_path, rows), why)


def is_unknown(document, why):
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert any(why in text for text in document["weakened"]), document["weakened"]


def as_lines(returned=19, decided=8, isolation="read_committed"):
    return [
        {"format": "fencepost-history", "version": 1, "run": "x", "slot": 0, "node": "", "role": "writer"},
        {"type": "process", "process": 0, "time": 1, "isolation": "read_committed"},
        {"type": "invoke", "process": 0, "op": 0, "f": "txn", "time": 2, "value": [["send", "t-0", 0]], "intent": "commit"},
        {"type": "ok", "process": 0, "op": 0, "f": "txn", "time": 9, "decided": decided, "value": [["send", "t-0", 0, 0, 3, 4]]},
        {"type": "process", "process": 1, "time": 10, "isolation": isolation},
        {"type": "invoke", "process": 1, "op": 0, "f": "poll", "time": 11, "value": [["poll"]]},
        {"type": "ok", "process": 1, "op": 0, "f": "poll", "time": 20, "value": [["poll", {"t-0": [[0, 0]]}, returned]]},
    ]


@pytest.mark.parametrize(
    ("change", "unreliable"), [({}, False), ({"returned": 1}, True), ({"decided": 30}, True), ({"decided": 1}, True)]
)
def test_lines_are_compared_likewise(tmp_path, change, unreliable):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in as_lines(**change)))
    document = judge(open_run(Adopted(path, tmp_path / "run").dir), here=True)
    assert violated(document) == []
    assert ("or of its commit" in str(document["weakened"])) == unreliable


def test_an_invocation_and_its_completion_name_two_partitions(tmp_path):
    """Where the record went nobody knows: it is in no wrong partition."""
    lines = as_lines()
    lines[2]["value"][0][1] = "t-1"
    is_unknown(of_lines(tmp_path, lines), "names other partitions of its sends")


@pytest.mark.parametrize(("name", "value"), [("f", "send"), ("intent", "abort")])
def test_a_completion_that_is_of_another_kind_than_its_invocation(tmp_path, name, value):
    lines = as_lines()
    lines[3] |= {name: value}
    is_unknown(of_lines(tmp_path, lines), f"has another `{name}`")


@pytest.mark.parametrize(("run", "unreliable"), [("x", False), ("y", True)])
def test_a_header_in_the_middle_of_a_file(tmp_path, run, unreliable):
    """Files of one run that were put together have one each; of two runs nobody knows whose operations these are."""
    lines = as_lines()
    document = of_lines(tmp_path, [*lines[:4], {**lines[0], "run": run}, *lines[4:]])
    assert ("lines of two runs" in str(document["weakened"])) == unreliable
    assert (document["verdict"] == "valid") != unreliable


@pytest.mark.parametrize("again", [1, 4, 5])
def test_a_process_that_begins_at_two_levels(tmp_path, again):
    """Its line before the reads, or after them, may be the damaged one: an aborted record that it got is no finding."""
    lines = [*as_lines()[:3], {**as_lines()[3], "type": "fail"}, *as_lines()[4:]]
    lines[2:4] = [{**line, "intent": "abort"} if line["type"] == "invoke" else {**line, "decided": None} for line in lines[2:4]]
    assert violated(of_lines(tmp_path, lines)) == ["aborted-read"]
    other = {"type": "process", "process": 1, "time": 10, "isolation": "read_uncommitted"}
    (tmp_path / "twice").mkdir()
    document = of_lines(tmp_path / "twice", [*lines[:again], other, *lines[again:]])
    is_unknown(document, "begins once more, and at another isolation level")


FAILED = {"type": "fail", "process": 0, "op": 0, "f": "txn", "time": 9, "value": [["send", "t-0", 0, 0, 3, 4]]}


@pytest.mark.parametrize("first", ["ok", "fail"])
def test_two_completions_of_one_operation(tmp_path, first):
    """What it sent was acknowledged, or surely aborted: by one of the two lines."""
    lines = as_lines()
    both = [lines[3], FAILED] if first == "ok" else [FAILED, lines[3]]
    is_unknown(of_lines(tmp_path, [*lines[:3], *both, *lines[4:]]), "is there twice, and not the same")


def test_an_operation_that_ends_after_another_of_its_process_has_begun(tmp_path):
    lines = as_lines()
    second = [{**line, "op": 1, "value": [["send", "t-1", 4096]]} for line in lines[2:4]]
    is_unknown(of_lines(tmp_path, [*lines[:3], second[0], FAILED, *lines[4:]]), "ends after another of the process has begun")


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ('"type": "ok", "process": 0,', '"type": "ok", "process": 0, "type": "fail",'),
        ('"time": 9,', '"time": 9, "t\\u0069me": 8,'),
        ('{"t-0": [[0, 0]]}', '{"t-0": [[0, 7]], "t-0": [[0, 0]]}'),
    ],
    ids=["an outcome", "an escaped name", "a partition"],
)
def test_a_name_that_an_object_has_twice(tmp_path, once, twice):
    """A decoder keeps the last: nobody knows which is meant."""
    text = "".join(json.dumps(line) + "\n" for line in as_lines())
    assert text.count(once) == 1
    (tmp_path / "mine.jsonl").write_text(text.replace(once, twice))
    document = judge(open_run(Adopted(tmp_path / "mine.jsonl", tmp_path / "run").dir), here=True)
    is_unknown(document, "twice")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_byte_order_mark_and_ends_of_lines_as_editors_write_them(tmp_path, pack, ending):
    text = b"".join(json.dumps(line).encode() + ending for line in as_lines())
    (tmp_path / "mine.jsonl").write_bytes(pack(b"\xef\xbb\xbf" + text))
    adopted = Adopted(tmp_path / "mine.jsonl", tmp_path / "run")
    assert (adopted.damage, judge(open_run(adopted.dir), here=True)["verdict"]) == ([], "valid")


def of_lines(folder, lines):
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judge(open_run(Adopted(path, folder / "run").dir), here=True)


def test_a_table_without_times_is_refused(tmp_path):
    rows = [{**row, "time": None} for row in lawful()]
    with pytest.raises(HistoryError, match="time lacks values"):
        judged(tmp_path, rows)
