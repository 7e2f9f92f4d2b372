"""From answers to a verdict: contracts, expectations, broken checks, faults around a finding, and histories with holes."""

import json

import pyarrow.parquet as pq
import pytest
from support.histories import History, answer, finding, violated, write_faults, write_history
from support.installed import rule_of

from fencepost.checkers.api import partition_check, run_check
from fencepost.checkers.contract.reading import settings
from fencepost.checkers.contract.rules import FORBIDDEN, Rule, full_contract
from fencepost.checkers.engine.registry import installed_checks
from fencepost.checkers.model.lawful_history import CONTRACT, write_lawful
from fencepost.checkers.model.results import CheckResult
from fencepost.checkers.verdict.decision import judge_property
from fencepost.checkers.verdict.judge import judge
from fencepost.harness.api.errors import HistoryError
from fencepost.harness.api.promises import LIVE, PROCESSED_ONCE, PROGRAM
from fencepost.harness.api.values import Property
from fencepost.harness.history.run_directory import open_run

SECOND = 1_000_000_000


def good():
    h = History()
    h.txn(0, {"t-0": [5], "t-1": [5]})
    h.final({"t-0": [5], "t-1": [5]})
    return h


def broken_checks():
    """Checks that raise, made here so that they travel to the workers as they are."""

    def shaky(log):
        """Raises in one partition only."""
        if log.partition == "t-1":
            raise ZeroDivisionError("one over nothing")
        return CheckResult(1)

    def worse(run):
        """Raises over the whole run."""
        raise KeyError("gone")

    def unresolved(log):
        """Finds something, and a later step raises."""
        return CheckResult(1, {name: [1] for name in ("cause", "op", "v", "offset", "time")} | {"role": ["read"]})

    def bad_step(rows, run):
        raise RuntimeError("second step")

    return [
        partition_check("shaky")(shaky),
        run_check("worse")(worse),
        partition_check("unresolved", resolve=bad_step)(unresolved),
        partition_check("unsifted", sift=bad_step)(unresolved),
    ]


def test_a_check_that_raises_is_unknown_and_affects_no_other_check(spark, tmp_path):
    write_history(tmp_path, good().ops)
    (tmp_path / "plan.json").write_text(json.dumps({"contract": CONTRACT}))
    document = judge(open_run(tmp_path), spark=spark, checks=[*installed_checks()[0], *broken_checks()])
    assert answer(document, "shaky")["reason"].startswith("ZeroDivisionError: one over nothing (")
    assert "test_verdicts.py, line" in answer(document, "shaky")["reason"]
    assert answer(document, "worse")["verdict"] == "unknown"
    assert answer(document, "unresolved")["reason"].startswith("RuntimeError: second step (")
    assert answer(document, "unsifted")["reason"].startswith("RuntimeError: second step (")
    assert answer(document, "lost-write")["verdict"] == "held"
    assert document["verdict"] == "unknown"
    assert "shaky could not be judged: ZeroDivisionError" in document["reason"]


def test_a_plug_in_check_is_one_function(spark, tmp_path):
    """It is forbidden unless a rule says otherwise, and gets a plain sentence."""

    def low(log):
        """A record below offset 6."""
        which = log.reads.offset < 6
        names = ("op", "v", "offset")
        rows = {name: getattr(log.reads, name)[which] for name in names}
        rows |= {"cause": rows["offset"], "time": log.reads.ended[which], "role": ["read"] * int(which.sum())}
        return CheckResult(len(which), rows)

    write_history(tmp_path, good().ops)
    document = judge(open_run(tmp_path), spark=spark, checks=[partition_check("low-offset")(low)])
    assert violated(document) == ["low-offset"]
    assert document["findings"][0]["sentence"] == "low-offset: 2 records, first t-0@5."


def test_every_installed_check_has_a_definition():
    checks, broken = installed_checks()
    assert not broken
    assert all(len(check.definition) > 40 for check in checks)


@pytest.mark.parametrize(
    ("anomaly", "contract", "judged"),
    [
        ("lost-write", {"acks": "all"}, "forbidden"),
        ("lost-write", {"acks": "-1"}, "forbidden"),
        ("lost-write", {"acks": "1"}, "allowed"),
        ("lost-write", {"acks": "all", "unclean_leader_election": "true"}, "allowed"),
        ("lost-write", {"retention": "604800000"}, "inapplicable"),
        ("duplicate", {"idempotence": "false"}, "allowed"),
        ("duplicate", {"idempotence": "false", "transactional": "true"}, "forbidden"),
        ("aborted-read", {"transactional": "false"}, "forbidden"),
        ("torn-transaction", {"transactional": "false"}, "inapplicable"),
        ("wrong-partition", {}, "forbidden"),
        ("wrong-partition", {"values": "per key"}, "inapplicable"),
        ("poll-skip", {"consumption": "subscribed"}, "forbidden"),
        ("poll-skip", {"consumption": "subscribed", "unclean_leader_election": "true"}, "allowed"),
        ("order-inversion", {"idempotence": "false", "max_in_flight": "1"}, "forbidden"),
        ("order-inversion", {"idempotence": "false"}, "allowed"),
        ("somebody's own", {}, "forbidden"),
    ],
)
def test_the_contract_decides_whether_an_anomaly_is_forbidden(anomaly, contract, judged):
    assert rule_of(anomaly, full_contract(contract)).judged == judged


def test_a_contract_given_for_the_check_overrides_that_of_the_plan(judged):
    """Settings of acks=1 that the campaign judges by acks=all: the loss is forbidden."""
    assert full_contract({"acks": "1"}, {"acks": "all"})["acks"] == "all"
    assert settings(full_contract({"readers": "all"})).all_readers


def test_an_expectation_is_met_when_it_names_every_forbidden_anomaly_found(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, (6, h.v("t-0", 5))]})
    assert judged(h, expect=["duplicate"])["expectation_met"] is True
    assert judged(h, expect=["valid"])["expectation_met"] is False
    assert judged(h, expect=["lost-write"])["expectation_met"] is False
    h.poll(3, {"t-0": [(9, 123456789)]})
    assert judged(h, expect=["duplicate"])["expectation_met"] is False
    assert judged(h, expect=["duplicate", "phantom"])["expectation_met"] is True


def test_a_tolerated_anomaly_may_accompany_the_expected_one_but_does_not_replace_it(judged):
    h = History()
    h.txn(0, {"t-0": [5]})
    h.final({"t-0": [5, (6, h.v("t-0", 5))]})
    h.poll(3, {"t-0": [(9, 123456789)]})
    assert judged(h, expect=["duplicate"], tolerate=["phantom"])["expectation_met"] is True
    assert judged(h, expect=["lost-write"], tolerate=["phantom", "duplicate"])["expectation_met"] is False


def test_a_run_whose_final_read_lacks_a_partition_is_unknown(judged):
    """t-1 was never read to its end, so what was lost there is unknown."""
    h = History()
    h.txn(0, {"t-0": [5, 6], "t-1": [7]})
    h.final({"t-0": [5, 6]})
    document = judged(h, topics={"t": {"partitions": 2}})
    assert document["verdict"] == "unknown"
    assert "t-1" in document["reason"]


def test_unread_records_of_a_history_without_final_read_make_the_verdict_unknown(judged):
    """A history from elsewhere that stops before its readers had caught up."""
    h = History()
    h.txn(0, {"t-0": [5, 6, 7]})
    h.poll(1, {"t-0": [5, 6]})
    document = judged(h, contract={"final_read": "false"})
    assert document["verdict"] == "unknown"
    assert "1 promised record was returned to nobody" in document["reason"]
    assert document["weakened"] == [document["reason"]]
    h.poll(1, {"t-0": [7]})
    assert judged(h, contract={"final_read": "false"})["verdict"] == "valid"


def test_a_finding_names_the_faults_active_around_it(judged, tmp_path):
    """One within a second of the operation, one long before it; one of the two had no effect."""
    h = History()
    h.now = 100 * SECOND
    h.txn(0, {"t-0": [5]})
    h.txn(0, {"t-0": [6]})
    h.final({"t-0": [6]})
    overlapping = {"id": 3, "kind": "kill", "injected_ns": 99 * SECOND, "healed_ns": 101 * SECOND, "effective": True}
    earlier = {"id": 1, "kind": "kill", "injected_ns": 10 * SECOND, "healed_ns": 20 * SECOND, "effective": False}
    write_faults(tmp_path, earlier, overlapping)
    document = judged(h)
    assert finding(document, "lost-write")["faults"] == [3]
    assert document["weakened"] == ["1 of 2 faults had no effect"]
    assert document["counts"]["faults_without_effect"] == 1


def test_a_run_whose_fault_has_another_name_today_is_judged(judged, tmp_path):
    """Judging makes no fault from the kinds in a plan and its receipts."""
    write_faults(tmp_path, {"id": 0, "kind": "strand", "injected_ns": 1, "healed_ns": 2, "effective": True})
    document = judged(good(), schedule=[{"id": 0, "kind": "strand", "options": {}}])
    assert (document["verdict"], document["counts"]["faults"]) == ("valid", 1)


def test_progress_has_the_longest_gap_and_the_time_to_recovery(judged, tmp_path):
    """Commits at 10 s, 11 s and 15 s; a fault from 11.5 s to 13 s."""
    h = History()
    for number, second in enumerate((10, 11, 15)):
        h.now = second * SECOND
        h.txn(0, {"t-0": [number]})
        h.ops[-1].update(end=second * SECOND, time=second * SECOND - 1000)
    h.final({"t-0": [0, 1, 2]})
    write_faults(tmp_path, {"id": 0, "injected_ns": 23 * SECOND // 2, "healed_ns": 13 * SECOND, "effective": True})
    progress = judged(h)["progress"]
    assert progress == {"longest_gap_s": 4.0, "recovery_s": 2.0, "faults": [{"id": 0, "gap_s": 4.0, "recovery_s": 2.0}]}


def test_an_empty_history_is_unknown(judged):
    document = judged(History())
    assert document["verdict"] == "unknown"
    assert document["reason"].startswith("nothing was compared")


def test_an_empty_plan_is_judged_by_kafkas_defaults(tmp_path):
    write_history(tmp_path, good().ops)
    (tmp_path / "plan.json").write_text("{}")
    document = judge(open_run(tmp_path), here=True, contract=CONTRACT)
    assert document["verdict"] == "valid"
    assert json.loads(json.dumps(document)) == document


def test_the_error_for_a_missing_history_says_what_to_do(tmp_path):
    with pytest.raises(HistoryError, match="merges it again from the lines"):
        judge(open_run(tmp_path), here=True)


def test_a_final_read_with_malformed_detail_counts_as_none(judged):
    h = good()
    h.ops[-1]["detail"] = "not json"
    h.ops[-3]["detail"] = '{"t-0": [0, null, 5], "t-1": "odd"}'
    document = judged(h)
    assert answer(document, "torn-transaction")["verdict"] == "not exercised"
    assert document["verdict"] == "unknown"


def test_transactions_of_one_record_each_cannot_be_torn_and_are_no_reason_to_doubt(judged):
    h = History()
    h.txn(0, {"t-0": [1]})
    h.txn(1, {"t-1": [2]})
    h.final({"t-0": [1], "t-1": [2]})
    document = judged(h)
    assert answer(document, "torn-transaction")["verdict"] == "not exercised"
    assert answer(document, "torn-transaction")["reason"] == "2 operations, each with one record"
    assert document["verdict"] == "valid", document["reason"]


def test_parquet_has_every_finding_and_json_a_hundred_of_each_anomaly(tmp_path):
    h = History()
    for number in range(150):
        h.txn(number, {"t-0": [number]}, type="fail")
    h.final({"t-0": list(range(150))})
    write_history(tmp_path, h.ops)
    document = judge(open_run(tmp_path), here=True, contract=CONTRACT)
    assert len(document["findings"]) == 100
    assert answer(document, "aborted-read")["count"] == 150
    assert pq.read_table(tmp_path / "anomalies.parquet").num_rows == 150


def test_parquet_has_all_records_of_a_huge_finding_and_json_the_first(tmp_path):
    h = History()
    for number in range(300):
        h.txn(0, {"t-0": [number]})
    h.txn(0, {"t-0": [300]})
    h.final({"t-0": [300]})
    write_history(tmp_path, h.ops)
    loss = finding(judge(open_run(tmp_path), here=True, contract=CONTRACT), "lost-write")
    assert (len(loss["records"]), loss["size"]) == (200, 300)
    (whole,) = pq.read_table(tmp_path / "anomalies.parquet").to_pylist()
    assert len(whole["records"]) == len(whole["operations"]) == 300


def test_the_size_of_row_groups_does_not_change_the_verdict(spark, tmp_path):
    """The same history in one row group and in many, over several tasks."""
    answers = []
    for size in (40, 100_000):
        folder = tmp_path / str(size)
        write_lawful(folder, transactions=200, seed=3, row_group=size)
        document = judge(open_run(folder), spark=spark)
        answers.append({key: document[key] for key in ("properties", "counts", "progress")})
    assert answers[0] == answers[1]


@pytest.mark.parametrize(("intent", "expected"), [("commit", ["lost-write"]), ("abort", []), (None, [])])
def test_a_transaction_without_a_word_of_its_intent_is_neither_committed_nor_aborted(judged, intent, expected):
    """Its record is gone: a loss only if it committed. Read at read_committed it proves the commit, and is no aborted read."""
    h = History()
    h.txn(0, {"t-0": [5]}, intent=intent, decided=None)
    h.txn(0, {"t-0": [6]})
    h.final({"t-0": [6]})
    assert violated(judged(h, topics={"t": {"partitions": 1}})) == expected
    read = History()
    read.txn(0, {"t-0": [5]}, intent=intent, decided=None)
    read.final({"t-0": [5]})
    assert violated(judged(read, topics={"t": {"partitions": 1}})) == (["aborted-read"] if intent == "abort" else [])


@pytest.mark.parametrize(
    ("promise", "compared", "words"),
    [
        (PROCESSED_ONCE, 506, "an error of 1 in 1,000 would have been seen with 40% probability"),
        (PROGRAM, 1, "an error of 1 in 1,000 would have been seen with 0% probability"),
        (PROCESSED_ONCE, 3000, ""),
        (LIVE, 506, ""),
    ],
)
def test_what_held_of_a_program_says_how_rare_an_error_would_have_shown(promise, compared, words):
    held = judge_property("unprocessed", Rule(FORBIDDEN, "why"), compared, [], promise=promise)
    assert (held.verdict, held.reason.partition(" (")[0]) == (Property.HELD, words)
