"""Outside services that a test declares: their relay, and that nothing else is reachable."""

import json
import socket
import subprocess
import sys
import threading

import pytest
from support.ports import closed_port, free_port

from fencepost.clusters.local import sandbox, services
from fencepost.clusters.local.options import LocalOptions
from fencepost.harness.api import CampaignError


@pytest.fixture
def echo():
    """The port of a service of this machine that answers with what it gets, in capitals."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while part := connection.recv(1 << 16):
                        connection.sendall(part.upper())

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


ASK = """
import json, socket, sys
from fencepost.clusters.local import services

def ask(host, port, text=b"a" * 100_000, timeout_s=60):
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(1 << 16):
                answer += part
            return len(answer) if answer == text.upper() else answer.decode()
    except OSError as error:
        return type(error).__name__

seen = {}
"""


def run(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_bytes_go_both_ways_and_a_service_that_is_gone_ends_the_connection(echo):
    script = """
names = dict(word.split("=") for word in sys.argv[1:])
relays = [services.start_inside(name, "127.0.0.1", int(port)) for name, port in names.items()]
print(json.dumps({name: ask("127.0.0.1", int(port)) for name, port in names.items()}))
[relay.kill() for relay in relays]
"""
    dead = closed_port()
    ports = {name: free_port() for name in ("echo", "dead")}
    declared = {"echo": f"127.0.0.1:{echo}", "dead": f"127.0.0.1:{dead}"}
    words = [f"{name}={port}" for name, port in ports.items()]
    seen = run(services.outside(declared, [sys.executable, "-c", ASK + script, *words]))
    assert seen["echo"] == 100_000
    assert seen["dead"] in ("", "ConnectionResetError", "BrokenPipeError")


@pytest.mark.cluster
def test_in_a_sandbox_only_what_is_declared_is_reachable_and_its_link_can_be_cut(echo):
    script = """
from fencepost.clusters.local.network import Network
network = Network()
network.add("c0", "10.73.3.1")
network.add("echo", "10.73.100.1")
with network.inside("echo"):
    relay = services.start_inside("echo", "10.73.100.1", 7)
client = lambda *there, **more: network.run("c0", lambda: ask(*there, **more))
seen["declared"] = client("10.73.100.1", 7)
seen["undeclared"] = [client("127.0.0.1", int(sys.argv[1])), client("10.73.0.1", int(sys.argv[1])), client("192.0.2.1", 80)]
network.drop([("c0", "echo"), ("echo", "c0")])
seen["cut"] = client("10.73.100.1", 7, timeout_s=1)
network.undrop([("c0", "echo"), ("echo", "c0")])
seen["mended"] = client("10.73.100.1", 7)
relay.kill()
print(json.dumps(seen))
"""
    command = sandbox.command([sys.executable, "-c", ASK + script, str(echo)])
    seen = run(services.outside({"echo": f"127.0.0.1:{echo}"}, command))
    assert (seen["declared"], seen["cut"], seen["mended"]) == (100_000, "TimeoutError", 100_000)
    assert set(seen["undeclared"]) <= {"ConnectionRefusedError", "OSError"}


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"n1": "127.0.0.1:5432"}, "no name of a service"),
        ({"Postgres": "127.0.0.1:5432"}, "no name of a service"),
        ({"a-very-long-name": "127.0.0.1:5432"}, "at most 11"),
        ({"postgres": "5432"}, '"5432" is no address of this machine like 127.0.0.1:5432'),
        ({"postgres": "127.0.0.1:70000"}, "is no address"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(declared, text):
    with pytest.raises(CampaignError, match=text):
        LocalOptions(services=declared)


def test_a_service_at_which_nothing_answers_is_named_before_a_run(echo):
    dead = closed_port()
    (text,) = services.unanswered({"echo": f"127.0.0.1:{echo}", "dead": f"127.0.0.1:{dead}"})
    assert text == f"cluster.services.dead: nothing answers at 127.0.0.1:{dead} (Connection refused); is it started?"


def test_the_plan_has_the_addresses_by_which_clients_reach_services():
    declared = {"postgres": "127.0.0.1:5432", "mongo": "[::1]:27017"}
    assert LocalOptions(services=declared, loopback=True).service_addresses() == declared
    if sandbox.namespace_support().namespaces:
        assert LocalOptions(services=declared).service_addresses() == {
            "postgres": "10.73.100.1:5432",
            "mongo": "10.73.100.2:27017",
        }
