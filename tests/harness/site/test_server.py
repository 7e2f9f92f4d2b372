"""The site over HTTP, on a real socket: pages, files of runs, and paths that lead nowhere."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import pytest
from support.many_runs import EVIL, finding, invalid, write_run

from fencepost.harness.api import CampaignError
from fencepost.harness.site import server as serving
from fencepost.harness.site.server import SiteServer
from fencepost.harness.system import liveness

RUN = "20261125T190000Z-aaaaaa"
ODD = "20261126T190000Z-o d%2fd'\"<b>ü\n&?#\\"
RAW = b"20261127T190000Z-\xff\xfe"


@contextmanager
def running(root):
    with SiteServer(root, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs with odd names and logs, and around them what nobody may read."""
    base = tmp_path_factory.mktemp("served")
    results = base / "results"
    directory = write_run(results, "nightly", RUN, verdict=invalid(finding()))
    (directory / "logs" / "n1").mkdir(parents=True)
    (directory / "logs" / "n1" / "server.log").write_text("<script>alert(1)</script>\n" * 1000)
    (directory / "logs" / "n1" / "o d.html").write_text("<script>alert(1)</script>")
    (directory / "history.parquet").write_bytes(b"PAR1" * 25)
    (directory / "evil.html").write_text("<script>alert(1)</script>")
    (directory / ".lock").write_text("locked")
    write_run(results, "c ü%<i>", ODD)
    raw = os.path.join(os.fsencode(results), b"nightly", RAW)
    os.rename(write_run(results, "nightly", "20261127T190000Z-raw"), os.fsdecode(raw))
    (base / "secret").write_text("secret")
    (results / "secret").write_text("secret")
    (results / "nightly" / "notes.txt").write_text("secret")
    (results / "nightly" / "folder").mkdir()
    (results / "nightly" / "folder" / "secret").write_text("secret")
    (directory / "file-link").symlink_to(base / "secret")
    (directory / "folder-link").symlink_to(base)
    (directory / "own-link").symlink_to(directory / "plan.json")
    (results / "nightly" / "20261128T190000Z-linked").symlink_to(directory)
    (results / "linked").symlink_to(results / "nightly")
    elsewhere = write_run(base / "other", "x", RUN)
    (elsewhere / "plan.json").write_text((elsewhere / "plan.json").read_text().replace("steady", "secret"))
    (results / "out").symlink_to(base / "other" / "x")
    os.mkfifo(directory / "pipe")
    return results


@pytest.fixture(scope="module")
def server(root):
    with running(root) as started:
        yield started


def ask(server, target, method="GET", **headers):
    """Status, headers and body of a request whose target is sent as it is."""
    connection = HTTPConnection(*server.server_address[:2], timeout=30)
    connection.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


@pytest.mark.parametrize("page", ["/", "/index.html", "/grid.html", "/findings.html", "/compare.html"])
def test_each_page_is_there_and_may_be_asked_for_its_head(server, page):
    status, headers, content = ask(server, page)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"</html>" in content
    head = ask(server, page, "HEAD")
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(content)), b"")


def test_every_link_of_the_first_page_is_answered(server):
    """Also those to runs whose names need escapes, and to bytes that are no UTF-8."""
    content = ask(server, "/")[2].decode()
    data = json.loads(content.split('id="runs-data">')[1].split("</script>")[0])["columns"]
    reports = [data["report"]["values"][at] for at in data["report"]["at"]]
    pages = [data["page"]["values"][at] for at in data["page"]["at"]]
    assert len([report for report in reports if report]) == 3
    for target in [*filter(None, reports), *pages]:
        assert ask(server, f"/{target}")[0] == 200, target


def test_a_run_behind_a_link_has_a_row_that_says_why_it_cannot_be_opened(server):
    assert "not followed" in ask(server, "/")[2].decode()


@pytest.mark.parametrize(
    ("file", "kind", "attached"),
    [
        ("report.html", "text/html; charset=utf-8", False),
        ("plan.json", "application/json", False),
        ("summary.md", "text/plain; charset=utf-8", False),
        ("logs/n1/server.log", "text/plain; charset=utf-8", False),
        ("logs/n1/o%20d.html", "text/plain; charset=utf-8", False),
        ("history.parquet", "application/octet-stream", True),
        ("evil.html", "application/octet-stream", True),
    ],
)
def test_files_of_a_run_have_a_type_that_nobody_guesses(server, file, kind, attached):
    status, headers, content = ask(server, f"/runs/nightly/{RUN}/{file}")
    assert (status, headers["Content-Type"], headers["X-Content-Type-Options"]) == (200, kind, "nosniff")
    assert headers.get("Content-Disposition", "") == ("attachment" if attached else "")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert int(headers["Content-Length"]) == len(content) > 0


NOWHERE = [
    "/../secret",
    "/runs/../secret",
    "/runs/../../secret",
    "/runs/nightly/../../secret",
    f"/runs/nightly/{RUN}/../../../secret",
    "/%2e%2e/secret",
    "/runs/%2e%2e/%2e%2e/secret",
    f"/runs/nightly/{RUN}/..%2f..%2f..%2fsecret",
    f"/runs/nightly/{RUN}/%2e%2e%2fplan.json",
    "//secret",
    "/runs//nightly",
    f"/runs/nightly//{RUN}/plan.json",
    "/runs/%2fetc/passwd",
    "/runs/nightly%2f" + RUN + "/plan.json",
    "http://127.0.0.1/secret",
    "/etc/passwd",
    "/runs/etc/passwd/x",
    "/secret",
    "/runs/secret",
    "/runs/nightly/notes.txt",
    "/runs/nightly/folder/secret",
    "/runs",
    "/runs/",
    "/runs/nightly",
    "/runs/nightly/",
    "/runs/nightly/folder/",
    f"/runs/nightly/{RUN}/file-link",
    f"/runs/nightly/{RUN}/folder-link/secret",
    f"/runs/nightly/{RUN}/folder-link/",
    f"/runs/nightly/{RUN}/own-link",
    f"/runs/linked/{RUN}/plan.json",
    f"/runs/linked/{RUN}/",
    f"/runs/out/{RUN}/plan.json",
    f"/runs/out/{RUN}/",
    "/runs/nightly/20261128T190000Z-linked/plan.json",
    "/runs/nightly/20261128T190000Z-linked/",
    f"/runs/nightly/{RUN}/.lock",
    f"/runs/nightly/{RUN}/pipe",
    f"/runs/nightly/{RUN}/pipe/",
    f"/runs/nightly/{RUN}/nothing",
    f"/runs/nightly/{RUN}/plan.json/",
    f"/runs/nightly/{RUN}/plan.json/x",
    f"/runs/nightly/{RUN}/plan.json%00.html",
    f"/runs/nightly/{RUN}/%00",
    f"/runs/nightly/{RUN}/" + "a" * 300,
    "/" + "a" * 5000,
    "/.index.sqlite",
    "/site.json",
    "/tests/",
    "/tests/x.html",
    "/tests/../index.html",
    "/live.json/",
    "/index.html/",
    "/base.html",
    "/runs/nightly/%zz/plan.json",
]


@pytest.mark.parametrize("target", NOWHERE)
def test_no_path_leaves_the_runs(server, target):
    status, headers, content = ask(server, target)
    assert status in (400, 404)
    assert b"secret" not in content
    assert b"nightly" not in content
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


def test_a_folder_of_a_run_is_listed_and_nothing_else(server):
    status, headers, _ = ask(server, f"/runs/nightly/{RUN}")
    assert (status, headers["Location"]) == (301, f"/runs/nightly/{RUN}/")
    status, headers, content = ask(server, f"/runs/nightly/{RUN}/")
    assert status == 200
    assert b'href="./logs/"' in content
    assert b".lock" not in content
    assert b'href="./n1/"' in ask(server, f"/runs/nightly/{RUN}/logs/")[2]
    assert b'href="./o%20d.html"' in ask(server, f"/runs/nightly/{RUN}/logs/n1/")[2]


def test_odd_names_are_served_under_their_escapes(server):
    for campaign, run in (("c ü%<i>".encode(), ODD.encode()), (b"nightly", RAW)):
        place = f"/runs/{quote(campaign)}/{quote(run)}"
        assert ask(server, f"{place}/plan.json")[0] == 200
        status, headers, _ = ask(server, place)
        assert (status, headers["Location"]) == (301, f"{place}/")
        listing = ask(server, f"{place}/")[2].decode()
        assert "report.html" in listing
        assert "<i>" not in listing.split("<body>")[1].replace("<i>n</i>", "")


def test_only_reading_is_answered(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
        status, _, content = ask(server, "/", method)
        assert (status, b"secret" in content) == (501, False), method


def test_another_name_of_this_server_is_refused(server):
    """A page of evil.example, whose name was made to mean 127.0.0.1, reads nothing."""
    for target in ("/", "/live.json", f"/runs/nightly/{RUN}/plan.json"):
        status, _, content = ask(server, target, Host="evil.example:8700")
        assert (status, b"nightly" in content) == (403, False)
    assert ask(server, "/", Host="localhost:1")[0] == 200


def test_ranges(server):
    target = f"/runs/nightly/{RUN}/history.parquet"
    status, headers, content = ask(server, target, Range="bytes=4-7")
    assert (status, headers["Content-Range"], content) == (206, "bytes 4-7/100", b"PAR1")
    status, headers, content = ask(server, target, Range="bytes=100-")
    assert (status, headers["Content-Range"], content) == (416, "bytes */100", b"")
    assert ask(server, target, Range="bytes=0-1,5-6")[0] == 200


def test_odd_requests_are_answered_or_closed_and_the_next_is_served(server):
    odd = [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x00\xff\xfe\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"",
    ]
    for request in odd:
        with socket.create_connection(server.server_address[:2], timeout=30) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while client.recv(65_536):
                    pass
    assert ask(server, "/live.json")[0] == 200


def test_silent_and_slow_clients_are_closed_and_too_many_are_turned_away(root, monkeypatch):
    monkeypatch.setattr(serving, "MOST_THREADS", 3)
    now = [0.0]
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(serving._Handler, "timeout", None)  # the server alone ends what takes too long
    big = root / "nightly" / RUN / "big.log"
    with open(big, "wb") as file:
        file.truncate(64 << 20)
    monkeypatch.setattr(serving, "SLOWEST", 1 << 30)
    with running(root) as server:
        clients = [socket.create_connection(server.server_address[:2], timeout=30) for _ in range(3)]
        clients[0].sendall(f"GET /runs/nightly/{RUN}/big.log HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())  # and reads nothing
        clients[1].sendall(b"GET / HT")  # and says no more
        deadline = time.monotonic() + 60
        while ask(server, "/live.json")[0] != 503:  # until all three have a thread
            assert time.monotonic() < deadline
        now[0] = serving.PATIENCE_S + 1.0 + (64 << 20) / serving.SLOWEST
        while ask(server, "/live.json")[0] != 200:  # since their time is over
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for client in clients:
            client.close()
    big.unlink()


def test_a_page_follows_the_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("fencepost.harness.site.live.EVERY_S", 0.0)
    monkeypatch.setattr("fencepost.harness.site.live.SHARE", 0)
    with running(tmp_path) as server:
        assert b"No runs yet" in ask(server, "/")[2]
        first = json.loads(ask(server, "/live.json")[2])
        assert json.loads(ask(server, "/live.json")[2]) == first
        directory = write_run(tmp_path, "nightly", RUN, verdict=None, report=False)
        with liveness.hold(directory):
            assert json.loads(ask(server, "/live.json")[2]) != first
            page = ask(server, "/")[2].decode()
            assert "starting the cluster" in page
            assert "1 still performed" in page
        assert "not judged" in ask(server, "/")[2].decode()
        (directory / "verdict.json").write_text(json.dumps({"schema": 1, "verdict": "valid", "expectation_met": True}))
        assert "all as expected" in ask(server, "/")[2].decode()


def test_hostile_texts_are_no_markup_in_served_pages(tmp_path):
    write_run(tmp_path, "nightly", RUN, plan={"test": EVIL, "campaign": EVIL}, verdict=invalid(finding(EVIL, EVIL)))
    with running(tmp_path) as server:
        for page in ("/", "/grid.html", "/findings.html", "/compare.html"):
            content = ask(server, page)[2].decode()
            assert "<script>document" not in content
            assert "<img" not in content


def test_a_place_that_cannot_be_listened_at_is_a_sentence(tmp_path, server):
    port = server.server_address[1]
    for host, number, words in (
        ("127.0.0.1", port, "is in use already"),
        ("127.0.0.1", 70_000, "is no port"),
        ("no.such.host.invalid", 0, "is no address of this machine"),
        ("192.0.2.1", 0, "cannot be listened at"),
    ):
        with pytest.raises(CampaignError, match=words):
            SiteServer(tmp_path, host, number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_ends_by_a_signal(root, number):
    argv = [sys.executable, "-m", "fencepost", "serve", "--port", "0", "--results", str(root)]
    ignored = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *argv]  # as a shell starts what runs in the background
    with subprocess.Popen(ignored, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        where = urlsplit(line.split()[0])
        connection = HTTPConnection(where.hostname, where.port, timeout=30)
        connection.request("GET", "/live.json")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(number)
        try:
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == (0, "ended\n", "")
