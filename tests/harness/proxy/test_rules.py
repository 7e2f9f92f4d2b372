"""Rules: what is refused, with key and remedy, here and by the proxy in the same words."""

from __future__ import annotations

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.proxy.rules import KEYS, OPTIONS, Rule, of_file, of_mapping, unknown

GOOD = [
    {"act": "record"},
    {"act": "delay", "delay_ms": 1, "api": ["Produce", "EndTxn"]},
    {"act": "hold", "until": "next:InitProducerId", "at_most_ms": 5000, "transactional_id": "w?-*"},
    {"act": "hold", "until": "closed", "on": "answer"},
    {"act": "drop", "then": "stall", "nth": 3},
    {"act": "lose", "on": "answer", "error": "NOT_*", "times": 2},
    {"act": "late", "delay_ms": 0},
    {"act": "late", "until": "closed", "then": "stall"},
    {"act": "repeat", "count": 2, "topic": "t", "partition": [0, 1], "producer_id": 4000},
    {"act": "error", "code": "NOT_COORDINATOR", "api": "EndTxn"},
    {"act": "alter", "set": {"committed": False}, "where": {"committed": True}},
    {"act": "alter", "transform": "reverse-aborted"},
    {"act": "alter", "transform": "lower-api-versions", "lower": {"EndTxn": 4}},
    {"act": "record", "state": "fresh"},
    {"act": "late", "delay_ms": 5, "state": ["committed", "aborted", "fenced"]},
    {"act": "throttle", "bytes_s": 1000, "connection_of": "broker", "node": "n1", "group": "g", "client_id": "c"},
    {"act": "cut", "name": "a name"},
]
BAD = [
    ({"act": "lose", "times": 0}, "times: must be a whole number of at least 1"),
    ({"act": "lose", "nth": 1, "times": 1}, "nth: is one match and times many; leave out one"),
    ({"act": "delay"}, "delay_ms: act delay needs it"),
    (
        {"act": "hold", "until": "later"},
        "until: must be event:NAME, next:API or answered:API with Kafka's name of an API, or closed",
    ),
    ({"act": "lose", "delay_ms": 5}, "delay_ms: has no meaning with act lose; leave it out"),
    ({"act": "drop", "on": "answer"}, "on: act drop is of requests; act lose is what drops an answer"),
    ({"act": "repeat", "on": "answer"}, "on: act repeat is of requests"),
    ({"act": "lose", "error": "NOT_COORDINATOR"}, "error: only answers have one; add on = answer"),
    ({"act": "late"}, "delay_ms: act late needs it or until, and not both"),
    ({"act": "late", "delay_ms": 1, "at_most_ms": 1}, "at_most_ms: is the bound of until; leave it out beside delay_ms"),
    ({"act": "late", "until": "closed"}, "until: the connection is closed at once; add then = stall, or use delay_ms"),
    ({"act": "alter"}, "set: act alter needs it or transform, and not both"),
    (
        {"act": "alter", "transform": "reverse-aborted", "api": "Produce"},
        "transform: reverse-aborted is of answers of Fetch; leave out api and on",
    ),
    (
        {"act": "alter", "transform": "lower-api-versions"},
        "lower: belongs to transform = lower-api-versions; give both or neither",
    ),
    ({"act": "alter", "set": {}}, "set: must be a mapping that is not empty"),
    (
        {"act": "record", "state": ["fresh", "begun"]},
        "state: must be one of fresh, committed, aborted, fenced, or a list of them",
    ),
    (
        {"act": "lsoe"},
        "act: must be one of record, delay, hold, drop, lose, late, repeat, error, alter, cut, throttle; did you mean lose?",
    ),
    ({"act": "lose", "apis": "EndTxn"}, "apis: there is no such key; did you mean api?"),
    ({"act": "lose", "nht": 1}, "nht: there is no such key; did you mean nth?"),
    ({"api": "EndTxn"}, "act: is missing; one of record, delay, hold, drop, lose, late, repeat, error, alter, cut, throttle"),
    ({"act": "lose", "partition": "0"}, "partition: must be a whole number from 0 to 2147483647, or a list of them"),
    ({"act": "lose", "partition": [1, -1]}, "partition: must be a whole number from 0 to 2147483647, or a list of them"),
    ({"act": "lose", "producer_id": -1}, "producer_id: must be a whole number from 0 to 9223372036854775807, or a list of them"),
    ({"act": "lose", "topic": []}, "topic: must be a text, or a list of texts, each any of them"),
    ({"act": "lose", "topic": [{}]}, "topic: must be a text, or a list of texts, each any of them"),
    ({"act": "lose", "on": True}, "on: must be one of request, answer"),
    ({"act": "lose", "on": "anwser"}, "on: must be one of request, answer; did you mean answer?"),
    ({"act": "delay", "delay_ms": 0}, "delay_ms: 0 delays nothing; give a longer time"),
    (
        {"act": "hold", "until": "event:a/b"},
        "until: must be event:NAME, next:API or answered:API with Kafka's name of an API, or closed",
    ),
]
UNKNOWN = [  # what Kafka does not have: `unknown` says it, and the proxy
    ({"act": "lose", "api": "endtxn"}, "api: Kafka has no API endtxn; did you mean EndTxn?"),
    ({"act": "lose", "api": ["EndTxn", "Zzz"]}, "api: Kafka has no API Zzz"),
    ({"act": "lose", "api": "*Txm"}, "api: Kafka has no API like *Txm"),
    ({"act": "error", "code": "NOT_CORDINATOR"}, "code: Kafka has no error NOT_CORDINATOR; did you mean NOT_COORDINATOR"),
    ({"act": "error", "code": "NONE"}, "code: Kafka has no error NONE; name an error"),
    ({"act": "hold", "until": "next:EndTxm"}, "until: Kafka has no API EndTxm; did you mean EndTxn?"),
    (
        {"act": "lose", "on": "answer", "error": "NONE"},
        "error: Kafka has no error NONE; where = {errorCode = 0} is of answers without one",
    ),
    ({"act": "lose", "on": "answer", "error": "FENCD*"}, "error: Kafka has no error like FENCD*"),
    (
        {"act": "alter", "transform": "lower-api-versions", "lower": {"EndTxm": 3}},
        "lower: Kafka has no API EndTxm; did you mean EndTxn?",
    ),
    (
        {"act": "alter", "transform": "lower-api-versions", "lower": {"EndTxn": 50}},
        "lower: EndTxn has no version 50; the newest is 5",
    ),
    (
        {"act": "lose", "api": "EndTxn", "where": {"comitted": True}},
        "where: comitted: EndTxn has no such field in its requests; did you mean committed?",
    ),
    (
        {"act": "lose", "api": "CreateTopics", "where": {"topics.name": "a"}},
        "where: topics.name: CreateTopics has no such field in its requests; did you mean topics.*.name?",
    ),
    (
        {"act": "lose", "api": "EndTxn", "where": {"errorCode": 0}},
        "where: errorCode: EndTxn has no such field in its requests; with on = answer it has",
    ),
    (
        {"act": "lose", "api": "EndTxn", "on": "answer", "where": {"committed": True}},
        "where: committed: EndTxn has no such field in its answers; with on = request it has",
    ),
    (
        {"act": "lose", "api": "*Txn", "where": {"transactionalid": "a"}},
        "where: transactionalid: no request like *Txn has such a field; did you mean transactionalId, ",
    ),
    ({"act": "lose", "where": {"zzzzzz": 1}}, "where: zzzzzz: no request of Kafka's has such a field"),
    ({"act": "lose", "api": "EndTxn", "where": {"committed": "true"}}, 'where: committed: is true or false, not "true"'),
    (
        {"act": "lose", "api": "EndTxn", "where": {"producerEpoch": [1, 40000]}},
        "where: producerEpoch: is a whole number from -32768 to 32767, not 40000",
    ),
    (
        {"act": "lose", "api": "EndTxn", "where": {"producerId": 1.5}},
        "where: producerId: is a whole number from -9223372036854775808 to 9223372036854775807, not 1.5",
    ),
    ({"act": "lose", "api": "EndTxn", "where": {"transactionalId": 5}}, "where: transactionalId: is a text, not 5"),
    (
        {"act": "lose", "api": "EndTxn", "on": "answer", "where": {"errorCode": "NOT_COORDINATOR"}},
        "where: errorCode: is the number of an error, not its name; NOT_COORDINATOR is 16",
    ),
    (
        {"act": "lose", "api": "EndTxn", "on": "answer", "where": {"errorCode": 999}},
        "where: errorCode: is the number of an error, and Kafka has none with 999",
    ),
    (
        {"act": "lose", "api": "CreateTopics", "where": {"topics": "a"}},
        "where: topics: is a list, which no value equals; did you mean topics.*.name, topics.*.numPartitions, ",
    ),
    (
        {"act": "lose", "api": "CreateTopics", "where": {"topics": {"nmae": "a"}}},
        'where: topics: is a table; write the whole path in quotes, as "topics.nmae"',
    ),
    (
        {"act": "lose", "api": "SaslAuthenticate", "where": {"authBytes": "a"}},
        "where: authBytes: is bytes, which no value equals",
    ),
    (
        {"act": "lose", "api": "Produce", "where": {"topicData.*.partitionData.*.records": 1}},
        "where: topicData.*.partitionData.*.records: Produce has no such field in its requests; did you mean topicData.*.p",
    ),
    ({"act": "alter", "api": "EndTxn", "set": {"committed": 1}}, "set: committed: is true or false, not 1"),
    (
        {"act": "alter", "api": "EndTxn", "set": {"comitted": True}},
        "set: comitted: EndTxn has no such field in its requests; did you mean committed?",
    ),
    ({"act": "alter", "api": "CreateTopics", "set": {"topics": "a"}}, 'set: topics: is a list, not "a"'),
    (
        {"act": "lose", "api": "Heartbeat", "transactional_id": "a"},
        "transactional_id: Heartbeat requests have no transactional_id; leave it out",
    ),
    ({"act": "lose", "api": ["EndTxn", "Heartbeat"], "group": "a"}, "group: EndTxn requests have no group; leave it out"),
    (
        {"act": "lose", "api": "OffsetFetch", "producer_id": 4},
        "producer_id: OffsetFetch requests have no producer_id; leave it out",
    ),
    (
        {"act": "lose", "api": "CreateTopics", "topic": "a"},
        "topic: CreateTopics requests name no partitions of topics; leave it out, or use where with topics.*.name",
    ),
    ({"act": "lose", "api": "EndTxn", "partition": 0}, "partition: EndTxn requests name no partitions of topics; leave it out"),
    ({"act": "lose", "api": "OffsetCommit", "state": "fresh"}, "state: OffsetCommit requests name no producer; leave it out"),
    (
        {"act": "alter", "transform": "reverse-aborted", "transactional_id": "a"},
        "transactional_id: Fetch requests have no transactional_id; leave it out",
    ),
    (
        {"act": "lose", "api": "WriteTxnMarkers", "connection_of": "client"},
        "connection_of: brokers alone send WriteTxnMarkers; leave it out",
    ),
    ({"act": "lose", "api": "EndTxn", "connection_of": "broker"}, "connection_of: brokers do not send EndTxn; leave it out"),
]
CAN_BE = [  # unusual, and right
    {"act": "lose", "api": "CreateTopics", "where": {"topics.0.name": "a*", "topics.*.numPartitions": [1, 3.0]}},
    {"act": "lose", "api": ["EndTxn", "AddOffsetsToTxn"], "where": {"producerId": 7}},
    {"act": "lose", "api": "*Txn*", "where": {"committed": [True, False]}},
    {"act": "lose", "where": {"topicData.*.partitionData.*.recordsSizeInBytes": 0}},
    {"act": "lose", "api": "Fetch", "on": "answer", "topic": "t", "where": {"nodeEndpoints.0.port": 1}},
    {"act": "lose", "api": "FindCoordinator", "transactional_id": "a", "state": "fresh"},
    {"act": "lose", "api": "FindCoordinator", "group": "a"},
    {"act": "lose", "api": ["Produce", "WriteTxnMarkers"], "producer_id": 4, "topic": "t", "partition": 1},
    {"act": "lose", "api": "AddPartitionsToTxn", "transactional_id": "a", "topic": "t", "connection_of": "broker"},
    {"act": "lose", "api": "TxnOffsetCommit", "group": "a", "topic": "t", "partition": 1},
    {"act": "alter", "api": "Produce", "set": {"topicData.*.partitionData.*.records": "AAAA", "transactionalId": None}},
    {"act": "alter", "api": "CreateTopics", "set": {"topics": []}},
    {"act": "lose", "on": "answer", "error": ["NOT_*", "UNKNOWN_SERVER_ERROR"], "api": "EndTxn"},
    {"act": "lose", "api": "OffsetFetch", "group": "a", "topic": "t"},
    {"act": "lose", "api": "DescribeProducers", "topic": "t"},
]


@pytest.mark.parametrize("rule", GOOD, ids=str)
def test_a_rule_that_can_be(rule):
    assert of_mapping(rule).document() == rule


@pytest.mark.parametrize(("rule", "mistake"), BAD, ids=str)
def test_a_rule_that_cannot_be_is_refused_with_its_key(rule, mistake):
    with pytest.raises(CampaignError) as refused:
        of_mapping(rule)
    assert refused.value.mistakes == [mistake]


@pytest.mark.parametrize(("rule", "mistake"), UNKNOWN, ids=str)
def test_what_kafka_does_not_have_is_named_with_its_key_and_what_may_be_meant(rule, mistake):
    assert [text[: len(mistake)] for text in unknown(of_mapping(rule).document())] == [mistake]


@pytest.mark.parametrize("rule", [*GOOD, *CAN_BE], ids=str)
def test_what_some_message_has_is_not_refused(rule):
    assert unknown(rule) == []


def test_all_mistakes_are_said_at_once():
    with pytest.raises(CampaignError) as refused:
        Rule(act="lose", nth=0, times=-1, on="reply")
    assert [mistake.partition(":")[0] for mistake in refused.value.mistakes] == ["on", "nth", "times"]
    with pytest.raises(CampaignError) as refused:
        of_mapping({"act": "hold", "nht": 1, "times": -1, "delay_ms": 5})
    assert [mistake.partition(":")[0] for mistake in refused.value.mistakes] == ["nht", "times", "delay_ms", "until"]


@pytest.mark.parametrize("name", ["", 5, ["a"], {}], ids=repr)
def test_a_rule_whose_name_is_none_is_named_by_its_number(name):
    with pytest.raises(CampaignError) as refused:
        of_file({"rule": [{"act": "cut", "name": name}]}, "r.toml")
    assert refused.value.mistakes == ["r.toml: rule 1: name: must be a text"]


def test_the_mistakes_of_a_file_name_file_rule_and_key():
    document = {"rule": [{"act": "lose", "name": "a"}, {"act": "delay"}, {"act": "cut", "name": "a"}, 5], "rules": []}
    with pytest.raises(CampaignError) as refused:
        of_file(document, "my.toml")
    assert refused.value.mistakes == [
        "my.toml: rules: there is no such key; rules are tables [[rule]]",
        "my.toml: rule 2: delay_ms: act delay needs it",
        "my.toml: rule 4: a rule is a table of keys and values",
        "my.toml: a: name: is given twice; choose another",
    ]
    with pytest.raises(CampaignError, match="has no rule"):
        of_file({}, "my.toml")


def test_what_kafka_does_not_have_is_said_of_all_rules_of_a_file_at_once():
    tables = [{"act": "lose", "api": "EndTxm", "nth": 0}, {"act": "lose", "api": "EndTxn", "where": {"comitted": 1}}]
    with pytest.raises(CampaignError) as refused:
        of_file({"rule": tables}, "my.toml")
    assert [mistake.split(": ")[:3] for mistake in refused.value.mistakes] == [
        ["my.toml", "rule 1", "nth"],
        ["my.toml", "rule 1", "api"],
        ["my.toml", "rule 2", "where"],
    ]
    assert of_file({"rule": [{"act": "cut", "api": "ApiOfLater"}]}, "my.toml", lambda _: [])


HIDDEN = [
    ({"act": "drop", "api": "EndTxn"}, {"act": "delay", "delay_ms": 1, "api": "EndTxn", "transactional_id": "a"}),
    ({"act": "cut"}, {"act": "record"}),
    ({"act": "drop", "api": "*Txn*"}, {"act": "lose", "api": ["EndTxn", "AddOffsetsToTxn"], "on": "answer"}),
    ({"act": "lose", "api": "EndTxn"}, {"act": "hold", "until": "closed", "api": "EndTxn", "on": "answer"}),
    ({"act": "error", "code": "NOT_COORDINATOR", "topic": ["a", "b"]}, {"act": "repeat", "topic": "a"}),
    ({"act": "cut", "on": "answer", "api": "Fetch"}, {"act": "alter", "transform": "reverse-aborted"}),
    ({"act": "late", "delay_ms": 1, "where": {"committed": True}}, {"act": "cut", "where": {"committed": True, "producerId": 1}}),
]
NOT_HIDDEN = [
    ({"act": "drop", "api": "EndTxn", "nth": 1}, {"act": "cut", "api": "EndTxn"}),
    ({"act": "drop", "api": "EndTxn", "times": 1}, {"act": "cut", "api": "EndTxn"}),
    ({"act": "drop", "api": "EndTxn"}, {"act": "cut"}),
    ({"act": "drop", "api": "Produce", "topic": "a"}, {"act": "cut", "api": "Produce"}),
    ({"act": "lose", "api": "EndTxn"}, {"act": "delay", "delay_ms": 1, "api": "EndTxn"}),
    ({"act": "lose", "on": "answer"}, {"act": "delay", "delay_ms": 1}),
    ({"act": "delay", "delay_ms": 1}, {"act": "drop"}),
    ({"act": "drop", "connection_of": "broker"}, {"act": "cut"}),
    ({"act": "drop", "where": {"producerId": 7}}, {"act": "lose", "on": "answer", "where": {"producerId": 7}}),
    ({"act": "drop", "transactional_id": "a*"}, {"act": "cut", "transactional_id": "ab"}),
]


@pytest.mark.parametrize(("earlier", "later"), HIDDEN, ids=str)
def test_a_rule_to_which_another_leaves_nothing_is_a_contradiction(earlier, later):
    with pytest.raises(CampaignError) as refused:
        of_file({"rule": [earlier, {**later, "name": "second"}]}, "my.toml")
    assert [mistake.split(", ")[0] for mistake in refused.value.mistakes] == ["my.toml: second: act: never happens"]
    assert of_file({"rule": [{**later, "nth": 1}, earlier]}, "my.toml"), "in the other order both act"


@pytest.mark.parametrize(("earlier", "later"), NOT_HIDDEN, ids=str)
def test_a_rule_that_may_act_after_another_is_none(earlier, later):
    assert len(of_file({"rule": [earlier, later]}, "my.toml")) == 2


def test_every_option_is_a_key():
    assert {option for options in OPTIONS.values() for option in options} < {*KEYS}


@pytest.mark.cluster
def test_the_proxy_takes_and_refuses_the_same(scene):
    for rule in [*GOOD, *CAN_BE]:
        scene.control.remove(scene.control.add(rule))
    for rule, mistake in [*BAD, *UNKNOWN]:
        with pytest.raises(CampaignError) as refused:
            scene.control.add(rule)
        assert [text[: len(mistake)] for text in refused.value.mistakes] == [mistake]
        ours = [] if (rule, mistake) in BAD else unknown(rule)
        assert ours in ([], refused.value.mistakes), "in the same words to the end"
    with pytest.raises(CampaignError, match="there is no rule 999"):
        scene.control.rule(999)
    scene.control.add({"act": "cut", "name": "one", "api": "Vote"})
    with pytest.raises(CampaignError, match="name: there is a rule one; choose another name, or remove that one"):
        scene.control.add({"act": "cut", "name": "one"})
