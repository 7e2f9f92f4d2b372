"""From the workers' lines to Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fencepost.harness.api import Outcome
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.history import merge
from fencepost.harness.history.run_directory import open_run
from fencepost.harness.history.writer import HistoryWriter


def merged(run_dir: Path) -> list[dict]:
    merge.merge(open_run(run_dir))
    return pq.read_table(run_dir / "history.parquet").to_pylist()


def writer(run_dir: Path, name: str = "c3-0", slot: int = 3) -> HistoryWriter:
    out = HistoryWriter(run_dir / "history" / f"{name}.jsonl", run="r", slot=slot, node=f"c{slot}", role="writer", pid=1)
    out.process(slot, isolation="read_committed", final=False, transactional_id="fp-r-3", client="librdkafka 2")
    return out


def test_an_operation_is_one_row_with_its_micro_operations_flat(tmp_path):
    out = writer(tmp_path)
    out.invoke(3, 0, "txn", [["send", "t-0", 7], ["poll"]], "commit")
    done = [["send", "t-0", 7, 41, 100, 200], ["poll", {"t-1": [[4, 8], [6, 9]]}, 300]]
    out.complete(Outcome.OK, 3, 0, "txn", done, decided=400, errors=[])
    (row,) = merged(tmp_path)
    assert (row["type"], row["decided"], row["transactional_id"], row["index"]) == ("ok", 400, "fp-r-3", 0)
    assert [(m["kind"], m["partition"], m["v"], m["offset"], m["ended"]) for m in row["mops"]] == [
        (0, "t-0", 7, 41, 200),
        (1, "t-1", 8, 4, 300),
        (1, "t-1", 9, 6, 300),
    ]


@pytest.mark.parametrize("value", [{"offsets": {"in-0": 17}}, [["poll", {}, 300]]])
def test_an_operation_tells_of_rebalances_beside_its_own_answer(tmp_path, value):
    out, told = writer(tmp_path), [["revoked", ["in-0"]]]
    f, own = ("committed", value) if isinstance(value, dict) else ("poll", {})
    out.invoke(3, 0, f, [["poll"]] if f == "poll" else {})
    out.complete(Outcome.OK, 3, 0, f, value, errors=[], rebalances=told)
    (row,) = merged(tmp_path)
    assert json.loads(row["detail"]) == {**own, "rebalances": told}


def test_an_invocation_without_completion_is_unknown_and_keeps_what_it_meant_to_send(tmp_path):
    """The worker was killed between the two lines."""
    writer(tmp_path).invoke(3, 0, "txn", [["send", "t-0", 7]], "commit")
    (row,) = merged(tmp_path)
    assert (row["type"], row["end"]) == ("info", None)
    assert row["mops"][0]["v"] == 7


def damaged_lines(folder):
    """Without the files of other workers, which are missing here."""
    return [gap for gap in merge.merge(open_run(folder)) if gap.line]


def test_a_line_cut_off_by_a_kill_is_named_and_the_rest_is_read(tmp_path):
    out = writer(tmp_path)
    out.invoke(3, 0, "poll", [["poll"]])
    path = tmp_path / "history" / "c3-0.jsonl"
    with path.open("ab") as file:
        file.write(b'{"type": "ok", "proc')
    (damage,) = damaged_lines(tmp_path)
    assert (damage.file, damage.line) == ("c3-0.jsonl", 4)
    assert "cut off" in damage.why


def test_a_broken_line_in_the_middle_spoils_nothing_after_it(tmp_path):
    out = writer(tmp_path)
    with (tmp_path / "history" / "c3-0.jsonl").open("ab") as file:
        file.write(b"garbage\n[1, 2]\n" + json.dumps({"type": "ok", "process": 9, "op": 9}).encode() + b"\n")
    out.invoke(3, 0, "poll", [["poll"]])
    damage = damaged_lines(tmp_path)
    assert [item.line for item in damage] == [3, 4, 5]
    assert pq.read_table(tmp_path / "history.parquet").num_rows == 1


def test_operations_of_all_workers_are_ordered_by_their_invocation(tmp_path):
    first, second = writer(tmp_path), writer(tmp_path, "c4-0", 4)
    for op in range(3):
        first.invoke(3, op, "poll", [["poll"]])
        second.invoke(4, op, "poll", [["poll"]])
    rows = merged(tmp_path)
    assert [row["slot"] for row in rows] == [3, 4, 3, 4, 3, 4]
    assert [row["index"] for row in rows] == list(range(6))


def test_a_replaced_worker_goes_on_in_a_file_of_its_own(tmp_path):
    writer(tmp_path).invoke(3, 0, "poll", [["poll"]])
    again = HistoryWriter(tmp_path / "history" / "c3-1.jsonl", run="r", slot=3, node="c3", role="writer", pid=2)
    again.process(14, isolation="read_committed", final=False, transactional_id="fp-r-3", client="x")
    again.invoke(14, 0, "poll", [["poll"]])
    assert [row["process"] for row in merged(tmp_path)] == [3, 14]


def test_strange_records_are_recorded_as_evidence(tmp_path):
    out = writer(tmp_path)
    out.invoke(3, 0, "poll", [["poll"]])
    odd = {"partition": "t-0", "offset": 1, "why": "record of another run", "raw": "<b>"}
    out.complete(Outcome.OK, 3, 0, "poll", [["poll", {"t-0": [[1, -1]]}, 5, [odd]]], errors=[])
    (row,) = merged(tmp_path)
    assert row["strange"] == [odd]
    assert row["mops"][0]["v"] == -1


def test_the_last_line_of_a_receipt_counts(tmp_path):
    writer(tmp_path)
    lines = [{"id": 1, "kind": "kill", "targets": ["n1"], "pairs": [["a", "b"]], "healed_ns": healed} for healed in (0, 9)]
    (tmp_path / "history" / "faults.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    merge.merge(open_run(tmp_path))
    (receipt,) = pq.read_table(tmp_path / "faults.parquet").to_pylist()
    assert (receipt["healed_ns"], receipt["pairs"]) == (9, ["a>b"])


def test_a_directory_without_a_history_says_so(tmp_path):
    with pytest.raises(HistoryError, match="is this a run's directory"):
        merge.merge(open_run(tmp_path))


def test_a_run_cut_off_before_its_first_operation_has_an_empty_history(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    assert merged(tmp_path) == []


def test_another_version_of_the_format_is_refused_by_name(tmp_path):
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "c0-0.jsonl").write_text('{"format": "fencepost-history", "version": 99}\n')
    with pytest.raises(HistoryError, match="version 99"):
        merge.merge(open_run(tmp_path))
