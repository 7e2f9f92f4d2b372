"""Ports at which nobody listens."""

import socket

_HELD = []


def closed_port():
    """A port that refuses connections as long as this process runs: a socket has it, so that no other test gets it, and does not
    listen.
    """
    _HELD.append(socket.socket())
    _HELD[-1].bind(("127.0.0.1", 0))
    return _HELD[-1].getsockname()[1]
