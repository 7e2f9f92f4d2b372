"""Settings of brokers and topics are judged by what Kafka itself prints about them."""

from __future__ import annotations

import json

import pytest

from fencepost.clusters.kafka import distribution, setting_definitions
from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.kafka.options import KafkaOptions
from fencepost.clusters.kafka.setting_definitions import Definition, Definitions, parsed
from fencepost.clusters.kafka.settings_check import known_definitions, refusal, refused

HTML = """<ul class="config-list">
<li>
<h4><a id="num.io.threads"></a><a id="brokerconfigs_num.io.threads" href="#x">num.io.threads</a></h4>
<p>The number of threads, see <a href="#y">there</a></p>
<table><tbody>
<tr><th>Type:</th><td>int</td></tr>
<tr><th>Default:</th><td>8</td></tr>
<tr><th>Valid Values:</th><td>[1,...]</td></tr>
</tbody></table>
</li>
<li>
<h4><a id="cleanup.policy"></a><a id="x" href="#x">cleanup.policy</a></h4>
<table><tbody><tr><th>Type:</th><td>list</td></tr><tr><th>Valid Values:</th><td>[compact, delete]</td></tr>
<tr><th>Server Default Property:</th><td>log.cleanup.policy</td></tr></tbody></table>
</li>
"""


def test_what_kafka_prints_is_read():
    assert parsed(HTML) == {
        "num.io.threads": Definition("int", "[1,...]"),
        "cleanup.policy": Definition("list", "[compact, delete]", "log.cleanup.policy"),
    }


@pytest.mark.parametrize(
    ("kind", "values", "right", "wrong", "why"),
    [
        ("boolean", "", "True", "yes", 'must be true or false, not "yes"'),
        ("int", "", "-5", "5.0", 'must be a whole number, not "5.0"'),
        ("int", "", "2147483647", "2147483648", "must be a whole number of 32 bits, not 2147483648"),
        ("long", "", "2147483648", "9223372036854775808", "must be a whole number of 64 bits, not 9223372036854775808"),
        ("short", "", "1", "70000", "must be a whole number of 16 bits, not 70000"),
        ("int", "[1,...]", "1", "0", "must be at least 1, not 0"),
        ("int", "[1,...,9] or -1", "-1", "10", "must be between 1 and 9 or -1, not 10"),
        ("int", "[-131072,...,22]", "-131072", "23", "must be between -131072 and 22, not 23"),
        ("double", "[0,...,1]", "0.5", "1.1", "must be between 0 and 1, not 1.1"),
        ("double", "", "1e3", "nan", "must be a finite number, not nan"),
        ("string", "[CreateTime, LogAppendTime]", "CreateTime", "createtime", "must be CreateTime or LogAppendTime"),
        ("string", "(case insensitive) [A, B]", "b", "c", 'must be A or B, not "c"'),
        ("list", "[compact, delete]", "compact,delete", "compact, delet", 'must be compact or delete, not "delet"'),
        ("string", "non-empty string", "x", "", "must not be empty"),
    ],
)
def test_a_value_is_judged_by_its_type_and_its_bounds(kind, values, right, wrong, why):
    definition = Definition(kind, values)
    assert refusal(definition, right) == ""
    assert refusal(definition, wrong).startswith(why)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", "[partitionId]:[brokerId],..."),
        ("class", ""),
        ("int", "something new"),
        ("password", ""),
    ],
)
def test_what_is_not_understood_is_left_to_kafka(kind, values):
    assert refusal(Definition(kind, values), "7") == ""


OLD = Definitions("3.9.1", {"a.b": Definition("int", "[1,...]"), "gone.now": Definition("int")}, {}, frozenset())
NEW = Definitions(
    "4.3.0",
    {"a.b": Definition("int", "[5,...]"), "log.retention.ms": Definition("long")},
    {"retention.ms": Definition("long", "", "log.retention.ms")},
    frozenset({"unstable.x"}),
)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("a.b", 5, ""),
        ("a.b", 4, "must be at least 5, not 4 (Kafka 4.3.0)"),
        ("gone.now", 1, ""),
        ("unstable.x", True, ""),
        ("listener.name.client.ssl.key", "x", ""),
        ("a.bb", 1, 'Kafka 3.9.1, 4.3.0 has no such setting of brokers; did you mean "a.b"?'),
        ("retention.ms", 1, "is a setting of topics, not of brokers; for all topics it is log.retention.ms"),
    ],
)
def test_a_setting_must_be_known_to_one_version_and_lawful_in_each_that_knows_it(name, value, why):
    assert [text for _, text in refused({name: value}, "broker", [OLD, NEW])] == ([why] if why else [])


def test_a_setting_of_brokers_is_none_of_topics():
    [(_, text)] = refused({"log.retention.ms": 1}, "topic", [NEW])
    assert text == "is a setting of brokers, not of topics"


def test_a_version_that_is_not_there_yet_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    assert KafkaOptions(settings={"num.io.treads": 1}).judged_settings({}) == (
        [],
        "Kafka 4.4.0 has not been fetched yet (fencepost cluster fetch 4.4.0)",
    )


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"broker": 1, "topic": {}, "others": []}', '{"broker": {"a": [1,2,3,4]}}'])
def test_cached_definitions_that_are_damaged_are_replaced(damage, tmp_path, monkeypatch):
    (tmp_path / "settings.json").write_text(damage)
    document = {"broker": {"a": ["int", "", ""]}, "topic": {}, "others": ["b"]}
    monkeypatch.setattr(setting_definitions, "_ask", lambda _: document)
    definitions = setting_definitions.definitions(Distribution("4.3.0", tmp_path, {}))
    assert (definitions.broker, definitions.others) == ({"a": Definition("int")}, {"b"})
    assert json.loads((tmp_path / "settings.json").read_text()) == document
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


@pytest.mark.cluster
@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.nightly), "4.4.0"])
def test_each_version_tells_its_own_settings(version, tmp_path):
    """By the jars themselves; the harness's own settings are among them."""
    fetched = distribution.fetch(version)
    document = setting_definitions._ask(fetched)
    definitions = setting_definitions._from(version, document)
    assert definitions.topic["min.insync.replicas"] == Definition("int", "[1,...]", "min.insync.replicas")
    assert ("zookeeper.connect" in definitions.broker) == (version == "3.9.1")
    wrong = refused({"min.insync.replicas": "0", "min.insync.replica": "1"}, "topic", [definitions])
    assert [name for name, _ in wrong] == ["min.insync.replicas", "min.insync.replica"]
    assert refused(KafkaOptions().effective_settings(), "broker", [definitions]) == []
    assert known_definitions([version])[1] == ""
