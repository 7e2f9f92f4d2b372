"""Brokers' logs around a moment: their two forms, what is said in them, and what may lie in their place."""

from __future__ import annotations

import os

import pytest
from support import report_example as example

from fencepost.harness.history.run_directory import open_run
from fencepost.harness.report import broker_lines
from fencepost.harness.report.broker_lines import broker_logs, brokers

AT = 1_795_617_128_000  # 2026-11-25 14:32:08 UTC
LEADER = "[Broker id=1] Leader t-1 with topic id Some(Ti_B) starts at leader epoch {} from offset 0"
INITIALISED = (
    "[TransactionCoordinator id=1] Initialized transactionalId fp-8 with producerId 2002 and producer epoch 3"
    " on partition __transaction_state-4"
)
TRACE = "\tat org.apache.kafka.storage.Log.append(Log.java:1)\n\tat org.apache.kafka.storage.Log.roll(Log.java:2)\n"
EXCEPTION = "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 2000\n"
APPENDING = "[ReplicaManager broker=1] Error processing append on t-1"


def line_of(time, level, logger, message, thread="handler-3"):
    """A line as slf4j's simple logger writes it."""
    return f"2026-11-25T14:{time}Z [{thread}] [{level}] {logger} - {message}\n"


SIMPLE = "".join(
    [
        line_of("31:50.255", "INFO", "state.change.logger", LEADER.format(0)),
        line_of("31:54.383", "INFO", "kafka.coordinator.transaction.TransactionCoordinator", INITIALISED),
        line_of("32:08.114", "ERROR", "kafka.server.ReplicaManager", APPENDING) + EXCEPTION + TRACE,
        line_of("32:08.200", "INFO", "kafka.server.KafkaServer", "nothing to see"),
        line_of("32:09.000", "WARN", "kafka.network.Processor", "slow", thread="a thread [of two] names"),
        line_of("32:20.000", "INFO", "o.a.k.UnifiedLog", "[UnifiedLog partition=t-1, dir=/x/data/n2] Truncating to offset 10663"),
    ]
)
LOG4J = (
    f"[2026-11-25 14:31:50,255] INFO {LEADER.format(0)} (state.change.logger)\n"
    f"[2026-11-25 14:32:08,114] ERROR {APPENDING} (kafka.server.ReplicaManager)\n{EXCEPTION}"
    "[2026-11-25 14:32:09,000] WARN slow (in one way) (kafka.network.Processor)\n"
)


def a_run(folder, plan=None, **logs):
    rows = example.ordered([example.op(0, 0, 10, 5)])
    example.write(folder, example.plan(**(plan or {"cluster": {"kind": "local"}})), example.verdict(rows, []), rows, [])
    for node, text in logs.items():
        (folder / "logs" / node).mkdir(parents=True)
        if text is not None:
            (folder / "logs" / node / "server.log").write_bytes(text.encode() if isinstance(text, str) else text)
    return open_run(folder)


def logs_of(run, *stretches):
    return broker_logs(run, stretches or [(AT - 2_000, AT + 2_000)])


@pytest.mark.parametrize("text", [SIMPLE, LOG4J], ids=["simple", "log4j"])
def test_both_forms_of_a_log_are_read(tmp_path, text):
    error, warning = logs_of(a_run(tmp_path, n1=text)).between(AT - 2_000, AT + 2_000)
    assert (error.ms, error.node, error.level, error.logger) == (AT + 114, "n1", "ERROR", "kafka.server.ReplicaManager")
    assert error.message == "[ReplicaManager broker=1] Error processing append on t-1"
    assert error.exception.startswith("org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order")
    assert (warning.level, warning.logger) == ("WARN", "kafka.network.Processor")


def test_a_stack_trace_is_folded_to_its_exception(tmp_path):
    error, _ = logs_of(a_run(tmp_path, n1=SIMPLE)).between(AT, AT + 2_000)
    assert (error.exception.count("\n"), error.more) == (0, 2)


@pytest.mark.parametrize(("start", "stop", "count"), [(114, 114, 1), (115, 999, 0), (-5_000, 113, 0), (0, 1_000, 2)])
def test_lines_of_a_stretch_are_those_of_its_milliseconds(tmp_path, start, stop, count):
    assert len(logs_of(a_run(tmp_path, n1=SIMPLE)).between(AT + start, AT + stop)) == count


def test_lines_of_several_brokers_are_in_order_and_can_be_chosen(tmp_path):
    logs = logs_of(a_run(tmp_path, n1=SIMPLE, n2=SIMPLE.replace("08.114", "08.050")))
    assert [line.node for line in logs.between(AT, AT + 200)] == ["n2", "n1"]
    assert {line.node for line in logs.between(AT, AT + 2_000, ["n2"])} == {"n2"}


def test_leaders_coordinators_and_truncations_are_what_brokers_say_of_themselves(tmp_path):
    """At a moment the last one that said so; a coordinator that was elected since counts."""
    elected = line_of(
        "32:10.000", "INFO", "k.T", "[TransactionCoordinator id=2] Elected as the txn coordinator for partition 4 at epoch 1"
    )
    leads = line_of("32:05.000", "INFO", "s", LEADER.format(7))
    logs = logs_of(a_run(tmp_path, n1=SIMPLE, n2=leads + elected))
    assert [logs.leader("t-1", AT + ms).node for ms in (-10_000, 0)] == ["n1", "n2"]
    assert logs.leader("t-1", AT).epoch == 7
    assert [logs.coordinator("fp-8", AT + ms).node for ms in (0, 5_000)] == ["n1", "n2"]
    assert logs.coordinator("fp-8", AT).producer_id == 2002
    assert logs.leader("t-1", AT - 60_000) is None
    assert logs.coordinator("fp-9", AT) is None
    assert [(each.name, each.offset) for each in logs.logs[0].placements if each.what == "truncated"] == [("t-1", 10663)]


def test_a_log_says_why_it_is_silent(tmp_path):
    """Missing, too short, too late, without a date."""
    late = line_of("33:00.000", "INFO", "k", "up")
    early = line_of("30:00.000", "INFO", "k", "up")
    planned = {"cluster": {"kind": "local", "options": {"brokers": 5}}}
    logs = logs_of(a_run(tmp_path, planned, n1=None, n2=early, n3=late, n4=b"\x00\x01 no date\n", n5=SIMPLE))
    assert logs.gaps(AT - 2_000, AT + 2_000) == [
        "there is no logs/n1/server.log",
        "logs/n2/server.log ends before that",
        "logs/n3/server.log begins after that",
        "logs/n4/server.log has no dated line",
    ]


def test_brokers_are_those_of_the_plan_and_those_that_left_a_log(tmp_path):
    """Clients' folders have no broker's log; another's cluster has brokers of no name."""
    run = a_run(tmp_path / "ours", {"cluster": {"kind": "docker", "options": {"brokers": 2}}}, s1=SIMPLE, c0=None)
    assert brokers(run) == ["n1", "n2", "s1"]
    (run.directory / "logs" / "harness.log").write_text("x")
    assert brokers(run) == ["n1", "n2", "s1"]
    assert brokers(a_run(tmp_path / "external", {"cluster": {"kind": "external", "options": {"brokers": 3}}})) == []


# ------------------------------------------------------------------------------------------ from elsewhere
def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text(SIMPLE)
    run = a_run(tmp_path / "run", n1=None)
    (run.directory / "logs" / "n1" / "server.log").symlink_to(tmp_path / "elsewhere")
    (problem,) = logs_of(run).gaps(AT, AT)
    assert "links in this directory are not followed" in problem
    assert logs_of(run).between(0, 1 << 50) == []


def test_a_folder_that_is_a_link_is_not_entered(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "server.log").write_text(SIMPLE)
    run = a_run(tmp_path / "run", {"cluster": {"kind": "local", "options": {"brokers": 1}}}, n2=SIMPLE)
    (run.directory / "logs" / "n1").symlink_to(tmp_path / "elsewhere")
    assert {line.node for line in logs_of(run).between(0, 1 << 50)} == {"n2"}


def test_a_pipe_is_not_waited_for(tmp_path):
    run = a_run(tmp_path, n1=None)
    os.mkfifo(run.directory / "logs" / "n1" / "server.log")
    assert "it is a pipe" in logs_of(run).gaps(AT, AT)[0]


def test_a_log_of_a_gigabyte_of_nothing_is_not_read(tmp_path):
    """A sparse file: some blocks are looked at, no more."""
    run = a_run(tmp_path, n1=SIMPLE)
    os.truncate(run.directory / "logs" / "n1" / "server.log", 1 << 30)
    logs = logs_of(run, (AT + 600_000, AT + 601_000))
    assert "no dated lines were met" in logs.gaps(AT + 600_000, AT + 601_000)[0]


def test_a_long_log_is_read_around_the_moment(tmp_path, monkeypatch):
    """By bisection; its beginning is read too, where the first leaders are."""
    monkeypatch.setattr(broker_lines, "MOST_BYTES", 10_000)
    monkeypatch.setattr(broker_lines, "AROUND_BYTES", 4_000)
    head = line_of("00:00.000", "INFO", "s", LEADER.format(0))
    lines = [line_of(f"{m:02}:{s:02}.000", "WARN", "k.Log", f"line {m}:{s}") for m in range(1, 60) for s in range(60)]
    logs = logs_of(a_run(tmp_path, n1=head + "".join(lines)))
    assert [line.message for line in logs.between(AT - 2_000, AT + 2_000)] == [f"line 32:{s}" for s in range(6, 11)]
    assert logs.leader("t-1", AT).node == "n1"
    assert logs.gaps(AT - 2_000, AT + 2_000) == []


@pytest.mark.parametrize(
    "line",
    [
        "9999-99-99T99:99:99.999Z [x] [ERROR] k - m",
        "2026-11-25T14:32:08.114Z [x] [ERROR]",
        "2026-11-25T14:32:08.114Z [" + "[] " * 2_000 + "ERROR",
        "[2026-11-25 14:32:08,114] ERROR" + " (" * 2_000,
        "2026-11-25T14:32:08.114Z [x] [INFO] k - Initialized transactionalId " + "x with producerId " * 200,
        "\x1b[2J\u202e",
    ],
)
def test_odd_lines_cost_nothing_and_break_nothing(tmp_path, line):
    logs = logs_of(a_run(tmp_path, n1=f"{line}\n{SIMPLE}"))
    assert len(logs.between(AT, AT + 2_000)) in (2, 3)


def test_bytes_that_are_no_text_and_endless_lines_are_bounded(tmp_path):
    head = b"2026-11-25T14:32:08.001Z [x] [ERROR] k.L - "
    (line,) = logs_of(a_run(tmp_path, n1=head + b"\xff\xfe" + b"y" * 1_000_000)).between(AT, AT + 2_000)
    assert len(line.message) == 600
    assert line.message.startswith("\ufffd\ufffdy")
