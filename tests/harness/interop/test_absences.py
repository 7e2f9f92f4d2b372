"""What an adopted history does not say is unknown: without any one thing it accuses nobody of what it did not show before."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from support import absences
from support.histories import History, answer, violated, write_faults, write_history
from support.jepsen_example import Adopted

from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history.run_directory import open_run

PERMITTED = {"G-single", "G-single-realtime"}  # Kafka permits these cycles, and the pipeline has them when it is whole
STEP = 41  # every so many of the absences are tried each day


def accusations(path, folder, **contract) -> tuple[set[str], str]:
    """Anomalies found in a history, and its verdict; none where it is refused."""
    try:
        document = judge(open_run(Adopted(path, folder, overrides=contract).dir), here=True)
    except HistoryError:
        return set(), "refused"
    return {finding["anomaly"] for finding in document["findings"]}, document["verdict"]


def lacking(history, form):
    """A lawful history without something, in words what; lines or tables."""
    if form == "parquet":
        return absences.tables_without(history())
    return absences.lines_without(history() if form == "json" else absences.as_lines(history()))


def accused(folder, history, form, which):
    """What histories accuse that lack something, and the whole one does not."""
    wrong = {}
    path = folder / f"history.{form}"
    for number, (what, less) in enumerate(lacking(history, form)):
        if number % which[1] == which[0]:
            pq.write_table(less, path) if form == "parquet" else path.write_text(absences.as_text(less))
            found, _ = accusations(path, folder / f"run-{number}")
            if found - PERMITTED:
                wrong[what] = found
    return wrong


ALL = [(history, form) for history in absences.HISTORIES for form in ("jsonl", "parquet")] + [
    (absences.pipeline, "parquet"),
    (absences.jepsen_lines, "json"),
]
EACH = pytest.mark.parametrize(("history", "form"), ALL, ids=[f"{history.__name__}-{form}" for history, form in ALL])


@EACH
def test_a_lawful_history_without_some_thing_accuses_nobody(tmp_path, history, form):
    assert accused(tmp_path, history, form, (0, STEP)) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(STEP))
@EACH
def test_a_lawful_history_without_any_one_thing_accuses_nobody(tmp_path, history, form, first):
    assert accused(tmp_path, history, form, (first, STEP)) == {}


def lines_of(make=absences.transactions):
    return absences.as_lines(make())


def judged(tmp_path, lines, **contract):
    path = tmp_path / "history.jsonl"
    path.write_text(absences.as_text(lines))
    return judge(open_run(Adopted(path, tmp_path / "run", overrides=contract).dir), here=True)


def final_poll(lines):
    """The position of the completion of the final read_committed reader's poll."""
    return next(at for at, line in enumerate(lines) if line.get("process") == 90 and line["type"] == "ok" and line["f"] == "poll")


def without_first_record(lines, process):
    """The lines with the first record of `t-0` in no poll of some process."""
    for line in lines:
        if line.get("process") == process and line["type"] == "ok":
            for mop in line["value"] if isinstance(line["value"], list) else ():
                mop[1]["t-0"] = mop[1].get("t-0", [])[1:]
    return lines


LOSSES = {
    "nothing": lambda lines: lines,
    "nodes": lambda lines: [{name: value for name, value in line.items() if name != "node"} for line in lines],
    "roles": lambda lines: [{name: value for name, value in line.items() if name != "role"} for line in lines],
    "ids": lambda lines: [{name: value for name, value in line.items() if name != "transactional_id"} for line in lines],
    "final flags": lambda lines: [{name: value for name, value in line.items() if name != "final"} for line in lines],
    "settling": lambda lines: [line for line in lines if line.get("f") != "settle"],
    "the reader": lambda lines: [line for line in lines if line.get("process") != 5],
}


@pytest.mark.parametrize("absent", LOSSES)
def test_a_loss_is_found_without_what_does_not_matter_to_it(tmp_path, absent):
    lines = lines_of()
    for process in (5, 90, 91):
        lines = without_first_record(lines, process)
    assert "lost-write" in violated(judged(tmp_path, LOSSES[absent](lines)))


def test_a_final_poll_without_completion_makes_losses_unknown(tmp_path):
    lines = lines_of()
    del lines[final_poll(lines)]
    document = judged(tmp_path, lines)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "of the final process 90 without a known result" in " ".join(document["weakened"])


def test_without_the_line_of_a_process_its_level_is_unknown_until_somebody_says_it(tmp_path):
    lines = [line for line in lines_of() if not (line.get("type") == "process" and line["process"] == 91)]
    document = judged(tmp_path, lines)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "the isolation level of process 91 is not known" in " ".join(document["weakened"])
    (tmp_path / "named").mkdir()
    assert violated(judged(tmp_path / "named", lines, isolation="read_committed")) == ["aborted-read"]


@pytest.mark.parametrize(("process", "found"), [(1, ["aborted-read"]), (5, [])])
def test_the_level_of_who_polled_nothing_does_not_matter(tmp_path, process, found):
    """Process 1 writes, process 5 reads: without the line of the writer its level is unknown, and no matter."""
    h = History()
    h.txn(1, {"t-0": 3}, type="fail", intent="abort")
    h.poll(5, {"t-0": [3]})
    lines = absences.as_lines(absences.rows_of(h))
    document = judged(tmp_path, [line for line in lines if not (line.get("type") == "process" and line["process"] == process)])
    assert violated(document) == found
    assert ("isolation level" in " ".join(document["weakened"])) is (found == [])


def test_a_completion_that_names_fewer_sends_than_its_invocation_leaves_no_phantom(tmp_path):
    lines = lines_of()
    at = next(at for at, line in enumerate(lines) if line.get("type") == "ok" and line.get("f") == "txn")
    lines[at]["value"].pop()
    document = judged(tmp_path, lines)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "does not name 1 of the sends of its invocation" in " ".join(document["weakened"])


def test_a_record_of_an_operation_that_is_there_stays_a_phantom(tmp_path):
    lines = lines_of()
    lines[final_poll(lines)]["value"][0][1]["t-0"].append([9, 7])  # operation 0 of process 0 sent no eighth record
    assert "phantom" in violated(judged(tmp_path, lines))


def test_operations_that_are_missing_by_their_numbers_are_a_gap(tmp_path):
    lines = [line for line in lines_of() if (line.get("process"), line.get("op")) != (90, 0)]
    document = judged(tmp_path, lines)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "1 operation of process 90 is missing, by the numbers of the others" in " ".join(document["weakened"])


def test_numbers_of_one_counter_for_all_processes_have_no_hole(tmp_path):
    lines = lines_of()
    operations = sorted({(line["process"], line["op"]) for line in lines if "op" in line})
    numbers = {operation: number for number, operation in enumerate(operations)}
    for line in lines:
        if "op" in line:
            line["op"] = numbers[line["process"], line["op"]]
    document = judged(tmp_path, lines)
    assert not [text for text in document["weakened"] if "by the numbers" in text]


def test_a_clock_that_was_set_back_makes_all_unknown(tmp_path):
    lines = lines_of()
    late = [line for line in lines if line.get("process") == 1 and line.get("op") == 0]
    for line in late:
        line["time"] += 1 << 40
    document = judged(tmp_path, lines)
    assert (violated(document), document["verdict"]) == ([], "unknown")
    assert "a clock was set back, or numbers are not in order" in " ".join(document["weakened"])


# --------------------------------------------------------------------------------------------------
# Without receipts of faults
# --------------------------------------------------------------------------------------------------
def hanging(folder, receipts):
    """A transaction that two answers of coordinators show open beyond its timeout."""
    h = History()
    h.txn(0, {"t-0": 0}, transactional_id="id")
    ongoing = {"transactional_id": "id", "producer_id": 7, "epoch": 0, "state": "Ongoing", "timeout_ms": 1000, "started_ms": 1}
    answered = {"transactions": [{**ongoing, "partitions": ["t-0"]}], "open": [], "silent": [], "quiet_s": 30.0}
    for _ in range(2):
        h.now += 40_000_000_000
        h.add(-1, "list-transactions", isolation=None, role="harness", detail=json.dumps(answered))
    folder.mkdir()
    write_history(folder, h.ops)
    if receipts:
        write_faults(folder)
    return judge(open_run(Adopted(folder, folder / "run").dir), here=True)


def test_without_receipts_nobody_knows_whether_a_transaction_hangs_or_a_clock_was_ahead(tmp_path):
    assert "hanging-transaction" in violated(hanging(tmp_path / "told", receipts=True))
    document = hanging(tmp_path / "untold", receipts=False)
    assert violated(document) == []
    assert answer(document, "hanging-transaction")["verdict"] == "unknown"
