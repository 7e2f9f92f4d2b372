"""The options of `external` without any cluster: mistakes, secrets, and what is known before the start."""

from __future__ import annotations

import os
import traceback

import pytest
from support.longer import given_longer

from fencepost.clusters.external.connection import Connection
from fencepost.clusters.external.provider import External
from fencepost.harness.api import CampaignError, ClusterError, Scalable
from fencepost.harness.campaign.campaign import read
from fencepost.harness.plugins.fault_validation import foreseen
from fencepost.harness.plugins.registry import attempt, load, names, options


def mistakes(**given):
    return [text for _, text in attempt(External, {"bootstrap": "kafka:9093", **given})[1]]


def test_bootstrap_is_the_only_required_option():
    assert mistakes() == []
    assert attempt(External, {})[1] == [("bootstrap", "missing")]
    assert mistakes(bootstrap="a:9093, [::1]:9093") == []


@pytest.mark.parametrize("bootstrap", ["", "kafka", "kafka:", "SASL_SSL://kafka:9093", "a:1,,b:2"])
def test_bootstrap_must_be_host_and_port(bootstrap):
    assert "is not host:port" in mistakes(bootstrap=bootstrap)[0]


def test_all_mistakes_in_settings_are_reported_without_secrets():
    """Those that librdkafka finds come when ours are gone."""
    reported = mistakes(
        settings={"sasl.password": "hunter2", "client.id": "me", "bootstrap.servers": "x:1", "ssl.key.pem": "env:1"},
        prefix="a b",
        replication=0,
    )
    assert [text.split(":")[0] for text in reported] == [
        "must be between 1 and 100, not 0",
        'prefix = "a b"',
        "settings.sasl.password",
        "settings.ssl.key.pem",
        "settings.client.id",
        "settings.bootstrap.servers",
    ]
    assert "hunter2" not in str(reported)
    assert "No such configuration property" in mistakes(settings={"sasl.passwrd": "env:X"})[0]
    assert 'Invalid value "SSLL"' in mistakes(settings={"security.protocol": "SSLL"})[0]


def test_secrets_are_not_looked_up_when_a_campaign_is_read(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "env:NOT_THERE",
        "sasl.password": "env:NOT_THERE",
        "ssl.key.pem": "file:/not/there",
        "ssl.ca.location": "/not/there",
    }
    assert mistakes(settings=settings) == []
    with pytest.raises(CampaignError) as caught:
        External(bootstrap="localhost:1", settings=settings).describe()
    assert caught.value.mistakes == [
        "sasl.username = env:NOT_THERE: the environment variable NOT_THERE is not set",
        "sasl.password = env:NOT_THERE: the environment variable NOT_THERE is not set",
        "ssl.key.pem = file:/not/there: the file cannot be read: No such file or directory",
    ]


def test_a_literal_password_in_a_campaign_is_a_mistake_with_its_location(tmp_path):
    """For the cluster's settings and for the clients' own; both as TOML nests them, neither repeated."""
    path = tmp_path / "theirs.toml"
    path.write_text(
        '[[test]]\nname = "x"\nclient.producer.sasl.password = "hunter2"\n[test.cluster]\nkind = "external"\nbootstrap = "a:1"\n'
        'settings.sasl.password = "hunter2"\n'
    )
    with pytest.raises(CampaignError) as caught:
        read(path)
    text = "\n".join(caught.value.mistakes)
    assert 'client.producer."sasl.password": a secret must not stand here' in text
    assert "test[0].cluster: settings.sasl.password: a secret must not stand here" in text
    assert "hunter2" not in text


def test_an_unreachable_cluster_is_an_error_after_the_timeout(monkeypatch):
    def error(answer_s):
        monkeypatch.setattr("fencepost.clusters.external.connection.ANSWER_S", answer_s)
        with pytest.raises(ClusterError, match=f"no answer from 127.0.0.1:1 within {answer_s:.0f} s; last seen: ") as caught:
            External(bootstrap="127.0.0.1:1").describe()
        return str(caught.value)

    assert "Connection refused" in given_longer(error, lambda text: "Connection refused" in text)


def test_secrets_in_librdkafkas_errors_are_masked(monkeypatch):
    """It quotes values that it does not understand."""
    monkeypatch.setenv("PW", "hunter2-hunter2")
    with pytest.raises(ClusterError) as caught:
        Connection("127.0.0.1:1", {"ssl.key.password": "env:PW", "security.protocol": os.environ["PW"]})
    assert 'Invalid value "***"' in str(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def on_brokers(kind):
    """True if a fault needs more than instances of a program, which run here as they do elsewhere."""
    needs = getattr(load("nemesis", kind), "needs", ())
    return bool(needs) and Scalable not in needs


@pytest.mark.parametrize("kind", [kind for kind in names("nemesis") if on_brokers(kind)])
def test_every_built_in_fault_on_brokers_is_unavailable_before_the_start(kind):
    assert foreseen(attempt(load("nemesis", kind), {})[0], External(bootstrap="a:1"))


def test_every_option_has_a_description():
    assert {option.name: bool(option.doc) for option in options(External)} == dict.fromkeys(
        ("bootstrap", "settings", "prefix", "replication", "kafka", "proxy"), True
    )
