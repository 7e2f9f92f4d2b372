"""The site over HTTP on loopback: pages, and files of runs, for reading alone.

Of the results folder only directories of runs are served. Each file is opened from folder to folder without following a link
(`harness.api.beneath`), so no path of a request leaves the folder. Every answer says its type and forbids guessing it; a report
that was not made by us could run scripts, but reaches nothing. Threads, and the time that a client has, are bounded.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from fencepost.harness.api import CampaignError
from fencepost.harness.api.beneath import names, reading
from fencepost.harness.history.results_folder import is_run
from fencepost.harness.history.run_directory import described
from fencepost.harness.memory.known import NOTHING_KNOWN, Known
from fencepost.harness.site import addresses
from fencepost.harness.site.live import LiveSite
from fencepost.harness.site.pages import listing_page
from fencepost.harness.site.requests import OF_LOGS, BadPath, byte_range, content_type, is_our_host, segments

LIVE = "live.json"
MOST_THREADS = 32
PATIENCE_S = 20.0  # for a request, and for an answer besides the time that its size deserves
SLOWEST = 64 << 10  # bytes a second of a reader that is waited for
MOST_LISTED = 2_000  # names in a folder of a run
_PART = 256 << 10
_LAST_PORT = 65_535
_POLICY = (  # for whatever a run's directory holds: no request elsewhere, no form, no frame around it
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


_OTHER_HOST = "This server answers under its address and as localhost, and under no other name."
_NOTHING = "Nothing is there."


class SiteServer(ThreadingHTTPServer):
    """Serves the runs below `root`. A connection that takes too long is closed, one too many is turned away."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, root: Path, host: str, port: int, known: Known = NOTHING_KNOWN) -> None:
        """Raises CampaignError: nothing can listen there."""
        self.root, self.named, self.site = root, host, LiveSite(root, known)
        self._free = threading.BoundedSemaphore(MOST_THREADS)
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        if not 0 <= port <= _LAST_PORT:
            raise CampaignError([f"--port {port}: is no port; there are 0 to {_LAST_PORT}"])
        try:
            family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self.address_family = family
            super().__init__(where[:2], _Handler)  # type: ignore[arg-type]
        except socket.gaierror as error:
            raise CampaignError([f"--host {host}: is no address of this machine ({error.strerror})"]) from error
        except OSError as error:
            raise CampaignError([_refused(host, port, error)]) from error

    @property
    def url(self) -> str:
        """The address of the first page."""
        host = f"[{self.named}]" if ":" in self.named else self.named
        return f"http://{host}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Bind without a look at the name service, which `HTTPServer` takes and which may last for ever."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.named, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            request.setblocking(False)
            with suppress(OSError):
                request.send(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        self.extend(request, 0)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._ended(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._ended(request)

    def extend(self, request: socket.socket, size: int) -> None:
        """Give a connection the time that an answer of this size deserves."""
        with self._lock:
            self._deadlines[request] = time.monotonic() + PATIENCE_S + size / SLOWEST

    def _ended(self, request: socket.socket) -> None:
        with self._lock:
            self._deadlines.pop(request, None)
        self._free.release()

    def service_actions(self) -> None:
        """Close, twice a second, the connections that have taken too long."""
        with self._lock:
            late = [request for request, deadline in self._deadlines.items() if time.monotonic() > deadline]
        for request in late:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away; the handler answers for everything else."""


def _is_folder(path: Path) -> bool:
    """Return whether a folder is there, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _refused(host: str, port: int, error: OSError) -> str:
    if isinstance(error, PermissionError):
        return f"--port {port}: may not be used by this user: name one above 1023, or 0 for any that is free"
    if error.errno == errno.EADDRINUSE:
        return f"--port {port}: is in use already, perhaps by another `fencepost serve`: name another, or 0 for any that is free"
    return f"--host {host} --port {port}: cannot be listened at: {error.strerror}"


class _Handler(BaseHTTPRequestHandler):
    """Answers a request, and closes the connection."""

    server: SiteServer
    timeout = PATIENCE_S
    server_version, sys_version = "fencepost", ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def do_GET(self) -> None:
        """Answer with the content."""
        try:
            self._answer()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - a bug of ours is an answer, and no silence
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"fencepost itself broke: {described(error)}")

    do_HEAD = do_GET  # the head alone: `_send` knows

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: the terminal belongs to the command."""

    def _answer(self) -> None:
        if not is_our_host(self.headers.get_all("Host", []), self.server.named):
            return self._refuse(HTTPStatus.FORBIDDEN, _OTHER_HOST)
        try:
            parts = segments(self.path)
        except BadPath:
            return self._refuse(HTTPStatus.BAD_REQUEST, "This is no path of the site.")
        try:
            if parts[0] == addresses.RUNS and len(parts) > 1:
                return self._of_run(parts[1:])
            return self._page("/".join(parts) or addresses.INDEX)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
            return self._refuse(HTTPStatus.NOT_FOUND, _NOTHING)
        except CampaignError as error:
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except (ConnectionError, TimeoutError):
            raise
        except PermissionError:
            return self._refuse(HTTPStatus.FORBIDDEN, "This may not be read.")
        except OSError:  # a link, a pipe, a name that is too long
            return self._refuse(HTTPStatus.NOT_FOUND, _NOTHING)

    # -- pages -----------------------------------------------------------------------------------
    def _page(self, name: str) -> None:
        if name == LIVE:
            return self._send(json.dumps({"version": self.server.site.version}).encode(), "application/json")
        page = self.server.site.page(name)
        if page is None:
            return self._refuse(HTTPStatus.NOT_FOUND, _NOTHING)
        return self._send(page.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")

    # -- files of runs ---------------------------------------------------------------------------
    def _of_run(self, parts: list[str]) -> None:
        """A file or a folder of a run. Names that begin with a dot are locks and parts, and no part of a run."""
        *folders, name = parts
        if len(parts) < 2 or any(part.startswith(".") for part in parts) or not self._is_run(parts[:2]):
            raise FileNotFoundError
        place = "/".join(filter(None, parts))
        if not name:
            return self._folder(place, folders)
        try:
            opened = reading(self.server.root, place)
        except IsADirectoryError:
            return self._moved(parts)
        with opened:
            return self._file(opened, parts)

    def _is_run(self, parts: Sequence[str]) -> bool:
        """Return whether this is a run's directory, to which no link leads."""
        campaign, run = parts
        if not run or run not in names(self.server.root, campaign):
            return False
        return is_run(self.server.root / campaign / run)

    def _folder(self, place: str, parts: Sequence[str]) -> None:
        if len(parts) == 2 or parts[-1] in names(self.server.root, "/".join(parts[:-1])):
            held = [name for name in names(self.server.root, place) if not name.startswith(".")]
            kinds = [(name, _is_folder(self.server.root / place / name)) for name in held[:MOST_LISTED]]
            page = listing_page(self.server.site.written, place, kinds, len(held) - len(kinds))
            return self._send(page.encode("utf-8", "backslashreplace"), "text/html; charset=utf-8")
        raise FileNotFoundError

    def _moved(self, parts: Sequence[str]) -> None:
        target = "/".join(quote(os.fsencode(part)) for part in (addresses.RUNS, *parts))
        self._head(HTTPStatus.MOVED_PERMANENTLY, {"Location": f"/{target}/", "Content-Length": "0"})

    def _file(self, opened: BinaryIO, parts: Sequence[str]) -> None:
        size = os.fstat(opened.fileno()).st_size
        kind = content_type(parts)
        heads = {"Content-Type": kind, "Accept-Ranges": "bytes", "Content-Security-Policy": _POLICY}
        if kind not in (OF_LOGS, "application/json") and not kind.startswith("text/"):
            heads["Content-Disposition"] = "attachment"
        try:
            asked = byte_range(self.headers.get("Range"), size)
        except ValueError:
            self._head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, {"Content-Range": f"bytes */{size}", "Content-Length": "0"})
            return
        begin, end = asked or (0, size)
        if asked:
            heads["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        self._head(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK, {**heads, "Content-Length": str(end - begin)})
        if self.command != "HEAD":
            opened.seek(begin)
            self._stream(opened, end - begin)

    def _stream(self, opened: BinaryIO, length: int) -> None:
        """Send so many bytes of a file; fewer when it has become shorter: the client sees that by the length."""
        self.server.extend(self.connection, length)
        while length > 0 and (part := opened.read(min(_PART, length))):
            self.wfile.write(part)
            length -= len(part)

    # -- answers ---------------------------------------------------------------------------------
    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(content))})
        if self.command != "HEAD":
            self.server.extend(self.connection, len(content))
            self.wfile.write(content)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(f"{sentence}\n".encode("utf-8", "backslashreplace"), OF_LOGS, status)

    def _head(self, status: HTTPStatus, heads: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_ALWAYS, **heads}.items():
            self.send_header(name, value)
        self.end_headers()
