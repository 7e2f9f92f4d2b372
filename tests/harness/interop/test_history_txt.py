"""Jepsen's and Maelstrom's `history.txt`: what its lines say becomes the same rows as `history.edn`, without times and seeks."""

from __future__ import annotations

import json

import pytest
from support.histories import violated
from support.jepsen_example import DATA, Adopted, adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.interop.adopt import Format
from fencepost.harness.interop.detect import detect, located
from fencepost.harness.interop.jepsen import edn
from fencepost.harness.interop.jepsen.export import export

LINES = (
    "0\t:invoke\t:assign\t[5]",
    "0\t:ok\t:assign\t[5]",
    "0\t:invoke\t:txn\t[[:send 5 1] [:poll]]",
    ":nemesis\t:info\t:start-partition\t:majority",
    "1\t:invoke\t:send\t[[:send 5 2]]",
    "0\t:ok\t:txn\t[[:send 5 [0 1]] [:poll {}]]",
    "1\t:info\t:send\t[[:send 5 2]]\tTimeout: no answer",
    "  at Client.send (line 7)",
    ":nemesis\t:info\t:start-partition\t[:isolated {\"n1\" #{\"n2\"}}]",
    "2\t:invoke\t:poll\t[[:poll]]",
    "2\t:ok\t:poll\t[[:poll {5 [[0 1] [1 2]]}]]",
)  # fmt: skip
TEXT = "\n".join(LINES) + "\n"


def judged(history, **contract):
    return judge(open_run(history.dir), here=True, contract=contract)


def as_text(line: str) -> str:
    """A line of history.edn as history.txt has it."""
    event = edn.read(line)
    value = line.partition(":value ")[2].partition(", :time")[0]
    process = ":nemesis" if event["process"] == "nemesis" else event["process"]
    error = "\t" + str(event["error"]) if "error" in event else ""
    return f"{process}\t:{event['type']}\t:{event['f']}\t{value}{error}\n"


@pytest.mark.parametrize("name", ["history.txt", "notes", "history.edn"])
def test_the_content_tells_the_format(tmp_path, name):
    (tmp_path / name).write_text(TEXT)
    assert detect(tmp_path / name) == Format("jepsen-txt")


def test_the_same_history_as_edn_has_the_same_operations(tmp_path):
    text = (DATA / "queue.edn").read_text()
    whole = adopted(text, tmp_path)
    short = adopted("".join(as_text(line) for line in text.splitlines()), tmp_path, "history.txt")

    def without_times(history):
        return [(*row[:3], [mop[:4] for mop in row[3]]) for row in history.shown()]

    assert without_times(short) == without_times(whole)
    assert len(short.faults) == len(whole.faults)


def test_lines_become_operations_in_their_order(tmp_path):
    history = adopted(TEXT, tmp_path, "history.txt")
    assert [(row["process"], row["f"], row["type"], row["time"], row["end"]) for row in history.rows] == [
        (0, "assign", "ok", 0, 1),
        (0, "txn", "ok", 2, 5),
        (1, "txn", "info", 4, 6),
        (2, "poll", "ok", 9, 10),
    ]
    assert history.rows[2]["errors"][0]["name"] == '"Timeout: no answer"'
    assert [row["kind"] for row in history.faults] == ["partition"]


def test_the_report_says_what_is_not_known(tmp_path):
    document = judged(adopted(TEXT, tmp_path, "history.txt"))
    assert violated(document) == []
    assert any("have neither times nor indexes" in text for text in document["weakened"])


def test_a_loss_is_found(tmp_path):
    lost = TEXT.replace("[[:poll {5 [[0 1] [1 2]]}]]", "[[:poll {5 [[1 2]]}]]")
    assert "lost-write" in violated(judged(adopted(lost, tmp_path, "history.txt")))


def test_an_assignment_that_may_have_sought_back_accuses_no_consumer(tmp_path):
    polls = ["[[:poll {5 [[0 1] [1 2]]}]]", "[[:poll {5 [[0 1]]}]]"]
    sends = ["0\t:invoke\t:send\t[[:send 5 1]]", "0\t:ok\t:send\t[[:send 5 [0 1]]]"]
    sends += [line.replace(" 1]", " 2]").replace("[0 2]", "[1 2]") for line in sends]
    moves = ["3\t:invoke\t:assign\t[5]", "3\t:ok\t:assign\t[5]"]

    def reads(between):
        polled = [["3\t:invoke\t:poll\t[[:poll]]", f"3\t:ok\t:poll\t{poll}"] for poll in polls]
        return "\n".join([*sends, *moves, *polled[0], *between, *polled[1]]) + "\n"

    folders = [tmp_path / name for name in ("moved", "stayed")]
    for folder in folders:
        folder.mkdir()
    assert violated(judged(adopted(reads(moves), folders[0], "history.txt"))) == []
    assert violated(judged(adopted(reads([]), folders[1], "history.txt"))) == ["nonmonotonic-poll"]


def test_the_fullest_file_of_a_store_directory_is_read(tmp_path):
    (tmp_path / "history.txt").write_text(TEXT)
    assert located(tmp_path) == tmp_path / "history.txt"
    (tmp_path / "history.edn").write_text((DATA / "queue.edn").read_text())
    assert located(tmp_path) == tmp_path / "history.edn"
    assert Adopted(tmp_path, tmp_path / "run").rows


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0 :invoke :txn [[:poll]]", "not process, type, f and value with tabs between them"),
        ("0\t:invoke\t:txn\t[[:poll", "not understood"),
        ("0\t:done\t:txn\t[[:poll]]", "not process, type, f and value"),
        ("0\t:invoke\t:txn", "not process, type, f and value"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, why):
    history = adopted("\n".join([*LINES[:3], line, *LINES[5:6]]) + "\n", tmp_path, "history.txt")
    (gap,) = [gap for gap in history.damage if gap.line == 4]
    assert why in str(gap)
    assert judged(history)["verdict"] == "unknown"


def test_a_last_line_that_is_cut_off_is_a_gap(tmp_path):
    history = adopted(TEXT[:-12], tmp_path, "history.txt")
    assert any("cut off in the middle" in gap.why for gap in history.damage)
    assert violated(judged(history)) == []


def test_operations_of_other_workloads_are_refused_with_what_they_are(tmp_path):
    with pytest.raises(HistoryError, match=r"no Kafka operation in it \(only cas, read"):
        adopted("0\t:invoke\t:read\tnil\n0\t:ok\t:read\t3\n1\t:invoke\t:cas\t[1 2]\n", tmp_path, "history.txt")


def test_maelstrom_s_keys_are_texts(tmp_path):
    text = '0\t:invoke\t:send\t[[:send "8" 1]]\n0\t:ok\t:send\t[[:send "8" [0 1]]]\n'
    (row,) = adopted(text, tmp_path, "history.txt").rows
    assert [(mop["partition"], mop["offset"]) for mop in row["mops"]] == [("8", 0)]


def test_an_export_of_it_does_not_claim_a_position(tmp_path):
    history = adopted(TEXT, tmp_path, "history.txt")
    assert json.loads(history.rows[0]["detail"]) == {"partitions": ["5"], "position": "unknown"}
    export(open_run(history.dir), "jepsen-edn", tmp_path / "again.edn")
    assert ":f :assign" not in (tmp_path / "again.edn").read_text().splitlines()[0]
