"""Formats of histories as they are detected, and our own formats lying anywhere."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import violated
from support.jepsen_example import DATA, Adopted, adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import record_id
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop import blocks
from fencepost.harness.interop.adopt import Format
from fencepost.harness.interop.detect import detect
from fencepost.harness.interop.native import copy_parquet

V = record_id(3, 0, 0)
OURS = [
    {"format": "fencepost-history", "version": 1, "run": "r", "slot": 3, "node": "c3", "role": "writer", "time": 1},
    {"type": "process", "process": 3, "time": 2, "isolation": "read_committed", "final": False},
    {
        "type": "invoke",
        "process": 3,
        "op": 0,
        "f": "txn",
        "time": 10,
        "intent": "commit",
        "value": [["send", "t-0", V], ["poll"]],
    },
    {
        "type": "ok",
        "process": 3,
        "op": 0,
        "f": "txn",
        "time": 20,
        "decided": 19,
        "value": [["send", "t-0", V, 17, 11, 12], ["poll", {"t-1": [[4, 5]]}, 15]],
    },
]
LINES = "".join(json.dumps(line) + "\n" for line in OURS)
QUEUE = (DATA / "queue.edn").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (QUEUE, Format("jepsen-edn")),
        ("\n\n  " + QUEUE, Format("jepsen-edn")),
        ("[" + QUEUE + "]", Format("jepsen-edn", array=True)),
        ("[#jepsen.history.Op" + QUEUE + "]", Format("jepsen-edn", array=True)),
        ("{:half a line\n" + QUEUE, Format("jepsen-edn")),
        ('{"index":0,"type":"invoke","process":0,"f":"txn","value":[]}\n', Format("jepsen-json")),
        ('[{"type":"invoke","process":0,"f":"txn","value":[]}]', Format("jepsen-json", array=True)),
        ('[\n {\n  "type": "invoke",\n "process":0,"f":"txn","value":[]}]', Format("jepsen-json", array=True)),
        (LINES, Format("fencepost-jsonl")),
        (LINES.replace("\n", "\r"), Format("fencepost-jsonl")),
        (LINES.split("\n", 2)[2], Format("fencepost-jsonl")),
    ],
)
def test_the_content_tells_the_format_whatever_the_name_says(tmp_path, text, expected):
    for name in ("history.parquet", "history.json", "history"):
        (tmp_path / name).write_text(text)
        assert detect(tmp_path / name) == expected


@pytest.mark.parametrize("text", ["", "   \n", "index,time,process\n0,1,2\n", '{"a": 1}\n', "hello\n", "{:a 1}", "\x00\x01\x02"])
def test_what_is_no_history_is_refused_with_what_is_understood(tmp_path, text):
    with pytest.raises(HistoryError, match="Jepsen Kafka history as EDN or JSON"):
        adopted(text, tmp_path)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(HistoryError, match="no such file"):
        detect(tmp_path / "gone.edn")


def test_parquet_of_something_else_is_refused_by_its_columns(tmp_path):
    pq.write_table(pa.table({"process": [1], "f": ["txn"]}), tmp_path / "data")
    with pytest.raises(HistoryError, match="Parquet without the columns op, type"):
        detect(tmp_path / "data")


def test_broken_parquet_is_reported(tmp_path):
    (tmp_path / "data").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(HistoryError, match="looks like Parquet, but cannot be read"):
        detect(tmp_path / "data")


def test_our_lines_are_merged_wherever_they_lie(tmp_path):
    history = adopted(LINES + "{broken\n", tmp_path, "notes.txt")
    assert [(row["op"], row["type"], len(row["mops"])) for row in history.rows] == [(0, "ok", 2)]
    assert [(item.file, item.line) for item in history.damage] == [("notes.txt.jsonl", 5)]
    plan = json.loads((history.dir / "plan.json").read_text())
    assert set(plan["topics"]) == {"t"}
    assert plan["topics"]["t"]["partitions"] == 2
    assert plan["contract"]["transactional"] == "true"


def test_a_directory_of_our_lines_is_one_history(tmp_path):
    folder = tmp_path / "collected"
    folder.mkdir()
    (folder / "c3.jsonl").write_text(LINES)
    (folder / "c4.jsonl").write_text(LINES.replace('"process": 3', '"process": 4'))
    assert [row["process"] for row in Adopted(folder, tmp_path / "run").rows] == [3, 4]


def test_our_parquet_is_taken_in_whatever_columns_are_absent(tmp_path):
    """A row per operation with the columns that are needed; the others are null, and rows are put in order of their times."""
    rows = adopted(LINES, tmp_path, "ours").rows
    needed = ("process", "op", "f", "type", "time", "end", "mops")
    bare = [{name: row[name] for name in needed} for row in [{**rows[0], "op": 9, "time": 99, "end": 100}, rows[0]]]
    schema = pa.schema([OPS_SCHEMA.field(name) for name in needed])
    pq.write_table(pa.Table.from_pylist(bare, schema=schema), tmp_path / "data.bin")
    history = Adopted(tmp_path / "data.bin", tmp_path / "parquet")
    assert [(row["index"], row["time"]) for row in history.rows] == [(0, 10), (1, 99)]
    assert history.rows[0]["mops"] == rows[0]["mops"]
    assert history.faults == []


def test_a_damaged_byte_of_our_parquet_is_never_another_history(tmp_path):
    """Its pages have checksums; what its footer says may be refused, or matter to nobody."""
    (tmp_path / "lines").write_text(LINES)
    whole = Adopted(tmp_path / "lines", tmp_path / "first").dir / "history.parquet"
    rows, content = pq.read_table(whole), whole.read_bytes()
    damaged, refusals = tmp_path / "damaged.parquet", []
    for at in range(4, len(content), 397):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 0x80]) + content[at + 1 :])
        refusals += _refusals(damaged, tmp_path / "copy", rows)
    assert len(refusals) >= 10
    assert [text for text in refusals if str(damaged) not in text] == []


def test_a_damaged_name_in_a_table_beside_our_parquet_is_what_the_history_lacks(tmp_path):
    (tmp_path / "lines").write_text(LINES)
    first = Adopted(tmp_path / "lines", tmp_path / "first").dir
    (tmp_path / "copy").mkdir()
    receipts, content = first / "faults.parquet", (first / "faults.parquet").read_bytes()
    at = content.index(b"injected_ns")
    receipts.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    gaps = copy_parquet(first / "history.parquet", tmp_path / "copy")
    assert [gap.file for gap in gaps if "cannot be read" in gap.why] == ["faults.parquet"]


def _refusals(path, copy, rows):
    """How a table is refused; of one that is read the rows are the same."""
    copy.mkdir(exist_ok=True)
    try:
        detect(path)
        copy_parquet(path, copy)
    except HistoryError as error:
        return [str(error)]
    assert pq.read_table(copy / "history.parquet").equals(rows)
    return []


def test_parquet_with_a_column_of_another_type_is_refused(tmp_path):
    rows = adopted(LINES, tmp_path, "ours").rows
    table = pa.Table.from_pylist(rows, schema=OPS_SCHEMA)
    odd = table.set_column(table.column_names.index("mops"), "mops", pa.array(["none"]))
    pq.write_table(odd, tmp_path / "odd.parquet")
    with pytest.raises(HistoryError, match="column mops is not list"):
        Adopted(tmp_path / "odd.parquet", tmp_path / "parquet")


def test_values_beside_our_parquet_are_taken_along(tmp_path):
    """An adopted history, copied elsewhere without its run."""
    first = Adopted(DATA / "queue.edn", tmp_path / "first")
    (tmp_path / "copy").mkdir()
    for name in ("history", "values"):
        (tmp_path / "copy" / f"{name}.parquet").write_bytes((first.dir / f"{name}.parquet").read_bytes())
    second = Adopted(tmp_path / "copy", tmp_path / "second")
    assert second.values == first.values
    assert second.shown() == first.shown()


def our_lines(folder):
    (folder / "c3-0.jsonl").write_text(LINES)


def our_table(folder):
    Adopted(folder / "c3-0.jsonl", folder / "run")
    shutil.copy(folder / "run" / "history.parquet", folder)
    shutil.rmtree(folder / "run")


def a_pipe(path):
    os.mkfifo(path)


def a_loop(path):
    path.symlink_to(path)


def without_end(path):
    path.touch()
    os.truncate(path, 1 << 42)


@pytest.mark.parametrize("odd", [os.mkdir, a_pipe, a_loop, without_end])
def test_an_odd_file_among_our_lines_is_named(tmp_path, odd):
    our_lines(tmp_path)
    odd(tmp_path / "c4-0.jsonl")
    with pytest.raises(HistoryError, match=r"c4-0\.jsonl: cannot be read: .*; the others can be judged without it"):
        Adopted(tmp_path, tmp_path / "run")


@pytest.mark.parametrize("name", ["faults.parquet", "values.parquet"])
@pytest.mark.parametrize("odd", [os.mkdir, a_pipe, a_loop])
def test_an_odd_file_beside_our_parquet_is_what_the_history_lacks(tmp_path, odd, name):
    our_lines(tmp_path)
    our_table(tmp_path)
    odd(tmp_path / name)
    history = Adopted(tmp_path, tmp_path / "run")
    assert [gap.file for gap in history.damage if gap.evidence != (Evidence.SENDS, Evidence.OUTCOMES)] == [name]
    assert len(history.rows) == 1


def test_a_table_with_two_columns_of_a_name_is_refused(tmp_path):
    our_lines(tmp_path)
    our_table(tmp_path)
    rows = pq.read_table(tmp_path / "history.parquet")
    pq.write_table(rows.append_column("role", rows["role"]), tmp_path / "history.parquet")
    with pytest.raises(HistoryError, match="two columns role"):
        Adopted(tmp_path, tmp_path / "run")


def test_a_table_that_is_damaged_behind_its_head_is_named(tmp_path):
    our_lines(tmp_path)
    our_table(tmp_path)
    path = tmp_path / "history.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    with pytest.raises(HistoryError, match="cannot be read"):
        Adopted(tmp_path, tmp_path / "run")


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_is_no_operation(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1 << 20)
    content = QUEUE.encode() + bytes(20 << 20)
    with pytest.raises(HistoryError, match="has more than 1,048,576 bytes"):
        adopted(gzip.compress(content, 1) if packed else content, tmp_path)


def test_our_own_consumers_go_on_behind_what_an_aborted_transaction_polled(tmp_path):
    """Jepsen's go back. A lawful run of ours whose plan is lost is judged by its lines, and violates nothing."""
    assert {name: adopted_plan(tmp_path, name, text)["contract"]["aborted_polls"] for name, text in BOTH.items()} == {
        "ours": "kept",
        "jepsens": "rewound",
    }


BOTH = {"ours": LINES, "jepsens": QUEUE}


def adopted_plan(folder, name, text):
    return json.loads((adopted(text, folder, name).dir / "plan.json").read_text())


@pytest.mark.parametrize(("change", "expected"), [(("", ""), ("valid", [])), (("[[0, 0], ", "["), ("invalid", ["lost-write"]))])
def test_the_history_by_hand_of_the_page_is_judged_as_the_page_says(tmp_path, change, expected):
    page = (Path(__file__).parents[3] / "docs" / "foreign-histories.md").read_text()
    lines = page.partition("## A history by hand")[2].partition("```json\n")[2].partition("```")[0]
    history = adopted(lines.replace(*change) if change[0] else lines, tmp_path, "history.jsonl")
    assert history.damage == []
    document = judge(open_run(history.dir), here=True)
    assert (document["verdict"], violated(document)) == expected


@pytest.mark.parametrize(("number", "name"), [(1, "jepsen-edn"), (2, "jepsen-json"), (3, "jepsen-txt"), (4, "chaos-log")])
def test_every_example_of_the_page_is_a_history_that_is_valid(tmp_path, number, name):
    """The one of Jepsen's operations had a transaction that read its own record."""
    page = (Path(__file__).parents[3] / "docs" / "foreign-histories.md").read_text()
    blocks = re.findall(r"```(?:json|clojure|text)\n(.*?)```", page, re.DOTALL)
    history = adopted(blocks[number], tmp_path)
    assert detect(tmp_path / "history.edn").name == name
    document = judge(open_run(history.dir), here=True)
    assert (document["verdict"], violated(document)) == ("valid", [])
