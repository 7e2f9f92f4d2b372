"""A proxy before an upstream that speaks in literal bytes."""

from __future__ import annotations

import pytest
from support import frames

from fencepost.clusters.kafka.distribution import fetch
from fencepost.harness.proxy.jars import with_proxy
from fencepost.harness.proxy.process import Broker, ProxyProcess, Settings
from fencepost.nemesis.support.waiting import poll_until


class Scene:
    """The proxy, its upstream, and rules and connections that end with the test."""

    def __init__(self, proxy, upstream, directory):
        self.proxy, self.upstream, self.directory = proxy, upstream, directory
        self.control, self.opened = proxy.control, []

    def connection(self):
        """A client, and the broker's end of its connection."""
        client = frames.connected(self.proxy.address)
        self.opened += [client, broker := self.upstream.accepted()]
        return client, broker

    def lines(self):
        """The record since the test began."""
        return self.control.record(self.first)

    def end(self):
        """End rules and connections: their last lines are none of the next test's."""
        for rule in self.control.rules():
            self.control.remove(rule["number"])
        while self.opened:
            self.opened.pop().close()
        assert poll_until(lambda: self.control.status()["connections"], lambda count: count == 0, frames.PATIENCE_S) == 0


@pytest.fixture(scope="session")
def kafka_classpath():
    return with_proxy(fetch("4.4.0").classpath())


@pytest.fixture(scope="session")
def proxy_scene(kafka_classpath, tmp_path_factory):
    place = tmp_path_factory.mktemp("proxy")
    with frames.upstream() as upstream, open(place / "log", "wb") as log:
        settings = Settings(
            brokers=[Broker(upstream=upstream.address, node="n1")], record=place, node="n1", most_frame_bytes=1 << 20
        )
        with ProxyProcess(settings, kafka_classpath, log) as proxy:
            yield Scene(proxy, upstream, place)
        assert not (place / "log").read_text()


@pytest.fixture
def scene(proxy_scene):
    proxy_scene.first = proxy_scene.control.status()["lines"]
    yield proxy_scene
    proxy_scene.end()
