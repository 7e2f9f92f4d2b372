"""Records' lives, from the whole history."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import report_example as example

from fencepost.harness.api import record_id
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import lives, records
from fencepost.harness.report.documents import read
from fencepost.harness.report.model import page

V = record_id(0, 0, 0)


def mop(kind, at_ms, offset=7, acknowledged=True, v=V, partition="t-0"):
    at = example.START + int(at_ms * example.MS)
    began, ended = (at, at + 5 * example.MS if acknowledged else None) if kind == 0 else (None, at)
    return {"kind": kind, "partition": partition, "v": v, "offset": offset, "began": began, "ended": ended}


def poll(process, at_ms, mops, **fields):
    return example.op(process, 0, at_ms, 10, f="poll", role="reader", intent=None, mops=mops, **fields)


def lives_of(folder, rows, record=None, **finding):
    """The lives of a finding's record in a history of these operations."""
    rows = example.ordered(rows)
    about = {"partition": "t-0", "offset": 7, "v": V, "operation": 0, "role": "missing"} | (record or {})
    judged = {"id": 4, "anomaly": "lost-write", "forbidden": True, "sentence": "?", "operations": [0], "records": [about]}
    judged |= {"time": rows[0]["time"], "faults": []} | finding
    example.write(folder, example.plan(), example.verdict(rows, [], findings=[judged]), rows, [], anomalies=1)
    return page(read(open_run(folder))).timeline["lives"]


def test_a_record_is_sent_acknowledged_decided_and_read_again_and_again(tmp_path):
    rows = [
        example.op(0, 0, 10, 30, mops=[mop(0, 20)]),
        poll(1, 100, [mop(1, 108)]),
        poll(2, 200, [mop(1, 205)]),
        poll(3, 300, [mop(1, 309)], final=True),
    ]
    (life,) = lives_of(tmp_path, rows)
    assert (life["v"], life["name"], life["places"], life["findings"]) == (V, "process 0, op 0, record 0", ["t-0@7"], [4])
    assert life["events"] == [
        [10_000, "sent", "sent to t-0 by c0 (process 0, op 0)", 0],
        [15_000, "acknowledged", "acknowledged at t-0@7", 0],
        [30_000, "decided", "commit returned ok", 0],
        [98_000, "read", "first read at t-0@7 by c1 (process 1, op 0)", 1],
        [195_000, "read", "read again at t-0@7 by c2 (process 2, op 0)", 2],
        [299_000, "final", "returned by the final read at t-0@7 by c3 (process 3, op 0)", 3],
    ]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"type": "info"}, "commit ended without a known outcome"),
        ({"type": "fail"}, "commit failed: it surely did not happen"),
        ({"type": "ok", "intent": "abort"}, "abort returned ok"),
        ({"type": "fail", "intent": "abort"}, "abort: its transaction surely did not commit"),
    ],
)
def test_the_outcome_of_its_transaction(tmp_path, fields, text):
    (life,) = lives_of(tmp_path, [example.op(0, 0, 10, 30, mops=[mop(0, 20)], **fields)])
    assert [event[2] for event in life["events"] if event[1] == "decided"] == [text]


def test_what_is_not_known_has_no_time(tmp_path):
    """Never acknowledged, never completed, never read."""
    (life,) = lives_of(tmp_path, [example.op(0, 0, 10, None, type="info", mops=[mop(0, 20, None, acknowledged=False)])])
    assert life["places"] == ["t-0@?"]
    assert [(event[0], event[2]) for event in life["events"][1:]] == [
        (None, "its acknowledgement is not known"),
        (None, "commit never completed"),
        (None, "no read of the history returned it"),
    ]


def test_a_record_that_nobody_sent(tmp_path):
    (life,) = lives_of(tmp_path, [poll(1, 100, [mop(1, 108, v=-2)])], record={"v": -2})
    assert life["places"] == ["t-0@7"]
    assert "no operation of the history that was looked at sent it" in [event[2] for event in life["events"]]


def test_the_log_segments_tell_where_it_lies_and_which_marker_ends_it(tmp_path):
    rows = [example.op(0, 0, 10, 30, mops=[mop(0, 20)])]
    lives_of(tmp_path, rows)
    stored = [
        {"node": node, "partition": "t-0", "offset": offset, "producer_id": pid, "producer_epoch": 0, "kind": kind, "v": v}
        for node in ("n1", "n2")
        for offset, pid, kind, v in [
            (7, 11, "record", V),
            (8, 12, "ABORT", None),
            (9, 11, "COMMIT", None),
            (12, 11, "ABORT", None),
        ]
    ]
    rest = {"leader_epoch": 0, "sequence": 0, "timestamp": 0}
    types = {"leader_epoch": pa.int32(), "producer_epoch": pa.int16(), "sequence": pa.int32()}
    types |= dict.fromkeys(("offset", "producer_id", "timestamp", "v"), pa.int64())
    names = ["node", "partition", "offset", "leader_epoch", "producer_id", "producer_epoch", "sequence", "timestamp", "kind", "v"]
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    pq.write_table(pa.Table.from_pylist([row | rest for row in stored], schema), tmp_path / "stored.parquet")
    (life,) = page(read(open_run(tmp_path))).timeline["lives"]
    assert [event for event in life["events"] if event[1] == "stored"] == [
        [None, "stored", "in the log segments at t-0@7; its producer's next marker is COMMIT at t-0@9", None]
    ]


def test_many_reads_are_counted(tmp_path):
    rows = [example.op(0, 0, 10, 30, mops=[mop(0, 20)]), *(poll(1 + n, 100 + n, [mop(1, 108 + n)]) for n in range(20))]
    (life,) = lives_of(tmp_path, rows)
    assert life["events"][-1][2] == "and 8 more reads"


def test_of_too_many_records_only_those_of_findings_operations_are_looked_through(tmp_path, monkeypatch):
    """And the life says so, instead of calling the record unread."""
    monkeypatch.setattr(records, "MOST", 0)
    rows = [example.op(0, 0, 10, 30, mops=[mop(0, 20)]), poll(1, 100, [mop(1, 108)])]
    (life,) = lives_of(tmp_path, rows)
    assert "only the operations of findings were looked through" in life["events"][-1][2]
    assert not [event for event in life["events"] if "no read" in event[2]]


def test_lives_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(lives, "MOST_LIVES", 2)
    made = page(read(open_run(example.torn(tmp_path)))).timeline["lives"]
    assert len(made) == 2


def test_the_lives_of_a_torn_transaction_show_what_was_read_and_what_was_not(tmp_path):
    made = page(read(open_run(example.torn(tmp_path)))).timeline["lives"]
    of_first = [life for life in made if life["findings"] == [1]]
    reads = [sum(event[1] in ("read", "final") and event[0] is not None for event in life["events"]) for life in of_first]
    assert [count == 0 for count in reads] == [True, True, False, False]


def test_an_adopted_record_has_its_own_name(tmp_path):
    made = page(read(open_run(example.foreign(tmp_path)))).timeline["lives"]
    assert [life["name"] for life in made] == ["ord-2"]
    assert len(json.dumps(made)) < 2_000
