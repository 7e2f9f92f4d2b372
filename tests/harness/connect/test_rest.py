"""The REST client of a conductor, against a server that answers as Connect does."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.ports import closed_port

from fencepost.harness.api import CallError
from fencepost.harness.api.connect import connect_document
from fencepost.harness.connect.rest import RestClient
from fencepost.harness.connect.worker import serves
from fencepost.workloads.support.connect_conductor import failed, offsets_in


@pytest.fixture
def server():
    """Answers with what it was asked; a DELETE with nothing, /slow never."""
    asleep, deleted = threading.Event(), []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            if self.path == "/slow":
                asleep.wait(60)
                return
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(201, json.dumps({"path": self.path, "body": body}).encode())

        def do_DELETE(self):
            deleted.append(self.path)
            self._answer(409 if len(deleted) == 1 and self.path == "/connectors/busy" else 204, b"")

        def do_GET(self):
            self._answer(500, b"<html>")

        def _answer(self, status, content):
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}"
        asleep.set()
        made.shutdown()


def test_an_answer_has_its_status_its_document_and_who_gave_it(server):
    client = RestClient(lambda: {"c0": server}, Path())
    answer = client.ask("PUT", "/connectors/s/config", {"tasks.max": "2"})
    assert (answer.status, answer.worker) == (201, "c0")
    assert answer.document == {"path": "/connectors/s/config", "body": {"tasks.max": "2"}}
    assert client.ask("DELETE", "/connectors/s").document is None
    assert client.ask("GET", "/").document == "<html>"


def test_each_request_goes_to_the_next_worker(server):
    client = RestClient(lambda: {"c0": server, "c2": server}, Path())
    assert [client.ask("DELETE", "/").worker for _ in range(4)] == ["c0", "c2", "c0", "c2"]


@pytest.mark.parametrize(
    ("workers", "name"), [({}, "NOBODY"), ({"c0": f"http://127.0.0.1:{closed_port()}"}, "UNREACHED")], ids=["no worker", "closed"]
)
def test_a_request_that_was_surely_not_sent_can_be_sent_again(workers, name):
    with pytest.raises(CallError) as failed:
        RestClient(lambda: workers, Path()).ask("PUT", "/", {})
    assert (failed.value.name, failed.value.retriable) == (name, True)


def test_a_request_without_an_answer_may_have_been_carried_out(server):
    with pytest.raises(CallError) as failed:
        RestClient(lambda: {"c0": server}, Path(), timeout_s=0.2).ask("PUT", "/slow", {})
    assert (failed.value.name, failed.value.retriable) == ("UNANSWERED", False)


def test_connectors_are_deleted_from_workers_that_are_somebodys_own(server):
    notes = []
    client = RestClient(lambda: {"c0": server}, Path(), note=notes.append)
    client.ask("PUT", "/connectors/busy/config", {})
    client.close()
    assert notes == [], "the second try is accepted"
    gone = RestClient(lambda: {"c0": server}, Path(), note=notes.append)
    gone.ask("PUT", "/connectors/s/config", {})
    gone._workers = dict
    gone.close()
    assert notes == ["/connectors/s could not be deleted, and goes on; delete it: DELETE /connectors/s at a worker of Connect"]


def test_connectors_stay_on_workers_that_end_with_the_run(server):
    client = RestClient(lambda: {"c0": server}, Path())
    client.ask("PUT", "/connectors/s/config", {})
    client._workers = dict
    client.close()


OTHER_SHAPES = {
    "tasks that are a number": {"tasks": 7},
    "tasks that are texts": {"tasks": ["RUNNING"]},
    "a task without a number": {"tasks": [{"id": "first"}]},
    "a state that is a number": {"connector": {"state": 7}},
    "a connector that is a text": {"connector": "RUNNING"},
    "offsets that are an object": {"offsets": {"a": 1}},
    "an offset that is a number": {"offsets": [{"partition": {}, "offset": 7}]},
    "a message that is an object": {"error_code": 400, "message": {"text": "no"}},
    "a code that is a text": {"error_code": "400", "message": "no"},
    "a list": ["s"],
    "a number": 7,
    "true": True,
}


@pytest.mark.parametrize("document", OTHER_SHAPES.values(), ids=OTHER_SHAPES)
def test_a_document_of_another_shape_is_a_text(document):
    """So whoever reads it reads no part of it."""
    assert isinstance(connect_document(document), str)
    assert not failed(connect_document(document))
    assert not offsets_in(connect_document(document))


@pytest.mark.parametrize(
    "document",
    [
        {"name": "s", "config": {}, "tasks": [{"connector": "s", "task": 0}], "type": "source"},
        {"name": "s", "connector": {"state": "RUNNING", "worker_id": "a"}, "tasks": [{"id": 0, "state": "FAILED", "trace": "t"}]},
        {"offsets": [{"partition": {"source": "a"}, "offset": {"position": 7}}, {"partition": {"b": 1}, "offset": None}]},
        {"error_code": 409, "message": "Cannot complete request momentarily"},
    ],
)
def test_connects_own_documents_stay_as_they_are(document):
    assert connect_document(document) == document


RAW = {
    "no HTTP": b"Welcome!\r\n",
    "no number for a status": b"HTTP/1.1 many x\r\n\r\n",
    "a body that is cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    "a chunk without a length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: -x\r\n\r\n" + b"x" * 3000,
    "heads without end": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000,
    "a body without end": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3000,
    "nothing": b"",
}


@pytest.fixture
def raw_server():
    """Function that starts a server with one answer, and returns its address."""
    listeners = []

    def serve(content, then=lambda connection: None):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def answer():
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(content)
                then(connection)

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("content", RAW.values(), ids=RAW)
def test_what_is_no_answer_is_an_error_that_names_the_worker(raw_server, content, monkeypatch):
    monkeypatch.setattr("fencepost.harness.connect.rest.MOST_ANSWER", 1000)
    url = raw_server(content)
    with pytest.raises(CallError) as failed_call:
        RestClient(lambda: {"c0": url}, Path(), timeout_s=60).ask("GET", "/")
    assert (failed_call.value.name, f"c0 ({url})" in failed_call.value.text) == ("UNANSWERED", True)


def test_an_answer_that_comes_byte_by_byte_is_not_awaited_without_end(raw_server, monkeypatch):
    def dribble(connection):
        while True:
            connection.sendall(b" ")

    monkeypatch.setattr("fencepost.harness.connect.rest.time", SimpleNamespace(monotonic=count(step=10.0).__next__))
    url = raw_server(b"HTTP/1.1 200 OK\r\n\r\n", dribble)
    with pytest.raises(CallError, match=r"still answering after 60 s"):
        RestClient(lambda: {"c0": url}, Path(), timeout_s=60).ask("GET", "/")


@pytest.mark.parametrize("address", ["", "nonsense", "http://127.0.0.1:x", "http://[", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_is_an_error_that_names_the_worker(address, tmp_path):
    with pytest.raises(CallError) as failed_call:
        RestClient(lambda: {"c0": address}, Path()).ask("GET", "/")
    assert failed_call.value.name == "UNREACHED"
    (tmp_path / "rest").write_text(address)
    assert not serves(tmp_path)
