"""The REST client of a conductor, against a server that answers as Connect does."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fencepost.harness.api import CallError
from fencepost.harness.connect.rest import RestClient


@pytest.fixture
def server():
    """Answers with what it was asked; a DELETE with nothing, /slow never."""
    asleep, deleted = threading.Event(), []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            if self.path == "/slow":
                asleep.wait(5)
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


def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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
