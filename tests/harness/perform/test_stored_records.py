"""The brokers' logs as a table at the end of a run; and what becomes of brokers whose logs cannot be read."""

import pyarrow.parquet as pq

from fencepost.harness.api import ClusterError, record_id
from fencepost.harness.api.run import RunFile
from fencepost.harness.perform.stored_records import write_stored


class Logs:
    """A cluster of which only the logs are known."""

    brokers = ("n1", "n2")

    def __init__(self, **logs):
        self.logs = logs

    def stored_records(self, node):
        if node not in self.logs:
            raise ClusterError(f"the log segments of {node} could not be read: gone")
        return self.logs[node], ""


def row(offset, head, kind="record"):
    return ["t-0", offset, 1, 7, 0, 3, 1000, kind, head]


def test_every_brokers_records_are_in_the_table_with_their_identities(tmp_path):
    mine, others = row(5, "r|3|4|0|t-0|commit|..."), row(6, "other|3|4|0|t-0|commit|...")
    assert list(write_stored(Logs(n2=[mine], n1=[mine, others, row(7, None, "COMMIT")]), "r", tmp_path)) == []
    rows = pq.read_table(tmp_path / RunFile.STORED).to_pylist()
    assert [(stored["offset"], stored["node"], stored["v"]) for stored in rows] == [
        (5, "n1", record_id(3, 4, 0)),
        (5, "n2", record_id(3, 4, 0)),
        (6, "n1", None),
        (7, "n1", None),
    ]


def test_what_a_cluster_says_of_batches_and_states_is_in_the_table_too(tmp_path):
    of_batch = [5, 6, 3, 77, True, -1, None]
    state = ["id", 7, 0, -1, -1, 60000, 1000, 1100, 2, ["t-0"]]
    log = ["__transaction_state-0", 0, -1, -1, -1, -1, -1, "log", None, 0, 9, -1, 0, False, -1, None]
    coordinator = ["__transaction_state-0", 0, 1, -1, -1, -1, 1100, "Ongoing", None, 0, 0, -1, 78, False, -1, state]
    assert list(write_stored(Logs(n1=[log, coordinator, [*row(5, None), *of_batch]], n2=[row(5, None)]), "r", tmp_path)) == []
    rows = pq.read_table(tmp_path / RunFile.STORED).to_pylist()
    assert [stored["kind"] for stored in rows] == ["log", "Ongoing", "record", "record"]
    assert [stored["last_offset"] for stored in rows] == [9, 0, 6, None]
    assert rows[1]["state"]["partitions"] == ["t-0"]
    assert (rows[1]["state"]["transactional_id"], rows[1]["state"]["protocol"]) == ("id", 2)
    assert (rows[2]["checksum"], rows[2]["transactional"], rows[2]["state"]) == (77, True, None)


def test_a_log_that_cannot_be_read_is_noted_and_the_others_are_evidence(tmp_path):
    notes = list(write_stored(Logs(n1=[row(5, "r|3|4|0|t-0|commit|")]), "r", tmp_path))
    assert notes == ["what n2 stored is not kept as evidence: the log segments of n2 could not be read: gone"]
    assert pq.read_metadata(tmp_path / RunFile.STORED).num_rows == 1


def test_a_cluster_that_shows_no_logs_leaves_no_table(tmp_path):
    assert list(write_stored(object(), "r", tmp_path)) == []
    assert not (tmp_path / RunFile.STORED).exists()
