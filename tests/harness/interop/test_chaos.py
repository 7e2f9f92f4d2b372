"""`workload.log` of Redpanda's chaos tests, written here by its grammar: thread, microseconds, command, arguments."""

from __future__ import annotations

import re

import pytest
from support.histories import answer, violated
from support.jepsen_example import Adopted, adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import Format
from fencepost.harness.interop.detect import detect, located

EVENTS = ("-1 event measure", "-1 event injecting", "-1 event injected", "-1 event healing", "-1 event healed")
READS_WRITES = """
0 started s1 producer
1 started s1 consumer
0 constructing
0 constructed
1 constructing
1 constructed
0 msg 1
0 ok 5 1
0 delta -12
0 msg 2
0 time
0 msg 3
0 ok 9 3
0 delta 40
"""
TX_SINGLE = """
0 started s1
1 started s1 consumer
0 constructing
0 constructed
1 constructing
1 constructed
0 tx 1
0 log writen 1@0
0 log writen 2@1
0 cmt
0 ok
1 log read 1:1@0
1 seen 100
1 log read 1:2@1
0 tx 2
0 log writen 3@3
0 brt
0 ok
0 tx 3
0 log err 7
0 brt
0 err 8
0 constructing
0 constructed
0 tx 4
0 log writen 5@6
0 cmt
0 ok
1 log read 4:5@6
"""
RW_SUBSCRIBE = """
0 started s1 producing
1 started s1 consuming
0 constructing
0 constructed
1 constructing
1 constructed
0 send 0 1
0 ok 0
0 send 1 2
0 ok 0
1 poll
1 log assign 0
1 log assign 1
1 ok
1 read 0 0 s1 1
1 seen 1 90
1 read 1 0 s1 2
1 commit 1 1
1 ok
1 seen 2 90
0 send 0 3
0 err 1
1 poll
1 ok
"""
TX_SUBSCRIBE = """
0 started s1 producing 0
1 started s1 streaming
2 started s1 consuming
0 constructing
0 constructed
1 constructing streaming-consumer
1 constructed
1 constructing streaming-producer
1 constructed
2 constructing
2 constructed
0 send 1
0 cmt
0 ok 0
1 log tick
1 log assign 0
1 log ack
1 read 0 s1 0 1
1 tx
1 cmt
1 ok
2 seen 0 s1 s1 0 1
0 send 2
0 brt 4
0 ok
0 send 3
0 cmt
0 ok 4
1 log tick
1 log ack
1 read 4 s1 0 3
1 tx
1 brt 5
1 ok
1 log resetting
1 constructing streaming-consumer
1 constructed
1 constructing streaming-producer
1 constructed
1 log tick
1 log assign 0
1 log ack
1 read 4 s1 0 3
1 tx
1 cmt
1 ok
2 seen 4 s1 s1 0 3
"""
READ = re.compile(r"\t(?:read|seen\t\d+\ts1)\t")
LOGS = {"reads-writes": READS_WRITES, "tx-single": TX_SINGLE, "rw-subscribe": RW_SUBSCRIBE, "tx-subscribe": TX_SUBSCRIBE}


def log(text: str) -> str:
    """A log; the first line's microseconds are those of the machine's clock, the others' count from the line before."""
    lines = [line.split(" ") for line in text.strip().splitlines()]
    return "".join(
        "\t".join([line[0], str(900_000_000 if number == 0 else 100), *line[1:]]) + "\n" for number, line in enumerate(lines)
    )


def judged(history, **contract):
    return judge(open_run(history.dir), here=True, contract=contract)


def read(folder, text, **options):
    return adopted(log(text), folder, "workload.log", **options)


@pytest.mark.parametrize("name", LOGS)
def test_the_content_tells_the_format_and_a_lawful_log_accuses_nobody(tmp_path, name):
    history = read(tmp_path, LOGS[name])
    assert detect(tmp_path / "workload.log") == Format("chaos-log")
    document = judged(history)
    assert (violated(document), document["verdict"] != "invalid") == ([], True)
    assert history.damage == []


def test_a_byte_order_mark_and_ends_of_lines_as_editors_write_them(tmp_path):
    history = adopted("\ufeff" + log(READS_WRITES).replace("\n", "\r\n"), tmp_path, "workload.log")
    assert (history.damage, [row["f"] for row in history.rows].count("send")) == ([], 3)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_lawful_log_without_some_line_accuses_nobody(tmp_path, name, step):
    """Any line may be missing: the log does not number them. A record that nobody logged as read was passed over, and one
    that nobody logged as sent is nobody's.
    """
    lines = log(LOGS[name]).splitlines(keepends=True)
    for number, line in [*enumerate(lines)][::step]:
        if READ.search(line):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            history = adopted("".join(lines[:number] + lines[number + 1 :]), folder, "workload.log")
        except HistoryError:
            continue  # without its consumer's line it is another workload's
        assert not set(violated(judged(history))) - {"phantom"}, line


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("doubled", [lambda lines: [*lines, *lines], lambda lines: [line for line in lines for _ in range(2)]])
def test_a_lawful_log_whose_lines_are_there_twice_accuses_nobody(tmp_path, name, doubled):
    """Copied behind itself, or line by line. What a producer numbers it sends once."""
    document = judged(read(tmp_path, "\n".join(doubled(LOGS[name].strip().splitlines()))))
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert any("lines are there twice" in text for text in document["weakened"])


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("word", ["read", pytest.param("", marks=pytest.mark.nightly)], ids=["reads", "all"])
def test_a_lawful_log_with_a_broken_line_accuses_nobody(tmp_path, name, word):
    """A character in the middle of a word: the line may have sent what others read, as the `read` of a streaming member."""
    lines = log(LOGS[name]).splitlines(keepends=True)
    for number, line in list(enumerate(lines))[6:]:
        if word not in line:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        broken = line.replace("\t", "\t\u00e9", 2)
        document = judged(adopted("".join([*lines[:number], broken, *lines[number + 1 :]]), folder, "workload.log"))
        assert (violated(document), document["verdict"]) == ([], "unknown"), line


@pytest.mark.parametrize("offset", ["-7", "1_0", "\u0663", "9" * 30, "5.0", ""])
def test_an_offset_that_is_none_is_a_broken_line(tmp_path, offset):
    history = read(tmp_path, READS_WRITES.replace("0 ok 9 3", f"0 ok {offset} 3"))
    assert "is no number" in history.damage[0].why
    assert violated(judged(history)) == []


@pytest.mark.parametrize("name", ["-1", ""])
@pytest.mark.parametrize(
    ("workload", "line"),
    [
        ("reads-writes", "0 msg {}"),
        ("reads-writes", "0 ok 9 {}"),
        ("tx-single", "0 tx {}"),
        ("tx-single", "1 log read 4:{}@6"),
        ("tx-single", "1 log read {}:5@6"),
        ("rw-subscribe", "0 send 0 {}"),
        ("rw-subscribe", "1 read 1 0 s1 {}"),
        ("tx-subscribe", "0 send {}"),
        ("tx-subscribe", "1 read 4 s1 0 {}"),
        ("tx-subscribe", "2 seen 4 s1 s1 0 {}"),
    ],
)
def test_a_name_that_is_no_number_is_a_broken_line(tmp_path, workload, line, name):
    """Workloads number what they send: such a record would be a phantom, or lost."""
    pattern = re.escape(line).replace(re.escape("{}"), r"\d+")
    text, count = re.subn(f"^{pattern}$", line.format(name), LOGS[workload], count=1, flags=re.MULTILINE)
    assert count
    history = read(tmp_path, text)
    assert any("is no number" in gap.why or "other arguments" in gap.why for gap in history.damage), history.damage
    assert violated(judged(history)) == []


@pytest.mark.parametrize("decisions", ["cmt brt ok", "brt cmt ok", "cmt cmt ok", "brt brt ok"])
def test_how_a_transaction_that_is_decided_twice_ended_is_unknown(tmp_path, decisions):
    """The line by which its first decision ended is missing: an abort after a commit is not sure to have aborted."""
    lines = "".join(f"0 {word}\n" for word in decisions.split())
    history = read(tmp_path, TX_SINGLE.replace("0 log writen 5@6\n0 cmt\n0 ok\n", f"0 log writen 5@6\n{lines}"))
    assert "is decided once more" in history.damage[0].why
    document = judged(history)
    assert (violated(document), document["verdict"]) == ([], "unknown")


def test_a_time_beyond_all_clocks_is_a_broken_line(tmp_path):
    text = log(READS_WRITES).replace("0\t100\tmsg\t3", "0\t" + "9" * 18 + "\tmsg\t3")
    history = adopted(text, tmp_path, "workload.log")
    assert "microseconds have passed" in history.damage[0].why
    assert judged(history)["verdict"] == "unknown"


@pytest.mark.parametrize("name", LOGS)
def test_a_lawful_log_that_is_cut_off_accuses_nobody(tmp_path, name):
    text = log(LOGS[name])
    for at in range(len(text) // 2, len(text), 37):
        folder = tmp_path / str(at)
        folder.mkdir()
        try:
            history = adopted(text[:at], folder, "workload.log")
        except HistoryError:
            continue  # nothing had been sent
        assert violated(judged(history)) == [], text[:at][-60:]


# --------------------------------------------------------------------------------------------------
# reads-writes
# --------------------------------------------------------------------------------------------------
def test_reads_writes(tmp_path):
    history = read(tmp_path, READS_WRITES)
    assert [row[1:] for row in history.shown() if row[0] == 0] == [
        ("send", "ok", [("send", "topic-0", "1", 5, 900_000_800_000)]),
        ("send", "info", [("send", "topic-0", "2", None, None)]),
        ("send", "ok", [("send", "topic-0", "3", 9, 900_001_300_000)]),
    ]
    assert [mop[1:4] for row in history.shown() if row[0] > 1 for mop in row[3]] == [("topic-0", "1", 5), ("topic-0", "3", 9)]


def test_two_records_at_one_offset_are_found(tmp_path):
    document = judged(read(tmp_path, READS_WRITES.replace("ok 9 3", "ok 5 3")))
    assert "inconsistent-offset" in violated(document)


def test_a_later_record_at_a_lower_offset_is_found_where_idempotence_is_said(tmp_path):
    history = read(tmp_path, READS_WRITES.replace("ok 9 3", "ok 3 3"))
    assert answer(judged(history), "order-inversion")["verdict"] == "violated"


# --------------------------------------------------------------------------------------------------
# tx-single-reads-writes
# --------------------------------------------------------------------------------------------------
def test_tx_single_reads_writes(tmp_path):
    history = read(tmp_path, TX_SINGLE)
    assert [(row[1], row[2], [mop[2:4] for mop in row[3]]) for row in history.shown() if row[0] == 0] == [
        ("txn", "ok", [("1:1", 0), ("1:2", 1)]),
        ("txn", "fail", [("2:3", 3)]),
        ("txn", "info", []),
        ("txn", "ok", [("4:5", 6)]),
    ]


@pytest.mark.parametrize(
    ("change", "anomaly"),
    [
        (("1 log read 1:2@1\n", ""), "lost-write"),
        (("1 log read 4:5@6", "1 log read 2:3@3\n1 log read 4:5@6"), "aborted-read"),
        (("1 log read 4:5@6", "1 log read 1:9@5\n1 log read 4:5@6"), "phantom"),
        (("0 cmt\n0 ok\n1 log read 1:1@0", "1 log read 1:1@0\n0 cmt\n0 ok"), "dirty-read"),
        (("1 log read 4:5@6", "1 log read 4:5@6\n1 log read 4:5@6"), "nonmonotonic-poll"),
    ],
)
def test_anomalies_of_transactions_are_found(tmp_path, change, anomaly):
    assert anomaly in violated(judged(read(tmp_path, TX_SINGLE.replace(*change))))


def test_a_record_that_the_log_does_not_name_is_its_transactions(tmp_path):
    """A send without answer has no name in the log; read after the abort was tried, it is no phantom."""
    history = read(tmp_path, TX_SINGLE.replace("1 log read 4:5@6", "1 log read 3:4@5\n1 log read 4:5@6"))
    assert "phantom" not in violated(judged(history))


# --------------------------------------------------------------------------------------------------
# rw-subscribe, tx-subscribe
# --------------------------------------------------------------------------------------------------
def test_rw_subscribe(tmp_path):
    history = read(tmp_path, RW_SUBSCRIBE)
    mine = [row for row in history.shown() if row[0] == 1]
    assert [(row[1], row[2]) for row in mine] == [("subscribe", "ok"), ("poll", "ok"), ("poll", "ok")]
    assert [mop[1:4] for mop in mine[1][3]] == [("topic-0", "1", 0), ("topic-1", "2", 0)]
    assert judged(history)["counts"]["sent"] == 3


def test_tx_subscribe(tmp_path):
    history = read(tmp_path, TX_SUBSCRIBE)
    streamed = [row for row in history.rows if row["process"] == 1 and row["f"] == "txn"]
    assert [(row["type"], row["offsets"][0]["offset"], len(row["chains"])) for row in streamed] == [
        ("ok", 1, 1),
        ("fail", 5, 1),
        ("ok", 5, 1),
    ]
    assert [history.values[chain["output"]][1] for row in streamed for chain in row["chains"]] == ["s1/0/1", "s1/0/3", "s1/0/3"]


@pytest.mark.parametrize(
    ("change", "anomaly"),
    [
        (("1 brt 5\n1 ok", "1 cmt\n1 ok\n2 seen 2 s1 s1 0 3"), "reprocessed"),
        (("2 seen 4 s1 s1 0 3", "2 seen 4 s1 s1 0 3\n2 seen 6 s1 s1 0 3"), "aborted-read"),
        (("1 read 4 s1 0 3\n1 tx\n1 cmt", "1 read 4 s1 0 3\n1 read 2 s1 0 2\n1 tx\n1 cmt"), "aborted-read"),
        (("2 seen 0 s1 s1 0 1", "2 seen 0 s1 s1 0 1\n2 seen 2 s1 s1 0 1"), "duplicate"),
    ],
)
def test_anomalies_of_a_stream_are_found(tmp_path, change, anomaly):
    found = judged(read(tmp_path, TX_SUBSCRIBE.replace(*change)))
    assert anomaly in {finding["anomaly"] for finding in found["findings"]}


def test_records_of_other_instances_are_left_out(tmp_path):
    others = TX_SUBSCRIBE + "2 seen 8 s2 s2 0 77\n2 seen 9 s1 s2 0 78\n"
    document = judged(read(tmp_path, others))
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert any("s2 wrote to the same topics" in text for text in document["weakened"])


# --------------------------------------------------------------------------------------------------
# All
# --------------------------------------------------------------------------------------------------
def test_events_become_faults(tmp_path):
    (fault,) = read(tmp_path, "\n".join(EVENTS) + READS_WRITES).faults
    assert fault["injected_ns"] < fault["healed_ns"]


def test_a_directory_with_a_workload_log_is_read(tmp_path):
    (tmp_path / "workload.log").write_text(log(READS_WRITES))
    assert located(tmp_path) == tmp_path / "workload.log"
    assert Adopted(tmp_path, tmp_path / "run").rows


def test_the_complaint_of_the_workload_itself_is_shown(tmp_path):
    document = judged(read(tmp_path, READS_WRITES + "0 violation read 7@3: duplication or truncation\n"))
    assert any("the workload itself ended with: read 7@3: duplication" in text for text in document["weakened"])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0 hello", "`hello` is no command of reads-writes"),
        ("7 msg 5", "thread 7 does something before its line `started`"),
        ("0 msg", "`msg` has other arguments"),
        ("0 ok five 1", "is no number"),
        ("x msg", "a line is thread, microseconds since the line before, command and arguments"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, why):
    text = READS_WRITES.replace("0 msg 2\n", f"0 msg 2\n{line}\n")
    (gap,) = read(tmp_path, text).damage
    assert (gap.line, why in gap.why) == (11, True), str(gap)


@pytest.mark.parametrize(
    ("text", "which"),
    [
        ("0 started s1\n1 started s1 admin\n0 msg s1 1\n0 ok 5\n", "list-offsets"),
        ("0 started s1\n0 tx\n0 cmt\n0 ok\n", "tx-money"),
        ("0 started s1 writer\n1 started s1 consumer hist\n", "tx-compact"),
    ],
)
def test_a_workload_whose_log_says_too_little_is_refused_with_those_that_are_read(tmp_path, text, which):
    with pytest.raises(HistoryError, match=f"{which}.*read are logs of reads-writes"):
        read(tmp_path, text)
