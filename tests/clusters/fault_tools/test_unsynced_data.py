"""Data directories made by hand, after a power failure; then the settings that make it unavailable."""

import struct

import pytest

from fencepost.clusters.fault_tools.unsynced_data import CLEAN, flush_setting, lose_unsynced, recovery_points


def batch(offset, records=1, size=40):
    """The bytes of a record batch, as far as its head tells: base offset, length, last offset."""
    rest = struct.pack(">ibihi", 0, 2, 0, 0, records - 1)
    return struct.pack(">qi", offset, size) + rest.ljust(size, b"x")


@pytest.fixture
def data(tmp_path):
    """A node with partitions t-0 (synced up to 3), u-v-1 (never synced), w-0 (two segments), an empty one, and the KRaft log."""
    files = {
        "t-0": {"0.log": batch(0) + batch(1, records=2) + batch(3) + batch(4, records=3), "0.index": b"i", "0.timeindex": b"t"},
        "u-v-1": {"0.log": batch(0, records=5), "5.snapshot": b"s", "0.txnindex": b"x"},
        "w-0": {
            "0.log": batch(0, records=9),
            "9.log": batch(9) + batch(10)[:-4],
            "0.index": b"i",
            "9.index": b"i",
            "9.snapshot": b"s",
        },
        "e-0": {"0.log": b""},
        "__cluster_metadata-0": {"0.log": batch(0)},
    }
    for directory, contents in files.items():
        (tmp_path / directory).mkdir()
        for name, content in contents.items():
            stem, _, suffix = name.partition(".")
            (tmp_path / directory / f"{int(stem):020d}.{suffix}").write_bytes(content)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 3\nw 0 4\n")
    (tmp_path / CLEAN).touch()
    return tmp_path


def names(path):
    return sorted(f"{int(file.stem)}{file.suffix}" for file in path.iterdir())


def test_each_partition_is_truncated_to_its_recovery_point(data):
    lost = lose_unsynced(data)
    assert lost == {"t-0": (3, 7), "u-v-1": (0, 5), "w-0": (9, 10)}
    assert (data / "t-0" / f"{0:020d}.log").read_bytes() == batch(0) + batch(1, records=2)
    assert (data / "u-v-1" / f"{0:020d}.log").read_bytes() == b""


def test_older_segments_and_the_metadata_log_are_not_truncated(data):
    """A segment is synced when the next one begins, and the metadata log whenever it is written."""
    lose_unsynced(data)
    assert (data / "w-0" / f"{0:020d}.log").read_bytes() == batch(0, records=9)
    assert names(data / "w-0") == ["0.index", "0.log", "9.log", "9.snapshot"]
    assert (data / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes() == batch(0)


def test_indexes_later_snapshots_and_the_clean_shutdown_file_are_removed(data):
    lose_unsynced(data)
    assert names(data / "t-0") == ["0.log"]
    assert names(data / "u-v-1") == ["0.log"]
    assert not (data / CLEAN).exists()


def test_a_second_power_failure_loses_nothing_more(data):
    lose_unsynced(data)
    assert lose_unsynced(data) == {}


def test_without_a_checkpoint_nothing_was_synced(data):
    (data / "recovery-point-offset-checkpoint").unlink()
    assert recovery_points(data / "recovery-point-offset-checkpoint") == {}
    assert lose_unsynced(data)["t-0"] == (0, 7)


def test_settings_that_make_kafka_sync_by_itself_are_found():
    assert flush_setting([{"min.insync.replicas": "2"}, {"flush.messages": "1"}]) == "flush.messages=1"
    assert flush_setting([{"log.flush.interval.ms": "1000"}]) == "log.flush.interval.ms=1000"
    assert flush_setting([{"log.flush.offset.checkpoint.interval.ms": "1000", "log.flush.scheduler.interval.ms": "1"}]) == ""
