"""The workers that are inside a transaction, as the histories say."""

from fencepost.harness.api import Outcome
from fencepost.harness.history.writer import HistoryWriter
from fencepost.harness.perform.open_transactions import in_transaction


def begin(directory, node, incarnation=0, intent="commit"):
    writer = HistoryWriter(directory / f"{node}-{incarnation}.jsonl", run="r", node=node)
    writer.invoke(0, 1, "txn", [], intent)
    return writer


def test_a_transaction_is_open_from_its_first_line_to_its_last(tmp_path):
    assert in_transaction(tmp_path) == []
    writer = begin(tmp_path, "c0")
    assert in_transaction(tmp_path) == ["c0"]
    writer.complete(Outcome.OK, 0, 1, "txn", [])
    assert in_transaction(tmp_path) == []


def test_readers_are_never_inside_a_transaction(tmp_path):
    begin(tmp_path, "c3", intent=None)
    HistoryWriter(tmp_path / "harness.jsonl", run="r").invoke(-1, 0, "settle", {}, "commit")
    (tmp_path / "faults.jsonl").write_text('{"type": "invoke", "intent": "x"}\n')
    assert in_transaction(tmp_path) == []


def test_a_replaced_workers_open_transaction_does_not_count(tmp_path):
    """The old one's last line stays open for ever."""
    begin(tmp_path, "c10")
    begin(tmp_path, "c2")
    begin(tmp_path, "c2", 9)
    HistoryWriter(tmp_path / "c2-10.jsonl", run="r")
    assert in_transaction(tmp_path) == ["c10"]


def test_a_half_written_line_is_ignored(tmp_path):
    begin(tmp_path, "c0")
    with (tmp_path / "c0-0.jsonl").open("ab") as file:
        file.write(b'{"type": "ok", "pro')
    assert in_transaction(tmp_path) == []
