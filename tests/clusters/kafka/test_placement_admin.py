"""The choice of the broker to which changes of placements and settings are sent."""

from __future__ import annotations

import socket
import struct
from functools import partial

import pytest

from fencepost.clusters.kafka import protocol
from fencepost.clusters.kafka.placement_admin import PlacementAdmin
from fencepost.clusters.kafka.roles import WireRoles
from fencepost.harness.api import ClusterError

API_VERSIONS = 18


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.set_topic_settings("t", {"segment.ms": "1000"}),
        lambda admin: admin.reassign({"t-0": ("n1",)}),
        lambda admin: admin.elect(["t-0"]),
        lambda admin: admin.unregister("n1"),
        lambda admin: admin.set_feature("transaction.version", 1),
    ],
    ids=["settings", "reassign", "elect", "unregister", "feature"],
)
def test_a_change_is_not_sent_to_a_frozen_broker(change, monkeypatch):
    """The kernel of a frozen broker takes connections; what was sent is read when it thaws, after the change was undone."""
    monkeypatch.setattr(protocol, "answers", partial(protocol.answers, timeout_s=0.05))
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        with pytest.raises(ClusterError, match="n1 does not answer"):
            change(PlacementAdmin(WireRoles({1: "n1"}, {"n1": frozen.getsockname()}, {"n1": frozen.getsockname()})))
        frozen.settimeout(60.0)
        thawed, _ = frozen.accept()
        with thawed:
            sent = thawed.recv(1 << 16)  # nothing where the time was over before
            assert not sent or struct.unpack_from(">ih", sent)[1] == API_VERSIONS
        frozen.setblocking(False)
        with pytest.raises(BlockingIOError):  # no other client has connected
            frozen.accept()
