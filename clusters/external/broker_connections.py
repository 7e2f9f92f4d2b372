"""Sees from outside which brokers are away, without a trace in their logs but for the connections themselves.

A connection to each broker stays open, and nothing is sent over it. It ends when the broker does, and then a new one is refused.
A broker that ends a connection because nothing was sent (`connections.max.idle.ms`) accepts the next one.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress

CONNECT_S = 0.5  # a broker that is not heard from in that time is away, or behind a link that is


class BrokerConnections:
    """One connection to each broker.

    addresses: name of the broker -> `host:port`.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = {name: (host, int(port)) for name, (host, _, port) in _parts(addresses)}
        self._open: dict[str, socket.socket] = {}

    def unreachable(self) -> set[str]:
        """The brokers whose connection has ended, or never began, and to which none can be opened now."""
        return {name for name in self._addresses if not (self._stands(name) or self._opened(name))}

    def close(self) -> None:
        for name in list(self._open):
            self._open.pop(name).close()

    def _stands(self, name: str) -> bool:
        connection = self._open.get(name)
        if connection is None:
            return False
        try:
            if connection.recv(1, socket.MSG_PEEK):
                return True
        except BlockingIOError:
            return True
        except OSError:
            pass
        self._open.pop(name).close()
        return False

    def _opened(self, name: str) -> bool:
        with suppress(OSError):
            self._open[name] = connection = socket.create_connection(self._addresses[name], CONNECT_S)
            connection.setblocking(False)
        return name in self._open


def _parts(addresses: Mapping[str, str]) -> list[tuple[str, tuple[str, str, str]]]:
    """Host and port of each address; a host that is an IPv6 address without its brackets."""
    parts = [(name, address.rpartition(":")) for name, address in addresses.items()]
    return [(name, (host.strip("[]"), colon, port)) for name, (host, colon, port) in parts]
