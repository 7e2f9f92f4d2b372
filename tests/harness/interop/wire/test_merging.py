"""What a program sent and read, by its requests, stands in the history of a run beside what the run's own clients did."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.wire_records import Record, got, marker

from fencepost.harness.api import record_id
from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.wire import NodeRecord, with_nodes
from fencepost.harness.history.merge import OPS_SCHEMA
from fencepost.harness.interop.wire.adopting import JUDGED
from fencepost.harness.interop.wire.merging import add_wire, wants_wire
from fencepost.harness.proxy import record as proxy_record

PLAN = {"prefix": "fp-x-", "topics": {"t": {}, "in": {}}, "workload": {"kind": "application", "options": {"wire": True}}}


def row(process, f, role, time, **more):
    blank = {"slot": process, "op": 0, "type": "ok", "end": time + 1, "final": role == "final", "errors": [], "strange": []}
    return {**blank, "process": process, "f": f, "role": role, "time": time, "mops": [], **more}


def mop(kind, partition, v, offset):
    return {"kind": kind, "partition": partition, "v": v, "offset": offset, "began": 1, "ended": 2}


INPUT = row(0, "txn", "writer", 5, intent="commit", mops=[mop(0, "in-0", record_id(0, 0, 0), 0)])
FINAL = row(4, "poll", "final", 90_000, outputs=[{"partition": "t-0", "offset": at, "v": 0, "ended": 90_001} for at in (0, 1)])


def merged(record, directory, nodes=None, rows=(INPUT, FINAL)):
    run = Run(directory=directory, plan=PLAN)
    indexed = [{**each, "index": at} for at, each in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(indexed, schema=OPS_SCHEMA), directory / RunFile.HISTORY)
    lines = proxy_record.read(record.write(directory / "lines"))
    pq.write_table(with_nodes(lines, nodes or {"n1": NodeRecord()}), directory / RunFile.WIRE)
    gaps = add_wire(run)
    return pq.read_table(directory / RunFile.HISTORY).to_pylist(), gaps


def program():
    """Two records in one transaction, and the Fetch of a reader of the run, which tells where they lie."""
    return (
        Record()
        .initialise()
        .add()
        .produce(0, 0)
        .produce(1, 1)
        .end()
        .fetch(0, [got(0, 0), got(1, 1), marker(2)], client_id="fp-x-4")
    )


def test_a_transaction_of_the_program_is_a_process_above_all_others(tmp_path):
    rows, gaps = merged(program(), tmp_path)
    assert gaps == []
    assert [each["index"] for each in rows] == list(range(len(rows)))
    (mine,) = [each for each in rows if each["f"] == "txn" and each["role"] == "instance"]
    assert (mine["process"], mine["type"], [each["v"] for each in mine["mops"]]) == (
        5,
        "ok",
        [record_id(5, 1, 0), record_id(5, 1, 1)],
    )


def test_the_runs_own_readers_got_the_programs_records(tmp_path):
    rows, _ = merged(program(), tmp_path)
    (final,) = [each for each in rows if each["role"] == "final"]
    assert [(each["kind"], each["v"], each["offset"]) for each in final["mops"]] == [
        (1, record_id(5, 1, 0), 0),
        (1, record_id(5, 1, 1), 1),
    ]


def test_a_record_that_was_appended_twice_is_one_at_two_places(tmp_path):
    record = Record().initialise().add().produce(0, None, connection=2).produce(0, 1).end()
    rows, _ = merged(record.fetch(0, [got(0, 0), got(0, 1)], client_id="fp-x-4"), tmp_path)
    (final,) = [each for each in rows if each["role"] == "final"]
    assert [each["v"] for each in final["mops"]] == [record_id(5, 1, 0)] * 2


def test_what_the_program_read_of_the_input_has_the_identity_of_its_writer(tmp_path):
    record = program()
    for offset, batches in ((0, [got(0, 0, (1, 1))]), (1, [])):
        record.fetch(offset, batches)
        for line in record.lines[-2:]:
            line["partitions"][0]["topic"] = "in"
    rows, _ = merged(record, tmp_path)
    (poll,) = [each for each in rows if each["f"] == "poll" and each["role"] == "instance"]
    assert [(each["partition"], each["v"]) for each in poll["mops"]] == [("in-0", record_id(0, 0, 0))]


@pytest.mark.parametrize("name", [{"client_id": "fp-x-0"}, {"transactional_id": "fp-x-0"}])
def test_the_runs_own_writers_are_there_once(tmp_path, name):
    record = Record().initialise().transaction([(0, 0)])
    for line in record.lines:
        line.update(name if line["at"] == "request" else {})
    rows, _ = merged(record, tmp_path)
    assert len(rows) == 2


def test_a_record_that_ends_early_is_a_gap(tmp_path):
    _, (gap,) = merged(program(), tmp_path, {"n1": NodeRecord(until_ns=1040, why="its proxy had ended")})
    assert (gap.evidence, "its proxy had ended" in gap.why) == (JUDGED, True)


def test_a_run_without_a_record_has_a_gap(tmp_path):
    (gap,) = add_wire(Run(directory=tmp_path, plan=PLAN))
    assert gap.evidence == JUDGED


def test_only_a_run_that_asked_for_it(tmp_path):
    assert wants_wire(Run(directory=tmp_path, plan=PLAN))
    assert not wants_wire(Run(directory=tmp_path, plan={**PLAN, "workload": {"kind": "application", "options": {}}}))
    assert not wants_wire(Run(directory=tmp_path, plan={}))
