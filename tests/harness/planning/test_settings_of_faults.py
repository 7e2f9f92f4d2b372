"""Topic settings that a fault changes are judged by Kafka's definitions wherever the fault is named, before anything starts."""

from __future__ import annotations

import pytest

from fencepost.clusters.kafka import settings_check
from fencepost.clusters.kafka.setting_definitions import Definition, Definitions
from fencepost.clusters.local import Local
from fencepost.harness.api import CampaignError
from fencepost.harness.api.plans import Choice, FaultChoice, Test
from fencepost.harness.campaign.test import read_test
from fencepost.harness.conformance.kit import ConformanceCheck
from fencepost.harness.planning.plan import obtain, unjudged_settings

KAFKA = Definitions("4.4.0", {}, {"segment.ms": Definition("long", "[1,...]"), "preallocate": Definition("boolean")}, frozenset())
WRONG = {"segment.ms": 0, "segment.sm": 1000, "preallocate": True}
BELOW = "must be at least 1, not 0 (Kafka 4.4.0)"
UNKNOWN = 'Kafka 4.4.0 has no such setting of topics; did you mean "segment.ms"?'
TEST = Test(name="t", nemesis=(FaultChoice(kind="topic-settings", options={"settings": WRONG}),))


@pytest.fixture(autouse=True)
def fetched(monkeypatch):
    """Kafka is there, with a few definitions. The list has the versions that were obtained."""
    obtained = []
    monkeypatch.setattr(settings_check, "known_definitions", lambda versions: ([KAFKA], ""))
    monkeypatch.setattr(Local, "obtain", lambda provider, on_progress: obtained.append(provider.kafka))
    return obtained


def test_in_a_campaign():
    table = {"name": "t", "nemesis": [{"kind": "pause"}, {"kind": "topic-settings", "settings": WRONG}]}
    with pytest.raises(CampaignError) as caught:
        read_test(table, lambda keys: ".".join(map(str, keys)))
    assert caught.value.mistakes == [f"nemesis.1.settings.segment.ms: {BELOW}", f"nemesis.1.settings.segment.sm: {UNKNOWN}"]


def test_before_the_first_run_once_kafka_is_fetched(fetched):
    with pytest.raises(CampaignError) as caught:
        obtain([TEST], lambda _: None)
    texts = [f"t: topic-settings: settings.segment.ms: {BELOW}", f"t: topic-settings: settings.segment.sm: {UNKNOWN}"]
    assert (caught.value.mistakes, fetched) == (texts, ["4.4.0"])


def test_where_kafka_is_not_fetched_a_dry_run_says_so(monkeypatch):
    monkeypatch.setattr(settings_check, "known_definitions", lambda versions: ([], "Kafka 4.4.0 is missing"))
    assert unjudged_settings([TEST]) == ["settings of brokers and topics are not checked yet: Kafka 4.4.0 is missing"]


def test_by_the_conformance_kit(fetched):
    faults = [Choice(kind="pause"), Choice(kind="topic-settings", options={"settings": WRONG})]
    with pytest.raises(CampaignError) as caught:
        ConformanceCheck(faults, Choice(kind="local"), 1, lambda _: None)
    assert (caught.value.mistakes, fetched) == ([f"settings.segment.ms: {BELOW}", f"settings.segment.sm: {UNKNOWN}"], ["4.4.0"])


def test_other_faults_and_lawful_settings_need_no_kafka(fetched):
    ConformanceCheck([Choice(kind="pause")], Choice(kind="local"), 1, lambda _: None)
    assert fetched == []
    ConformanceCheck(
        [Choice(kind="topic-settings", options={"settings": {"segment.ms": 1}})], Choice(kind="local"), 1, lambda _: None
    )
    assert fetched == ["4.4.0"]
