"""Evidence that an adopted history lacks makes answers unknown and violates nothing; what it says in an unusual way counts."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, violated, write_history
from support.jepsen_example import Adopted, adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.evidence import missing_evidence
from fencepost.harness.api.history import UNREADABLE
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.history.unsaid import FUNCTIONS

NEMESIS = '{"index": 0, "time": 1, "type": "info", "process": "nemesis", "f": "start-partition", "value": null}\n'
DEBUG = '{"index": 0, "time": 1, "type": "invoke", "process": 9, "f": "debug-topic-partitions", "value": null}\n'
UNKNOWN = '{"index": 0, "time": 1, "type": "invoke", "process": 9, "f": "teleport", "value": null}\n'
EDN_NEMESIS = "{:type :info, :f :start-partition, :value nil, :time 1, :process :nemesis, :index 0}\n"


def judged(folder: Path, **contract: str) -> dict:
    return judge(open_run(folder), here=True, contract=contract)


def read_of_unsent(first: int, process: int = 3) -> str:
    """A poll of a record that was never sent, and a transaction, as JSON lines from index `first` on."""
    values = [("txn", [["send", 5, 1]], [["send", 5, [0, 1]]]), ("poll", [["poll"]], [["poll", {"5": [[0, 1], [1, 7]]}]])]
    lines = []
    for at, (f, planned, done) in enumerate(values):
        for type_, value, place in (("invoke", planned, 0), ("ok", done, 1)):
            index = first + 2 * at + place
            line = {"index": index, "time": index + 1, "type": type_, "process": process + at, "f": f, "value": value}
            lines.append(json.dumps(line) + "\n")
    return "".join(lines)


@pytest.mark.parametrize("before", [NEMESIS, DEBUG, UNKNOWN, "not a line\n" + NEMESIS.replace('"index": 0', '"index": 1')])
def test_lines_of_others_before_the_first_operation_hide_no_phantom(tmp_path, before):
    lines = before.count("\n")
    history = adopted(before + read_of_unsent(lines), tmp_path, "history.json")
    gaps = [gap for gap in open_run(history.dir).gaps if not gap.line and gap.evidence]
    assert gaps == []
    if "not a line" not in before:
        assert violated(judged(history.dir)) == ["phantom"]


def test_a_nemesis_before_the_first_operation_of_edn_hides_nothing(tmp_path):
    operation = "{:type :invoke, :f :txn, :value [[:send 0 1]], :time 10, :process 0, :index 1}\n"
    assert open_run(adopted(EDN_NEMESIS + operation, tmp_path).dir).gaps == ()


def by_process(text: str) -> str:
    """The same lines, those of the last process first."""
    return "".join(
        sorted(text.splitlines(keepends=True), key=lambda line: -int(line.partition('"process": ')[2].partition(",")[0]))
    )


@pytest.mark.parametrize(
    "text",
    [
        read_of_unsent(1),
        by_process(read_of_unsent(0)),
        by_process(read_of_unsent(1).replace('"time": 2,', '"time": 2, "note": {},')),  # the first line is not plain
        read_of_unsent(7).replace('"index"', '"number"'),
        DEBUG.replace('"index": 0', '"index": 1') + read_of_unsent(2),
    ],
    ids=["counted from 1", "sorted by process", "sorted, counted from 1", "without index", "another's line first"],
)
def test_a_whole_history_is_whole_however_its_lines_are_counted_and_sorted(tmp_path, text):
    history = adopted(text, tmp_path, "history.json")
    assert [gap for gap in open_run(history.dir).gaps if gap.evidence] == []
    assert violated(judged(history.dir)) == ["phantom"]


def test_a_lost_first_line_leaves_a_completion_alone(tmp_path):
    document = judged(adopted("".join(read_of_unsent(0).splitlines(keepends=True)[1:]), tmp_path, "history.json").dir)
    assert violated(document) == []
    assert answer(document, "phantom")["verdict"] == "unknown"


def test_what_a_missing_beginning_switches_off_is_reported(tmp_path):
    document = judged(adopted(read_of_unsent(4), tmp_path, "history.json").dir)
    assert violated(document) == []
    assert answer(document, "phantom")["verdict"] == "unknown"
    assert any("begins with operation 4" in text and "phantom" in text for text in document["weakened"])


# --------------------------------------------------------------------------------------------------
# Parquet without some columns
# --------------------------------------------------------------------------------------------------
def parquet(folder: Path, history: History, without: str) -> Path:
    names = ("kind", "partition", "v", "offset", "began", "ended")
    rows = [{**op, "mops": [dict(zip(names, mop, strict=True)) for mop in op["mops"]]} for op in history.ops]
    path = folder / "history.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=OPS_SCHEMA).drop_columns([without]), path)
    return path


def an_undecided_transaction_that_was_read() -> History:
    h = History()
    h.txn(0, {"t-0": 5}, type="info")
    h.txn(1, {"t-0": 7})
    h.poll(2, {"t-0": [5, 7]})
    h.final({"t-0": [5, 7]})
    return h


def test_without_the_column_of_decisions_early_reads_are_unknown(tmp_path):
    path = parquet(tmp_path, an_undecided_transaction_that_was_read(), "decided")
    document = judged(Adopted(path, tmp_path / "run").dir)
    assert violated(document) == []
    assert answer(document, "dirty-read")["verdict"] == "unknown"
    assert "`decided` is absent" in answer(document, "dirty-read")["reason"]


def test_a_read_before_the_send_is_dirty_without_any_decision(tmp_path):
    h = History()
    h.poll(2, {"t-0": [(5, 1 << 39)]})
    h.txn(1, {"t-0": 5})
    assert h.v("t-0", 5) == 1 << 39
    h.final({"t-0": [5]})
    assert "dirty-read" in violated(judged(Adopted(parquet(tmp_path, h, "decided"), tmp_path / "run").dir))


def test_without_the_column_of_final_readers_losses_are_unknown(tmp_path):
    path = parquet(tmp_path, an_undecided_transaction_that_was_read(), "final")
    document = judged(Adopted(path, tmp_path / "run").dir)
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert answer(document, "lost-write")["verdict"] == "unknown"
    assert "`final` is absent" in answer(document, "lost-write")["reason"]


def test_without_a_final_phase_its_column_is_not_missed(tmp_path):
    h = History()
    h.txn(0, {"t-0": 5})
    h.poll(2, {"t-0": [5]})
    history = Adopted(parquet(tmp_path, h, "final"), tmp_path / "run")
    assert missing_evidence(open_run(history.dir).gaps) == frozenset()


@pytest.mark.parametrize(("isolation", "expected"), [("read_committed", ["aborted-read"]), ("read_uncommitted", [])])
def test_readers_of_no_isolation_are_judged_by_the_contract_whichever_it_is(tmp_path, isolation, expected):
    """A reader got a record of an aborted transaction: allowed at read_uncommitted, also when that is said later."""
    lines = [
        {"format": "fencepost-history", "version": 1, "run": "x", "slot": 0, "node": "", "role": "writer"},
        {"type": "process", "process": 0, "time": 1},
        {"type": "invoke", "process": 0, "op": 0, "f": "txn", "time": 2, "value": [["send", "t-0", 0]], "intent": "commit"},
        {"type": "fail", "process": 0, "op": 0, "f": "txn", "time": 9, "value": [["send", "t-0", 0, 0, 3, 4]]},
        {"type": "process", "process": 1, "time": 10},
        {"type": "invoke", "process": 1, "op": 0, "f": "poll", "time": 11, "value": [["poll"]]},
        {"type": "ok", "process": 1, "op": 0, "f": "poll", "time": 20, "value": [["poll", {"t-0": [[0, 0]]}, 19]]},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    at_once = Adopted(path, tmp_path / "at-once", overrides={"isolation": isolation})
    assert violated(judged(at_once.dir)) == expected
    later = Adopted(path, tmp_path / "later")
    assert violated(judged(later.dir, isolation=isolation)) == expected


@pytest.mark.parametrize("again", [slice(2, 4), slice(2, 3), slice(3, 4)])
def test_lines_of_an_operation_that_are_there_twice_violate_nothing(tmp_path, again):
    """Read twice, the record of the second copy would seem to be lost."""
    ends = {"t-0": [0, 10, 10]}
    lines = [
        {"format": "fencepost-history", "version": 1, "run": "x", "slot": 0, "node": "", "role": "writer"},
        {"type": "process", "process": 0, "time": 1, "isolation": "read_committed"},
        {"type": "invoke", "process": 0, "op": 0, "f": "txn", "time": 2, "value": [["send", "t-0", 0]], "intent": "commit"},
        {"type": "ok", "process": 0, "op": 0, "f": "txn", "time": 9, "decided": 8, "value": [["send", "t-0", 0, 5, 3, 4]]},
    ]
    lines += lines[again]
    lines += [
        {"type": "process", "process": 1, "time": 10, "isolation": "read_committed", "final": True},
        {"type": "invoke", "process": 1, "op": 0, "f": "poll", "time": 11, "value": [["poll"]]},
        {"type": "ok", "process": 1, "op": 0, "f": "poll", "time": 20, "value": [["poll", {"t-0": [[5, 0]]}, 19]]},
        {"type": "invoke", "process": 1, "op": 1, "f": "final-read", "time": 21, "value": {}},
        {"type": "ok", "process": 1, "op": 1, "f": "final-read", "time": 22, "value": ends},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    document = judged(Adopted(path, tmp_path / "run").dir)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "operation 0 of process 0 is there twice" in " ".join(document["weakened"])


@pytest.mark.parametrize("in_order", [True, False])
def test_a_table_that_is_there_twice_violates_nothing(tmp_path, in_order):
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    h.final({"t-0": [5, 6]})
    h.settle({"t-0": (8, 8)})
    folder = tmp_path / "tables"
    folder.mkdir()
    table = pq.read_table(parquet(tmp_path, h, "node"))
    for name in "ab":
        pq.write_table(table if in_order else table.take(list(reversed(range(len(table))))), folder / f"{name}.parquet")
    history = Adopted(folder, tmp_path / "run")
    assert history.damage[0].why == "operation 0 of process 0 is there twice, and 4 more; what comes first is read"
    assert len([row for row in history.rows if row["process"] >= 0]) == 5
    document = judged(history.dir)
    assert (violated(document), document["verdict"]) == ([], "unknown")


def test_a_final_reader_of_no_isolation_reads_at_the_contracts(tmp_path):
    h = History()
    h.txn(0, {"t-0": 5})
    h.final({"t-0": [5]})
    document = judged(Adopted(parquet(tmp_path, h, "isolation"), tmp_path / "run").dir, isolation="read_uncommitted")
    assert answer(document, "torn-transaction")["compared"] == 0  # there is no read_committed final read


# --------------------------------------------------------------------------------------------------
# Partitions and processes of other names
# --------------------------------------------------------------------------------------------------
def test_a_partition_of_any_name_must_be_read_to_its_end(tmp_path):
    h = History()
    h.txn(0, {"5": [5, 7]})
    h.txn(1, {"orders": 3})
    h.final({"5": [5, 7]})
    path = parquet(tmp_path, h, "node")
    document = judged(Adopted(path, tmp_path / "run").dir)
    assert document["verdict"] == "unknown"
    assert "losses in orders" in document["reason"]


@pytest.mark.parametrize("form", ["history.json", "history.edn"])
def test_a_process_of_any_number_is_read(tmp_path, form):
    """Each crash gives Jepsen's process a new number, so a long run has large ones."""
    if form == "history.json":
        text = read_of_unsent(0, process=16_390)
    else:
        lines = ("{:type :invoke, :f :txn, :value [[:send 5 1]], :time 1, :process 20000, :index 0}",
                 "{:type :ok, :f :txn, :value [[:send 5 [0 1]]], :time 2, :process 20000, :index 1}",
                 "{:type :invoke, :f :poll, :value [[:poll]], :time 3, :process 3, :index 2}",
                 "{:type :ok, :f :poll, :value [[:poll {5 [[0 1] [1 7]]}]], :time 4, :process 3, :index 3}")  # fmt: skip
        text = "\n".join(lines) + "\n"
    history = adopted(text, tmp_path, form)
    assert [row["process"] for row in history.rows] == [0, 1]
    assert any("numbered anew" in str(gap) for gap in history.damage)
    document = judged(history.dir)
    assert violated(document) == ["phantom"]
    assert document["counts"]["processes"] == 2


@pytest.mark.parametrize("process", [-1, -7])
def test_a_process_below_zero_is_a_process(tmp_path, process):
    """-1 is the harness in our tables: its sends were left out of what is exported."""
    history = adopted(read_of_unsent(0, process=process), tmp_path, "history.json")
    assert min(row["process"] for row in history.rows) == 0
    assert any("or below 0" in str(gap) for gap in history.damage)


def test_processes_that_only_read_may_be_more_than_identities_have_room_for(tmp_path):
    polls = [
        json.dumps({"time": at, "type": type_, "process": 16_000 + at, "f": "poll", "value": value}) + "\n"
        for at in range(17_000)
        for type_, value in (("invoke", [["poll"]]), ("ok", [["poll", {}]]))
    ]
    history = adopted("".join(polls) + read_of_unsent(0, process=70_000), tmp_path, "history.json")
    assert {row["process"] for row in history.rows if row["role"] == "writer"} == {0}
    assert len({row["process"] for row in history.rows}) == 17_002


def test_a_partition_that_a_history_does_not_name_has_nothing_to_lose(tmp_path):
    """Partitions may be numbered from 1: nobody wrote to the partition 0, or read it."""
    history = History()
    history.send(0, {"orders-1": [0, 1], "orders-2": 0})
    history.poll(5, {"orders-1": [0, 1], "orders-2": [0]})
    history.final({"orders-1": [0, 1], "orders-2": [0]})
    folder = tmp_path / "mine"
    folder.mkdir()
    write_history(folder, history.ops)
    document = judged(Adopted(folder, tmp_path / "run").dir)
    assert (document["verdict"], document["weakened"]) == ("valid", [])


# --------------------------------------------------------------------------------------------------
# Several files, and functions of somebody's own
# --------------------------------------------------------------------------------------------------
HEADER = {"format": "fencepost-history", "version": 1, "run": "x"}
SENDER = [
    {"type": "process", "process": 0, "time": 0},
    {"type": "invoke", "process": 0, "op": 0, "f": "send", "time": 1, "value": [["send", "t-0", 0]]},
    {"type": "ok", "process": 0, "op": 0, "f": "send", "time": 4, "value": [["send", "t-0", 0, 0, 2, 3]]},
    {"type": "invoke", "process": 0, "op": 1, "f": "send", "time": 5, "value": [["send", "t-0", 4096]]},
    {"type": "ok", "process": 0, "op": 1, "f": "send", "time": 8, "value": [["send", "t-0", 4096, 1, 6, 7]]},
]


def reader(*polls, process=1, note=""):
    """The lines of a reader: for each poll its records, or the function of an operation of its own."""
    lines = [{"type": "process", "process": process, "time": 9, "isolation": "read_committed", "note": note}]
    for op, got in enumerate(polls):
        f, value = (got, None) if isinstance(got, str) else ("poll", [["poll", {"t-0": got}, 12 + 10 * op]])
        begun = {"process": process, "op": op, "f": f, "time": 11 + 10 * op, "value": [["poll"]] if f == "poll" else None}
        lines += [{**begun, "type": "invoke"}, {**begun, "type": "ok", "time": 13 + 10 * op, "value": value}]
    return lines


def of_files(folder, **files):
    (folder / "mine").mkdir()
    (folder / "mine" / "faults.jsonl").write_text("")
    for name, lines in files.items():
        text = "".join(json.dumps(line) + "\n" for line in (HEADER, *lines)).encode()
        packed = name.endswith("_packed")
        path = folder / "mine" / f"{name.removesuffix('_packed')}.jsonl{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text) if packed else text)
    return judged(Adopted(folder / "mine", folder / "run").dir)


FIRST, SECOND = [0, 0], [1, 4096]


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        (reader([FIRST]), reader([SECOND], note="x" * 200), "unknown"),
        (reader([FIRST], process=2), reader([SECOND], note="x" * 200), "valid"),
        (reader([FIRST, SECOND]), reader([FIRST, SECOND]), "valid"),
    ],
    ids=["of one process", "of two", "a copy"],
)
def test_a_file_of_a_process_that_another_file_has_too_may_hold_anything(tmp_path, small, large, expected):
    """It is not read: the record that its reader got would be lost."""
    document = of_files(tmp_path, a=SENDER, b=small, c=large)
    assert (document["verdict"], violated(document)) == (expected, [])


def test_packed_files_are_read_beside_others(tmp_path):
    assert of_files(tmp_path, a=SENDER, b_packed=reader([FIRST], process=2), c=reader([SECOND]))["verdict"] == "valid"
    (tmp_path / "all").mkdir()
    assert of_files(tmp_path / "all", a_packed=SENDER, b_packed=reader([FIRST, SECOND]))["verdict"] == "valid"


def test_after_an_operation_of_a_function_that_nobody_knows_a_consumer_may_stand_anywhere(tmp_path):
    went_back = ([FIRST, SECOND], [FIRST])
    document = of_files(tmp_path, a=SENDER, b=reader(went_back[0], "close", went_back[1]))
    assert (document["verdict"], violated(document)) == ("unknown", [])
    assert "`close` is no function that docs/history.md knows" in " ".join(document["weakened"])
    (tmp_path / "known").mkdir()
    assert violated(of_files(tmp_path / "known", a=SENDER, b=reader(*went_back))) == ["nonmonotonic-poll"]


def test_the_functions_that_are_known_are_those_of_the_page():
    page = (
        (Path(__file__).parents[3] / "docs" / "history.md")
        .read_text()
        .partition("| f | value of the completion |")[2]
        .partition("\n\n")[0]
    )
    assert set(re.findall(r"^\| `([\w-]+)`", page, re.MULTILINE)) == FUNCTIONS - {"assign", "crash", UNREADABLE}
