"""Protocol: a rule of the proxies, its catches as evidence, and another fault at the moment of the first."""

from dataclasses import replace
from random import Random

import pytest

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.nemesis.protocol import ProtocolStep
from fencepost.nemesis.testing import FakeCluster


def test_messages_are_held_until_the_fault_is_healed():
    cluster = FakeCluster()
    fault = ProtocolStep(hold="EndTxn", target="coordinator:tx-0")
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.role, receipt.effective, receipt.note) == ("coordinator:tx-0", True, "")
    assert receipt.evidence["rule"] == {
        "api": "EndTxn",
        "act": "hold",
        "on": "request",
        "until": "event:release",
        "at_most_ms": 30_000,
    }
    assert [(catch["node"], catch["state"]) for catch in receipt.evidence["during"]] == [(receipt.targets[0], "held")]
    healed = fault.heal(cluster, receipt)
    assert [catch["state"] for catch in healed.healing["after"]] == ["released"]
    assert (healed.healing["caught"], healed.note) == (1, "1 message caught")
    assert cluster.whole()
    assert fault.heal(cluster, healed) == healed


def test_without_a_catch_the_fault_is_without_effect():
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    fault = ProtocolStep(lose="EndTxn", catch_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, "no request of EndTxn came within 0 s")
    assert fault.heal(cluster, receipt).effective is False
    assert cluster.whole()


@pytest.mark.parametrize("more", [{"where": {"committed": True}}, {"nth": 9}, {"transactional_id": "x"}])
def test_where_others_of_the_api_may_have_come_the_receipt_speaks_of_those_that_match(more):
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    receipt = ProtocolStep(lose="EndTxn", catch_within_s=0, **more).inject(cluster, Random(1))
    assert receipt.note == "no request of EndTxn that matches came within 0 s"


def test_messages_that_it_cannot_act_on_are_no_effect_and_say_why(monkeypatch):
    cluster = FakeCluster()
    caught = cluster.caught
    why = "set: it has these values already"
    monkeypatch.setattr(
        cluster, "caught", lambda number: [replace(catch, state="failed", why=why) for catch in caught(number)][:1]
    )
    receipt = ProtocolStep(alter="EndTxn", set={"committed": True}, catch_within_s=0).inject(cluster, Random(1))
    assert (receipt.effective, receipt.note) == (False, f"1 message came, and could not be acted on: {why}")


def test_a_message_that_comes_late_counts_all_the_same():
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    fault = ProtocolStep(drop="Produce", catch_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    cluster.proxy.quiet = False
    cluster.caught(receipt.evidence["number"])
    healed = fault.heal(cluster, receipt)
    assert (healed.effective, healed.targets) == (True, ("n1", "n2", "n3"))


@pytest.mark.parametrize("act", ["hold", "lose"])
def test_where_nothing_comes_in_time_no_other_fault_is_fired_and_what_comes_later_does_not_count(act):
    """A message that is held, and no broker that dies, is not the step that was asked for."""
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    fault = ProtocolStep(**{act: "EndTxn"}, fire="kill", catch_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    cluster.proxy.quiet = False
    assert cluster.caught(receipt.evidence["number"]) == []
    healed = fault.heal(cluster, receipt)
    assert (healed.effective, healed.targets, cluster.proxy.strikes) == (False, (), [])
    assert healed.note == "no request of EndTxn came within 0 s, so kill was not fired"
    assert cluster.whole()


def test_the_receipt_says_what_became_of_the_rule_where_a_proxy_has_ended():
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    fault = ProtocolStep(drop="Produce", state="aborted", catch_within_s=0)
    assert fault.rule()["state"] == "aborted"
    receipt = fault.inject(cluster, Random(1))
    cluster.proxy.restarts = {"n1": True, "n2": False}
    healed = fault.heal(cluster, receipt)
    assert (healed.effective, healed.healing["replaced"]) == (False, {"n1": True, "n2": False})
    assert healed.note.endswith(
        "0 messages caught; the proxy of n1 ended, and the rule was put at the one started in its place; "
        "the proxy of n2 ended, and the rule does not hold at the one started in its place"
    )
    assert cluster.whole()


def test_another_fault_strikes_the_broker_before_which_the_message_is_held():
    """What is held goes on when the other fault has struck; one message is enough, and nothing is held after it."""
    cluster = FakeCluster()
    fault = ProtocolStep(hold="EndTxn", target="broker:n2", fire="kill")
    assert fault.rule()["times"] == 1
    receipt = fault.inject(cluster, Random(1))
    assert cluster.proxy.strikes == [("kill", {"target": "broker:n2"})]
    assert receipt.evidence["fired"] == {"kind": "kill", "options": {"target": "broker:n2"}, "effective": True}
    assert ([catch["state"] for catch in receipt.evidence["after"]], cluster.whole()) == (["released"], True)
    healed = fault.heal(cluster, receipt)
    assert (healed.effective, healed.healing["caught"], healed.note) == (True, 1, "1 message caught")


def test_what_came_to_other_brokers_meanwhile_is_not_held_any_longer():
    cluster = FakeCluster()
    fault = ProtocolStep(hold="EndTxn", fire="kill")
    receipt = fault.inject(cluster, Random(1))
    assert [(catch["node"], catch["state"]) for catch in receipt.evidence["after"]] == [
        (n, "released") for n in ("n1", "n2", "n3")
    ]
    assert cluster.whole()
    assert fault.heal(cluster, receipt).targets == ("n1", "n2", "n3")


def frozen(monkeypatch, given):
    """The receipt, and what was struck, of a fault that freezes the client whose offsets are held: those of x-1."""
    cluster = FakeCluster(clients=3)
    cluster.note_instances({"c1": True}, transactional_ids=given)
    caught = cluster.caught
    monkeypatch.setattr(cluster, "caught", lambda number: [replace(catch, transactional_id="x-1") for catch in caught(number)])
    fault = ProtocolStep(hold="AddOffsetsToTxn", target="broker:n2", fire="pause", fire_target="client:{client}")
    assert fault.fired() == ("pause", {}), "whom it will strike is not known yet"
    return fault.inject(cluster, Random(1)), cluster


def test_another_fault_strikes_the_client_that_sent_the_message(monkeypatch):
    receipt, cluster = frozen(monkeypatch, {"c1": "x-1", "c2": "x-2"})
    assert cluster.proxy.strikes == [("pause", {"target": "client:c1"})]
    assert receipt.effective


def test_where_nobody_knows_who_sent_it_nothing_is_struck(monkeypatch):
    receipt, cluster = frozen(monkeypatch, {"c2": "x-2"})
    assert (receipt.effective, cluster.proxy.strikes) == (False, [])
    assert receipt.note == "no target: nobody knows the client with the transactional id x-1"
    assert cluster.whole()


def test_a_hold_that_ends_by_another_message_is_left_to_it():
    cluster = FakeCluster()
    fault = ProtocolStep(hold="EndTxn", until="next:AddPartitionsToTxn", target="broker:n2", fire="pause", fire_target="leader")
    receipt = fault.inject(cluster, Random(1))
    assert cluster.proxy.strikes == [("pause", {"target": "leader"})]
    assert [catch.state for catch in cluster.caught(receipt.evidence["number"])] == ["held"]


def test_what_a_proxy_held_when_it_ended_is_in_the_receipt():
    cluster = FakeCluster()
    fault = ProtocolStep(hold="EndTxn", until="answered:InitProducerId")
    receipt = fault.inject(cluster, Random(1))
    withdraw = cluster.withdraw
    cluster.withdraw = lambda number: [
        replace(catch, state="ended") if catch.node == "n2" else catch for catch in withdraw(number)
    ]
    healed = fault.heal(cluster, receipt)
    assert healed.note == "3 messages caught; the proxy of n2 ended, and 1 message that it held went no further"
    assert [catch["state"] for catch in healed.healing["after"]] == ["released", "ended", "released"]


def test_what_is_transformed_are_answers():
    assert ProtocolStep(alter="Fetch", transform="reverse-aborted").rule() == {
        "api": "Fetch",
        "act": "alter",
        "on": "answer",
        "transform": "reverse-aborted",
    }


def test_a_strike_that_fails_leaves_no_rule():
    cluster = FakeCluster()

    def refuse(kind, options, lasts_s):
        raise ClusterError("no fault kil")

    cluster.strike_now = refuse
    with pytest.raises(ClusterError, match="no fault kil"):
        ProtocolStep(hold="EndTxn", fire="kil").inject(cluster, Random(1))
    assert cluster.calls[-1][0] == "release"
    assert cluster.caught(1) == []


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"error": "EndTxn"}, "code: act error needs it"),
        ({"delay": "EndTxn"}, "delay_ms: 0 delays nothing; give a longer time"),
        ({"hold": "EndTxn", "nth": 2, "times": 3}, "nth: is one match and times many; leave out one"),
        ({"drop": "EndTxn", "on": "answer"}, "on: act drop is of requests; act lose is what drops an answer"),
        (
            {"hold": "EndTxn", "until": "tomorrow"},
            "until: must be event:NAME, next:API or answered:API with Kafka's name of an A",
        ),
        (
            {"hold": "EndTxn", "until": "event:x"},
            "until: nobody tells a run of an event; must be next:API, answered:API or closed",
        ),
        ({"hold": "EndTxm"}, "hold: Kafka has no API EndTxm; did you mean EndTxn?"),
        ({"hold": "EndTxn", "until": "answered:EndTxm"}, "until: Kafka has no API EndTxm; did you mean EndTxn?"),
        ({"error": "EndTxn", "code": "FENCED"}, "code: Kafka has no error FENCED; did you mean"),
        (
            {"lose": "EndTxn", "where": {"comitted": True}},
            "where: comitted: EndTxn has no such field in its requests; did you mean c",
        ),
        (
            {"alter": "EndTxn", "set": {"comitted": True}},
            "set: comitted: EndTxn has no such field in its requests; did you mean c",
        ),
        ({"lose": "EndTxn", "topic": "orders"}, "topic: EndTxn requests name no partitions of topics; leave it out"),
        ({"lose": "EndTxn", "peer": "broker"}, "peer: brokers do not send EndTxn; leave it out"),
        ({"hold": "AlterPartition"}, "hold: AlterPartition goes to controllers, and proxies stand before brokers alone"),
        ({"hold": "EndTxn", "delay_ms": 5}, "delay_ms: has no meaning with hold; leave it out"),
        ({"delay_ms": 5}, "delay_ms: has no meaning with hold; leave it out"),
        ({"cut": "EndTxn", "then": "stall"}, "then: has no meaning with cut; leave it out"),
        ({"cut": "EndTxn", "set": {"committed": True}}, "set: has no meaning with cut; leave it out"),
        ({"late": "EndTxn", "until": "next:EndTxn", "delay_ms": 5}, "delay_ms: act late needs it or until, and not both"),
        ({"late": "EndTxn", "delay_ms": 5, "at_most_ms": 5}, "at_most_ms: is the bound of until; leave it out beside delay_ms"),
        ({"hold": "EndTxn", "fire_options": {"count": 2}}, "fire_options: is of `fire`, which names no fault; give fire, or"),
        ({"hold": "EndTxn", "fire_lasts_s": 2}, "fire_lasts_s: is of `fire`, which names no fault; give fire, or"),
        ({"hold": "EndTxn", "fire": "kill", "fire_target": "broker:{nod}"}, "fire_target: {nod} stands for nothing of a message"),
        ({"hold": "EndTxn", "cell": "end-txn/befor/kill"}, 'cell: there is no cell "end-txn/befor/kill"; did you mean "before"?'),
        ({"hold": "EndTxn", "cell": "end-txn"}, 'cell: there is no cell "end-txn": a cell is a gap, a point and an act'),
    ],
    ids=str,
)
def test_options_that_cannot_be_meant_are_refused_by_their_name(options, mistake):
    with pytest.raises(CampaignError) as refused:
        ProtocolStep(**options)
    assert [text[: len(mistake)] for text in refused.value.mistakes] == [mistake]


@pytest.mark.parametrize(
    ("options", "text"),
    [({"hold": "EndTxn", "drop": "Produce"}, "hold, drop are given"), ({"hold": "EndTxn", "target": "client"}, "unknown target")],
    ids=str,
)
def test_more_than_one_act_and_clients_are_no_place_for_it(options, text):
    with pytest.raises(ValueError, match=text):
        ProtocolStep(**options)


def test_all_that_is_wrong_is_said_at_once():
    options = {"error": "EndTxm", "nth": 1, "times": 1, "copies": 2, "cell": "x", "where": {"a": 1}}
    with pytest.raises(CampaignError) as refused:
        ProtocolStep(**options)
    assert [text.partition(":")[0] for text in refused.value.mistakes] == ["copies", "cell", "code", "nth", "error"]


def test_the_bound_of_until_goes_to_the_proxy():
    late = ProtocolStep(late="EndTxn", until="next:InitProducerId", at_most_ms=700).rule()
    assert (late["until"], late["at_most_ms"]) == ("next:InitProducerId", 700)
    assert ProtocolStep(late="EndTxn", delay_ms=5, cell="end-txn/late/kill").rule()["delay_ms"] == 5
