"""The reproducer of the swallowed write: how it judges what a log holds, and that its proxy loses exactly one answer."""

import importlib.util
import socket
import struct
import sys
import threading
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "reproducers" / "swallowed_write.py"


@pytest.fixture(scope="module")
def reproducer():
    spec = importlib.util.spec_from_file_location("swallowed_write_reproducer", PATH)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("acknowledged", "stored", "outcome"),
    [
        (4, {0: "warm", 1: "COMMIT", 2: "A0", 4: "A", 5: "ABORT", 6: "COMMIT"}, "swallowed"),
        (6, {2: "A0", 4: "A", 5: "ABORT", 6: "B", 7: "COMMIT"}, "written"),
        (4, {2: "A0", 4: "C"}, "unclear"),
        ("_PURGE_QUEUE", {2: "A0", 4: "A"}, "unclear"),
        (None, {2: "A0", 4: "A"}, "unclear"),
    ],
)
def test_a_write_is_swallowed_only_where_the_older_record_has_its_offset(reproducer, acknowledged, stored, outcome):
    assert reproducer.judged(acknowledged, stored).outcome == outcome


def test_the_proxy_loses_the_answer_of_one_produce_which_the_broker_got(reproducer, monkeypatch):
    monkeypatch.setattr(reproducer, "BEFORE_RESET_S", 0.05)
    received = []
    with socket.create_server(("127.0.0.1", 0)) as broker:
        threading.Thread(target=answer, args=(broker, received), daemon=True).start()
        proxy = reproducer.LosingProxy(0, broker.getsockname()[1])
        port = proxy.port
        assert answer_to(port, b"\x00\x00first") == b"\x00\x00first", "nothing is lost before it is armed"
        proxy.armed.set()
        assert answer_to(port, b"\x00\x03other") == b"\x00\x03other", "another request than Produce"
        assert answer_to(port, b"\x00\x00lost") == b"", "the connection ended without an answer"
        assert answer_to(port, b"\x00\x00again") == b"\x00\x00again"
    assert received == [b"\x00\x00first", b"\x00\x03other", b"\x00\x00lost", b"\x00\x00again"]


def answer(server, received):
    """A broker that returns each request as its answer."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=echo, args=(connection, received), daemon=True).start()


def echo(connection, received):
    with connection:
        while head := connection.recv(4):
            body = connection.recv(struct.unpack(">i", head)[0])
            received.append(body)
            connection.sendall(head + body)


def answer_to(port, body):
    """The answer to one request on a connection of its own; empty when the connection ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        try:
            data = connection.recv(1024)
        except ConnectionResetError:
            return b""
    return data[4:]
