"""A group's committed offsets, from brokers in a few bytes."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress

import pytest

from fencepost.clusters.kafka import group_offsets
from fencepost.clusters.kafka.group_offsets import committed_offsets
from fencepost.harness.api import ClusterError
from tests.support.fake_broker import ints, text

OFFSET_FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS = 9, 3, 10, 18
VERSIONS = {OFFSET_FETCH: 7, METADATA: 4, FIND_COORDINATOR: 2, API_VERSIONS: 3}
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE = 16, 15


def _offsets(error):
    """An answer to OffsetFetch: of t-0 offset 7, of t-1 none."""
    if error:
        return b"\x00" + ints(0) + b"\x01" + struct.pack(">h", error) + b"\x00"
    rows = b"".join(struct.pack(">iqi", number, offset, -1) + b"\x01\x00\x00\x00" for number, offset in ((0, 7), (1, -1)))
    return b"\x00" + ints(0) + b"\x02" + b"\x02t" + b"\x03" + rows + b"\x00" + b"\x00\x00\x00"


class Coordinator:
    """A broker that coordinates every group, and answers OffsetFetch with these errors, the last one again and again."""

    def __init__(self, address, errors):
        self.address, self.errors, self.fetches = address, list(errors), 0

    def answer(self, key):
        host, port = self.address
        node = ints(1) + text(host) + ints(port)
        if key == API_VERSIONS:
            listed = b"".join(struct.pack(">hhhb", key, 0, most, 0) for key, most in VERSIONS.items())
            return struct.pack(">hb", 0, len(VERSIONS) + 1) + listed + ints(0) + b"\x00"
        if key == METADATA:
            return ints(0, 1) + node + struct.pack(">h", -1) + text("cluster") + ints(1, 0)
        if key == FIND_COORDINATOR:
            return ints(0) + struct.pack(">hh", 0, -1) + node
        self.fetches += 1
        return _offsets(self.errors.pop(0) if len(self.errors) > 1 else self.errors[0])


def _serve(connection, coordinator):
    with suppress(ConnectionError), connection, connection.makefile("rb") as requests:  # the client may have left
        while head := requests.read(4):
            request = requests.read(struct.unpack(">i", head)[0])
            reply = request[4:8] + coordinator.answer(struct.unpack(">h", request[:2])[0])
            connection.sendall(struct.pack(">i", len(reply)) + reply)


def _accept(server, coordinator):
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, coordinator), daemon=True).start()


@contextmanager
def coordinator(*errors):
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Coordinator(server.getsockname(), errors)
        threading.Thread(target=_accept, args=(server, made), daemon=True).start()
        yield made


def _offsets_from(made):
    host, port = made.address
    return committed_offsets({"bootstrap.servers": f"{host}:{port}"}, "g", ["t-0", "t-1"], 60.0)


@pytest.mark.parametrize("error", [NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE])
def test_a_group_whose_coordinator_has_moved_is_queried_again(error, monkeypatch):
    """librdkafka's admin client ends the process at such an answer."""
    monkeypatch.setattr(group_offsets, "_TRIES", 1000)
    monkeypatch.setattr(group_offsets, "_PAUSE_S", 0.05)
    with coordinator(error, 0) as made:
        assert _offsets_from(made) == {"t-0": 7, "t-1": None}
        assert made.fetches >= 2


def test_a_group_without_a_coordinator_is_a_cluster_error(monkeypatch):
    monkeypatch.setattr(group_offsets, "_TRIES", 2)
    monkeypatch.setattr(group_offsets, "_PAUSE_S", 0.0)
    with coordinator(NOT_COORDINATOR) as made, pytest.raises(ClusterError, match=r"group g cannot be read: .*NOT_COORDINATOR"):
        _offsets_from(made)
