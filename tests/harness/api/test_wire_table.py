"""`wire.parquet` of a directory from anywhere: read if it is such a table, and a sentence else, before it takes memory."""

from __future__ import annotations

import os
import resource

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.harness.api.run import Run, RunFile
from fencepost.harness.api.wire import wire_schema
from fencepost.harness.api.wire_table import ALWAYS, wire_table, wire_table_of
from fencepost.harness.matrix.id_states import IdStates
from fencepost.harness.report.incident_wire import wire_rows

TEXTS = [field.name for field in wire_schema() if field.type == pa.string()]


def table(rows=3, **columns):
    """A record of EndTxn requests. columns: their values instead."""
    base = {"node": "n1", "api": "EndTxn", "version": 1, "arrived_ns": 5, "rules": [], "made_by_proxy": False}
    schema = wire_schema()
    made = {name: pa.array([base.get(name)] * rows, schema.field(name).type) for name in schema.names}
    return pa.table({**made, **columns})


def written(tmp_path, content):
    pq.write_table(content, tmp_path / RunFile.WIRE)
    return tmp_path / RunFile.WIRE


def test_a_record_is_read(tmp_path):
    path = written(tmp_path, table())
    assert wire_table(path, ["node", "api"]).to_pylist() == [{"node": "n1", "api": "EndTxn"}] * 3
    assert wire_table_of(Run(directory=tmp_path), ["version"]).num_rows == 3


BOMBS = {
    "a text in every row": lambda: table(200, answer=pa.array(["x" * 1_000_000]).take(pa.array([0] * 200))),
    "a text in every list": lambda: table(
        200, rules=pa.array([["x" * 100_000] * 10]).take(pa.array([0] * 200)).cast(pa.list_(pa.string()))
    ),
    "rows of nothing": lambda: table(ALWAYS // 1000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_table_that_unpacks_to_more_than_any_record_is_a_sentence_before_it_is_read(tmp_path, name):
    path = written(tmp_path, BOMBS[name]())
    assert path.stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(OSError, match=r"unpacks to more than [0-9,]+ bytes, and no record of [0-9,]+ bytes does"):
        wire_table(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


WRONG = {
    "a column is text": lambda: table(arrived_ns=pa.array(["x"] * 3)),
    "a text is a number": lambda: table(node=pa.array([5] * 3)),
    "a column is gone": lambda: table().drop_columns(["answered_ns"]),
    "a moment is null": lambda: table(arrived_ns=pa.nulls(3, pa.int64())),
    "no node": lambda: table(node=pa.nulls(3, pa.string())),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_table_of_another_form_is_known_to_nobody(tmp_path, name):
    written(tmp_path, WRONG[name]())
    run = Run(directory=tmp_path)
    with pytest.raises(OSError, match="column"):
        wire_table_of(run)
    assert wire_rows(run, [("t", 0, 9)]) == ()
    assert not IdStates.read(run)._caught


@pytest.mark.parametrize("place", ["a pipe", "a link", "a directory", "nothing"])
def test_what_is_no_file_is_not_opened(tmp_path, place):
    written(tmp_path, table()).rename(tmp_path / "elsewhere")
    path = tmp_path / RunFile.WIRE
    made = {"a pipe": lambda: os.mkfifo(path), "a link": lambda: path.symlink_to("elsewhere"), "a directory": path.mkdir}
    made.get(place, lambda: None)()
    with pytest.raises(OSError, match=place.split()[-1] if place != "nothing" else "No such file"):
        wire_table_of(Run(directory=tmp_path))
    assert wire_rows(Run(directory=tmp_path), [("t", 0, 9)]) == ()
