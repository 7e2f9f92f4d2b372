"""The private network by itself, in a real sandbox without Kafka."""

import json
import subprocess
import sys

import pytest

from fencepost.clusters.local import sandbox

pytestmark = pytest.mark.cluster

NODES = """
import json, os
from concurrent.futures import ThreadPoolExecutor
from fencepost.clusters.local.network import Network
from fencepost.harness.api import ClusterError
from fencepost.nemesis.support.waiting import poll_until

network = Network()
for i in (1, 2, 3):
    network.add(f"n{i}", f"10.73.1.{i}")
pairs = [(a, b) for a in ("n1", "n2", "n3") for b in ("n1", "n2", "n3") if a != b]
seen = {}

def opened(pairs):  # a datagram may be held up
    return poll_until(lambda: all(network.probe(pairs).values()), bool, 60.0)
"""


def inside(script):
    """The JSON that `script` prints after three nodes were made."""
    assert sandbox.namespace_support().namespaces, sandbox.namespace_support().reason
    argv = sandbox.command([sys.executable, "-c", NODES + script + "\nprint(json.dumps(seen))"])
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_faults_from_many_threads_leave_no_rules_or_descriptors():
    """A nemesis works in a thread of its own, and several may strike at once."""
    seen = inside("""
def strike(pair):
    network.drop([pair])
    cut = network.probe([pair])[pair]
    network.undrop([pair])
    return cut

with ThreadPoolExecutor(6) as pool:
    list(pool.map(strike, pairs))
    before = len(os.listdir("/proc/self/fd"))
    seen["arrived"] = [any(pool.map(strike, pairs)) for _ in range(3)]
seen["leaked"] = len(os.listdir("/proc/self/fd")) - before
seen["whole"] = opened(pairs)
""")
    assert seen["arrived"] == [False, False, False]
    assert seen["leaked"] <= 0
    assert seen["whole"]


def test_dropping_a_pair_twice_counts_its_packets_once():
    """Dropping a dropped pair changes nothing, healing it once heals it; a second drop counts from zero."""
    seen = inside("""
network.drop([("n1", "n2")])
network.drop([("n1", "n2")])
network.probe([("n1", "n2")])
seen["first"] = network.dropped_packets(pairs[:1])[("n1", "n2")]
network.undrop(pairs)
seen["kept"] = network.dropped_packets(pairs[:1])[("n1", "n2")]
seen["healed"] = opened([("n1", "n2")])
network.drop([("n1", "n2")])
seen["second"] = network.dropped_packets(pairs[:1])[("n1", "n2")]
""")
    assert seen == {"first": 2, "kept": 2, "healed": True, "second": 0}


def test_a_fault_on_an_unknown_node_is_an_error_with_its_name():
    """A mistyped node is our mistake, reported in words."""
    seen = inside("""
for pair in (("n1", "n9"), ("n9", "n1")):
    try:
        network.drop([pair])
    except ClusterError as e:
        seen[">".join(pair)] = str(e)
""")
    assert seen == dict.fromkeys(("n1>n9", "n9>n1"), "no node n9 in the network; there are n1, n2, n3")


def test_a_network_can_be_closed_and_made_again():
    """Two clusters after one another in the same sandbox."""
    seen = inside("""
network.close()
network = Network()
network.add("n1", "10.73.1.1")
network.add("n2", "10.73.1.2")
seen["talks"] = opened([("n1", "n2")])
""")
    assert seen == {"talks": True}


def test_a_link_loses_the_given_share_in_one_direction_and_two_losses_add_up():
    """Of 1000 datagrams about a fifth; the way back is untouched; what the kernel counted is what did not arrive."""
    seen = inside("""
there, back = ("n1", "n2"), ("n2", "n1")
one = network.lose([there], 0.2)
took = network.measure([there, back], 1000)
seen["lost"] = [sum(t is None for t in took[pair]) for pair in (there, back)]
other = network.lose([there], 0.9)
seen["both"] = sum(t is None for t in network.measure([there], 100)[there])
seen["counted"] = [list(network.unlose(one)[there]), network.unlose(one) == {}]
seen["seen by the other"] = network.unlose(other)[there][0]
seen["whole"] = [None in took for took in network.measure(pairs, 50, within_s=60.0).values()]
""")
    assert 120 < seen["lost"][0] < 280
    assert seen["lost"][1] == 0
    assert seen["both"] > 70
    assert seen["counted"][0][0] == 1100
    assert seen["counted"][1]
    assert seen["counted"][0][1] == seen["lost"][0] + 100 - seen["seen by the other"]
    assert seen["whole"] == [False] * 6
