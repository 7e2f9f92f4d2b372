"""Ports at which nobody listens, and ports for those who will."""

import socket

from fencepost.clusters.kafka.node_plan import loopback

_HELD = []


def closed_port():
    """A port that refuses connections as long as this process runs: a socket has it, so that no other test gets it, and does not
    listen.
    """
    _HELD.append(socket.socket())
    _HELD[-1].bind(("127.0.0.1", 0))
    return _HELD[-1].getsockname()[1]


def free_port():
    """A port of the loopback address for somebody who listens there later: none of those that the kernel gives, so that nobody
    else gets it meanwhile.
    """
    _, ports = loopback(0, 0)
    return next(iter(ports.values()))
