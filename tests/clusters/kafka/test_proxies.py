"""The proxies of a cluster: where each listens, and what takes the place of one that has ended."""

from __future__ import annotations

import pytest

from fencepost.clusters.kafka import node_plan
from fencepost.clusters.kafka.interception import Interceptor
from fencepost.clusters.kafka.proxies import MOST_STARTS, BrokerProxies, Watch
from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy.process import SPAN
from fencepost.nemesis.support.waiting import poll_until


class Running:
    def __init__(self, settings):
        self.settings, self.control, self.alive, self.caught = settings, self, True, {}

        self.rules = []

    def add(self, rule):
        self.rules.append(dict(rule))
        return len(self.rules)

    def catches(self, number):
        if not self.alive:
            raise ClusterError("it has ended")
        return self.caught.get(number, [])

    def event(self, name):
        return 0

    def remove(self, number):
        return {}

    def status(self):
        return {}

    def is_alive(self):
        return self.alive

    def end(self):
        self.alive = False


class Scene:
    """The proxies of two brokers; `refuses`: no more of them start."""

    def __init__(self, directory):
        self.started, self.refuses = [], False
        self.interceptor = Interceptor()
        self.proxies = BrokerProxies(directory, self.interceptor, self.launch)
        self.nodes = node_plan.behind_proxies(node_plan.nodes(2, 0, node_plan.private), node_plan.private)

    def launch(self, node, settings):
        if self.refuses:
            raise CampaignError(["cannot listen"])
        self.started.append((node.name, Running(settings)))
        return self.started[-1][1]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setattr(Watch, "begin", lambda watch: None)  # its looks are the test's
    made = Scene(tmp_path)
    for node in made.nodes:
        made.proxies.start(node)
    yield made
    made.proxies.close()
    assert not any(running.alive for _, running in made.started)


def test_each_stands_at_the_address_that_its_broker_advertises(scene, tmp_path):
    (_, first), (_, second) = scene.started
    host = scene.nodes[0].address[0]
    assert [(one.listen, one.upstream, one.node) for one in first.settings.brokers] == [
        (f"{host}:9092", f"{host}:19092", "n1"),
        (f"{host}:9093", f"{host}:19093", "n1"),
    ]
    assert first.settings.control == f"{host}:8474"
    assert [one.settings.node for one in (first, second)] == ["n1", "n2"]
    assert first.settings.record == tmp_path / RunFile.WIRE_LINES
    assert scene.interceptor.controls == {"n1": first, "n2": second}


def test_another_takes_the_place_of_one_that_has_ended_with_a_record_and_numbers_of_its_own(scene):
    scene.started[1][1].alive = False
    scene.proxies.restart_ended()
    scene.proxies.restart_ended()
    (_, _, (name, another)) = scene.started
    assert (name, another.settings.node, another.settings.first) == ("n2", "n2-2", SPAN)
    assert another.settings.brokers == scene.started[1][1].settings.brokers
    assert scene.interceptor.controls["n2"] is another
    assert scene.interceptor.proxied() == {"n1": True, "n2": False}, "its record has a gap"


def _caught(state):
    return {"node": "n2", "client_id": "c", "api": "EndTxn", "version": 4, "time_ns": 1, "state": state}


@pytest.mark.parametrize(
    ("limit", "caught", "again"),
    [({}, 2, {}), ({"times": 3}, 2, {"times": 1}), ({"times": 2}, 2, None), ({"nth": 2}, 0, {"nth": 2}), ({"nth": 2}, 1, None)],
    ids=["all", "some left", "none left", "n-th to come", "n-th gone"],
)
def test_what_is_left_of_a_rule_holds_at_the_one_in_the_place(scene, limit, caught, again):
    """And the others keep theirs as it was."""
    first, second = (running for _, running in scene.started)
    rule = {"act": "hold", "api": "EndTxn", "until": "event:go", **limit}
    number = scene.interceptor.intercept(rule, ["n2"])
    elsewhere = scene.interceptor.intercept(rule, ["n1"])
    second.caught[1] = [_caught("held")] * caught
    assert len(scene.interceptor.caught(number)) == caught
    second.alive = False
    scene.proxies.restart_ended()
    third = scene.started[-1][1]
    base = {"act": "hold", "api": "EndTxn", "until": f"event:rule-{number}", "node": ["n2"]}
    assert third.rules == ([] if again is None else [{**base, **again}])
    assert scene.interceptor.replaced(number) == {"n2": again is not None}
    assert (scene.interceptor.replaced(elsewhere), len(first.rules)) == ({}, 1)
    third.caught[1] = [_caught("dropped")]
    states = [catch.state for catch in scene.interceptor.withdraw(number)]
    assert states == ["ended"] * caught + (["dropped"] if again is not None else [])


def test_a_rule_that_came_while_a_proxy_was_away_holds_at_the_one_in_its_place(scene):
    second = scene.started[1][1]
    second.alive = False
    second.add = second.catches  # it answers nothing
    second.status = lambda: second.catches(1)
    number = scene.interceptor.intercept({"act": "cut"})
    scene.proxies.restart_ended()
    assert scene.started[-1][1].rules == [{"act": "cut"}]
    assert scene.interceptor.replaced(number) == {"n2": True}


def test_one_that_ends_again_and_again_is_left_alone(scene):
    for _ in range(MOST_STARTS - 1):
        scene.started[-1][1].alive = False
        scene.proxies.restart_ended()
    scene.started[-1][1].alive = False
    with pytest.raises(ClusterError, match=f"the proxy of n2 has ended {MOST_STARTS} times"):
        scene.proxies.restart_ended()


def test_one_that_does_not_start_is_an_error_with_its_broker(scene):
    scene.refuses = True
    scene.started[0][1].alive = False
    with pytest.raises(ClusterError, match="the proxy of n1 does not start: cannot listen"):
        scene.proxies.restart_ended()


def test_a_watch_looks_again_after_an_error(monkeypatch):
    monkeypatch.setattr("fencepost.clusters.kafka.proxies.LOOK_S", 0.001)
    looks = []

    def look():
        looks.append(1)
        raise ClusterError("it does not start")

    watch = Watch(look)
    watch.begin()
    assert poll_until(lambda: looks, lambda seen: len(seen) > 2, 20.0)
    watch.end()
