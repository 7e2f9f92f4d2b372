"""Topic settings: changed, visible, restored; and which must not be changed."""

from random import Random

import pytest

from fencepost.harness.api import ClusterError
from fencepost.nemesis import topic_settings
from fencepost.nemesis.testing import FakeCluster
from fencepost.nemesis.topic_settings import TopicSettings

TOPICS = ("a-0", "a-1", "b-0")


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(topic_settings, "SEEN_WITHIN_S", 0)


def test_settings_change_and_healing_restores_their_former_values():
    """One had a value of its own, the other had none and has none again."""
    cluster = FakeCluster(topics=TOPICS)
    cluster.set_topic_settings("a", {"segment.ms": "5", "flush.ms": "1"})
    fault = TopicSettings(target="topic:a", settings={"segment.ms": 9, "preallocate": True})
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (True, "")
    assert cluster.topic_settings("a") == {"segment.ms": "9", "flush.ms": "1", "preallocate": "true"}
    assert receipt.evidence["before"] == {"a": {"segment.ms": "5", "preallocate": None}}
    healed = fault.heal(cluster, receipt)
    assert cluster.topic_settings("a") == {"segment.ms": "5", "flush.ms": "1"}
    assert fault.heal(cluster, healed).healing == healed.healing == {"after": receipt.evidence["before"]}


def test_the_target_is_one_random_topic_or_all():
    cluster = FakeCluster(topics=TOPICS)
    assert len(TopicSettings().inject(cluster, Random(1)).evidence["during"]) == 1
    assert set(TopicSettings(target="all", settings={"flush.ms": 3}).inject(cluster, Random(1)).evidence["during"]) == {"a", "b"}


def test_settings_that_have_the_values_already_have_no_effect():
    cluster = FakeCluster()
    cluster.set_topic_settings("t", {"flush.ms": "3"})
    receipt = TopicSettings(settings={"flush.ms": 3}).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "t has these settings already")


def test_a_change_that_the_broker_refuses_is_noted():
    cluster = FakeCluster()

    def refuse(topic, settings):
        raise ClusterError("error 40 no such setting")

    cluster.set_topic_settings = refuse
    receipt = TopicSettings(settings={"flush.m": 3}).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "error 40 no such setting")


def test_min_insync_replicas_may_be_raised_and_not_lowered():
    cluster = FakeCluster()
    cluster.set_topic_settings("t", {"min.insync.replicas": "2"})
    assert TopicSettings(settings={"min.insync.replicas": 3}).inject(cluster, Random(1)).effective
    cluster.set_topic_settings("t", {"min.insync.replicas": "2"})
    receipt = TopicSettings(settings={"min.insync.replicas": 1}).inject(cluster, Random(1))
    assert receipt.effective is False
    assert "min.insync.replicas = 1 would promise less than t's 2" in receipt.note
    assert cluster.topic_settings("t") == {"min.insync.replicas": "2"}


def test_an_unknown_topic_is_noted():
    assert "there is no topic x; there are: t" in TopicSettings(target="topic:x").inject(FakeCluster(), Random(1)).note


@pytest.mark.parametrize(
    "options",
    [
        {"settings": {"unclean.leader.election.enable": True}},
        {"settings": {"retention.ms": 1000}},
        {"settings": {"min.insync.replicas": "two"}},
        {"settings": {}},
        {"target": "everything"},
    ],
)
def test_settings_that_weaken_the_contract_are_refused(options):
    with pytest.raises(ValueError, match=r"\[test\.topic\]|settings|target|must be a number"):
        TopicSettings(**options)
