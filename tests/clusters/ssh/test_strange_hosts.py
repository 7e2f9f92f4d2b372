"""Hosts that answer what no program of ours answers: each is a sentence that names the host."""

from __future__ import annotations

import json
import threading

import pytest

from fencepost.clusters.fault_tools import disks, remote_probes, unsynced_data
from fencepost.clusters.fault_tools.probes import ProbeSeries
from fencepost.clusters.kafka import log_segments, node_directory
from fencepost.clusters.ssh import install
from fencepost.clusters.ssh.host import HostAddress, Login, SshHost, exit_status
from fencepost.clusters.ssh.watcher_client import WatcherClient
from fencepost.harness.api import ClusterError

ANY_REQUEST = {
    "nothing": b"",
    "no JSON": b"Welcome!",
    "no UTF-8": b'{"a": "\xff"}',
    "too deep": b"[" * 100_000,
    "a number": b"7",
    "a list": b"[]",
    "a text": b'"ok"',
    "null": b"null",
}
FACTS = {"kernel": "6", "machine": "x86_64", "python": "3.11", "uid": 0, "java": 'openjdk version "17.0.1"'}
OF_REQUESTS = {
    "inspect": [{}, {**FACTS, "uid": "root"}, {**FACTS, "java": 17}, {**FACTS, "java": None}, {**FACTS, "python": [3, 11]}],
    "missing": [{"a.jar": 1}, [1], [["a.jar"]], "a.jar"],
}
OF_WATCHERS = {
    "status": [{}, {"pid": "7", "status": None, "state": ""}, {"pid": 7, "status": 1.5, "state": ""}, {"pid": 7, "status": 0}],
    "prepare_clock": [{}, {"trouble": 7}, {"trouble": None}],
    "count": [{"packets": []}, {"packets": {"1": 7}}, {"packets": {"1": [1]}}, {"packets": {"1": ["a", 2]}}],
    "unslow": [{}, {"counted": 7}, {"counted": [1, -2]}, {"counted": [1, 2, 3]}],
    "missing_capabilities": [{}, {"missing_capabilities": ["Losable"]}, {"missing_capabilities": {"Losable": 7}}],
    "received": [{"received": 7}, {"received": [[1, 2]]}, {"received": [[1, 2, "soon", "a", 3]]}, {"received": [None]}],
    "clock": [{}, {"ns": "now"}, {"ns": 2**70}, {"ns": 1.5}],
    "renew": [
        {},
        {"log": ""},
        *({"log": log, "jumps": []} for log in (7, ["a"])),
        *({"log": "", "jumps": jumps} for jumps in (7, ["soon"], [1e300], [float("nan")], [2.0] * 101)),
    ],
}
OF_FUNCTIONS = {
    node_directory.stored_bytes: ["many", -1, None, [1]],
    log_segments.stored_records: [7, [[], 7], [[["t-0", 1]], ""], [[["t-0", *["x"] * 15]], ""], [{}, ""]],
    unsynced_data.lose_unsynced: [7, {"t-0": 7}, {"t-0": [1]}, {"t-0": ["a", "b"]}],
    disks.free: ["much", -1, None],
    node_directory.wipe: [7],
}


def strange_host(answer):
    host = SshHost(HostAddress("192.0.2.1"), Login())
    host.run = lambda command, feed=None, *, called="": answer
    return host


def of(table):
    return [(name, answer) for name, answers in table.items() for answer in answers]


@pytest.mark.parametrize("answer", ANY_REQUEST.values(), ids=ANY_REQUEST)
def test_an_answer_that_is_no_object_is_a_sentence(answer, tmp_path):
    host = strange_host(answer)
    with pytest.raises(ClusterError, match=r"192\.0\.2\.1:22 answers what cannot be understood"):
        host.ask(install.HostFacts, "inspect", "java")
    watcher = WatcherClient("n1", host, "/run", 60, tmp_path / "n1.log")
    with pytest.raises(ClusterError, match=r"192\.0\.2\.1:22 answers what cannot be understood"):
        watcher.begin({})


@pytest.mark.parametrize(("request_", "answer"), of(OF_REQUESTS))
def test_an_answer_of_another_shape_is_a_sentence(request_, answer):
    host = strange_host(json.dumps(answer).encode())
    shape = install.HostFacts if request_ == "inspect" else list[str]
    with pytest.raises(ClusterError, match=r"192\.0\.2\.1:22 answers what cannot be understood"):
        host.ask(shape, request_, "x")


@pytest.mark.parametrize("answer", [{}, {"rules_trouble": None}, {"rules_trouble": 7}, {"error": {"no": 1}}, {"error": None}])
def test_a_watcher_that_does_not_begin_is_a_sentence(answer, tmp_path):
    watcher = WatcherClient("n1", strange_host(json.dumps(answer).encode()), "/run", 60, tmp_path / "n1.log")
    with pytest.raises(ClusterError, match=r"n1 \(192\.0\.2\.1:22\)"):
        watcher.begin({})


@pytest.mark.parametrize(("do", "answer"), of(OF_WATCHERS))
def test_a_watchers_answer_of_another_shape_is_a_sentence(do, answer, tmp_path):
    watcher = WatcherClient("n1", strange_host(b""), "/run", 60, tmp_path / "n1.log")
    watcher._exchange = lambda request: answer
    with pytest.raises(ClusterError, match=rf"n1 \(192\.0\.2\.1:22\) answers `{do}` with what cannot be understood"):
        watcher.ask(do)


def test_a_log_that_is_no_base64_is_a_sentence(tmp_path):
    watcher = WatcherClient("n1", strange_host(b""), "/run", 60, tmp_path / "n1.log")
    watcher._exchange = lambda request: {"log": "***", "jumps": []}
    with pytest.raises(ClusterError, match="sends a log that is no base64"):
        watcher.fetch_log()


@pytest.mark.parametrize(("function", "result"), of(OF_FUNCTIONS))
def test_the_result_of_a_function_of_another_shape_is_a_sentence(function, result, tmp_path):
    watcher = WatcherClient("n1", strange_host(b""), "/run", 60, tmp_path / "n1.log")
    watcher._exchange = lambda request: {"result": result}
    with pytest.raises(ClusterError, match="answers `on_data` with what cannot be understood"):
        watcher.run_on_data(function)


@pytest.mark.parametrize("printed", [b"", b"welcome\n/srv/me/.fencepost", b"relative", b"\xff\xfe", b"/a\0b"])
def test_a_directory_that_is_none_is_a_sentence(printed):
    with pytest.raises(ClusterError, match=r"192\.0\.2\.1:22 names no directory for our program"):
        strange_host(printed).install_program("~/.fencepost")


@pytest.mark.parametrize("probe", [[5, 0, 1.0, "a", 1], [0, 9, 1.0, "a", 1]])
def test_a_datagram_that_nobody_sent_is_a_sentence(probe):
    series = ProbeSeries([("n1", "n2")], packets=2)
    with pytest.raises(ClusterError, match="n2 has received a datagram that nobody sent"):
        remote_probes.run_series(series, 0.1, lambda *_: None, lambda *_: [probe], lambda *_: 1.0)


def test_an_exit_status_is_not_awaited_without_end():
    class Channel:
        status_event = threading.Event()

        def recv_exit_status(self):
            return pytest.fail("it would wait for ever")

    assert exit_status(Channel(), 0.01) == -1
