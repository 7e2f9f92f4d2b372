"""The table of what proxies recorded says up to when the record of each broker is whole."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NodeRecord, nodes_of
from fencepost.harness.perform.wire_record import named, on_wire, told_names, write_wire
from fencepost.harness.proxy.process import SPAN
from fencepost.nemesis.testing import FakeCluster


def line(node, arrived_ns):
    return json.dumps(
        {"at": "request", "n": arrived_ns, "node": node, "connection": 1, "api": "EndTxn", "version": 1, "arrived_ns": arrived_ns}
    )


def recorded(directory, proxied):
    """What is written and told of a cluster of three brokers, two of which have a record."""
    lines = directory / RunFile.WIRE_LINES
    lines.mkdir()
    for node in ("n1", "n2"):
        (lines / f"{node}.jsonl").write_text(line(node, 100) + "\n" + line(node, 200) + "\n")
    cluster = FakeCluster()
    cluster.proxied = lambda: proxied
    return list(write_wire(cluster, directory)), directory / RunFile.WIRE


def test_each_broker_with_a_running_proxy_has_a_whole_record(tmp_path):
    notes, path = recorded(tmp_path, {"n1": True, "n2": True, "n3": True})
    assert notes == []
    assert nodes_of(path) == dict.fromkeys(("n1", "n2", "n3"), NodeRecord())
    assert pq.read_table(path).column("arrived_ns").to_pylist() == [100, 100, 200, 200]
    assert list((tmp_path / RunFile.WIRE_LINES).iterdir()) == []


def test_a_proxy_that_ended_and_one_that_never_was_are_told(tmp_path):
    notes, path = recorded(tmp_path, {"n1": True, "n2": False})
    assert nodes_of(path) == {
        "n1": NodeRecord(),
        "n2": NodeRecord(until_ns=200, why="its proxy had ended, or its disk was full"),
        "n3": NodeRecord(until_ns=0, why="no proxy stood before it"),
    }
    assert [note.partition(" early before ")[2] for note in notes] == [
        "n2: its proxy had ended, or its disk was full",
        "n3: no proxy stood before it",
    ]


def test_the_record_of_a_proxy_that_was_started_again_ends_with_the_first_and_what_that_held_is_named(tmp_path):
    lines = tmp_path / RunFile.WIRE_LINES
    lines.mkdir()
    held = [
        {"n": 1, "arrived_ns": 100, "kept": True, "transactional_id": "tx-1"},
        {"n": 2, "arrived_ns": 110},
        {"n": 3, "arrived_ns": 120, "kept": True},
        {"n": 4, "arrived_ns": 130},
    ]
    head = {"at": "request", "node": "n1", "connection": 1, "client_id": "w", "api": "EndTxn", "version": 1}
    after = [
        {"at": "answer", "n": 2, "answered_ns": 115},
        {"at": "lost", "n": 3, "why": "rule 1"},
    ]
    (lines / "n1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*({**head, **one} for one in held), *after]))
    (lines / "n1-2.jsonl").write_text(json.dumps({**head, "n": SPAN + 1, "arrived_ns": 900}) + "\n")
    cluster = FakeCluster()
    cluster.proxied = lambda: {"n1": False, "n2": True, "n3": True}
    list(write_wire(cluster, tmp_path))
    assert nodes_of(tmp_path / RunFile.WIRE)["n1"] == NodeRecord(
        until_ns=130,
        why="its proxy had ended, or its disk was full, and 1 EndTxn request (tx-1) and 1 EndTxn answer that it held went no "
        "further",
    )
    assert pq.read_table(tmp_path / RunFile.WIRE).column("arrived_ns").to_pylist() == [100, 110, 120, 130, 900]


def numbered(*lines):
    return "".join(json.dumps({"line": number, **line}) + "\n" for number, line in lines)


def test_a_line_that_is_missing_ends_the_record_of_a_proxy_that_runs(tmp_path):
    """One that runs has no last line yet. One without a file has lost it."""
    directory = tmp_path / RunFile.WIRE_LINES
    directory.mkdir()
    for node, missing in (("n1", ()), ("n2", (2,))):
        begin = {"at": "begin", "nodes": [node], "first": 0, "time_ns": 50}
        some = enumerate([begin, *(json.loads(line(node, time)) for time in (100, 200, 300))])
        (directory / f"{node}.jsonl").write_text(numbered(*(each for each in some if each[0] not in missing)))
    cluster = FakeCluster()
    cluster.proxied = lambda: {"n1": True, "n2": True, "n3": True}
    list(write_wire(cluster, tmp_path))
    assert nodes_of(tmp_path / RunFile.WIRE) == {
        "n1": NodeRecord(),
        "n2": NodeRecord(until_ns=101, why="1 line is missing behind line number 1"),
        "n3": NodeRecord(until_ns=0, why="the file of its record is missing"),
    }


def test_a_record_that_cannot_be_read_is_told(tmp_path):
    lines = tmp_path / RunFile.WIRE_LINES
    lines.mkdir()
    (lines / "n1.jsonl").write_text("nonsense\n")
    (note,) = write_wire(FakeCluster(), tmp_path)
    assert "n1.jsonl, line 1" in note
    assert (lines / "n1.jsonl").exists()
    assert not (tmp_path / RunFile.WIRE).exists()


def test_without_proxies_there_is_no_table(tmp_path):
    cluster = FakeCluster()
    cluster.proxied = dict
    assert list(write_wire(cluster, tmp_path)) == []
    assert not (tmp_path / RunFile.WIRE).exists()


def test_topics_that_are_given_by_their_id_get_their_names(tmp_path):
    """Produce from version 13 on names topics so (KIP-516), and a proxy of one broker may not have seen the answer that tells."""
    id_ = "71905bc0-0d2e-4d06-8a6e-9f4b1c2d3e4f"
    lines = tmp_path / RunFile.WIRE_LINES
    lines.mkdir()
    place = {"topic": on_wire(id_), "topic_id": on_wire(id_), "partition": 0}
    (lines / "n1.jsonl").write_text(json.dumps({**json.loads(line("n1", 100)), "partitions": [place]}) + "\n")
    cluster = FakeCluster()
    cluster.topic_ids = lambda topic: {"n1": id_, "n2": ""}
    assert list(write_wire(cluster, tmp_path)) == []
    (text,) = pq.read_table(tmp_path / RunFile.WIRE).column("partitions").to_pylist()
    assert json.loads(text) == [{"topic": "t", "topic_id": on_wire(id_), "partition": 0}]


def test_a_topic_that_the_workload_did_not_create_gets_the_name_that_another_broker_told(tmp_path):
    """MirrorMaker creates topics of its own."""
    place = {"topic": "ID", "topic_id": "ID", "partition": 0}
    table = pa.Table.from_pylist(
        [
            {"api": "Produce", "partitions": json.dumps([place]), "answer_partitions": None},
            {"api": "Metadata", "partitions": None, "answer_partitions": json.dumps([{"topic": "own", "topic_id": "ID"}])},
            {
                "api": "Metadata",
                "partitions": None,
                "answer_partitions": json.dumps([{**place, "topic_id": "ID"}, {"topic": "a"}]),
            },
        ]
    )
    assert told_names(table) == {"ID": "own"}
    (text, *_) = named(table, told_names(table))["partitions"].to_pylist()
    assert json.loads(text) == [{"topic": "own", "topic_id": "ID", "partition": 0}]
