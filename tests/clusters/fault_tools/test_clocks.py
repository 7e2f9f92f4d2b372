"""Clocks without brokers: the reasons where none can be set, and the offset from a broker's log line."""

import socket
import time
from datetime import datetime, timezone
from itertools import count

import pytest

from fencepost.clusters.fault_tools import clocks, faketime
from fencepost.clusters.kafka.options import NO_SETTABLE_CLOCK
from fencepost.clusters.local import Local
from fencepost.harness.api import CampaignError, Skewable


def test_without_libfaketime_the_reason_names_the_package(monkeypatch):
    monkeypatch.setattr(faketime, "_DIRECTORIES", ("/nowhere",))
    assert "apt install libfaketime" in faketime.trouble()
    assert "apt install libfaketime" in Local(skewable=True).missing()[Skewable]


def test_a_libfaketime_without_effect_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(faketime, "_DIRECTORIES", (str(tmp_path),))
    (tmp_path / "faketime").mkdir()
    (tmp_path / "faketime/libfaketimeMT.so.1").touch()
    assert "does not set the clock of `date`" in faketime.trouble()


def test_without_skewable_the_reason_names_the_option():
    assert Local().missing()[Skewable] == NO_SETTABLE_CLOCK


@pytest.mark.parametrize("options", [{"disk_mb": 100}, {"skewable": True}])
def test_disk_mb_and_skewable_are_refused_on_loopback(options):
    with pytest.raises(CampaignError, match="need a namespace"):
        Local(loopback=True, **options)


@pytest.fixture
def broker():
    """An address that accepts connections; the test writes its log."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def connections(monkeypatch):
    """The connections that were made; the clock stands still."""
    monkeypatch.setattr(time, "time", lambda: 1_795_000_000.0)
    made, connect = [], socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: made.append(connect(*a, **k)) or made[-1])
    return made


def log_line(connection, ahead_s):
    """Log line about a connection now, of a broker whose clock is so far ahead."""
    date = datetime.fromtimestamp(time.time() + ahead_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    channel = f"(channelId=a:1-b:{connection.getsockname()[1]}-1-7)"
    return f"{date}Z [x] [WARN] Unexpected error from /10.73.0.1 {channel}; closing connection"


def logged(connections, text):
    """A log that has the line about a connection when its request has come: not at the first look, before the request."""
    looked = set()

    def log():
        before = len(connections) not in looked
        looked.add(len(connections))
        return "" if before else text()

    return log


def test_the_line_of_an_earlier_request_from_the_same_port_is_not_taken(broker, connections):
    """It was logged 7 s ago, before the clock was set, and is still the only such line at the first look after the request."""
    looks = []

    def log():
        looks.append(None)
        late = len(looks) % 3 == 0
        return "\n".join([log_line(connections[-1], -7), *([log_line(connections[-1], 60)] if late else [])])

    assert clocks.measured_offset_s(broker, log) == pytest.approx(60, abs=0.01)


def test_the_clock_offset_comes_from_the_log_line_about_our_connection(broker, connections):
    def text():
        return (
            f"2020-01-01T00:00:00.000 [x] [INFO] another line\n{log_line(connections[-1], 3600)}\n\tat some.stack(Trace.java:1)"
        )

    assert clocks.measured_offset_s(broker, logged(connections, text)) == pytest.approx(3600, abs=0.01)


def test_the_line_that_came_while_this_machine_paused_is_found(broker, connections, monkeypatch):
    """All of the time was over at the first look after each request."""
    passed = count(0, 60)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(passed)))
    assert clocks.measured_offset_s(broker, logged(connections, lambda: log_line(connections[-1], 60))) == pytest.approx(
        60, abs=0.01
    )


def test_a_broker_that_logs_late_is_measured_again(broker, connections):
    """Twice it is busy, and writes seconds after the request."""
    late = {1: 2.3, 2: 1.2}
    assert clocks.measured_offset_s(
        broker, logged(connections, lambda: log_line(connections[-1], 60 + late.get(len(connections), 0)))
    ) == pytest.approx(60, abs=0.01)
    assert len(connections) == 4


def test_a_broker_that_always_logs_late_is_measured_five_times(broker, connections):
    log = logged(connections, lambda: log_line(connections[-1], 60 + 9 - len(connections)))
    assert clocks.measured_offset_s(broker, log) == pytest.approx(64, abs=0.01)
    assert len(connections) == 5


def test_without_a_log_line_there_is_no_clock_offset(broker, monkeypatch):
    monkeypatch.setattr(clocks, "_ANSWER_WITHIN_S", 0.1)
    assert clocks.measured_offset_s(broker, lambda: "2020-01-01T00:00:00.000 [x] [INFO] about somebody else") is None
    assert clocks.measured_offset_s(("127.0.0.1", 1), lambda: "") is None
