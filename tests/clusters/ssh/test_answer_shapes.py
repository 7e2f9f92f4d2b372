"""Our own agents answer in the shapes that are asked of them: else every answer would be refused."""

from __future__ import annotations

import json
import os
import sys

import msgspec
import pytest

from fencepost.clusters.docker.helper_agent import HelperAgent
from fencepost.clusters.fault_tools import disks
from fencepost.clusters.fault_tools.answer_shapes import OF_FUNCTIONS, OF_HELPERS, OF_WATCHERS, Nothing
from fencepost.clusters.kafka.node_directory import META
from fencepost.clusters.ssh.install import HostFacts
from fencepost.clusters.ssh.remote import commands, host_rules, watcher
from fencepost.clusters.ssh.remote.root_programs import ProgramError
from fencepost.harness.system.answers import decoded, shaped
from fencepost.harness.system.wall_clock import WallClock


class Rules:
    """Rules that nobody makes."""

    def packets(self):
        return {"7": (3, 1)}

    def add(self, name, rules): ...

    def remove(self, name): ...

    def trouble(self, **action):
        return "no such rule here"


class Delays(Rules):
    """Delays that nobody makes."""

    def set_matches(self, address, rules): ...

    def slow(self, number, address, **how): ...

    def unslow(self, number, address):
        return 5, 0


REQUESTS = {
    "start": {"argv": [sys.executable, "-c", "pass"]},
    "status": {},
    "signal": {"number": 0},
    "skew": {"ahead_s": 1.0},
    "drop": {"name": "7", "rules": []},
    "undrop": {"name": "7"},
    "count": {},
    "slow": {"number": 1, "address": "a", "how": {}, "rules": []},
    "unslow": {"number": 1, "address": "a"},
    "missing_capabilities": {},
    "send": {"by": 0, "series": "s", "to": {}, "packets": 1, "size": 64},
    "received": {"series": "s", "known": 0},
    "clock": {},
    "renew": {"log": 0},
    "end": {},
}


@pytest.fixture
def serving(tmp_path, monkeypatch):
    def refuse(*_):
        raise ProgramError("not in a test")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host_rules, "drops", refuse)
    settings = {"address": "127.0.0.1", "port": 0, "lease_s": 60, "token": "t", "sudo": False}
    monkeypatch.setattr(
        watcher, "ProbePorts", lambda *places: type("Ports", (), {"send": lambda *_: None, "received": received})()
    )
    made = watcher.Watcher(tmp_path, settings)
    made._rules, made._delays = Rules(), Delays()
    yield made
    made._listener.close()


def received(*_):
    return [(0, 1, 0.5, "127.0.0.1", 9099)]


def over_the_wire(answer):
    return json.loads(json.dumps(answer))


@pytest.mark.parametrize("do", REQUESTS)
def test_a_watcher_answers_in_the_shape_of_its_request(serving, do):
    answer = over_the_wire(serving._perform(do, **REQUESTS[do]))
    assert "error" not in answer
    shaped(answer, OF_WATCHERS.get(do, Nothing))


def test_a_watcher_tells_the_jumps_of_its_hosts_clock_with_each_renewal(serving):
    clock = {"wall": 0}
    serving._wall_clock = WallClock(lambda: clock["wall"], lambda: 0)
    assert serving.do_renew(0)["jumps"] == []
    for wall_s, jumps in ((0.5, []), (7200.5, [7200.0]), (7200.5, [7200.0]), (0.5, [7200.0, -7200.0])):
        clock["wall"] = round(wall_s * 1e9)
        serving._look_at_the_clock()
        assert serving.do_renew(0)["jumps"] == jumps
    for number in range(200):
        clock["wall"] = (number % 2) * 5_000_000_000
        serving._look_at_the_clock()
    shaped(over_the_wire(serving.do_renew(0)), OF_WATCHERS["renew"])


def test_every_shape_of_a_watcher_is_tried():
    assert OF_WATCHERS.keys() - REQUESTS.keys() == {"prepare_clock", "mount"}, "those need root or libfaketime, and have one text"


@pytest.mark.parametrize(
    "function", [function for function in OF_FUNCTIONS if function is not disks.fill], ids=lambda function: function.__name__
)
def test_a_function_on_data_returns_its_shape(serving, function, tmp_path):
    data = tmp_path / watcher.DATA
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / "00000000000000000000.log").write_bytes(b"")
    (data / META).write_text("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=d\n")
    answer = over_the_wire(serving._perform("on_data", name=function.__name__))
    assert "error" not in answer, answer
    shaped(answer["result"], OF_FUNCTIONS[function])


def test_a_stored_record_has_its_shape():
    row = ["t-0", 5, 0, 12, 0, -1, 1700000000000, "record", None, 5, 5, -1, 7, False, -1, None]
    assert msgspec.convert([[row], ""], OF_FUNCTIONS[watcher.log_segments.stored_records])[0][0][-1] is None


def test_a_host_tells_its_facts_in_their_shape(capfd):
    commands.inspect("java-that-is-not-there")
    facts = decoded(capfd.readouterr().out.encode(), HostFacts)
    assert facts.uid == os.getuid()


@pytest.mark.parametrize("do", ["renew", "received"])
def test_a_helper_answers_in_the_shape_of_its_request(do):
    agent = HelperAgent.__new__(HelperAgent)
    agent._ports = type("Ports", (), {"received": received})()
    answer = over_the_wire(agent._answer({"do": do, "series": "s", "known": 0}))
    assert "error" not in answer, answer
    shaped(answer, OF_HELPERS.get(do, Nothing))
