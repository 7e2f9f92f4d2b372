"""Rules over several proxies: one number, catches of all in order of time, and an event of its own to let go."""

from __future__ import annotations

from itertools import count

import pytest

from fencepost.clusters.kafka.interception import BehindProxies, Interceptor
from fencepost.harness.api import CampaignError, ClusterError, Interceptable
from fencepost.harness.proxy.control import Control


class FakeControl(Control):
    """A proxy that holds what its rules catch; `refuses` every rule, or has ended (`dead`)."""

    def __init__(self, refuses=False):
        self.rules_given, self.held, self.refuses, self.dead, self._numbers = {}, {}, refuses, False, count(1)

    def status(self):
        if self.dead:
            raise ClusterError("no answer")
        return {}

    def add(self, rule):
        if self.refuses:
            raise CampaignError(["api: Kafka has no EndTx"])
        number = next(self._numbers)
        self.rules_given[number] = dict(rule)
        return number

    def caught_at(self, time_ns, node="n1", rule=1):
        catch = {"number": 9, "rule": rule, "node": node, "connection": 1, "client_id": "w", "api": "EndTxn", "version": 1,
                 "correlation": 3, "transactional_id": None, "time_ns": time_ns, "state": "held"}  # fmt: skip
        self.held.setdefault(rule, []).append(catch)

    def catches(self, number):
        return list(self.held.get(number, ()))

    def event(self, name):
        for number, rule in self.rules_given.items():
            if rule.get("until") == f"event:{name}":
                self.held[number] = [{**catch, "state": "released", "released_ns": 7} for catch in self.held.get(number, ())]
        return 1

    def remove(self, number):
        return self.rules_given.pop(number)


def intercepting(**controls):
    made = Interceptor()
    made.controls = controls
    return made


HOLD = {"api": "EndTxn", "act": "hold", "until": "event:release"}


@pytest.mark.parametrize("rule", [{"api": "Fetch", "connection_of": "broker"}, {"api": "WriteTxnMarkers"}])
def test_a_rule_for_what_brokers_send_is_refused_where_no_proxy_sees_it(rule):
    some = intercepting(n1=FakeControl())
    assert some.intercept({**rule, "act": "record"}) == 1
    some.between_brokers = False
    with pytest.raises(ClusterError, match="before clients alone"):
        some.intercept({**rule, "act": "record"})
    assert some.intercept({**HOLD, "connection_of": "client"}) == 2


def test_a_rule_holds_at_every_proxy_or_at_those_of_the_brokers_that_are_named():
    first, second = FakeControl(), FakeControl()
    proxies = intercepting(n1=first, n2=second)
    proxies.intercept(HOLD)
    proxies.intercept(HOLD, ["n2"])
    assert [len(control.rules_given) for control in (first, second)] == [1, 2]
    assert second.rules_given[2]["node"] == ["n2"]


def test_one_proxy_of_all_brokers_gets_a_rule_once():
    control = FakeControl()
    proxies = intercepting(n1=control, n2=control, n3=control)
    proxies.intercept(HOLD)
    proxies.intercept(HOLD, ["n1", "n3"])
    assert [rule.get("node") for rule in control.rules_given.values()] == [None, ["n1", "n3"]]


def test_catches_of_all_proxies_are_in_order_of_time():
    first, second = FakeControl(), FakeControl()
    proxies = intercepting(n1=first, n2=second)
    number = proxies.intercept(HOLD)
    first.caught_at(30)
    second.caught_at(20, "n2")
    assert [(catch.number, catch.node, catch.transactional_id) for catch in proxies.caught(number)] == [
        (1, "n2", ""),
        (2, "n1", ""),
    ]


def test_what_one_rule_holds_is_not_let_go_by_another():
    control = FakeControl()
    proxies = intercepting(n1=control)
    one, other = proxies.intercept(HOLD), proxies.intercept(HOLD)
    control.caught_at(10, rule=1)
    control.caught_at(11, rule=2)
    proxies.release(one)
    assert [catch.state for catch in proxies.caught(one) + proxies.caught(other)] == ["released", "held"]


def test_what_is_still_held_goes_on_when_the_rule_is_withdrawn():
    control = FakeControl()
    proxies = intercepting(n1=control)
    number = proxies.intercept({**HOLD, "until": "next:Produce"})
    control.caught_at(10)
    (catch,) = proxies.withdraw(number)
    assert catch.state == "released"
    assert catch.released_ns > 0
    assert control.rules_given == {}
    assert proxies.withdraw(number) == proxies.caught(number) == []


def test_a_rule_that_one_proxy_refuses_holds_at_none():
    first = FakeControl()
    proxies = intercepting(n1=first, n2=FakeControl(refuses=True))
    with pytest.raises(ClusterError, match="the proxy refuses the rule: api: Kafka has no EndTx"):
        proxies.intercept(HOLD)
    assert first.rules_given == {}


def test_without_proxies_and_for_unknown_brokers_there_is_an_error():
    with pytest.raises(ClusterError, match="proxy = true"):
        Interceptor().intercept(HOLD)
    with pytest.raises(ClusterError, match="no proxy stands before n9"):
        intercepting(n1=FakeControl()).intercept(HOLD, ["n9"])


def test_a_proxy_that_has_ended_is_told():
    ended = FakeControl()
    ended.dead = True
    assert intercepting(n1=FakeControl(), n2=ended).proxied() == {"n1": True, "n2": False}
    full = FakeControl()
    full.status = lambda: {"record_error": "No space left on device"}
    assert intercepting(n1=full).proxied() == {"n1": False}, "its record has a hole"


def test_a_cluster_with_an_interceptor_has_the_capability():
    assert isinstance(type("Cluster", (BehindProxies,), {})(), Interceptable)
