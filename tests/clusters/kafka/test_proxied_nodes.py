"""Nodes behind proxies: others reach the proxy's address, the node listens at another port, and its quorum at its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.clusters.kafka import node_plan
from fencepost.clusters.kafka.broker_config import properties


@pytest.mark.parametrize("listen", [node_plan.private, node_plan.loopback], ids=["namespaces", "loopback"])
def test_a_broker_advertises_its_proxy_and_listens_elsewhere(listen):
    (node,) = node_plan.behind_proxies(node_plan.nodes(1, 0, listen), listen)
    values = properties(node, [node], {}, Path("data"))
    (host, client), (_, broker) = node.listeners["CLIENT"], node.listeners["BROKER"]
    assert values["advertised.listeners"] == f"CLIENT://{host}:{client},BROKER://{host}:{broker}"
    own = dict(text.split("://") for text in values["listeners"].split(","))
    assert own["CONTROLLER"] == "{}:{}".format(*node.listeners["CONTROLLER"])
    assert len({client, broker, *(int(address.rpartition(":")[2]) for address in own.values())}) == 5
    assert values["controller.quorum.voters"] == f"1@{own['CONTROLLER']}"


def test_without_proxies_nothing_is_different():
    (node,) = node_plan.nodes(1, 0, node_plan.private)
    values = properties(node, [node], {}, Path("data"))
    assert set(values["advertised.listeners"].split(",")) < set(values["listeners"].split(","))
    assert node.own_listeners == node.listeners


def test_a_controller_alone_has_no_proxy():
    _, controller = node_plan.behind_proxies(node_plan.nodes(1, 1, node_plan.private), node_plan.private)
    assert controller.behind == {}
