"""The client of a watcher, with a scripted watcher. With real ones: test_ssh.py."""

import json
import threading

from structlog.testing import capture_logs

from fencepost.clusters.ssh.remote.watcher_process import NO_WATCHER
from fencepost.clusters.ssh.watcher_client import WatcherClient


class Host:
    """A host whose watcher answers every request until `end`."""

    address = "192.0.2.1"

    def __init__(self):
        self.requests, self.ended = [], threading.Event()

    def ask(self, shape, *words, feed):
        return {"rules_trouble": ""}

    def program(self, *words):
        return ""

    def channel(self, command):
        return Channel(self)


class Channel:
    def __init__(self, host):
        self.host, self.answers = host, b""

    def sendall(self, line):
        if self.host.ended.is_set():
            return
        self.host.requests.append(json.loads(line)["do"])
        self.answers += b'{"log": "", "jumps": [-7.5]}\n'
        if self.host.requests[-1] == "end":
            self.host.ended.set()

    def recv(self, most):
        answers, self.answers = self.answers, b""
        return answers

    def recv_exit_status(self):
        return NO_WATCHER

    def settimeout(self, limit_s):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_the_end_waits_for_a_renewal_that_is_under_way(tmp_path):
    """Else the renewal would find no watcher, and log that the lease was not renewed."""
    host, renewing = Host(), threading.Event()
    watcher = WatcherClient("n1", host, "/run", 0.06, tmp_path / "n1.log")
    ask = watcher.ask

    def ask_late(do, **request):
        if do == "renew":
            renewing.set()
            host.ended.wait(0.1)  # as if it had to wait while others ask
        return ask(do, **request)

    watcher.ask = ask_late
    with capture_logs() as entries:
        watcher.begin({})
        assert renewing.wait(10)
        watcher.end()
        watcher._lease_thread.join()
    assert entries == []
    assert host.requests[-2:] == ["renew", "end"]
    assert watcher.clock_jumps == (-7.5,), "what the host tells of its clock"
