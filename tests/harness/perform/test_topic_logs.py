"""The leaders' logs of a connector, as they are recorded at the end of a run."""

import itertools
import json

from fencepost.harness.api import ClusterError, LogEntry, LogRecord
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.topic_logs import record_logs


def record(offset, kind="record", producer=(7, 2), value=b"x"):
    return LogRecord(
        partition="t-0",
        offset=offset,
        timestamp_ms=1000 + offset,
        producer_id=producer[0],
        producer_epoch=producer[1],
        transactional=True,
        kind=kind,
        value=value,
    )


class Cluster:
    """One topic with a partition that can be read and one that cannot."""

    def partitions_of(self, topic):
        return ["t-1", "t-0"] if topic == "t" else []

    def log(self, partition):
        if partition == "t-1":
            raise ClusterError("the log of t-1 could not be read: no leader")
        return [record(0), record(1, value=b"other"), record(2, "COMMIT")]


def of_source(log_record):
    return LogEntry("record", "a", 3) if log_record.value == b"x" else None


def recorded(tmp_path, cluster, entry=of_source, topics=("t", "absent")):
    writer = HistoryWriter(tmp_path / "harness.jsonl", run="r", slot=-1, node="harness", role="harness", pid=1)
    numbers = itertools.count()
    problems = list(record_logs(cluster, topics, entry, writer, lambda: next(numbers)))
    lines = [json.loads(line) for line in (tmp_path / "harness.jsonl").read_text().splitlines()[1:]]
    return problems, [(line["type"], line["value"]) for line in lines if line["type"] != "invoke"]


def test_every_record_of_interest_and_every_marker_is_recorded(tmp_path):
    problems, lines = recorded(tmp_path, Cluster())
    rows = [[0, 1000, 7, 2, True, "record", "a", 3], [2, 1002, 7, 2, True, "COMMIT", "", -1]]
    assert lines == [("ok", [["entries", "t-0", rows]]), ("info", [["entries", "t-1", []]])]
    assert problems == ["the log of t-1 could not be read: no leader"]


def test_an_entry_may_be_about_another_producer_than_the_one_that_wrote_it(tmp_path):
    def of_coordinator(_):
        return LogEntry("initialised", "id", 6000, (40, 5))

    assert recorded(tmp_path, Cluster(), of_coordinator)[1][0][1][0][2][0] == [0, 1000, 40, 5, True, "initialised", "id", 6000]


def test_where_no_log_can_be_read_the_run_says_so(tmp_path):
    problems, lines = recorded(tmp_path, object())
    assert lines == []
    assert "nobody knows which transaction a record belongs to" in problems[0]


def test_logs_of_the_second_cluster_are_read_there_and_named_so(tmp_path):
    class Both(Cluster):
        second = type("Second", (), {"partitions_of": lambda _, topic: [f"{topic}-0"], "log": lambda *_: [record(5)]})()

    _, lines = recorded(tmp_path, Both(), topics=("second/t", "t"))
    assert lines[0] == ("ok", [["entries", "second/t-0", [[5, 1005, 7, 2, True, "record", "a", 3]]]])
    assert [value[0][1] for _, value in lines] == ["second/t-0", "t-0", "t-1"]


def test_a_topic_whose_partitions_are_unknown_is_a_log_that_was_not_read(tmp_path):
    problems, lines = recorded(tmp_path, Cluster(), topics=("second/t",))
    assert lines == [("info", [["entries", "second/t-0", []]])]
    assert problems == ["nobody knows the partitions of second/t: this test has no second Kafka cluster"]
