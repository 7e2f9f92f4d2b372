"""The HTTP interface."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from support.frames import PATIENCE_S, answer, end_txn

from fencepost.harness.api import CampaignError, ClusterError
from fencepost.harness.proxy.control import Control
from fencepost.nemesis.support.waiting import poll_until

WAITING = 256  # requests at most
pytestmark = pytest.mark.cluster  # it needs Kafka's jars, as brokers do


def asked(scene, method, path, content=None, **headers):
    """The status and the body of the answer."""
    request = Request(f"http://{scene.control.address}{path}", content, headers, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as given:
            return given.status, given.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_page_in_a_browser_may_not_use_it(scene):
    before = scene.control.rules()
    assert asked(scene, "POST", "/rules", b'{"act": "cut"}', Origin="http://somewhere.example")[0] == 403
    assert scene.control.rules() == before


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "text"),
    [
        ("GET", "/nothing", None, 404, "there is no GET /nothing"),
        ("DELETE", "/rules/4711", None, 404, "there is no rule 4711"),
        ("GET", "/rules/x/wait", None, 404, "there is no rule x"),
        ("POST", "/rules", b"{", 400, "the body is no JSON"),
        ("POST", "/rules", b"", 400, "a rule is a table of keys and values"),
        ("POST", "/rules", b"[1]", 400, "a rule is a table of keys and values"),
        ("POST", "/rules", b'{"act": "cut", "nth": 1, "nth": 2}', 400, "the body is no JSON: Duplicate field 'nth'"),
        ("POST", "/rules", b'{"act": "cut"} {"act": "cut"}', 400, "the body is no JSON: Trailing token"),
        ("POST", "/rules", b'{"act": "hold", "until": null}', 400, "until: must be event:NAME, "),
        ("POST", "/rules", b'{"act": "cut", "api": null}', 400, "api: must be a text, or a list of texts"),
        ("POST", "/rules", b'{"act": null}', 400, "act: must be one of record, "),
        ("POST", "/rules", b'{"act": "cut", "node": ["n1", "n9"]}', 400, "node: no broker is n9; there are n1"),
        ("POST", "/rules", b'{"act": "cut", "node": "m*"}', 400, "node: no broker is m*; there are n1"),
        ("GET", "/rules/1/wait?cuont=2", None, 400, "cuont: this request has no such parameter; did you mean count?"),
        ("GET", "/rules/1/wait?count=two", None, 400, "count: must be a whole number of at most nine digits"),
        ("GET", "/rules/1/wait?timeout_ms", None, 400, "timeout_ms: must be a whole number of at most nine digits"),
        ("GET", "/record?frm=2", None, 400, "frm: this request has no such parameter; did you mean from?"),
        ("GET", "/status?from=2", None, 400, "from: this request has no such parameter"),
        ("GET", "/rules/1/wait/2", None, 404, "there is no GET /rules/1/wait/2"),
        ("POST", "/occurrences", b'{"seen": 5}', 400, "seen: must be a list"),
        ("POST", "/occurrences", b"", 400, "seen: must be a list"),
        ("HEAD", "/status", None, 404, ""),
    ],
)
def test_what_cannot_be_done_is_said(scene, method, path, content, status, text):
    code, body = asked(scene, method, path, content)
    assert (code, text in body) == (status, True)


def test_a_rule_may_be_put_behind_one_that_hides_it(scene):
    """So that it can take its place: the other one is removed then."""
    first = scene.control.add({"act": "cut", "api": "Vote"})
    assert scene.control.add({"act": "record", "api": "Vote"}) == first + 1


def test_a_wait_ends_with_its_time_or_with_its_rule(scene):
    rule = scene.control.add({"act": "record", "api": "Vote"})
    with pytest.raises(TimeoutError, match=f"rule {rule} acted 0 times within 0.01 s, not 1 times"):
        scene.control.wait(rule, timeout_s=0.01)
    assert scene.control.remove(rule)["acted"] == 0
    with pytest.raises(CampaignError, match=f"there is no rule {rule}"):
        scene.control.wait(rule)


def test_more_requests_than_there_are_threads_for_are_refused(scene):
    """Each that waits has a thread; the rest of the interface answers on."""
    rule = scene.control.add({"act": "record", "api": "Vote"})
    host, _, port = scene.control.address.rpartition(":")
    with ExitStack() as steps:
        for _ in range(WAITING):
            waits = steps.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
            waits.sendall(f"GET /rules/{rule}/wait?timeout_ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert f"{WAITING} requests wait here already" in waited(scene, rule, 503)
        assert scene.control.remove(rule)["acted"] == 0  # which ends them
    assert waited(scene, scene.control.add({"act": "record", "api": "Vote"}), 408) == "[]"


def waited(scene, rule, status):
    """Ask for a rule's catches until the answer has a status; its body."""
    path = f"/rules/{rule}/wait?timeout_ms=1"
    code, body = poll_until(lambda: asked(scene, "GET", path), lambda answer: answer[0] == status, PATIENCE_S)
    assert code == status
    return body


def test_the_record_is_read_on_from_a_line(scene):
    client, broker = scene.connection()
    for number in (1, 2):
        client.send(end_txn(number))
        broker.receive()
        broker.send(answer(number))
        client.receive()
    lines = scene.lines()
    assert [line["at"] for line in lines] == ["request", "answer"] * 2
    assert scene.control.record(scene.first + 2) == lines[2:]
    assert scene.control.record(scene.first + 4) == []


def test_the_status_counts(scene):
    before = scene.control.status()
    client, broker = scene.connection()
    client.send(end_txn(1))
    broker.receive()
    after = scene.control.status()
    assert after["connections"] >= 1
    assert after["messages"] - before["messages"] == 1
    assert after["bytes"] - before["bytes"] == len(end_txn(1))
    assert after["record"] == str(scene.directory / "n1.jsonl")
    assert after["record_error"] is None


def test_a_proxy_that_is_not_there(scene):
    with pytest.raises(ClusterError, match=r"does not answer .*: has it ended"):
        Control("127.0.0.1:1").status()


@pytest.mark.parametrize(
    "beginning",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"count": 1',
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
        b"HTTP/1",
        b"",
    ],
)
def test_a_proxy_that_ends_inside_an_answer_does_not_answer(beginning):
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=cut_off, args=(server, beginning))
        thread.start()
        with pytest.raises(ClusterError, match=r"does not answer .*: has it ended"):
            Control("{}:{}".format(*server.getsockname())).seen(1)
        thread.join()


def cut_off(server, beginning):
    """Take a request, and end within the answer."""
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(beginning)
