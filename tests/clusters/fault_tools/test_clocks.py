"""Clocks without brokers: what is said where none can be set, and how a broker's word is understood."""

import socket
import time
from datetime import datetime, timezone

import pytest

from clusters.fault_tools import clocks, faketime
from clusters.kafka.options import NO_SETTABLE_CLOCK
from clusters.local import Local
from harness.api import CampaignError, Skewable


def test_without_libfaketime_the_reason_names_the_package(monkeypatch):
    monkeypatch.setattr(faketime, "_DIRECTORIES", ("/nowhere",))
    assert "apt install libfaketime" in faketime.trouble()
    assert "apt install libfaketime" in Local(skewable=True).missing()[Skewable]


def test_a_library_that_does_nothing_is_found_out(monkeypatch, tmp_path):
    monkeypatch.setattr(faketime, "_DIRECTORIES", (str(tmp_path),))
    (tmp_path / "faketime").mkdir()
    (tmp_path / "faketime/libfaketimeMT.so.1").touch()
    assert "does not set the clock of `date`" in faketime.trouble()


def test_a_cluster_that_did_not_ask_for_clocks_says_how_to_ask():
    assert Local().missing()[Skewable] == NO_SETTABLE_CLOCK


@pytest.mark.parametrize("options", [{"disk_mb": 100}, {"skewable": True}])
def test_what_must_be_mounted_needs_a_namespace(options):
    with pytest.raises(CampaignError, match="need a namespace"):
        Local(loopback=True, **options)


@pytest.fixture
def broker():
    """The address of something that takes connections; what it logs of them is told by the test."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def asked(monkeypatch):
    """The connections that were made; no time passes meanwhile."""
    monkeypatch.setattr(time, "time", lambda: 1_795_000_000.0)
    made, connect = [], socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: made.append(connect(*a, **k)) or made[-1])
    return made


def says(connection, ahead_s):
    """What a broker whose clock is so far ahead logs of a connection now."""
    date = datetime.fromtimestamp(time.time() + ahead_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    channel = f"(channelId=a:1-b:{connection.getsockname()[1]}-1-7)"
    return f"{date}Z [x] [WARN] Unexpected error from /10.73.0.1 {channel}; closing connection"


def test_the_date_of_the_line_about_our_connection_is_the_brokers_time(broker, asked):
    def log():
        return f"2020-01-01T00:00:00.000 [x] [INFO] another line\n{says(asked[-1], 3600)}\n\tat some.stack(Trace.java:1)"

    assert clocks.measured_offset_s(broker, log) == pytest.approx(3600, abs=0.01)


def test_a_broker_that_answers_late_is_asked_again(broker, asked):
    """Twice it is busy, and writes seconds after it was asked."""
    late = {1: 2.3, 2: 1.2}
    assert clocks.measured_offset_s(broker, lambda: says(asked[-1], 60 + late.get(len(asked), 0))) == pytest.approx(60, abs=0.01)
    assert len(asked) == 4


def test_a_broker_that_is_always_late_is_asked_so_often_and_no_more(broker, asked):
    assert clocks.measured_offset_s(broker, lambda: says(asked[-1], 60 + 9 - len(asked))) == pytest.approx(64, abs=0.01)
    assert len(asked) == 5


def test_silence_is_no_time(broker, monkeypatch):
    monkeypatch.setattr(clocks, "_ANSWER_WITHIN_S", 0.1)
    assert clocks.measured_offset_s(broker, lambda: "2020-01-01T00:00:00.000 [x] [INFO] about somebody else") is None
    assert clocks.measured_offset_s(("127.0.0.1", 1), lambda: "") is None
