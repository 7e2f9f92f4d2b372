"""Answers of coordinators and leaders about transactions: those that hang, answers that cannot be true, and lawful ones."""

from __future__ import annotations

import json
from random import Random

import pytest
from support import hanging_reference
from support.histories import UNCOMMITTED, History, answer, finding, violated, write_faults
from support.judging import judge_here, no_session
from support.reference import FlatHistory

from fencepost.checkers.anomalies.hanging import hanging_transaction, misreported_transaction
from fencepost.checkers.anomalies.liveness import lso_stall
from fencepost.checkers.model.lawful_history import write_lawful
from fencepost.checkers.selfcheck.selfcheck import selfcheck
from fencepost.harness.api.clocks_ahead import ClockJump
from fencepost.harness.api.evidence import Evidence, Gap, Manifest
from fencepost.harness.history.run_directory import write_manifest

SECOND = 1_000_000_000
ID = {"transactional_id": "id"}
CHECKS = [hanging_transaction, misreported_transaction]


def stated(state="Ongoing", timeout_s=15, name="id", started=1, partitions=("t-0",), producer=7):
    transaction = {"transactional_id": name, "producer_id": producer, "epoch": 0, "state": state}
    return {**transaction, "timeout_ms": timeout_s * 1000, "started_ms": started, "partitions": list(partitions)}


def opened(offset, partition="t-0", producer=7):
    return {"partition": partition, "producer_id": producer, "epoch": 0, "offset": offset}


def listing(h, at_s, transactions=(), opened=(), quiet_s=None, type="ok", **fields):
    """An answer so many seconds after the story's begin; no fault was active since the begin, or for quiet_s."""
    h.now = max(h.now, round((1 + at_s) * SECOND))
    value = {"transactions": list(transactions), "open": list(opened), "silent": [], **fields}
    value["quiet_s"] = float(at_s if quiet_s is None else quiet_s)
    h.add(-1, "list-transactions", type=type, isolation=None, role="harness", detail=json.dumps(value))


def judged(tmp_path, h):
    document = judge_here(tmp_path, h.ops, checks=CHECKS)
    return violated(document), document


def killed():
    """A transaction of a client that was killed, after one that was committed."""
    h = History()
    h.txn(0, {"t-0": [5]}, **ID)
    h.txn(0, {"t-0": [7]}, "info", end=None, decided=None, **ID)
    return h


def test_a_last_transaction_without_records_is_named(tmp_path):
    h = History()
    h.txn(0, {"t-0": [5]}, **ID)
    h.txn(0, {}, **ID)
    for at_s in (5, 6):
        listing(h, at_s, [stated()])
    names, document = judged(tmp_path, h)
    assert names == ["misreported-transaction"]
    assert finding(document, "misreported-transaction")["sentence"].startswith("Transaction 1 of process 0 was acknowledged as")


def test_a_transaction_that_its_coordinator_keeps_beyond_its_timeout_hangs(tmp_path):
    h = killed()
    for at_s in (5, 20, 32):
        listing(h, at_s, [stated()], [opened(7)])
    names, document = judged(tmp_path, h)
    assert names == ["hanging-transaction"]
    sentence = finding(document, "hanging-transaction")["sentence"]
    assert "of id is Ongoing at its coordinator, and its timeout is 15 s: so it was for 27 s" in sentence


@pytest.mark.parametrize("opened_by", [(), (opened(7, producer=8),)], ids=["without records", "one with records"])
def test_each_finding_tells_of_its_own_transaction(tmp_path, opened_by):
    """Two that hang, each with a partition in which it has no record: nothing but their producers tells these apart."""
    h = killed()
    for at_s in (5, 20, 32):
        listing(h, at_s, [stated(), stated(name="other", producer=8, state="PrepareCommit")], opened_by)
    _, document = judged(tmp_path, h)
    sentences = sorted(row["sentence"] for row in document["findings"] if row["anomaly"] == "hanging-transaction")
    assert [sentence.count(" at its coordinator") for sentence in sentences] == [1, 1]
    assert "of id is Ongoing" in sentences[0]
    assert "of other is PrepareCommit" in sentences[1]


@pytest.mark.parametrize(
    ("times", "fields"),
    [
        ((5, 29), {}),  # within its timeout and ten seconds
        ((5, 60), {"quiet_s": 20}),  # a fault in between
        ((5, 60), {"type": "info"}),  # not everybody answered
    ],
)
def test_it_does_not_where_it_had_no_time_to_end(tmp_path, times, fields):
    h = killed()
    for at_s in times:
        listing(h, at_s, [stated()], [opened(7)], **fields)
    assert judged(tmp_path, h)[0] == []


def test_nor_do_two_transactions_one_after_the_other(tmp_path):
    h = killed()
    for at_s in (5, 40):
        listing(h, at_s, [stated(started=at_s)], [opened(at_s)])
    names, document = judged(tmp_path, h)
    assert names == []
    assert answer(document, "hanging-transaction")["compared"] == 4


@pytest.mark.parametrize(("offset", "names"), [(6, ["misreported-transaction"]), (7, ["misreported-transaction"]), (8, [])])
def test_a_leader_that_has_open_what_a_reader_had_got(tmp_path, offset, names):
    """A read_committed reader gets what lies below the last stable offset: not even the first record of an open transaction."""
    h = killed()
    h.poll(2, {"t-0": [5, 7]})
    for at_s in (5, 6, 7):
        listing(h, at_s, [], [opened(offset)])
    assert judged(tmp_path, h)[0] == names
    assert hanging_reference.misreported_transactions(FlatHistory(h.ops)) == ({"t-0"} if names else set())


def clock(ahead_s=60.0, healed_s=10.0):
    """A fault that set a clock ahead and right again, so many seconds after the story's begin."""
    times = {"injected_ns": SECOND, "healed_ns": round((1 + healed_s) * SECOND) if healed_s else 0}
    return {"id": 0, "kind": "clock-skew", **times, "evidence": json.dumps({"by_s": ahead_s})}


@pytest.mark.parametrize(
    ("fault", "until_s", "guilty"),
    [
        (clock(), 90, False),  # its start was stamped at 70 s: it is due at 85 s, and has ten seconds more
        (clock(), 103, True),
        (clock(-60.0), 39, True),  # behind: it ends too early, not too late
        (clock(healed_s=0), 900, False),  # never set right
        (clock(5.0), 39, False),
    ],
)
def test_what_a_clock_that_was_ahead_has_stamped_is_due_later(tmp_path, fault, until_s, guilty):
    h = killed()
    for at_s in (9, until_s):
        listing(h, at_s, [stated()], [opened(7)], quiet_s=max(0, at_s - 10))
    write_faults(tmp_path, fault)
    assert judged(tmp_path, h)[0] == ["hanging-transaction"] * guilty


@pytest.mark.parametrize(("faults", "verdict"), [((), "violated"), ((clock(5.0),), "violated"), ((clock(),), "unknown")])
def test_a_last_stable_offset_waits_for_such_a_transaction_too(tmp_path, faults, verdict):
    h = killed()
    h.now = 60 * SECOND
    h.settle({"t-0": (7, 9)}, type="info", bound_s=25.0)
    write_faults(tmp_path, *faults)
    stall = answer(judge_here(tmp_path, h.ops, checks=[lso_stall]), "lso-stall")
    assert stall["verdict"] == verdict
    assert ("whose clock was ahead" in stall["reason"]) == (verdict == "unknown")


def test_what_hung_before_a_clock_was_ahead_hangs(tmp_path):
    h = killed()
    for at_s in (5, 40):
        listing(h, at_s, [stated()], [opened(7)])
    write_faults(tmp_path, {**clock(healed_s=60), "injected_ns": 50 * SECOND})
    assert judged(tmp_path, h)[0] == ["hanging-transaction"]


def machine_clock(tmp_path, at_s, by_s):
    """The machine's own clock jumped so many seconds after the story's begin."""
    jump = ClockJump(at_ns=round((1 + at_s) * SECOND), by_s=by_s)
    write_manifest(tmp_path, Manifest(run="r", slots=9, complete=True, files=(), clock_jumps=(jump,)))


@pytest.mark.parametrize(
    ("by_s", "until_s", "guilty"),
    [
        (-60.0, 90, False),  # stamped before: due when the clock has made up for it
        (-60.0, 103, True),
        (60.0, 34, False),  # stamped a minute ago, as the clock now has it
        (60.0, 39, True),
    ],
)
def test_after_a_jump_of_the_machines_clock_a_transaction_has_its_time(tmp_path, by_s, until_s, guilty):
    h = killed()
    for at_s in (9, until_s):
        listing(h, at_s, [stated()], [opened(7)], quiet_s=at_s)
    machine_clock(tmp_path, 10.0, by_s)
    assert judged(tmp_path, h)[0] == ["hanging-transaction"] * guilty


@pytest.mark.parametrize(("by_s", "verdict"), [(-60.0, "unknown"), (-5.0, "violated"), (60.0, "violated")])
def test_a_last_stable_offset_has_its_time_then_too(tmp_path, by_s, verdict):
    h = killed()
    h.now = 60 * SECOND
    h.settle({"t-0": (7, 9)}, type="info", bound_s=25.0)
    machine_clock(tmp_path, 10.0, by_s)
    assert answer(judge_here(tmp_path, h.ops, checks=[lso_stall]), "lso-stall")["verdict"] == verdict


def test_without_receipts_of_planned_faults_clocks_are_unknown(tmp_path):
    h = killed()
    for at_s in (5, 40):
        listing(h, at_s, [stated()], [opened(7)])
    document = judge_here(tmp_path, h.ops, checks=CHECKS, schedule=[{"id": 0, "kind": "clock-skew"}])
    outcome = answer(document, "hanging-transaction")
    assert (outcome["verdict"], "whether a broker's clock was ahead is not known" in outcome["reason"]) == ("unknown", True)


def test_the_report_says_that_questions_broke_off(tmp_path):
    h = killed()
    listing(h, 5)
    h.add(-1, "list-transactions", type="info", isolation=None, role="harness", detail=json.dumps({"ended": "TypeError: x"}))
    assert any("ended with TypeError: x" in text for text in judged(tmp_path, h)[1]["weakened"])


def test_one_that_hung_until_a_fault_is_found_by_the_answers_before(tmp_path):
    h = killed()
    for at_s, quiet_s in ((5, 5), (40, 40), (60, 1)):
        listing(h, at_s, [stated()], [opened(7)], quiet_s=quiet_s)
    assert judged(tmp_path, h)[0] == ["hanging-transaction"]


def test_markers_that_are_not_written_hang(tmp_path):
    h = killed()
    for at_s in (5, 17):
        listing(h, at_s, [stated("PrepareAbort")], [opened(7)])
    names, document = judged(tmp_path, h)
    assert names == ["hanging-transaction"]
    assert "is PrepareAbort at its coordinator" in finding(document, "hanging-transaction")["sentence"]


@pytest.mark.parametrize("transactions", [(), (stated("CompleteAbort"),), (stated(partitions=("t-1",)),)])
def test_a_transaction_that_only_a_partition_has_open_hangs(tmp_path, transactions):
    """KAFKA-14402: a record appended after the marker, in a transaction of which no coordinator knows."""
    h = killed()
    for at_s in (5, 6, 17):
        listing(h, at_s, transactions, [opened(9)])
    names, document = judged(tmp_path, h)
    assert names == ["hanging-transaction"]
    assert [record["offset"] for record in finding(document, "hanging-transaction")["records"]] == [9]


def test_a_partition_that_had_it_open_before_the_coordinator_answered_is_needed(tmp_path):
    """The coordinators are asked first: what a single answer shows open may have begun in between."""
    h = killed()
    listing(h, 5, (), [opened(9)])
    listing(h, 17, [stated()], [opened(9)])
    assert judged(tmp_path, h)[0] == []


def committed(ends=("ok", "ok")):
    h = History()
    for offset, end in enumerate(ends):
        h.txn(0, {"t-0": [2 * offset]}, end, **ID)
    return h


def test_a_transaction_whose_commit_had_returned_is_not_ongoing(tmp_path):
    h = committed()
    for at_s in (5, 6):
        listing(h, at_s, [stated()])
    names, document = judged(tmp_path, h)
    assert names == ["misreported-transaction"]
    misreport = finding(document, "misreported-transaction")
    assert "was acknowledged as committed, and yet coordinators answered" in misreport["sentence"]
    assert [(row["role"], row["offset"]) for row in misreport["records"]] == [("sent", 2)]


@pytest.mark.parametrize(
    ("began_ms", "words"),
    [
        (-7, "in a transaction that began 0.007 s before the commit had returned, by the coordinator's clock."),
        (175, "in a transaction that nobody began: it opened 0.175 s after the commit had returned, by the coordinator's clock."),
    ],
)
def test_the_sentence_says_whether_it_is_another_transaction(tmp_path, began_ms, words):
    """KIP-890: an AddPartitionsToTxn that arrives after the end of its transaction opens another one."""
    h, now_ms = committed(), 1_790_000_000_000
    committed_ms = (h.ops[-1]["end"] + 1) // 1_000_000
    started = now_ms - 6_000 + committed_ms + began_ms
    for at_s in (5, 6):
        listing(h, at_s, [stated(started=started)], asked_ms=now_ms + (at_s - 5) * 1000)
    names, document = judged(tmp_path, h)
    assert names == ["misreported-transaction"]
    assert finding(document, "misreported-transaction")["sentence"].endswith(words)


@pytest.mark.parametrize("last", [["fail"], ["info"]])
def test_one_of_unknown_outcome_or_aborted_may_be(tmp_path, last):
    h = committed(("ok", *last))
    for at_s in (5, 6):
        listing(h, at_s, [stated()])
    names, document = judged(tmp_path, h)
    assert (names, answer(document, "misreported-transaction")["compared"]) == ([], 1)


@pytest.mark.parametrize(("fields", "again"), [({"quiet_s": 1}, True), ({}, False), ({"type": "info"}, True)])
def test_one_answer_or_answers_right_after_a_fault_prove_nothing(tmp_path, fields, again):
    h = committed()
    for at_s in (5, 6)[: 1 + again]:
        listing(h, at_s, [stated()], **fields)
    assert judged(tmp_path, h)[0] == []


def test_answers_that_all_come_right_after_a_fault_compare_nothing(tmp_path):
    """A wrong clock that is never set right makes all of them such answers."""
    h = killed()
    for at_s in (5, 60):
        listing(h, at_s, [stated()], quiet_s=1)
    document = judged(tmp_path, h)[1]
    for name in ("hanging-transaction", "misreported-transaction"):
        assert (answer(document, name)["verdict"], answer(document, name)["compared"]) == ("not exercised", 0)
    listing(h, 70, quiet_s=1)
    assert answer(judged(tmp_path, h)[1], "hanging-transaction")["compared"] == 1, "it has ended"


@pytest.mark.parametrize(("process", "guilty"), [(1, True), (0, False)])
def test_a_client_that_was_killed_is_fenced_by_the_next_that_commits(tmp_path, process, guilty):
    h = killed()
    h.txn(process, {"t-0": [9]}, **ID)
    for at_s in (5, 6):
        listing(h, at_s, [stated()])
    assert judged(tmp_path, h)[0] == ["misreported-transaction"] * guilty


def test_ids_of_which_the_history_says_nothing_are_not_judged(tmp_path):
    h = committed()
    for at_s in (5, 6):
        listing(h, at_s, [stated(name="a program's own")])
    names, document = judged(tmp_path, h)
    assert (names, answer(document, "misreported-transaction")["verdict"]) == ([], "not exercised")


@pytest.mark.parametrize(("level", "guilty"), [("read_committed", True), (UNCOMMITTED, False)])
def test_no_reader_was_beyond_a_transaction_that_is_open(tmp_path, level, guilty):
    h = committed()
    h.poll(1, {"t-0": [0, 2]}, level)
    for at_s in (5, 6):
        listing(h, at_s, (), [opened(1)])
    names, document = judged(tmp_path, h)
    assert names == ["misreported-transaction"] * guilty
    if guilty:
        assert "read t-0@2; leaders answered afterwards" in finding(document, "misreported-transaction")["sentence"]


def test_who_reads_beyond_it_later_may_do_so(tmp_path):
    h = committed()
    for at_s in (5, 6):
        listing(h, at_s, (), [opened(1)])
    h.poll(1, {"t-0": [0, 2]})
    assert judged(tmp_path, h)[0] == []


def test_without_a_whole_answer_it_is_unknown(tmp_path):
    h = committed()
    listing(h, 5, [stated()], type="info")
    document = judged(tmp_path, h)[1]
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}


@pytest.mark.parametrize("detail", ["{", "[]", '{"open": []}', '{"transactions": [{"state": 1}], "open": [], "quiet_s": 1}'])
def test_an_answer_that_is_not_as_documented_is_none(tmp_path, detail):
    h = committed()
    h.add(-1, "list-transactions", isolation=None, role="harness", detail=detail)
    document = judged(tmp_path, h)[1]
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"unknown"}


def test_without_a_question_it_is_not_exercised(tmp_path):
    document = judged(tmp_path, committed())[1]
    assert {answer(document, check.name)["verdict"] for check in CHECKS} == {"not exercised"}


def test_every_damage_to_answers_is_found(tmp_path):
    clean, *rows = selfcheck(write_lawful(tmp_path, transactions=20), no_session, checks=CHECKS)
    assert clean.ok, clean.note
    assert [(row.damage, row.ok) for row in rows] == [(name, True) for name in ("hang", "overdue", "misreport", "reopen")]


def random_history(rng):
    """Transactions of a few ids, each in a partition of its own, and answers that are mostly true."""
    h, at_s, fault_s, producers = History(), 0.0, 0.0, {f"id{n}": n for n in range(3)}
    state = dict.fromkeys(producers, (0, 0))  # when its last transaction began, and where
    for offset in range(rng.randint(3, 14)):
        name = rng.choice(list(producers))
        partition, process = f"t-{producers[name]}", producers[name] + 10 * rng.randrange(2)
        type = rng.choice(["ok", "ok", "ok", "fail", "info"])
        end = {"end": None, "decided": None} if type == "info" and rng.random() < 0.5 else {}
        h.txn(process, {partition: [2 * offset]}, type, transactional_id=name, **end)
        state[name] = (rng.choice([state[name][0], offset]), 2 * offset)
        if rng.random() < 0.4:
            some = [mop[3] for op in h.ops for mop in op["mops"] if mop[:2] == (0, partition) and op["type"] == "ok"]
            h.poll(20, {partition: some}, rng.choice(["read_committed", UNCOMMITTED]))
        for _ in range(rng.choice([0, 0, 1, 2])):
            at_s += rng.choice([1, 1, 6, 20])
            fault_s = max(fault_s, at_s - rng.choice([at_s, at_s, at_s, 4, 1]))
            listing(h, at_s, *_answers(rng, producers, state), quiet_s=at_s - fault_s)
    return h


def _answers(rng, producers, state):
    word = rng.choice(["Ongoing", "Ongoing", "PrepareCommit", "CompleteAbort"])
    some = [name for name in producers if rng.random() < 0.6]
    where = [rng.choice([[f"t-{producers[name]}"]] * 5 + [["t-9"]]) for name in some]
    transactions = [
        stated(word, 2, name, state[name][0], partitions, producers[name])
        for name, partitions in zip(some, where, strict=True)
        if partitions != ["t-9"] or word == "CompleteAbort"
    ]
    places = [opened(state[name][1] + rng.choice([0, 0, 1]), f"t-{n}", n) for name, n in producers.items() if rng.random() < 0.6]
    return transactions, places


@pytest.mark.parametrize("rounds", [10, pytest.param(600, marks=pytest.mark.nightly)])
def test_random_answers_are_judged_as_by_the_reference(tmp_path, rounds):
    seen = dict.fromkeys(hanging_reference.TWINS, 0)
    for seed in range(rounds):
        h = random_history(Random(f"hanging {seed}"))
        document = judge_here(tmp_path, h.ops, checks=CHECKS)
        mine = hanging_reference.by_records(document["findings"])
        flat = FlatHistory(h.ops)
        assert mine == {name: twin(flat) for name, twin in hanging_reference.TWINS.items()}, seed
        seen = {name: count + bool(mine[name]) for name, count in seen.items()}
    assert all(seen.values()), seen


def test_evidence_that_is_missing_makes_no_finding():
    lost = Gap(file="c0-0.jsonl", why="is missing", evidence=(Evidence.SENDS,))
    assert set(lost.evidence) & set(misreported_transaction.evidence.presence)
    assert Evidence.SETTLING in hanging_transaction.evidence.absence
