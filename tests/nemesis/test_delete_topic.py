"""A topic that is deleted while it is in use, and created again as it was, but empty."""

from random import Random

import pytest

from fencepost.harness.api import CampaignError, ClusterError, SharedState
from fencepost.harness.api.deletions import deletions_in
from fencepost.harness.campaign import campaign
from fencepost.nemesis.delete_topic import DeleteTopic
from fencepost.nemesis.testing import FakeCluster

QUICK = {"gone_within_s": 0.0, "back_within_s": 0.0}
PARTITIONS = ("t-0", "t-1", "u-0")


def inject(cluster, **options):
    fault = DeleteTopic(**{**QUICK, **options})
    return fault, fault.inject(cluster, Random(3))


def test_a_topic_is_gone_and_back_as_it_was():
    cluster = FakeCluster(topics=PARTITIONS)
    cluster.set_topic_settings("t", {"retention.ms": "5"})
    cluster.reassign({"t-1": ("n3", "n1", "n2")})
    fault, receipt = inject(cluster, target="topic:t")
    assert (receipt.effective, receipt.note, receipt.targets) == (True, "", ("n1", "n2", "n3"))
    assert receipt.evidence["during"] == {"t": {"ids": dict.fromkeys(cluster.brokers, "")}}
    assert set(cluster.placements(PARTITIONS)) == {"u-0"}
    assert not cluster.whole()
    healed = fault.heal(cluster, receipt)
    assert (healed.note, "left" in healed.healing, cluster.whole()) == ("", False, True)
    assert cluster.topic_settings("t") == {"retention.ms": "5"}
    assert cluster.placements()["t-1"].replicas == ("n3", "n1", "n2")
    before, after = (set(topics["t"]["ids"].values()) for topics in (receipt.evidence["before"], healed.healing["after"]))
    assert len(before) == len(after) == 1
    assert before != after


def test_what_it_leaves_as_evidence_is_a_deletion_with_its_times():
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target="topic:u")
    healed = fault.heal(cluster, receipt)
    (deletion,) = deletions_in([{"evidence": healed.evidence, "healing": healed.healing}])
    assert deletion.topic == "u"
    assert deletion.known_ms >= deletion.began_ms > 0
    again = fault.heal(cluster, healed)
    assert again.healing["again"] == healed.healing["again"]


def test_while_a_broker_is_away_it_is_unknown_whether_all_know_the_new_topic():
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target="topic:u")
    cluster.kill("n2")
    healed = fault.heal(cluster, receipt)
    (deletion,) = deletions_in([{"evidence": healed.evidence, "healing": healed.healing}])
    assert deletion.known_ms is None
    cluster.start("n2")
    assert "known_ms" in fault.heal(cluster, healed).healing["again"]


def test_a_topic_that_somebody_else_has_created_meanwhile_gets_its_settings_and_places():
    cluster = FakeCluster(topics=PARTITIONS)
    cluster.set_topic_settings("u", {"retention.ms": "5"})
    fault, receipt = inject(cluster, target="topic:u")
    cluster.create_placed_topic("u", [("n3", "n2", "n1")], {"segment.ms": "9"})
    assert fault.heal(cluster, receipt).note == ""
    assert (cluster.topic_settings("u"), cluster.placements()["u-0"].replicas) == ({"retention.ms": "5"}, ("n1", "n2", "n3"))


def test_one_with_fewer_partitions_gets_the_others_back():
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target="topic:t", back_within_s=1.0)
    cluster.create_placed_topic("t", [("n3", "n2", "n1")], {})
    assert fault.heal(cluster, receipt).note == ""
    assert {name: placement.replicas for name, placement in cluster.placements(["t-0", "t-1"]).items()} == {
        "t-0": ("n1", "n2", "n3"),
        "t-1": ("n2", "n3", "n1"),
    }


def test_one_with_more_partitions_is_left():
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target="topic:t")
    cluster.create_placed_topic("t", [("n3", "n2", "n1")] * 3, {})
    cluster.topics = (*cluster.topics, "t-2")
    healed = fault.heal(cluster, receipt)
    assert (healed.note, healed.healing["left"]) == ("t has 3 partitions instead of 2", ["t"])


def test_a_topic_that_cannot_be_created_is_left():
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target="topic:t")

    def refuse(topic, replicas, settings):
        raise ClusterError("no controller")

    cluster.create_placed_topic = refuse
    healed = fault.heal(cluster, receipt)
    assert (healed.healing["left"], healed.note) == (["t"], "no controller")


def test_a_request_that_fails_and_is_carried_out_has_deleted():
    cluster = FakeCluster(topics=PARTITIONS)
    delete = cluster.delete_topic

    def carried_out(name):
        delete(name)
        raise ClusterError("no answer")

    cluster.delete_topic = carried_out
    fault, receipt = inject(cluster, target="topic:t")
    assert (receipt.effective, receipt.note) == (True, "no answer")
    healed = fault.heal(cluster, receipt)
    assert (cluster.whole(), "left" in healed.healing) == (True, False)
    assert len(deletions_in([{"evidence": healed.evidence, "healing": healed.healing}])) == 1


def test_a_request_that_fails_and_is_not_carried_out_has_deleted_nothing():
    cluster = FakeCluster(topics=PARTITIONS)

    def refused(name):
        raise ClusterError("no controller")

    cluster.delete_topic = refused
    fault, receipt = inject(cluster, target="topic:t")
    assert (receipt.effective, receipt.note.split("; ")[0]) == (False, "no controller")
    healed = fault.heal(cluster, receipt)
    assert "left" not in healed.healing
    assert deletions_in([{"evidence": healed.evidence, "healing": healed.healing}]) == []


def test_one_that_was_deleted_twice_gets_the_layout_that_it_had_at_first():
    cluster, shared = FakeCluster(topics=PARTITIONS), SharedState()
    cluster.shared = shared.get
    cluster.set_topic_settings("u", {"retention.ms": "5"})
    first, receipt = inject(cluster, target="topic:u")
    cluster.create_placed_topic("u", [("n3", "n2", "n1")], {})
    second, other = inject(cluster, target="topic:u")
    assert first.heal(cluster, receipt).note == second.heal(cluster, other).note == ""
    assert cluster.topic_settings("u") == {"retention.ms": "5"}


@pytest.mark.parametrize("target", ["internal:connect-offsets", "topic:__consumer_offsets", "topic:w"])
def test_of_a_topic_that_is_not_there_nothing_is_deleted(target):
    cluster = FakeCluster(topics=PARTITIONS)
    fault, receipt = inject(cluster, target=target)
    assert (receipt.effective, receipt.note) == (False, f"no target: there is no topic for {target}")
    assert fault.heal(cluster, receipt) == receipt
    assert not [call for call in cluster.calls if call[0] == "delete_topic"]


def test_a_topic_of_clients_is_found_by_the_end_of_its_name():
    cluster = FakeCluster(topics=(*PARTITIONS, "fp-x-connect-offsets-0"))
    _, receipt = inject(cluster, target="internal:connect-offsets")
    assert [deletion["topic"] for deletion in receipt.evidence["deletions"]] == ["fp-x-connect-offsets"]


@pytest.mark.parametrize("target", ["all", "topic:", "internal:__consumer_offsets", "internal:connect-configs"])
def test_what_cannot_be_meant_is_refused(target):
    with pytest.raises(ValueError, match=target.rstrip(":")):
        DeleteTopic(target=target)


CAMPAIGN = '[[test]]\nname = "a"\n[test.workload]\nkind = "connect"\n[[test.nemesis]]\nkind = "delete-topic"\ntarget = "%s"\n'
PERMIT = '[test.contract]\ntopic_deletions = "%s"\n'


def mistakes(tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    try:
        campaign.read(tmp_path / "c.toml")
    except CampaignError as error:
        return error.mistakes
    return ()


@pytest.mark.parametrize(("target", "what"), [("topic:records", "records"), ("internal:connect-offsets", "offsets")])
def test_the_test_has_to_say_what_the_deleted_topic_holds(tmp_path, target, what):
    (mistake,) = mistakes(tmp_path, CAMPAIGN % target)
    assert f'topic_deletions = "{what}"' in mistake
    assert mistakes(tmp_path, CAMPAIGN % target + PERMIT % what) == ()
    assert mistakes(tmp_path, CAMPAIGN % target + PERMIT % "offsets, records") == ()
