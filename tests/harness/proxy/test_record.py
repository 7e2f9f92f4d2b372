"""Lines of the record as rows."""

from __future__ import annotations

import json
import os
import resource

import pytest

from fencepost.harness.api.files import fits_in_memory
from fencepost.harness.proxy import record

REQUEST = {
    "at": "request", "n": 4, "node": "n1", "connection": 2, "client": "10.0.0.9:1", "client_id": "w0", "correlation": 9,
    "api": "EndTxn", "version": 5, "arrived_ns": 100, "transactional_id": "t", "producer_id": 7, "producer_epoch": 3,
    "committed": True, "group": None, "partitions": [], "body": {"committed": True}, "rules": [],
}  # fmt: skip
ANSWER = {
    "at": "answer", "n": 4, "answered_ns": 150, "returned_ns": 151, "error": "NONE", "producer_id": 7, "producer_epoch": 4,
    "partitions": [{"topic": "t"}], "body": {"errorCode": 0}, "rules": ["seen"], "made_by_proxy": False,
}  # fmt: skip


def row(*lines):
    (made,) = record.rows_of(map(parsed, lines))
    return made


def parsed(line):
    return record.DECODE(json.dumps(line))


def test_a_request_and_its_answer():
    made = row(REQUEST, ANSWER)
    assert (made["arrived_ns"], made["forwarded_ns"], made["answered_ns"], made["returned_ns"]) == (100, 100, 150, 151)
    assert (made["producer_epoch"], made["answer_producer_epoch"], made["copies"], made["lost"]) == (3, 4, 1, None)
    assert (made["request"], made["answer_partitions"], made["rules"]) == ('{"committed": true}', '[{"topic": "t"}]', ["seen"])


def test_what_was_kept_back_went_on_only_if_it_is_said():
    kept = {**REQUEST, "kept": True, "rules": ["late end"]}
    made = row(kept, {"at": "lost", "n": 4, "why": "rule late end"})
    assert (made["forwarded_ns"], made["copies"], made["lost"], made["rules"]) == (None, 0, "rule late end", ["late end"])
    made = row(
        kept, {"at": "forwarded", "n": 4, "forwarded_ns": 130}, {"at": "forwarded", "n": 4, "forwarded_ns": 131, "copy": 2}
    )
    assert (made["forwarded_ns"], made["copies"]) == (130, 2)


def test_the_answer_to_a_copy_is_not_the_answer():
    made = row(REQUEST, ANSWER, {**ANSWER, "copy": 2, "error": "INVALID_TXN_STATE"})
    assert made["error"] == "NONE"


def test_an_answer_that_did_not_arrive_was_not_returned():
    assert row(REQUEST, ANSWER, {"at": "lost", "n": 4, "why": "client closed"})["returned_ns"] is None
    held = {**ANSWER, "returned_ns": None}
    assert row(REQUEST, held)["returned_ns"] is None
    assert row(REQUEST, held, {"at": "returned", "n": 4, "returned_ns": 200})["returned_ns"] == 200


def test_a_torn_last_line_is_left_out(tmp_path):
    whole = "".join(json.dumps(line) + "\n" for line in (REQUEST, ANSWER, {"at": "closed", "connection": 2}))
    (tmp_path / "n1.jsonl").write_text(whole)
    (tmp_path / "n2.jsonl").write_text(
        json.dumps({**REQUEST, "node": "n2", "arrived_ns": 50}) + '\n{"at": "answer", "n": 4, "ans'
    )
    table = record.read(tmp_path)
    assert table.schema == record.WIRE
    assert table.column("node").to_pylist() == ["n2", "n1"]
    assert table.column("answered_ns").to_pylist() == [None, 150]


def test_rows_leave_memory_soon_after_their_last_line(monkeypatch, tmp_path):
    """Those without an answer stay, and get one late."""
    monkeypatch.setattr(record, "SETTLED", 2)
    monkeypatch.setattr(record, "BATCH", 3)
    requests = [{**REQUEST, "n": number, "arrived_ns": 100 + number} for number in range(8)]
    answers = [{**ANSWER, "n": number} for number in range(1, 8)]
    lines = [line for pair in zip(requests[1:], answers, strict=True) for line in pair]
    (tmp_path / "n1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [requests[0], *lines, {**ANSWER, "n": 0}]))
    table = record.read(tmp_path)
    assert table.column("number").to_pylist() == list(range(8))
    assert set(table.column("answered_ns").to_pylist()) == {150}
    waiting = record.rows_of(map(parsed, lines))
    assert next(waiting)["number"] == 1


def test_a_line_that_is_none_is_named(tmp_path):
    (tmp_path / "n1.jsonl").write_text(json.dumps(REQUEST) + "\nnonsense\n")
    with pytest.raises(ValueError, match=r"n1\.jsonl, line 2: "):
        record.read(tmp_path)


def test_an_empty_record_is_an_empty_table(tmp_path):
    assert record.read(tmp_path).num_rows == 0


@pytest.mark.parametrize("at", record.FOLLOWING)
def test_a_line_about_a_request_that_is_not_there(tmp_path, at):
    """A line between is missing: what the request asked for nobody knows."""
    lines = [REQUEST, ANSWER, {**ANSWER, "at": at, "n": 5, "why": "client closed"}]
    (tmp_path / "n1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=r"line 3 is about request 5, which no line before it has: lines are missing"):
        record.read(tmp_path)


def test_the_late_answer_to_a_copy_needs_no_request(monkeypatch):
    monkeypatch.setattr(record, "SETTLED", 0)
    lines = [REQUEST, ANSWER, {**REQUEST, "n": 5}, {**ANSWER, "n": 5}, {**ANSWER, "copy": 2}]
    assert len(list(record.rows_of(map(parsed, lines)))) == 2


@pytest.mark.parametrize("lines", [(REQUEST, REQUEST, ANSWER), (REQUEST, ANSWER, REQUEST)])
def test_a_request_that_is_there_twice(tmp_path, lines):
    (tmp_path / "n1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=r"request 4 is there twice"):
        record.read(tmp_path)


def test_a_file_that_is_there_twice(tmp_path):
    for name in ("n1.jsonl", "copy-of-n1.jsonl"):
        (tmp_path / name).write_text(json.dumps(REQUEST) + "\n")
    with pytest.raises(ValueError, match=r"1 request is there twice"):
        record.read(tmp_path)


@pytest.mark.parametrize("size", [record.MOST_LINE + 10, fits_in_memory() + 1])
def test_a_record_of_any_size_is_a_sentence_before_it_is_in_memory(tmp_path, size):
    """A sparse file has any size, and takes no room."""
    with (tmp_path / "proxy.jsonl").open("wb") as file:
        file.truncate(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"it has more than 16,777,216 bytes|more than an eighth of this machine's memory"):
        record.read(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_pipe_is_no_record(tmp_path):
    os.mkfifo(tmp_path / "proxy.jsonl")
    with pytest.raises(OSError, match="it is a pipe"):
        record.read(tmp_path)
