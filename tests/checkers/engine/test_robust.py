"""Whatever a history looks like, and whatever dies on the way, there is a verdict."""

import json
import os
import shutil
import signal
from pathlib import Path
from random import Random

import pytest
from support.histories import History, answer, write_history
from support.installed import INSTALLED, rule_of

from fencepost.checkers.api import partition_check
from fencepost.checkers.contract.rules import INAPPLICABLE, full_contract
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api import record_id
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.evidence import Evidence
from fencepost.harness.history.merge import merge
from fencepost.harness.history.run_directory import open_run

HUGE = 1 << 62


def verdict(document):
    assert document["verdict"] in ("valid", "invalid", "unknown")
    assert document["reason"]
    return document["verdict"]


# --------------------------------------------------------------------------------------------------
# Odd histories
# --------------------------------------------------------------------------------------------------
def test_a_history_of_polls_only_is_unknown(judged):
    h = History()
    h.poll(0, {"t-0": []})
    assert verdict(judged(h)) == "unknown"


def test_a_history_of_failed_operations_only_is_unknown(judged):
    h = History()
    h.txn(0, {"t-0": [5]}, type="fail")
    h.txn(0, {"t-1": [None]}, type="fail")
    assert verdict(judged(h)) == "unknown"


def test_a_history_without_a_final_read_is_unknown(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.poll(1, {"t-0": [5]})
    assert verdict(judged(h)) == "unknown"


def test_acknowledgements_without_offsets_are_valid_when_reads_give_them(judged):
    """A client may not tell where a record lies; reads do."""
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [7]})
    h.final({"t-0": [5], "t-1": [7]})
    h.ops[0]["mops"] = [(*mop[:3], None, *mop[4:]) for mop in h.ops[0]["mops"]]
    assert verdict(judged(h)) == "valid"


def test_offsets_near_two_to_the_62_are_judged(judged):
    h = History()
    h.txn(0, {"t-0": [HUGE, HUGE + 1]})
    h.final({"t-0": [HUGE, HUGE + 1]}, end=HUGE + 2, position=HUGE + 2)
    assert verdict(judged(h)) == "valid"


def test_identities_of_any_number_are_judged(judged):
    """Foreign histories number their records as they like."""
    h = History()
    h.txn(0, {"t-0": [5, 6]})
    identities = iter((-(1 << 60), 1 << 62))
    h.ops[0]["mops"] = [(kind, where, next(identities), *rest) for kind, where, _, *rest in h.ops[0]["mops"]]
    h.final({"t-0": [(5, -(1 << 60)), (6, 1 << 62)]})
    assert verdict(judged(h)) != "invalid"
    h.ops[1]["mops"] = []
    assert verdict(judged(h)) == "invalid"


def test_partitions_of_any_name_are_judged(judged):
    h = History()
    h.txn(0, {"": [5], "a b/\u00e9-\u2603": [7]})
    h.final({"": [5], "a b/\u00e9-\u2603": [7]})
    assert verdict(judged(h)) == "valid"


# --------------------------------------------------------------------------------------------------
# Histories cut anywhere
# --------------------------------------------------------------------------------------------------
def recorded(folder: Path) -> None:
    """A run's lines as two writers leave them."""
    (folder / "history").mkdir(parents=True)
    (folder / "plan.json").write_text('{"run": "r"}')
    for process in (0, 1):
        lines = [
            {"format": "fencepost-history", "version": 1, "run": "r", "slot": process, "node": "c0", "role": "writer", "time": 1},
            {"type": "process", "process": process, "time": 2, "isolation": "read_committed", "final": False, "client": "x"},
        ]
        for op in range(8):
            name = {"process": process, "op": op, "f": "txn"}
            v, at = record_id(process, op, 0), 1000 * op + process
            done = [["send", "t-0", v, 2 * op + process, at + 10, at + 20], ["poll", {}, at + 30]]
            lines.append({"type": "invoke", **name, "time": at, "intent": "commit", "value": [["send", "t-0", v], ["poll"]]})
            lines.append({"type": "ok", **name, "time": at + 90, "decided": at + 80, "value": done, "errors": []})
        (folder / "history" / f"c{process}-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("seed", range(6))
def test_a_history_truncated_anywhere_gets_a_verdict(spark, tmp_path, seed):
    """Each file ends at some byte, as when the machine died; what is left is merged and judged."""
    rng = Random(seed)
    recorded(tmp_path)
    for path in (tmp_path / "history").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: rng.randrange(len(content))])
    merge(open_run(tmp_path))
    assert verdict(judge(open_run(tmp_path), spark=spark, contract=CONTRACT)) in ("valid", "unknown")


# --------------------------------------------------------------------------------------------------
# Workers that die
# --------------------------------------------------------------------------------------------------
def good(folder):
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [5]})
    h.final({"t-0": [5], "t-1": [5]})
    write_history(folder, h.ops)


def test_a_python_worker_that_dies_every_time_makes_the_verdict_unknown(spark, tmp_path):
    """Checks that need no worker still answer; and the session goes on."""

    def deadly(log):
        """Ends its worker at once, as the kernel does when memory gives out."""
        os.kill(os.getpid(), signal.SIGKILL)
        return CheckResult(1)

    good(tmp_path)
    document = judge(
        open_run(tmp_path), spark=spark, contract=CONTRACT, checks=[*installed_checks()[0], partition_check("deadly")(deadly)]
    )
    assert verdict(document) == "unknown"
    for name in ("lost-write", "G1c-wr"):
        assert "the Spark job did not finish" in answer(document, name)["reason"]
    answered = {row["name"]: row["verdict"] for kind in ("properties", "allowed") for row in document[kind]}
    idle = {name for name, verdict in answered.items() if verdict == "not exercised"}
    elsewhere = {name for name in idle if rule_of(name, full_contract(CONTRACT)).judged == INAPPLICABLE}
    others = {"lso-stall", "hanging-transaction", "zombie-commit", "zombie-write", "epoch-regression", "wrong-error"}
    others |= {
        "no-recovery",
        *(name for name, check in INSTALLED.items() if {Evidence.LOGS, Evidence.WIRE} & set(check.evidence.absence)),
    }
    assert idle - elsewhere <= others, "no partition has a part in it"
    assert {name for name, verdict in answered.items() if verdict != "unknown"} == idle
    assert verdict(judge(open_run(tmp_path), spark=spark, contract=CONTRACT)) == "valid"


def test_a_check_that_runs_out_of_memory_makes_its_property_unknown(spark, tmp_path):
    def greedy(log):
        """Wants more than there is."""
        raise MemoryError("no room for 1 TiB")

    good(tmp_path)
    document = judge(
        open_run(tmp_path), spark=spark, contract=CONTRACT, checks=[*installed_checks()[0], partition_check("greedy")(greedy)]
    )
    assert answer(document, "greedy")["reason"].startswith("MemoryError: no room for 1 TiB (")
    assert answer(document, "lost-write")["verdict"] == "held"


def test_a_history_deleted_while_it_is_checked_raises_no_traceback(spark, tmp_path):
    good(tmp_path)
    shutil.copy(tmp_path / "history.parquet", tmp_path / "kept")
    (tmp_path / "history.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(HistoryError):
        judge(open_run(tmp_path), spark=spark, contract=CONTRACT)
