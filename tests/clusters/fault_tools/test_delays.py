"""Packet delays: departure times, without a clock; then real packets in real namespaces."""

import json
import subprocess
import sys

import pytest

from fencepost.clusters.fault_tools.delay_program import FULL_S, AddressQueue, Delay
from fencepost.clusters.local import Local, sandbox
from fencepost.harness.api import Losable, Partitionable, Slowable


def queue(*delays):
    made = AddressQueue()
    made.delays = dict(enumerate(delays))
    return made


def test_a_packet_leaves_after_the_delay_and_not_before():
    waiting = queue(Delay(delay_s=0.2))
    assert waiting.take("a", 100, 10.0)
    assert waiting.due(10.19) == []
    assert waiting.due(10.2) == ["a"]


def test_packets_keep_their_order_under_jitter():
    waiting = queue(Delay(delay_s=0.2, jitter_s=0.1))
    for number in range(100):
        waiting.take(number, 100, 10.0 + number / 1000)
    times = [leaves for leaves, _ in waiting.waiting]
    assert times == sorted(times)
    assert len(set(times)) > 1
    assert waiting.due(11.0) == list(range(100))


def test_limited_bandwidth_queues_packets_and_drops_what_exceeds_the_queue():
    delay = Delay(bytes_s=1000.0)
    waiting = queue(delay)
    taken = [waiting.take(number, 100, 10.0) for number in range(10)]
    assert [round(leaves, 6) for leaves, _ in waiting.waiting] == [10.1, 10.2, 10.3, 10.4, 10.5, 10.6]
    assert taken == [True] * 6 + [False] * 4
    assert (delay.seen, delay.dropped) == (10, 4)
    assert waiting.take("later", 100, 10.6 + FULL_S)


def test_two_delays_add_up_and_end_one_by_one():
    waiting = queue(Delay(delay_s=0.2), Delay(bytes_s=1000.0, delay_s=0.1))
    waiting.take("a", 100, 10.0)
    assert waiting.waiting[0][0] == pytest.approx(10.4)
    waiting.delays.clear()
    assert waiting.due(10.0) == ["a"]


def test_without_nfnetlink_queue_only_delays_are_missing(monkeypatch):
    """The result of the trial in the sandbox is what plan and doctor report."""
    monkeypatch.setattr(
        sandbox,
        "namespace_support",
        lambda: sandbox.NamespaceSupport(prefix=("box",), missing={"Slowable": "no nfnetlink_queue"}),
    )
    missing = Local().missing()
    assert missing[Slowable] == "no nfnetlink_queue"
    assert {Partitionable, Losable}.isdisjoint(missing)


NODES = """
import json, time
from statistics import median
from fencepost.nemesis.support.waiting import poll_until
from fencepost.clusters.local.network import Network
from fencepost.harness.api import ClusterError

network = Network()
for i in (1, 2):
    network.add(f"n{i}", f"10.73.1.{i}")
there, back = ("n1", "n2"), ("n2", "n1")

def took(pair, within_s=60.0):
    return sorted(one for one in network.measure([pair], 9, within_s=within_s)[pair] if one is not None)

def quickest(pair, enough_ms):  # a pause of this machine makes packets slower
    return poll_until(lambda: median(took(pair, 10.0) or [1e9]), lambda ms: ms < enough_ms, 60.0)

seen = {}
"""


@pytest.fixture(scope="module")
def seen():
    """Datagrams over a link with one delay, two delays, a drop, none; limited bandwidth; and a killed delay program."""
    script = (
        NODES
        + """
seen["lacks"] = network.missing_capabilities()
far = network.slow([there], delay_ms=600)
seen["far"] = [poll_until(lambda: network.probe([there])[there], bool, 60.0), None]
network.unslow(far)
seen["far"][1] = network.probe_timeout_s()
one = network.slow([there], delay_ms=150)
seen["slow"] = [median(took(there)), quickest(back, 150)]
two = network.slow([there], delay_ms=150, jitter_ms=20)
seen["twice"] = median(took(there))
network.drop([there])
seen["cut"] = took(there, 1.0)
network.undrop([there])
ended = network.unslow(one)
seen["counted"] = [ended[there][0], network.unslow(one)]
seen["once"] = quickest(there, seen["twice"])
network.undrop_all()
seen["healed"] = quickest(there, 130)
network.slow([there], kbit_s=256)

def spread():
    series = network.measure([there], 6, size=1000, within_s=60.0)[there]
    return series[-1] - series[0]

seen["spread"] = poll_until(spread, lambda ms: ms > 140, 60.0)  # a first packet that this machine holds up makes it smaller
try:
    network.slow([("n1", "n9")])
except ClusterError as error:
    seen["unknown"] = str(error)
network._delay_processes["n2"]._process.kill()
network._delay_processes["n2"]._process.wait()
seen["killed"] = quickest(there, 100)
try:
    network.slow([there], delay_ms=100)
except ClusterError as error:
    seen["last words"] = str(error)
print(json.dumps(seen))
"""
    )
    assert sandbox.namespace_support().namespaces, sandbox.namespace_support().reason
    argv = sandbox.command([sys.executable, "-c", script])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.cluster
def test_real_packets_are_delayed_in_one_direction_and_delays_add_up(seen):
    assert seen["lacks"] == {}
    assert seen["slow"][0] >= 150 > seen["slow"][1]
    assert seen["twice"] >= 280
    assert 130 <= seen["once"] < seen["twice"]
    assert seen["healed"] < 130
    assert seen["counted"] == [18, {}]


@pytest.mark.cluster
def test_a_probe_waits_longer_on_a_slow_link(seen):
    """And no longer than usual when the delay has ended."""
    assert seen["far"] == [True, 0.25]


@pytest.mark.cluster
def test_a_drop_applies_to_delayed_packets(seen):
    """A delayed packet does not bypass the rules that drop."""
    assert seen["cut"] == []


@pytest.mark.cluster
def test_limited_bandwidth_spreads_a_probe_series(seen):
    """Five kilobytes at 32 kB/s."""
    assert seen["spread"] > 140


@pytest.mark.cluster
def test_when_the_delay_program_dies_packets_pass_and_the_next_request_fails(seen):
    assert seen["killed"] < 100
    assert seen["last words"].startswith("the program that holds packets back ended with status -9")
    assert seen["unknown"] == "no node n9 in the network; there are n1, n2"
