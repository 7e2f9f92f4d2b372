"""Damaged records of proxies: refused with a sentence, and never a finding, nor a traceback."""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.histories import violated
from support.wire_records import Record, as_text, got, marker, numbered

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NODES
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.proxy import record as proxy_record


def lawful():
    """A transaction that is committed and one that is aborted, with the group's offsets, read at read_committed."""
    record = Record().initialise().ask("Metadata", 12, given={"partitions": [{"topic": "t", "topic_id": "id"}]})
    for first, offset, commit in ((0, 0, True), (2, 3, False)):
        record.add().produce(first, offset).produce(first + 1, offset + 1)
        record.ask("TxnOffsetCommit", group="g", partitions=[{"topic": "in", "partition": 0, "offset": 5 + first}],
            given={"partitions": [{"topic": "in", "partition": 0}]}, body={"memberId": "m", "generationId": 3},
            transactional_id="a", producer_id=7, producer_epoch=0)  # fmt: skip
        record.end(commit)
    record.ask("OffsetFetch", 9, group="g", partitions=[{"topic": "in", "partition": 0}], body={"groups": [{"memberId": "m"}]},
        given={"partitions": [{"topic": "in", "partition": 0, "offset": 5}]})  # fmt: skip
    batches = [got(0, 0), got(1, 1), marker(2), got(2, 3), got(3, 4), marker(5, "ABORT")]
    return record.fetch(0, batches, aborted=[[7, 3]], log_start=0).fetch(6, log_start=0)


def judged(folder):
    run = folder.parent / "run"
    run.mkdir()
    adopt(folder, run, {"offset_commits": "recorded"})
    return judge(open_run(run), here=True)


def written(folder, lines):
    folder.mkdir()
    (folder / "proxy.jsonl").write_text(as_text(lines))
    return folder


def test_the_whole_record_is_valid(tmp_path):
    verdict = judged(written(tmp_path / "record", numbered(lawful().lines)))
    assert (verdict["verdict"], violated(verdict), verdict["weakened"]) == ("valid", [], [])


@pytest.mark.parametrize("api", sorted({line["api"] for line in lawful().lines if "api" in line}))
def test_a_request_that_is_gone_refuses_the_record(tmp_path, api):
    """Of lines without numbers, where its answer is there: without it an abort would seem to be of another transaction, or a
    commit to be nobody's."""
    lines = lawful().lines
    del lines[next(at for at, line in enumerate(lines) if line.get("api") == api)]
    with pytest.raises(HistoryError, match="lines are missing"):
        judged(written(tmp_path / "record", lines))


def places(value, path=()):
    """The paths to all values inside a line."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


ODD = (None, -1, 1 << 70, 1.5, "x", True, [], {}, [[]], {"a": None})


def with_odd(lines, number, path, odd):
    lines = json.loads(json.dumps(lines))
    inner = lines[number]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = odd
    return lines


DAILY = (None, "x")


@pytest.mark.parametrize(
    "odd", [pytest.param(odd, id=str(odd), marks=[] if odd in DAILY else pytest.mark.nightly) for odd in ODD]
)
def test_a_value_of_another_form_is_refused_or_judged(tmp_path, odd):
    """One line of each kind; a value anywhere in it."""
    whole = lawful().lines
    kinds = {(line.get("api"), frozenset(line)): number for number, line in enumerate(whole)}
    some = [(number, path) for number in kinds.values() for path in places(whole[number]) if path]
    for case, (number, path) in enumerate(some[:: 12 if odd in DAILY else 1]):
        folder = tmp_path / str(case)
        folder.mkdir()
        with contextlib.suppress(HistoryError):
            adopt(written(folder / "record", with_odd(whole, number, path, odd)), folder, {})


def table(folder, change=lambda table: table):
    lines = written(folder / "lines", lawful().lines)
    alone = folder / "alone"
    alone.mkdir()
    pq.write_table(change(proxy_record.read(lines)), alone / RunFile.WIRE)
    return alone


def test_a_table_alone_in_a_directory_is_read(tmp_path):
    assert judged(table(tmp_path))["verdict"] == "valid"


def replaced(name, values):
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values(len(table)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (replaced("version", lambda rows: pa.array(["x"] * rows)), "version"),
        (replaced("arrived_ns", lambda rows: pa.nulls(rows, pa.int64())), "arrived_ns"),
        (replaced("partitions", lambda rows: pa.array([b"\xff"] * rows)), "partitions"),
        (replaced("partitions", lambda rows: pa.array(['[{"topic": 5}]'] * rows)), "Expected `str`, got `int`"),
        (replaced("request", lambda rows: pa.array(["[" * 5000] * rows)), "cannot be read"),
        (lambda table: table.drop_columns(["error"]), "error"),
        (lambda table: pa.concat_tables([table, table]), "requests are there twice"),
        (lambda table: table.replace_schema_metadata({NODES: b'{"n1": {"until_ns": "soon"}}'}), "fencepost.nodes"),
        (lambda table: table.replace_schema_metadata({NODES: b"\xff"}), "fencepost.nodes"),
    ],
)
def test_a_table_of_another_form_is_refused(tmp_path, change, why):
    with pytest.raises(HistoryError, match=why):
        judged(table(tmp_path, change))


def test_two_tables_in_a_directory_are_refused(tmp_path):
    folder = table(tmp_path)
    pq.write_table(pq.read_table(folder / RunFile.WIRE), folder / "another.parquet")
    with pytest.raises(HistoryError, match="2 tables"):
        judged(folder)
