"""Kafka's names as data: what is written in a rule is compared with them before anything is started."""

from __future__ import annotations

import pytest

from fencepost.harness.proxy import jars, names


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        ({"act": "hold", "api": "EndTxm"}, "api: Kafka has no API EndTxm; did you mean EndTxn?"),
        ({"act": "hold", "api": "endtxn"}, "api: Kafka has no API endtxn; did you mean EndTxn?"),
        ({"act": "hold", "api": ["EndTxn", "Zzz"]}, "api: Kafka has no API Zzz"),
        ({"act": "hold", "api": "*Txm"}, "api: Kafka has no API like *Txm"),
        (
            {"act": "hold", "api": "EndTxn", "until": "next:Produc"},
            "until: Kafka has no API Produc; did you mean Produce, AllocateProducerIds, DescribeProducers?",
        ),
        ({"act": "hold", "api": "EndTxn", "until": "answered:Zzz"}, "until: Kafka has no API Zzz"),
        (
            {"act": "error", "api": "EndTxn", "code": "FENCED"},
            "code: Kafka has no error FENCED; did you mean FENCED_INSTANCE_ID, FENCED_LEADER_EPOCH, FENCED_MEMBER_EPOCH?",
        ),
        ({"act": "lose", "on": "answer", "error": "NOPE"}, "error: Kafka has no error NOPE"),
        ({"act": "alter", "lower": {"EndTxm": 3}}, "lower: Kafka has no API EndTxm; did you mean EndTxn?"),
    ],
    ids=str,
)
def test_a_name_that_kafka_does_not_have_is_named_with_what_may_be_meant(rule, mistake):
    assert [*names.mistakes(rule)] == [mistake]


@pytest.mark.parametrize(
    "rule",
    [
        {"act": "hold", "api": "*Txn*", "until": "closed"},
        {"act": "hold", "api": ["EndTxn", "Produce"], "until": "event:Zzz"},
        {"act": "late", "api": "LeaderAndIsr", "until": "answered:InitProducerId"},
        {"act": "error", "api": "Produce", "code": "NOT_COORDINATOR"},
        {"act": "lose", "on": "answer", "error": ["NOT_*", "NETWORK_EXCEPTION"]},
        {"act": "cut"},
    ],
    ids=str,
)
def test_names_of_any_release_are_names(rule):
    """LeaderAndIsr went with 4.0."""
    assert [*names.mistakes(rule)] == []


@pytest.mark.cluster
def test_the_newest_release_has_no_name_that_is_not_known():
    theirs, ours = names.of_release(jars.DEFAULT), names.known()
    assert all(names.joined(api, ours.apis[name]) == ours.apis[name] for name, api in theirs.apis.items())
    assert theirs.errors.items() <= ours.errors.items()
    assert names.RELEASES[-1] == jars.DEFAULT


@pytest.mark.nightly
def test_the_file_is_made_of_the_releases():
    """Needs the network, once for each."""
    assert names.FILE.read_text() == names.text()
