"""The REST interface of Connect's workers, asked by a conductor."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fencepost.harness.api import CallError, ConnectAnswer
from fencepost.harness.api.connect import MOST_SHOWN, connect_document

if TYPE_CHECKING:
    import http.client

TIMEOUT_S = 10.0
MOST_ANSWER, _PART = 16 << 20, 1 << 16  # bytes
CLOSING_TRIES = 5  # of a request that may meet a rebalance


class RestClient:
    """`ConnectClient`.

    workers: returns the addresses of the workers by their nodes; each request goes to the next worker.
    directory: of the conductor.
    bootstrap: of the cluster under test.
    second: bootstrap of the second cluster.
    services: addresses (`host:port`) of outside services that the test declares.
    note: given where the workers are somebody's own: `close` deletes the connectors that were made through this client, and
    reports here what could not be deleted.
    """

    library, version = "connect-rest", "1"

    def __init__(
        self,
        workers: Callable[[], Mapping[str, str]],
        directory: Path,
        bootstrap: str = "",
        second: str = "",
        timeout_s: float = TIMEOUT_S,
        note: Callable[[str], None] | None = None,
        services: Mapping[str, str] | None = None,
    ) -> None:
        self.directory, self.bootstrap, self.second, self._note = directory, bootstrap, second, note
        self.services = services or {}
        self._made: dict[str, None] = {}
        self._workers, self._timeout_s, self._turn = workers, timeout_s, itertools.count()

    def open(self, timeout_s: float) -> None:
        """Do nothing: each request has a connection of its own."""

    def close(self) -> None:
        """Leave workers that are somebody's own as they were; what could not be deleted is said."""
        note = self._note
        if note is None:
            return
        for path in self._made:
            if not any(self._deleted(path) for _ in range(CLOSING_TRIES)):
                note(f"{path} could not be deleted, and goes on; delete it: DELETE {path} at a worker of Connect")

    def _deleted(self, path: str) -> bool:
        try:
            answer = self.ask("DELETE", path)
        except CallError:
            return False
        return answer.status < 300 or answer.status == 404

    def ask(self, method: str, path: str, body: Any = None) -> ConnectAnswer:
        """One request to the next worker. Raises CallError: `NOBODY` (no worker has an address yet), `UNREACHED` (it was surely
        not sent), `UNANSWERED` (nobody knows what became of it)."""
        import http.client  # here, because every worker process would start later with it

        workers = sorted(self._workers().items())
        if not workers:
            raise CallError("ask", "NOBODY", 0, "no worker of Connect has said where it is", retriable=True)
        node, url = workers[next(self._turn) % len(workers)]
        try:
            host = urlsplit(url)
            connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=self._timeout_s)
            connection.connect()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CallError("ask", "UNREACHED", 0, f"{node} ({url}): {error}", retriable=True) from error
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json", "Accept": "application/json"})
            answer = connection.getresponse()
            if method == "PUT" and path.endswith("/config"):  # it may have been made, whatever the answer is
                self._made[path.removesuffix("/config")] = None
            return ConnectAnswer(answer.status, _document(self._body(answer)), node)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CallError("ask", "UNANSWERED", 0, f"{node} ({url}): {error or type(error).__name__}") from error
        finally:
            connection.close()

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        """The whole body. Raises ValueError for one that is too long, or comes too slowly."""
        body, deadline = bytearray(), time.monotonic() + self._timeout_s
        while part := answer.read1(_PART):
            body += part
            if len(body) > MOST_ANSWER:
                raise ValueError(f"an answer of more than {MOST_ANSWER >> 20} MiB")
            if time.monotonic() > deadline:
                raise ValueError(f"it was still answering after {self._timeout_s:g} s")
        if answer.length:
            raise ValueError(f"it ended {answer.length} bytes too early")
        return bytes(body)


def _document(content: bytes) -> Any:
    try:
        return connect_document(json.loads(content)) if content.strip() else None
    except (ValueError, RecursionError):  # an error page
        return content.decode("utf-8", "replace")[:MOST_SHOWN]
