"""Brokers that are looked at from outside."""

from __future__ import annotations

import socket

import pytest

from fencepost.clusters.external.broker_connections import BrokerConnections


def listening():
    server = socket.create_server(("127.0.0.1", 0), reuse_port=True)
    return server, server.getsockname()[1]


@pytest.fixture
def seen():
    """Connections to brokers n1 and n2, and their listening sockets."""
    (first, one), (second, two) = listening(), listening()
    connections = BrokerConnections({"n1": f"127.0.0.1:{one}", "n2": f"127.0.0.1:{two}"})
    yield connections, first, second
    connections.close()
    for server in (first, second):
        server.close()


def test_one_connection_to_each_broker_stays_open_and_says_nothing(seen):
    connections, first, _ = seen
    assert [connections.unreachable() for _ in range(3)] == [set()] * 3
    taken, _ = first.accept()
    first.setblocking(False)
    with pytest.raises(BlockingIOError):
        first.accept()
    taken.setblocking(False)
    with pytest.raises(BlockingIOError):
        taken.recv(1)
    taken.close()


def test_a_broker_that_has_ended_is_away_until_it_listens_again(seen):
    connections, first, _ = seen
    assert connections.unreachable() == set()
    taken, _ = first.accept()
    again = socket.socket()
    again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    again.bind(first.getsockname())  # so that no other test gets the port
    first.close()
    assert connections.unreachable() == set(), "what it accepted before is still open"
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset, as by a process that is killed
    taken.close()
    assert [connections.unreachable() for _ in range(2)] == [{"n1"}] * 2
    again.listen()
    assert connections.unreachable() == set()
    again.close()


def test_a_broker_that_ends_idle_connections_is_there(seen):
    connections, first, _ = seen
    connections.unreachable()
    taken, _ = first.accept()
    taken.close()
    assert connections.unreachable() == set()
    assert first.accept()[0].close() is None


def test_addresses_of_both_families_are_understood():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        connections = BrokerConnections({"n1": f"[::1]:{server.getsockname()[1]}", "n2": "127.0.0.1:1"})
        assert connections.unreachable() == {"n2"}
        connections.close()
