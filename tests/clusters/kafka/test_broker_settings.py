"""The one table of defaults, and how a small cluster bends it."""

import pytest

from fencepost.clusters.kafka.broker_settings import DEFAULTS, broker_settings


def test_three_brokers_get_three_replicas_and_two_in_sync():
    """The settings under which acks=all survives the loss of any one broker."""
    settings = broker_settings(3, {})
    assert settings["default.replication.factor"] == "3"
    assert settings["transaction.state.log.replication.factor"] == "3"
    assert settings["transaction.state.log.min.isr"] == "2"
    assert settings["min.insync.replicas"] == "2"
    assert settings["unclean.leader.election.enable"] == "false"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (5, "3", "2")])
def test_a_small_cluster_gets_fewer_replicas(brokers, replicas, in_sync):
    """One broker cannot hold three replicas; five need no more than three."""
    settings = broker_settings(brokers, {})
    assert (settings["offsets.topic.replication.factor"], settings["min.insync.replicas"]) == (replicas, in_sync)


def test_settings_of_a_campaign_override_the_defaults_and_have_kafkas_spelling():
    """TOML's true becomes Kafka's `true`; an unknown setting is handed on as it is."""
    settings = broker_settings(3, {"unclean.leader.election.enable": True, "num.io.threads": 8, "my.own": "x"})
    assert settings["unclean.leader.election.enable"] == "true"
    assert settings["num.io.threads"] == "8"
    assert settings["my.own"] == "x"


def test_every_default_setting_has_a_reason_and_appears_once():
    """The table is what a person reads to trust the cluster."""
    assert all(row.reason for row in DEFAULTS)
    assert len({row.name for row in DEFAULTS}) == len(DEFAULTS)
