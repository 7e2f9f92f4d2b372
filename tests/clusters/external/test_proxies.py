"""The proxy before somebody's brokers: another takes the place of one that has ended, at the addresses that clients know."""

from __future__ import annotations

import pytest
from support import frames

from fencepost.clusters.external.proxies import ExternalProxy
from fencepost.harness.api.run import RunFile
from fencepost.harness.proxy import record
from fencepost.harness.proxy.process import SPAN


@pytest.mark.cluster
@pytest.mark.nightly
def test_another_proxy_listens_where_the_killed_one_did(tmp_path):
    proxies = ExternalProxy(tmp_path)
    with frames.upstream() as first, frames.upstream() as second:
        running = proxies.start({"n1": first.address, "n2": second.address})
        assert proxies.restarted() is None
        addresses = [broker["listen"] for broker in running.brokers]
        passed(addresses[1], second)
        running._process.kill()
        running.wait()
        another = proxies.restarted()
        assert [broker["listen"] for broker in another.brokers] == addresses
        assert proxies.restarted() is None
        passed(addresses[1], second)
        proxies.close()
        assert not another.is_alive()
    rows = record.read(tmp_path / RunFile.WIRE_LINES).to_pylist()
    assert [(row["node"], row["number"], row["connection"]) for row in rows] == [("n2", 1, 1), ("n2", SPAN + 1, SPAN + 1)]


def passed(address, upstream):
    """A request reaches the broker."""
    client = frames.connected(address)
    client.send(frames.end_txn(1))
    assert frames.correlation_of(upstream.accepted().receive()) == 1
    client.close()
