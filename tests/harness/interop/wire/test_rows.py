"""A record of requests becomes rows of a history."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from support.wire_records import Record, got, marker

from fencepost.harness.api import record_id
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.api.run import RunFile
from fencepost.harness.api.wire import NodeRecord, nodes_of, with_nodes, with_numbers
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import adopt
from fencepost.harness.interop.detect import Format, detect
from fencepost.harness.proxy import record as proxy_record


def rows(source, directory):
    """The rows of a record, or of what lies at a path; what is empty in them is left out."""
    run = directory / "run"
    run.mkdir()
    adopt(source.write(directory / "record") if isinstance(source, Record) else source, run)
    table = pq.read_table(run / RunFile.HISTORY).to_pylist()
    assert [row["index"] for row in table] == list(range(len(table)))
    return [{name: value for name, value in row.items() if value not in (None, [], "")} for row in table]


def of_kind(some, f):
    return [row for row in some if row["f"] == f]


def began():
    return Record().initialise()


def test_a_transaction(tmp_path):
    (row,) = of_kind(rows(began().transaction([(0, 4), (1, 5, 1)]), tmp_path), "txn")
    assert (row["process"], row["op"], row["type"], row["intent"], row["transactional_id"]) == (0, 1, "ok", "commit", "a")
    assert (row["time"], row["decided"], row["end"]) == (1020, 1050, 1055)
    first, second = row["mops"]
    assert first == {
        "kind": 0, "partition": "t-0", "v": record_id(0, 1, 0), "offset": 4, "began": 1030, "ended": 1035
    }  # fmt: skip
    assert (second["partition"], second["v"], second["offset"]) == ("t-1", record_id(0, 1, 1), 5)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([{}], ("ok", "commit", True)),
        ([{"commit": False}], ("ok", "abort", False)),
        ([], ("info", "commit", False)),
        ([{"answered": False}], ("info", "commit", True)),
        ([{"answered": False}, {}], ("ok", "commit", True)),
        ([{"answered": False}, {"commit": False}], ("fail", "commit", True)),
        ([{"answered": False, "commit": False}], ("info", "abort", False)),
        ([{"error": "PRODUCER_FENCED"}], ("fail", "commit", True)),
        ([{"error": "NOT_COORDINATOR"}, {"error": "PRODUCER_FENCED"}], ("info", "commit", True)),
        ([{"error": "CONCURRENT_TRANSACTIONS"}, {}], ("ok", "commit", True)),
    ],
)
def test_outcomes(tmp_path, ends, expected):
    record = began().add().produce(0, 0)
    for end in ends:
        record.end(**end)
    (row,) = of_kind(rows(record, tmp_path), "txn")
    assert (row["type"], row["intent"], "decided" in row) == expected


def test_the_second_protocol_gives_each_transaction_an_epoch_and_the_process_stays(tmp_path):
    record = began()
    for epoch in range(3):
        given = {"producer_id": 7, "producer_epoch": epoch + 1}
        record.produce(0, epoch * 2, (7, epoch)).end(producer=(7, epoch), version=5, given=given)
    some = of_kind(rows(record, tmp_path), "txn")
    assert [(row["process"], row["op"], row["type"]) for row in some] == [(0, 1, "ok"), (0, 2, "ok"), (0, 3, "ok")]


def test_another_instance_of_an_id_is_another_process(tmp_path):
    record = began().transaction([(0, 0)]).initialise(producer=(7, 1)).transaction([(0, 2)], producer=(7, 1))
    assert [row["process"] for row in of_kind(rows(record, tmp_path), "txn")] == [0, 1]


def test_offsets_of_a_group(tmp_path):
    record = began().ask(
        "TxnOffsetCommit", transactional_id="a", producer_id=7, producer_epoch=0, group="g",
        partitions=[{"topic": "in", "partition": 2, "offset": 17}], given={"partitions": [{"topic": "in", "partition": 2}]},
    )  # fmt: skip
    (row,) = of_kind(rows(record.end().transaction([(0, 0)]), tmp_path), "txn")[:1]
    assert row["offsets"] == [{"partition": "in-2", "offset": 17}]
    assert "chains" not in row


def test_a_reader_has_read_what_it_goes_on_behind(tmp_path):
    record = began().transaction([(0, 0), (1, 1), (2, 2)])
    record.fetch(0, [got(0, 0), got(1, 1), got(2, 2)])  # the first two of these
    record.fetch(2, [got(2, 2)])  # dropped: it fetches it again
    record.fetch(2, [got(2, 2)])  # the last answer of the connection: nobody knows
    some = of_kind(rows(record, tmp_path), "poll")
    assert [[mop["offset"] for mop in row.get("mops", ())] for row in some] == [[0, 1], []]
    assert [row.get("isolation") for row in some] == ["read_committed", None]
    assert "unheard" in some[1]["detail"]  # that of somebody who is not in the record


def test_a_session_that_names_only_what_has_changed(tmp_path):
    """An incremental Fetch without a partition goes on at the offset of the one before; markers move it on."""
    record = began().transaction([(0, 0)]).fetch(0).ask("Fetch", 12, connection=9, body={"isolationLevel": 1, "sessionEpoch": 2},
        given={"partitions": [{"topic": "t", "partition": 0, "batches": [got(0, 0), marker(1)]}]})  # fmt: skip
    (poll, _) = of_kind(rows(record.fetch(2), tmp_path), "poll")
    assert [mop["offset"] for mop in poll["mops"]] == [0]


def test_followers_and_kafkas_own_topics_are_left_out(tmp_path):
    record = began().transaction([(0, 0)])
    record.read(got(0, 0), partition=0)
    for line in record.lines[-4:]:
        if line["at"] == "request":
            line["body"] = {"replicaState": {"replicaId": 2}}
    record.ask("Produce", partitions=[{"topic": "__consumer_offsets", "partition": 0, "batches": [got(0, 0)]}])
    some = rows(record, tmp_path)
    assert not [mop for row in some for mop in row.get("mops", ()) if mop["kind"] or mop["partition"] != "t-0"]


def test_a_batch_has_a_name_for_people(tmp_path):
    rows(began().add().produce(5, 0, records=4).end(), tmp_path)
    (value,) = pq.read_table(tmp_path / "run" / RunFile.VALUES).to_pylist()
    assert value == {"v": record_id(0, 1, 0), "partition": "t-0", "value": "producer 7, epoch 0, sequences 5 to 8"}


def test_a_table_and_lines_say_the_same(tmp_path):
    folder = began().transaction([(0, 0)]).read(got(0, 0)).write(tmp_path / "lines")
    file = tmp_path / "wire.parquet"
    pq.write_table(proxy_record.read(folder), file)
    places = (folder, folder / "proxy.jsonl", file)
    assert {detect(place) for place in places} == {Format("wire-record")}
    made = []
    for number, place in enumerate(places):
        (tmp_path / str(number)).mkdir()
        made.append(rows(place, tmp_path / str(number)))
    assert made[0] == made[1] == made[2]


def test_nothing_behind_the_end_of_a_record_counts(tmp_path):
    """A coordinator may have moved to a broker whose proxy has ended."""
    folder = began().transaction([(0, 0)]).transaction([(1, 2)]).write(tmp_path / "lines")
    file = tmp_path / "wire.parquet"
    nodes = {"n1": NodeRecord(), "n2": NodeRecord(until_ns=1070, why="its proxy had ended")}
    pq.write_table(with_nodes(with_numbers(proxy_record.read(folder)), nodes), file)
    some = of_kind(rows(file, tmp_path), "txn")
    assert [row["type"] for row in some] == ["ok", "info"]
    (gap,) = open_run(tmp_path / "run").gaps
    assert {Evidence.SENDS, Evidence.POLLS, Evidence.WIRE} <= set(gap.evidence)
    assert nodes_of(tmp_path / "run" / RunFile.WIRE) == nodes


def test_a_record_in_which_nobody_wrote_is_refused(tmp_path):
    record = Record().fetch(0).ask("FindCoordinator")
    (tmp_path / "run").mkdir()
    with pytest.raises(HistoryError, match="no producer's batch"):
        adopt(record.write(tmp_path / "record"), tmp_path / "run")


def test_a_damaged_record_is_refused(tmp_path):
    folder = began().transaction([(0, 0)]).write(tmp_path / "record")
    with (folder / "proxy.jsonl").open("a") as file:
        file.write("nonsense\n")
    (tmp_path / "run").mkdir()
    with pytest.raises(HistoryError, match=r"proxy.jsonl, line \d+"):
        adopt(folder, tmp_path / "run")


def test_our_own_lines_are_not_taken_for_a_record(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"format": "fencepost-history", "version": 1}) + "\n")
    assert detect(tmp_path) == Format("fencepost-jsonl")


def test_a_reader_of_unknown_level_is_a_gap(tmp_path):
    record = began().transaction([(0, 0)]).read(got(0, 0))
    for line in record.lines:
        line["body"] = None
    rows(record, tmp_path)
    (gap,) = open_run(tmp_path / "run").gaps
    assert gap.evidence == (Evidence.LEVELS,)
