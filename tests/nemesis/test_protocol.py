"""Protocol: a rule of the proxies, its catches as evidence, and another fault at the moment of the first."""

from dataclasses import replace
from random import Random

import pytest

from fencepost.harness.api import ClusterError
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


def test_a_message_that_comes_late_counts_all_the_same():
    cluster = FakeCluster()
    cluster.proxy.quiet = True
    fault = ProtocolStep(drop="Produce", catch_within_s=0)
    receipt = fault.inject(cluster, Random(1))
    cluster.proxy.quiet = False
    cluster.caught(receipt.evidence["number"])
    healed = fault.heal(cluster, receipt)
    assert (healed.effective, healed.targets) == (True, ("n1", "n2", "n3"))


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
    ("options", "text"),
    [
        ({"hold": "EndTxn", "drop": "Produce"}, "hold, drop are given"),
        ({"error": "EndTxn"}, "code"),
        ({"hold": "EndTxn", "fire_options": {"count": 2}}, "names no fault"),
        ({"hold": "EndTxn", "target": "client"}, "unknown target"),
        ({"hold": "EndTxn", "nth": 2, "times": 3}, "nth"),
        ({"drop": "EndTxn", "on": "answer"}, "answer"),
        ({"hold": "EndTxn", "until": "tomorrow"}, "until"),
        ({"hold": "EndTxm"}, r"^hold: Kafka has no API EndTxm; did you mean EndTxn\?$"),
        ({"hold": "EndTxn", "until": "answered:EndTxm"}, r"^until: Kafka has no API EndTxm; did you mean EndTxn\?$"),
        ({"error": "EndTxn", "code": "FENCED"}, "^code: Kafka has no error FENCED; did you mean"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        ProtocolStep(**options)
