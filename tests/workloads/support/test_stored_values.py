"""Values of changelogs' records."""

import pytest

from fencepost.harness.api import LogEntry, LogRecord, record_id
from fencepost.workloads.support.stored_values import stored_values

V = record_id(3, 4, 5)


def record(value, key=b"in-0/3/0"):
    no_producer = {"producer_id": -1, "producer_epoch": -1, "transactional": False}
    return LogRecord(partition="log-0", offset=0, timestamp_ms=0, kind="record", key=key, value=value, **no_producer)


@pytest.mark.parametrize(
    ("text", "value", "entry"),
    [
        ("count regex ^([0-9]+) ", b"17 xxx", LogEntry("counted", "in-0/3/0", 17)),
        ("count json /n", b'{"n": 2}', LogEntry("counted", "in-0/3/0", 2)),
        ("count json /n", b"{}", LogEntry("strange", "in-0/3/0", -1)),
        ("last value", b"r|3|4|5|more", LogEntry("last", "in-0/3/0", V)),
        ("last value", b"other|3|4|5", LogEntry("strange", "in-0/3/0", -1)),
        ("last value", None, LogEntry("removed", "in-0/3/0", -1)),
    ],
)
def test_a_value_says_a_count_or_names_an_input(text, value, entry):
    assert stored_values(text)(record(value), "r") == entry


def test_values_that_say_nothing_are_compared_by_their_bytes():
    of = stored_values("")
    assert of(record(b"a"), "r") == of(record(b"a"), "r") != of(record(b"b"), "r")
    assert of(record(b"a"), "r").kind == "stored"


def test_a_key_that_is_no_text_is_shown_in_hexadecimal_digits():
    assert stored_values("")(record(b"a", b"\xff\x00"), "r").name == "0xff00"


@pytest.mark.parametrize("text", ["sum json /n", "count", "last", "count value"])
def test_what_says_nothing_is_refused(text):
    with pytest.raises(ValueError, match=r"no way|does not say"):
        stored_values(text)
