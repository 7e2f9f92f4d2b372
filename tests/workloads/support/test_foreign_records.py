"""Records of somebody else's program that tell nothing usable: a reason in the history, and never a traceback."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fencepost.harness.api import LogRecord, Polled
from fencepost.workloads.support import connect_records
from fencepost.workloads.support.connect_records import STRANGE, SourceRecords
from fencepost.workloads.support.inputs_and_outputs import NO_INPUT, counting, counts_of, named, naming

VALUES = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "no JSON": b"{",
    "too deep": b"[" * 100_000,
    "a number": b"7",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"id"',
    "without the member": b"{}",
    "a member that is an object": b'{"id": {}, "n": {}}',
    "a member that is a list": b'{"id": [1], "n": [1]}',
    "a member that is null": b'{"id": null, "n": null}',
    "infinity": b'{"id": 1, "n": Infinity}',
    "no number": b'{"id": 1, "n": NaN}',
    "a number without end": b'{"id": 1, "n": ' + b"9" * 5000 + b"}",
    "a number of 70 bits": b'{"id": 1, "n": 1180591620717411303424}',
    "a text that is no number": b'{"id": 1, "n": "many"}',
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", ["json /id", "header id", "key", "value", r"regex id=(\w+)"])
def test_an_output_that_names_no_input_has_a_reason(way, value):
    v, why = named(Polled("t-0", 0, value), naming(way), "r")
    assert (v, bool(why)) == (NO_INPUT, True)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", ["json /n", "header n", r"regex n=(\w+)"])
def test_an_output_that_says_no_number_is_left_out(way, value):
    assert counts_of([Polled("t-0", 0, value)], counting(way)) == {"t-0": []}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_record_of_a_connector_that_tells_no_position_is_strange(value):
    form = SourceRecords(source="json /source", position="json /n", offset_source="/source", offset_position="/n")
    assert form.entry(Polled("t-0", 0, value)).kind == STRANGE
    if value:
        assert form.offset(log_record(b'["c", {"source": "1"}]', value)).kind == STRANGE
        assert form.offset(log_record(value, b'{"n": 1}')).kind == STRANGE
        assert connect_records.connector_of(log_record(value, b"")) == ""


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_record_of_connects_configuration_has_no_number_then(value):
    assert connect_records.configuration(log_record(b"tasks-fencing-source", value)).number in (-1, 0)


def log_record(key, value):
    fields = {"timestamp_ms": 0, "producer_id": -1, "producer_epoch": -1, "transactional": False}
    return LogRecord(partition="t-0", offset=0, kind="record", key=key, value=value, **fields)


def test_numbers_of_64_bits_are_numbers():
    value = json.dumps({"n": 2**63 - 1}).encode()
    assert counts_of([Polled("t-0", 5, value)], counting("json /n")) == {"t-0": [[5, 2**63 - 1]]}


TOMBSTONE = LogRecord(
    partition="t-0", offset=0, timestamp_ms=0, producer_id=1, producer_epoch=0, transactional=True, kind="record", key=b"k"
)


@pytest.mark.parametrize("way", ["json /n", r"regex n=(\w+)", "value"])
def test_a_tombstone_of_a_connector_tells_no_position_by_its_value(way):
    """Debezium writes one behind each deletion."""
    position = way if way != "value" else "json /n"
    form = SourceRecords(source=way, position=position, offset_source="/source", offset_position="/n")
    entry = form.entry(TOMBSTONE)
    assert (entry.kind, entry.number) == (STRANGE, -1)
    assert entry.name.startswith("it is a tombstone; key 'k', value None")


def test_a_tombstone_may_tell_its_position_by_its_key_and_headers():
    form = SourceRecords(source="key", position="header n", offset_source="/source", offset_position="/n")
    entry = form.entry(replace(TOMBSTONE, headers=(("n", b"7"),)))
    assert (entry.kind, entry.name, entry.number) == ("record", "k", 7)
