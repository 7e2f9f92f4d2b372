"""The published table of outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.harness.api import CallError, Outcome
from fencepost.workloads.support import outcomes
from fencepost.workloads.testing import error


def test_what_is_in_no_row_is_unknown():
    assert outcomes.judge("teleport", error("teleport"), "transaction") is outcomes.DEFAULT
    assert outcomes.DEFAULT.outcome is Outcome.INFO


def test_a_record_refused_inside_the_client_failed_and_one_that_timed_out_is_unknown():
    full, late = error("deliver", "_QUEUE_FULL"), error("deliver", "_MSG_TIMED_OUT")
    assert outcomes.judge("deliver", full, "no transaction", "librdkafka").outcome is Outcome.FAIL
    assert outcomes.judge("deliver", late, "no transaction", "librdkafka").outcome is Outcome.INFO
    assert (
        outcomes.judge("deliver", full, "no transaction", "another").outcome is Outcome.INFO
    )  # what it means there is not known


def test_what_franz_go_refuses_for_want_of_room_failed():
    """`TryProduce` calls back at once, before the record is buffered."""
    full = error("deliver", "ErrMaxBuffered")
    assert outcomes.judge("deliver", full, "no transaction", "franz-go").outcome is Outcome.FAIL
    assert outcomes.judge("deliver", full, "no transaction", "sarama").outcome is Outcome.INFO


def test_a_purged_record_may_have_been_appended_by_an_attempt_before():
    """librdkafka purges what waits for a retry from the same queue as what was never sent."""
    for name in ("_PURGE_QUEUE", "_PURGE_INFLIGHT"):
        assert outcomes.judge("deliver", error("deliver", name), "no transaction").outcome is Outcome.INFO


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("MSG_SIZE_TOO_LARGE", "librdkafka"),
        ("_UNKNOWN_TOPIC", "librdkafka"),
        ("_UNKNOWN_PARTITION", "librdkafka"),
        ("RecordTooLargeException", "kafka-clients"),
    ],
)
def test_what_an_altered_topic_refuses_may_have_been_appended_by_an_attempt_before(name, library):
    """The first attempt got no answer, then somebody lowered max.message.bytes, or deleted the topic."""
    assert outcomes.judge("deliver", error("deliver", name), "no transaction", library).outcome is Outcome.INFO


@pytest.mark.parametrize("name", ["TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationException"])
def test_what_was_refused_for_want_of_a_right_may_have_been_done_by_an_attempt_before(name):
    refused = error("deliver", name)
    assert outcomes.judge("deliver", refused, "no transaction").outcome is Outcome.INFO
    assert outcomes.judge("commit", refused, "not aborted").outcome is Outcome.INFO
    assert outcomes.judge("commit", refused, "aborted").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("name", "code"), [("INVALID_PRODUCER_ID_MAPPING", 49), ("InvalidPidMappingException", 49), ("sarama.KError", 49)]
)
def test_an_abort_at_a_coordinator_that_has_forgotten_the_id_says_nothing_of_an_earlier_commit(name, code):
    """The first EndTxn got no answer, the second one this: the client takes another producer id, and sends no EndTxn to abort."""
    forgotten = CallError("commit", name, code, "scripted", abortable=True)
    assert outcomes.judge("commit", forgotten, "aborted").outcome is Outcome.INFO
    refused = CallError("commit", "TRANSACTION_ABORTABLE", 120, "scripted", abortable=True)
    assert outcomes.judge("commit", refused, "aborted").outcome is Outcome.FAIL


def test_no_row_of_commit_ever_says_that_it_surely_failed_unless_an_abort_was_acknowledged():
    rows = [row for row in outcomes.TABLE if row.call == "commit" and row.outcome is Outcome.FAIL]
    assert [row.after for row in rows] == ["aborted"]


def test_the_published_table_is_the_one_in_use():
    page = Path(__file__).parents[3] / "docs" / "outcomes.md"
    assert outcomes.markdown() in page.read_text()
