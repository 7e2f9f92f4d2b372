"""Errors of the wrong class: each row of KIP-98's table met and violated, and what is no evidence for either."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.histories import History, answer, finding, violated, write_faults
from support.judging import judge_here

from fencepost.checkers.anomalies.error_table import MISUSES, TABLE, Answer

ID = {"transactional_id": "id"}
STRICT = {"strict_errors": "true"}
FENCED = Answer(op=1, call="commit", time=5, name="_FENCED", fatal=True, fenced=True)
QUIET = Answer(op=1, call="commit", time=5, undisturbed=True)


def rows_of(given):
    """(number of the row, met) of each row of the table that is about an answer."""
    return [(number, row.met(given)) for number, row in enumerate(TABLE) if row.applies(given)]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (FENCED, replace(FENCED, fatal=False, retriable=True)),
        (replace(FENCED, call="flush", fatal=False, abortable=True), replace(FENCED, call="flush", fatal=False, retriable=True)),
        (
            replace(FENCED, repeated=True, fatal=False, abortable=True),
            replace(FENCED, repeated=True, fatal=False, retriable=True),
        ),
        (replace(FENCED, call="abort", repeated=True), replace(FENCED, call="abort", repeated=True, fatal=False, abortable=True)),
        (
            Answer(op=1, call="begin", time=5, name="X", fatal=True, after_fatal=True),
            Answer(op=1, call="commit", time=5, after_fatal=True),
        ),
        (replace(QUIET, call="send"), replace(QUIET, call="send", name="ProducerFencedException", fatal=True)),
        (
            replace(QUIET, timed_out=True, name="INVALID_PRODUCER_EPOCH", abortable=True),
            replace(QUIET, timed_out=True, name="INVALID_PRODUCER_EPOCH", retriable=True),
        ),
        (replace(QUIET, call="abort", name="OTHER"), replace(QUIET, call="abort", name="INVALID_TXN_STATE", fatal=True)),
        *(
            (replace(QUIET, undisturbed=False, name=name, **good), replace(QUIET, undisturbed=False, name=name, **bad))
            for name, good, bad in (
                ("NOT_COORDINATOR", {"retriable": True}, {"fatal": True}),
                ("INVALID_PRODUCER_ID_MAPPING", {"fatal": True}, {"abortable": True}),
                ("OutOfOrderSequenceException", {"abortable": True}, {"retriable": True}),
                ("_TIMED_OUT", {"retriable": True}, {"fatal": True}),
                ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", {"fatal": True}, {"abortable": True}),
                ("TransactionalIdAuthorizationException", {"fatal": True}, {"retriable": True}),
                ("TOPIC_AUTHORIZATION_FAILED", {"abortable": True}, {"retriable": True}),
                ("GroupAuthorizationException", {"abortable": True}, {"retriable": True}),
            )
        ),
        (None, Answer(op=1, call="flush", time=5, name="DUPLICATE_SEQUENCE_NUMBER", abortable=True)),
        (
            Answer(op=1, call="initialise", time=5, name="INVALID_TRANSACTION_TIMEOUT", fatal=True),
            Answer(op=1, call="initialise", time=5, name="INVALID_TRANSACTION_TIMEOUT", retriable=True),
        ),
    ],
)
def test_a_row_is_met_by_one_class_and_violated_by_another(good, bad):
    wrong = {number for number, met in rows_of(bad) if not met}
    assert wrong
    assert good is None or (rows_of(good) and all(met for _, met in rows_of(good)))
    assert good is None or wrong & {number for number, _ in rows_of(good)}


@pytest.mark.parametrize(
    ("call", "kafkas", "names"),
    [
        ("commit", "INVALID_TXN_STATE", {"ErrInvalidTxnState": 48, "InvalidTxnStateException": 48}),
        ("send", "NOT_COORDINATOR", {"NotCoordinatorForGroup": 16, "NOT_COORDINATOR_FOR_GROUP": 16}),
        ("send", "COORDINATOR_LOAD_IN_PROGRESS", {"GroupLoadInProgressError": 14}),
        ("commit", "CONCURRENT_TRANSACTIONS", {"ErrConcurrentTransactions": 51}),
        ("flush", "OUT_OF_ORDER_SEQUENCE_NUMBER", {"ErrOutOfOrderSequenceNumber": 45}),
        ("flush", "DUPLICATE_SEQUENCE_NUMBER", {"ErrDuplicateSequenceNumber": 46}),
        ("commit", "INVALID_PRODUCER_ID_MAPPING", {"ErrInvalidProducerIDMapping": 49, "InvalidPidMappingException": 49}),
        ("initialise", "INVALID_TRANSACTION_TIMEOUT", {"InvalidTxnTimeoutException": 50, "ErrInvalidTransactionTimeout": 50}),
        ("flush", "TOPIC_AUTHORIZATION_FAILED", {"KError": 29}),
        ("commit", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", {"KError": 53}),
    ],
)
def test_an_error_is_known_by_its_code_whatever_a_client_calls_it(call, kafkas, names):
    given = replace(QUIET, call=call, name=kafkas, retriable=True)
    assert rows_of(given)
    for name, code in names.items():
        assert rows_of(replace(given, name=name, code=code)) == rows_of(given), name


def test_a_code_that_is_none_of_kafkas_names_no_error():
    assert not replace(QUIET, name="Local", code=0).named("CLUSTER_AUTHORIZATION_FAILED", "REQUEST_TIMED_OUT")
    assert not replace(QUIET, name="_TIMED_OUT", code=-185).named("INVALID_TXN_STATE")


def test_a_fenced_instance_that_reaches_no_broker_is_in_no_row_but_that_of_timeouts():
    given = Answer(op=1, call="commit", time=5, name="_TIMED_OUT", retriable=True, fenced=True)
    assert [met for _, met in rows_of(given)] == [True]


def test_an_error_of_no_class_tells_nobody_to_go_on():
    """As that of a library without classes, whose documentation has an application abort (`unconfirmed` of a driver)."""
    assert [met for _, met in rows_of(replace(FENCED, name="INVALID_PRODUCER_EPOCH", fatal=False))] == [True]


def test_an_instance_that_may_have_been_fenced_is_in_no_row():
    assert rows_of(Answer(op=1, call="commit", time=5, name="_FENCED", fatal=True)) == []


def error(call, name, time, **flags):
    return {"call": call, "name": name, "code": 0, "text": "", "time": time, **flags}


def refused(**flags):
    """Process 0 is fenced by process 1; its commit raises an error of some class, and its next begin the same."""
    h = History()
    h.add(0, "initialise", **ID)
    h.add(1, "initialise", **ID)
    for call in ("commit", "begin"):
        h.txn(0, {"t-0": None}, "info" if call == "commit" else "fail", errors=[error(call, "_FENCED", h.now + 9, **flags)], **ID)
    h.txn(1, {"t-0": [8]}, **ID)
    h.final({"t-0": [8]})
    return h


@pytest.mark.parametrize(("refusal", "forbidden"), [(None, ["wrong-error"]), (29, [])], ids=["in order", "after a refusal"])
def test_a_commit_of_sarama_that_its_coordinator_finds_out_of_order(tmp_path, refusal, forbidden):
    """ErrInvalidTxnState of a commit whose calls were in order; after a refusal for lack of a right it may be."""
    h = History()
    h.add(0, "initialise", **ID)
    errors = [{**error("flush", "KError", h.now + 8), "code": refusal}] if refusal else []
    h.txn(0, {"t-0": [5]}, "info", errors=[*errors, {**error("commit", "ErrInvalidTxnState", h.now + 9), "code": 48}], **ID)
    h.final({"t-0": []}, {"t-0": [5]})
    write_faults(tmp_path)
    assert violated(judge_here(tmp_path, h.ops)) == forbidden


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"f": "initialise", "call": "initialise"}, "Initialise 0 of process 0 raised INVALID_TRANSACTION_TIMEOUT (retriable)"),
        ({"f": "misuse", "call": "commit"}, "commit of misuse 0 of process 0 returned ok, where an error is demanded"),
    ],
)
def test_a_sentence_names_the_operation_by_its_kind(tmp_path, fields, sentence):
    h = History()
    h.add(0, fields["f"], **ID, detail=json.dumps({"misuse": "commit outside", "reached": True}))
    if fields["call"] == "initialise":
        h.ops[0]["errors"] = [error("initialise", "INVALID_TRANSACTION_TIMEOUT", h.now, retriable=True)]
    h.txn(1, {"t-0": [5]})
    h.final({"t-0": [5]})
    assert finding(judge_here(tmp_path, h.ops), "wrong-error")["sentence"].startswith(sentence)


def test_a_fatal_error_of_a_fenced_instance_is_as_it_has_to_be(tmp_path):
    document = judge_here(tmp_path, refused(fatal=True).ops, contract=STRICT)
    outcome = answer(document, "wrong-error")
    assert (outcome["verdict"], "wrong-error" in violated(document)) == ("held", False)
    counts = {row["situation"]: (row["met"], row["violated"]) for row in outcome["table"]}
    assert counts["another instance has initialised, and the coordinator refuses the old epoch"] == (1, 0)
    assert counts["an earlier call of the same instance had a fatal error"] == (1, 0)
    assert counts[
        "the coordinator has forgotten the transactional id, or given it another producer id (its epochs had run out)"
    ] == (0, 0)


def test_a_retriable_one_is_forbidden_because_the_kip_leaves_no_doubt(tmp_path):
    document = judge_here(tmp_path, refused(retriable=True).ops)
    assert violated(document) == ["wrong-error"]
    sentences = [each["sentence"] for each in document["findings"] if each["anomaly"] == "wrong-error"]
    assert any(
        "raised _FENCED (retriable)" in text and "where fatal (neither retriable nor abortable) is demanded" in text
        for text in sentences
    )


@pytest.mark.parametrize(
    ("of_record", "abortable", "wrong"),
    [
        ("INVALID_PRODUCER_EPOCH", True, False),  # a leader's answer, which commit repeats (KIP-588)
        ("_MSG_TIMED_OUT", True, True),
        ("INVALID_PRODUCER_EPOCH", False, False),  # retriable: against the other row, which leaves doubt
    ],
)
def test_a_commit_that_repeats_what_a_leader_answered_may_be_abortable(tmp_path, of_record, abortable, wrong):
    h = History()
    h.add(0, "initialise", **ID)
    h.add(1, "initialise", **ID)
    flags = {"abortable": True} if abortable else {"retriable": True}
    errors = [error("deliver", of_record, h.now + 5, fatal=True), error("commit", "INVALID_PRODUCER_EPOCH", h.now + 9, **flags)]
    h.txn(0, {"t-0": None}, "info", errors=errors, **ID)
    h.txn(1, {"t-0": [8]}, **ID)
    h.final({"t-0": [8]})
    document = judge_here(tmp_path, h.ops)
    assert ("wrong-error" in violated(document)) == wrong
    counts = {row["situation"]: (row["met"], row["violated"]) for row in answer(document, "wrong-error")["table"]}
    repeats = of_record == "INVALID_PRODUCER_EPOCH"
    assert counts["another instance has initialised, and a partition's leader refuses the old epoch"] == (
        int(repeats and abortable),
        int(repeats and not abortable),
    )


def overtaking(name, **flags):
    """An abort of a process that nobody disturbs, refused because it overtook what it was to abort (librdkafka 4849)."""
    h = History()
    h.add(0, "initialise", **ID)
    h.txn(0, {"t-0": [3]}, **ID)
    errors = [error("abort", name, h.now + 9, **flags)]
    h.txn(0, {"t-0": None}, "fail", intent="abort", errors=errors, **ID)
    h.final({"t-0": [3]})
    return h


def test_an_abort_that_is_refused_without_a_fault_is_forbidden(tmp_path):
    document = judge_here(tmp_path, overtaking("INVALID_TXN_STATE", fatal=True).ops)
    assert violated(document) == ["wrong-error"]
    assert "nobody has initialised since, and the calls were made in order" in finding(document, "wrong-error")["sentence"]


def test_the_same_while_a_fault_is_on_is_reported(tmp_path):
    history = overtaking("INVALID_TXN_STATE", fatal=True)
    write_faults(tmp_path, {"id": 0, "kind": "kill", "injected_ns": history.ops[2]["time"], "evidence": "{}", "healing": "{}"})
    document = judge_here(tmp_path, history.ops)
    assert violated(document) == []
    assert "wrong-error" in [each["anomaly"] for each in document["findings"]]


def test_an_innocent_run_says_how_many_rows_were_compared(tmp_path):
    h = History()
    h.add(0, "initialise", **ID)
    h.txn(0, {"t-0": [3]}, **ID)
    h.final({"t-0": [3]})
    outcome = answer(judge_here(tmp_path, h.ops), "wrong-error")
    assert (outcome["verdict"], outcome["reason"]) == ("held", f"2 of {len(TABLE)} rows of its table were compared")


@pytest.mark.parametrize("errors", [[], [{"call": "flush", "name": "OTHER", "code": 0, "text": "", "time": 1}]])
def test_transactions_that_ended_ok_are_counted_without_errors_as_with_them(tmp_path, errors):
    """Before a fatal error, after it, without an id, and of a process of which no instance is known."""
    h = History()
    h.add(0, "initialise", **ID)
    for at in range(3):
        h.txn(0, {"t-0": [at]}, **ID, errors=errors)
    h.txn(0, {"t-0": [3]}, errors=errors)
    h.txn(1, {"t-0": [4]}, transactional_id="other", errors=errors)
    h.txn(0, {"t-0": None}, "info", errors=[error("commit", "X", h.now + 9, fatal=True)], **ID)
    for at in range(5, 7):
        h.txn(0, {"t-0": [at]}, **ID, errors=errors)
    h.final({"t-0": [0, 1, 2, 3, 4, 5, 6]})
    document = judge_here(tmp_path, h.ops)
    table = answer(document, "wrong-error")["table"]
    ok, flushes = {2: (0, 2), 3: (4, 0), 5: (4, 0)}, len(errors)
    flushed = {2: (2, 0), 3: (3, 0)}  # each is an answer of its own, of no class
    wanted = {row: (met + flushes * flushed.get(row, (0, 0))[0], violated) for row, (met, violated) in ok.items()}
    assert {row: (each["met"], each["violated"]) for row, each in enumerate(table) if each["met"] or each["violated"]} == wanted
    assert finding(document, "wrong-error")["sentence"].startswith("commit of transaction 6 of process 0 returned ok (the")


def misused(name, refused):
    """A call out of order, refused or not, and a transaction of the same producer after it."""
    h = History()
    h.add(0, "initialise", **ID)
    errors = [error(MISUSES[name], "_STATE", h.now + 9)] if refused else []
    detail = json.dumps({"misuse": name, "reached": True})
    h.add(0, "misuse", type="fail" if refused else "ok", errors=errors, detail=detail, **ID)
    h.txn(0, {"t-0": [3]}, **ID)
    h.final({"t-0": [3]})
    return h


@pytest.mark.parametrize("name", list(MISUSES))
def test_a_call_out_of_order_has_to_be_refused(tmp_path, name):
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
    good = judge_here(tmp_path / "good", misused(name, refused=True).ops)
    assert (answer(good, "wrong-error")["verdict"], violated(good)) == ("held", [])
    bad = judge_here(tmp_path / "bad", misused(name, refused=False).ops)
    assert violated(bad) == ([] if name == "send outside" else ["wrong-error"])
    assert "returned ok, where an error is demanded" in finding(bad, "wrong-error")["sentence"]


def test_a_call_that_was_not_made_is_in_no_row(tmp_path):
    h = misused("commit outside", refused=False)
    h.ops[1]["detail"] = json.dumps({"misuse": "commit outside", "reached": False})
    rows = {row["situation"]: row["met"] + row["violated"] for row in answer(judge_here(tmp_path, h.ops), "wrong-error")["table"]}
    assert rows["no transaction is open: commit"] == 0


def test_what_is_refused_for_lack_of_a_right_is_no_wrong_state():
    given = replace(QUIET, call="abort", name="INVALID_TXN_STATE", fatal=True, denied=True)
    assert "nobody has initialised since, and the calls were made in order" not in [
        TABLE[number].situation for number, met in rows_of(given) if not met
    ]


def test_every_row_says_why_it_is_or_is_not_forbidden():
    assert {row.situation for row in TABLE if not row.doubt} == {
        "another instance has initialised, and the coordinator refuses the old epoch",
        "nobody has initialised since, and the calls were made in order",
        "a sequence number was seen before: the record is there",
        "transaction.timeout.ms is above what the brokers allow",
        "a transaction is open already",
        "no transaction is open: commit",
        "no transaction is open: abort",
        "no transaction is open: offsets",
    }
