"""Rules: what is refused, with key and remedy, here and by the proxy in the same words."""

from __future__ import annotations

import pytest

from fencepost.harness.api import CampaignError
from fencepost.harness.proxy.rules import KEYS, OPTIONS, Rule, of_file, of_mapping

GOOD = [
    {"act": "record"},
    {"act": "delay", "delay_ms": 0, "api": ["Produce", "EndTxn"]},
    {"act": "hold", "until": "next:InitProducerId", "at_most_ms": 5000, "transactional_id": "w?-*"},
    {"act": "hold", "until": "closed", "on": "answer"},
    {"act": "drop", "then": "stall", "nth": 3},
    {"act": "lose", "on": "answer", "error": "NONE*", "times": 2},
    {"act": "late", "delay_ms": 100},
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
    ({"act": "lose", "error": "NONE"}, "error: only answers have one; add on = answer"),
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
    ({"act": "record", "state": ["fresh", "begun"]}, "state: must be one of "),
]
OURS = [
    ({"act": "lsoe"}, "act: must be one of .*; did you mean lose?"),
    ({"act": "lose", "apis": "EndTxn"}, "apis: there is no such key; did you mean api?"),
    ({"api": "EndTxn"}, "act: is missing; one of record, delay"),
    ({"act": "lose", "partition": "0"}, "partition: must be a whole number, or a list of them"),
    ({"act": "lose", "topic": []}, "topic: must be a text, or a list of texts, each any of them"),
    ({"act": "lose", "on": True}, "on: must be one of request, answer"),
]
THEIRS = [
    ({"act": "lose", "api": "endtxn"}, "api: Kafka has no endtxn; did you mean EndTxn?"),
    ({"act": "error", "code": "FENCED"}, "code: Kafka has no error FENCED; did you mean PRODUCER_FENCED, "),
    ({"act": "hold", "until": "next:Nothing"}, "until: must be event:NAME, next:API"),
    ({"act": "flood"}, "act: there is no flood; one of ["),
    ({"act": "lose", "apis": "EndTxn"}, "apis: there is no such key"),
    ({"act": "lose", "topic": [{}]}, "topic: must be a text, or a list of texts"),
]


@pytest.mark.parametrize("rule", GOOD, ids=str)
def test_a_rule_that_can_be(rule):
    assert of_mapping(rule).document() == rule


@pytest.mark.parametrize(("rule", "mistake"), [*BAD, *OURS], ids=str)
def test_a_rule_that_cannot_be_is_refused_with_its_key(rule, mistake):
    with pytest.raises(CampaignError, match=mistake.replace("?", r"\?")) as refused:
        of_mapping(rule)
    assert len(refused.value.mistakes) == 1


def test_all_mistakes_are_said_at_once():
    with pytest.raises(CampaignError) as refused:
        Rule(act="lose", nth=0, times=-1, on="reply")
    assert [mistake.partition(":")[0] for mistake in refused.value.mistakes] == ["on", "nth", "times"]


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


def test_every_option_is_a_key():
    assert {option for options in OPTIONS.values() for option in options} < {*KEYS}


@pytest.mark.cluster
def test_the_proxy_takes_and_refuses_the_same(scene):
    for rule in GOOD:
        scene.control.remove(scene.control.add(rule))
    for rule, mistake in [*BAD, *THEIRS]:
        with pytest.raises(CampaignError) as refused:
            scene.control.add(rule)
        assert [text[: len(mistake)] for text in refused.value.mistakes] == [mistake]
    with pytest.raises(CampaignError, match="there is no rule 999"):
        scene.control.rule(999)
    scene.control.add({"act": "cut", "name": "one", "api": "Vote"})
    with pytest.raises(CampaignError, match="name: there is a rule one; choose another name, or remove that one"):
        scene.control.add({"act": "cut", "name": "one"})
