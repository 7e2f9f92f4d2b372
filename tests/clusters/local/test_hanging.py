"""A hanging transaction on a real broker, made as KAFKA-14402 makes it: found by what coordinator and leader answer."""

from __future__ import annotations

import json

import pytest
from support.histories import History, finding, violated
from support.judging import judge_here
from support.play_scenes import play

from fencepost.checkers.anomalies.hanging import hanging_transaction, misreported_transaction

pytestmark = [pytest.mark.cluster, pytest.mark.nightly]
UNVERIFIED = {"transaction.partition.verification.enable": "false"}


def test_a_record_that_arrives_after_its_transaction_hangs_until_an_operator_aborts_it(tmp_path):
    seen = play(tmp_path, "hanging", brokers=1, settings=UNVERIFIED)
    h = History()
    for begin, answered, listing in seen["answers"]:
        assert not listing["silent"]
        value = {"transactions": listing["coordinated"], "open": listing["opened"], "silent": [], "quiet_s": begin / 1e9}
        start = h.now
        h.add(-1, "list-transactions", role="harness", detail=json.dumps(value), time=start + begin, end=start + answered)
        h.now = start
    document = judge_here(tmp_path, h.ops, checks=[hanging_transaction, misreported_transaction])
    assert violated(document) == ["hanging-transaction"]
    hanging = finding(document, "hanging-transaction")
    assert [(row["partition"], row["offset"]) for row in hanging["records"]] == [("t-0", seen["offset"])]
    assert sorted(seen["offsets"]) == [seen["offset"], seen["offset"] + 1], "it holds the last stable offset"
    assert seen["ended by an operator"]
