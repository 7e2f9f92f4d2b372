"""Properties of clusters on hosts reached by ssh alone (what all providers share: test_providers.py)."""

import hashlib
import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from support.ssh_hosts import keygen

from fencepost.clusters.fault_tools.faketime import SHM
from fencepost.clusters.kafka.distribution import Distribution
from fencepost.clusters.ssh import install, watcher_client
from fencepost.clusters.ssh.host import HostAddress, HostRefused, Login, SshHost, retry_dropped
from fencepost.clusters.ssh.host_probes import CLIENTS
from fencepost.clusters.ssh.network import Network
from fencepost.clusters.ssh.provider import Ssh
from fencepost.clusters.ssh.remote.watcher import CONFIG
from fencepost.harness.api import CampaignError, ClusterError, Partitionable
from fencepost.harness.fetching.java import java

THREE = ("a", "b", "c")


# ---- decided without a host


def test_all_mistakes_in_options_are_reported_at_once():
    with pytest.raises(CampaignError) as caught:
        Ssh(hosts=("a", "a", "b:x"), addresses=("10.0.0.1",), controllers=1, port=80, lease_s=1)
    assert caught.value.mistakes == [
        "port = 80: must be between 1024 and 65531",
        "lease_s = 1: must be between 2 and 600",
        "hosts: 3 named, 4 needed, one for every broker and controller",
        "addresses: 1 named for 3 hosts; name one for each, or none",
        "hosts: one is named twice; every node needs a host of its own",
        'hosts: "b:x": must be host, user@host or user@host:port',
    ]


def test_hosts_are_dealt_to_brokers_and_then_to_controllers():
    options = Ssh(hosts=("a", "kafka@b:2222", "c", "spare"), brokers=2, controllers=1, user="me")
    assert {node: str(host.address) for node, host in options.hosts_by_node().items()} == {
        "n1": "a:22",
        "n2": "kafka@b:2222",
        "k1": "c:22",
    }
    assert [host.user for host in options.hosts_by_node().values()] == ["me", "kafka", "me"]
    assert HostAddress.read("kafka@b:2222").known_as == "[b]:2222"


def test_network_faults_need_root_or_sudo():
    """Said before the start, without asking a host; as root, and with sudo, it is seen when they are asked."""
    assert "kafka may not use sudo (`sudo = true`)" in Ssh(hosts=THREE, user="kafka").missing()[Partitionable]
    for allowed in (Ssh(hosts=THREE, user="kafka", sudo=True), Ssh(hosts=THREE, user="root")):
        assert Partitionable not in allowed.missing()


def test_two_nodes_at_one_address_are_refused():
    with pytest.raises(ClusterError, match=r"every node needs an address of its own.*`addresses` names them"):
        Ssh(hosts=THREE, addresses=("10.0.0.1", "10.0.0.2", "10.0.0.1")).addresses_by_node()


class Watched:
    """A watcher that keeps rules by name, and hears both datagrams of ours over the first link of every series."""

    def __init__(self, rules_trouble=""):
        self.rules_trouble, self.rules, self.slow, self.answers_lost = rules_trouble, {}, {}, False

    def ask(self, do, **request):
        if do == "drop":
            self.rules[request["name"]] = request["rules"]
            if self.answers_lost:
                raise ClusterError("no answer")
        if do == "undrop":
            self.rules.pop(request["name"], None)
        if do == "slow":
            self.slow[request["number"], request["address"]] = request["rules"]
        if do == "unslow":
            del self.slow[request["number"], request["address"]]
        heard = [[0, packet, 1.0, "192.0.2.9", 5] for packet in (0, 1)] if do == "received" else []
        return {"received": heard, "packets": dict.fromkeys(self.rules, (9, 7)), "counted": (5, 1)}


@pytest.fixture
def network():
    """Two nodes, and the clients c0 and c1, whom the nodes see at 192.0.2.9."""
    network = Network({"n1": Watched(), "n2": Watched()}, {"n1": "192.0.2.1", "n2": "192.0.2.2"}, 9092, lambda: ("c0", "c1"))
    for node in ("n1", "n2"):
        network._probes.learn_own_address(node)
    yield network
    network.close()


def rules(network, node):
    """The rules at a node in words."""
    made = [rule for rules in network._watchers[node].rules.values() for rule in rules]
    return [f"{words(rule)}{' ' + rule['do'] if rule['do'] != 'drop' else ''}" for rule in made]


def words(rule):
    share = f" {rule['share']:g}" if "share" in rule else ""
    return f"{rule['way']} {rule['address']} {rule['protocol']} {rule['side']} {rule['ports'][0]}-{rule['ports'][1]}{share}"


def test_a_cut_between_nodes_leaves_ssh_and_clients_alone(network):
    """Brokers' and controllers' ports in both roles, and the probes' own; at the node that shall not hear, and nowhere else."""
    network.drop([("n1", "n2")])
    assert rules(network, "n2") == [
        "in 192.0.2.1 tcp dport 9093-9094",
        "in 192.0.2.1 tcp sport 9093-9094",
        "in 192.0.2.1 udp dport 9095-9095",
    ]
    assert rules(network, "n1") == []
    assert network.dropped_packets([("n1", "n2"), ("n2", "n1")]) == {("n1", "n2"): 7, ("n2", "n1"): 0}
    network.undrop_all()
    assert rules(network, "n2") == []


def test_clients_are_cut_all_together_on_the_brokers_host(network):
    """Towards the broker on arrival, from it on leaving; the last client that may talk again ends it."""
    network.drop([("c0", "n1"), ("c1", "n1"), ("n2", "c0"), ("n2", "c1")])
    assert rules(network, "n1") == ["in 192.0.2.9 tcp dport 9092-9092", "in 192.0.2.9 udp dport 9096-9096"]
    assert rules(network, "n2") == ["out 192.0.2.9 tcp sport 9092-9092", "out 192.0.2.9 udp sport 9096-9096"]
    assert network.dropped_packets([("c1", "n1")]) == {("c1", "n1"): 7}
    network.undrop([("c0", "n1"), ("n2", "c0"), ("n2", "c1")])
    assert (len(rules(network, "n1")), rules(network, "n2")) == (2, [])
    network.undrop([("c1", "n1")])
    assert rules(network, "n1") == []


def test_a_rule_that_may_be_there_although_its_making_failed_goes_when_everything_is_healed(network):
    network._watchers["n2"].answers_lost = True
    with pytest.raises(ClusterError, match="no answer"):
        network.lose([("n2", "n1"), ("n1", "n2")], 0.5)
    assert (rules(network, "n1"), len(rules(network, "n2"))) == ([], 6)
    network.undrop_all()
    assert rules(network, "n2") == []


def test_a_single_client_cannot_be_cut_off_and_nothing_is_cut_instead(network):
    alone = [("n1", "n2"), ("c0", "n1")]
    for hurt in (network.drop, lambda pairs: network.lose(pairs, 0.5), lambda pairs: network.slow(pairs, delay_ms=9)):
        with pytest.raises(ClusterError, match="between c0 and n1 cannot be hurt alone: all clients run on this machine"):
            hurt(alone)
    assert rules(network, "n1") == rules(network, "n2") == []
    assert network._watchers["n2"].slow == {}
    with pytest.raises(ClusterError, match="no node c7"):
        network.drop([("c7", "n1"), ("c0", "n1"), ("c1", "n1")])
    with pytest.raises(ClusterError, match="nothing can be done between clients"):
        network.drop([("c0", "c1")])


def test_a_lossy_link_counts_what_it_sees_and_what_it_loses(network):
    """Of every kind of packet; clients share one link, and what it counted is reported for each of them."""
    both = [("n1", "n2"), ("c0", "n2"), ("c1", "n2")]
    number = network.lose(both, 0.25)
    assert rules(network, "n2")[:4] == [
        "in 192.0.2.1 tcp dport 9093-9094 count",
        "in 192.0.2.1 tcp dport 9093-9094 0.25",
        "in 192.0.2.1 tcp sport 9093-9094 count",
        "in 192.0.2.1 tcp sport 9093-9094 0.25",
    ]
    assert len(rules(network, "n2")) == 10
    assert network.unlose(number) == dict.fromkeys(both, (9, 7))
    assert (network.unlose(number), rules(network, "n2")) == ({}, [])


def test_the_brokers_host_slows_a_link_and_names_it_by_its_sender(network):
    """Packets to the clients bear the host's own address; a probe is patient as long as a link is slow."""
    pairs = [("n1", "n2"), ("c0", "n2"), ("c1", "n2"), ("n2", "c0"), ("n2", "c1")]
    at_ease_s, number = network.probe_timeout_s(), network.slow(pairs, delay_ms=400, jitter_ms=100)
    slow = network._watchers["n2"].slow
    assert [address for _, address in slow] == ["192.0.2.1", "192.0.2.9", "192.0.2.2"]
    assert [words(rule) for rule in slow[number, "192.0.2.2"]] == [
        "out 192.0.2.9 tcp sport 9092-9092",
        "out 192.0.2.9 udp sport 9096-9096",
    ]
    assert network.probe_timeout_s() == pytest.approx(at_ease_s + 0.5)
    network.undrop_all()
    assert (slow, network.probe_timeout_s(), network.unslow(number)) == ({}, at_ease_s, {})


def test_what_a_host_lacks_is_reported_with_its_node(network, monkeypatch):
    """Asked once; a capability is lacking when one node lacks it."""
    requests = []
    for node, lacks in (("n1", {}), ("n2", {"Slowable": "no nfnetlink_queue"})):
        monkeypatch.setattr(
            network._watchers[node], "ask", lambda do, lacks=lacks, **_: requests.append(do) or {"missing_capabilities": lacks}
        )
    assert network.missing_capabilities() == network.missing_capabilities() == {"Slowable": "on n2: no nfnetlink_queue"}
    assert requests == ["missing_capabilities"] * 2


@pytest.mark.parametrize(("ahead_ms", "behind_ms"), [(0, 0), (5_000, 70_000)])
def test_hosts_clocks_are_compared_before_a_time_is_reported(network, monkeypatch, ahead_ms, behind_ms):
    """n1's clock is ahead of ours, n2's behind; what takes 30 ms by the true time takes that."""

    def host(off_ms):
        def ask(do, **_request):
            now_ns = time.monotonic_ns() + round(off_ms * 1e6)
            return {"ns": now_ns, "received": [[0, 0, 30.0 - behind_ms - ahead_ms, "192.0.2.1", 9095]]}

        return ask

    monkeypatch.setattr(network._watchers["n1"], "ask", host(ahead_ms))
    monkeypatch.setattr(network._watchers["n2"], "ask", host(-behind_ms))
    ((took,),) = network.measure([("n1", "n2")], packets=1).values()
    assert took == pytest.approx(30.0, abs=5.0)


def test_what_the_network_lacks_is_found_out_before_anything_is_concluded_from_it(monkeypatch):
    """Rules that cannot be changed; then probes that no host hears."""
    monkeypatch.setattr("fencepost.clusters.fault_tools.link_table.PROBE_S", 0.02)
    addresses = {"n1": "192.0.2.1", "n2": "192.0.2.2"}
    network = Network({"n1": Watched(), "n2": Watched("nft: Operation not permitted")}, addresses, 9092, tuple)
    assert network.trouble() == "packet rules cannot be changed on n2: nft: Operation not permitted"
    network.close()
    network = Network({"n1": Watched(), "n2": Watched()}, addresses, 9092, tuple)
    assert (
        f"datagrams do not arrive, or not under their sender's address: n1 to n2, n2 to n1, {CLIENTS} to n1" in network.trouble()
    )
    network.close()


# ---- on hosts, without Kafka: what is watched is a program that sleeps

on_hosts = pytest.mark.cluster


def login(hosts, **other):
    return replace(Login(key=hosts.options["key"], known_hosts=hosts.options["known_hosts"]), **other)


def come_in(hosts, number=0, python=None, **other):
    return SshHost(HostAddress.read(hosts.addresses[number]), login(hosts, **other), python or hosts.options["python"])


@pytest.fixture
def host(ssh_hosts):
    host = come_in(ssh_hosts)
    retry_dropped(host, "begin", lambda: host.install_program(ssh_hosts.options["directory"]), 120)
    yield host
    host.drop()


class Sleeper:
    """A watched program that sleeps, on the first host or another."""

    def __init__(self, hosts, host, path, name="sleep", lease_s=30.0, port=9192, number=0):
        self.hosts, self.name, self.number, self.pid = hosts, name, number, None
        self.run = f"{host.directory}/runs/{name}-{number}"
        self.watch = watcher_client.WatcherClient(f"n{number + 1}", host, self.run, lease_s, path / "logs" / f"n{number + 1}.log")
        self.address = hosts.addresses[number].partition(":")[0]
        self.watch.begin({"address": self.address, "port": port, "token": name, "sudo": hosts.options["sudo"]})

    def start(self, words="'started'"):
        """A program field clock may be set (where libfaketime is); its process id."""
        self.watch.ask("prepare_clock")
        self.watch.ask("skew", ahead_s=0)
        script = f"import signal; print({words}, flush=True); signal.pause()"
        self.pid = self.watch.ask("start", argv=[sys.executable, "-c", script, f"{self.run}/{CONFIG}"])["pid"]
        return self.pid

    def hurt(self):
        """A cut, a loss, a delay; a small disk, which is full."""
        rule = {"way": "in", "address": "192.0.2.77", "protocol": "tcp", "side": "dport", "ports": [9193, 9194]}
        self.watch.ask("drop", name="1", rules=[{**rule, "do": "drop"}])
        self.watch.ask("drop", name="2", rules=[{**rule, "do": "drop", "share": 0.5}])
        self.watch.ask("slow", number=3, address="192.0.2.77", how={"delay_ms": 9, "jitter_ms": 0, "kbit_s": 0}, rules=[rule])
        assert self.watch.ask("mount", size_mb=1) == {"trouble": ""}
        self.watch.ask("on_data", name="fill")
        assert self.watch.ask("on_data", name="free") == {"result": 0}

    def left(self):
        """Leftovers of it on its host: processes, files, rules, disks, and what libfaketime keeps of a program."""
        there = [rule for rule in self.hosts.ask(self.number, "rules") if self.name in rule]
        return self.hosts.remains(self.name) + there + [str(path) for path in SHM.glob(f"faketime_shm_{self.pid}")]


@pytest.fixture
def sleeper(ssh_hosts, host, tmp_path):
    sleeper = Sleeper(ssh_hosts, host, tmp_path)
    yield sleeper
    sleeper.watch.end()
    assert until(lambda: sleeper.left() == []), sleeper.left()


def until(condition, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not (seen := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return seen


@on_hosts
def test_a_host_that_is_not_known_is_refused_with_its_fingerprint(ssh_hosts, tmp_path):
    (tmp_path / "known").write_text("")
    with pytest.raises(
        HostRefused, match=r"is not in known_hosts \(its ssh-ed25519 key is SHA256:.*ssh-keyscan -p 2222 10\.73\."
    ):
        come_in(ssh_hosts, known_hosts=str(tmp_path / "known")).transport()
    with pytest.raises(HostRefused, match=r"known_hosts = .*/none\" cannot be read: No such file"):
        come_in(ssh_hosts, known_hosts=str(tmp_path / "none")).transport()
    host = come_in(ssh_hosts, known_hosts=str(tmp_path / "known"), verify=False)
    assert host.transport().is_active()
    host.drop()


@on_hosts
def test_a_host_that_shows_another_key_is_refused(ssh_hosts, tmp_path):
    """The second host's key under the first one's name."""
    first, second = (line.split() for line in Path(ssh_hosts.options["known_hosts"]).read_text().splitlines()[:2])
    (tmp_path / "known").write_text(" ".join([first[0], *second[1:]]) + "\n")
    with pytest.raises(HostRefused, match=r"shows another host key than known_hosts has .*ssh-keygen -R '\[10\.73\..*\]:2222'"):
        come_in(ssh_hosts, known_hosts=str(tmp_path / "known")).transport()


@on_hosts
def test_a_key_that_is_not_let_in_is_named(ssh_hosts):
    """Another host's own key; and one that is not there. Neither is tried again."""
    wrong = str(ssh_hosts.place / "wrong")
    if not os.path.exists(wrong):
        keygen(ssh_hosts.place / "wrong")
    host = come_in(ssh_hosts, key=wrong)
    with pytest.raises(HostRefused, match=f"does not let {host.user} in with the key {wrong}: .*authorized_keys"):
        retry_dropped(host, "begin", host.transport, 60)
    with pytest.raises(HostRefused, match=r'key = "/no/such" cannot be read: No such file'):
        come_in(ssh_hosts, key="/no/such").transport()


@on_hosts
def test_what_a_host_lacks_is_named_with_the_remedy(ssh_hosts, host):
    directory = ssh_hosts.options["directory"]
    with pytest.raises(
        ClusterError, match=r"Kafka needs Java 17 or newer, and `/no/java -version` says there: .*or name another in"
    ):
        install.inspect_host(host, directory, "/no/java")
    with pytest.raises(ClusterError, match=r"`/no/python`, asked .* ended with status 127: .*No such file"):
        install.inspect_host(come_in(ssh_hosts, python="/no/python"), directory, "java")
    with pytest.raises(ClusterError, match=r"(Not a directory|File exists)"):
        install.inspect_host(host, "/dev/null/fencepost", "java")


@on_hosts
def test_the_plan_says_what_every_host_is_and_nothing_of_keys(ssh_hosts):
    description = Ssh(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in ssh_hosts.options.items()}
    ).describe()
    assert [entry["ssh"] for entry in description["hosts"].values()] == ssh_hosts.addresses
    assert {(entry["kernel"], entry["java"]) for entry in description["hosts"].values()} == {(os.uname().release, java()[1])}
    assert all(len(checksum) == 64 for checksum in description["jars"].values())
    assert ssh_hosts.options["key"] not in json.dumps(description)


@on_hosts
def test_a_host_that_is_not_there_is_tried_until_the_deadline(ssh_hosts):
    host = SshHost(HostAddress("127.0.0.1", port=1), login(ssh_hosts))
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1 could not be reached to begin, 1 s long; last: .*refused.*ssh -p 1 "):
        retry_dropped(host, "begin", host.transport, 1)


@on_hosts
def test_jars_are_copied_once_and_again_when_damaged(ssh_hosts, host, tmp_path):
    """By checksum: the second time nothing is copied, a damaged one alone is."""
    jars = {"a.jar": b"a" * 70_000, "b.jar": b"b"}
    for name, data in jars.items():
        (tmp_path / name).write_bytes(data)
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in jars.items()}
    distribution = Distribution("0.0.0", tmp_path, checksums)
    install.install(host, distribution)
    there = {name: next(ssh_hosts.own[0].glob(f"jars/*/{name}")) for name in jars}
    assert {name: path.read_bytes() for name, path in there.items()} == jars
    assert [Path(path).name for path in install.classpath(host, distribution).split(":")] == ["a.jar", "b.jar"]
    before = {name: path.stat().st_mtime_ns for name, path in there.items()}
    there["a.jar"].write_bytes(b"?")
    install.install(host, distribution)
    assert there["a.jar"].read_bytes() == jars["a.jar"]
    assert there["b.jar"].stat().st_mtime_ns == before["b.jar"]
    (tmp_path / "a.jar").write_bytes(b"not what was fetched")
    there["a.jar"].unlink()
    with pytest.raises(ClusterError, match=r"a\.jar arrived damaged"):
        install.install(host, distribution)
    assert not list(ssh_hosts.own[0].glob("jars/*/.*"))


@on_hosts
def test_log_and_segments_are_fetched(ssh_hosts, sleeper, tmp_path):
    """The log as it grows; of the data what cannot be rebuilt."""
    sleeper.start()
    assert until(lambda: sleeper.watch.fetch_log() or (tmp_path / "logs" / "n1.log").read_text() == "started\n")
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    (data / "t-0" / "0.log").write_bytes(b"x" * 300_000)
    (data / "t-0" / "0.timeindex").write_bytes(b"x")
    install.copy_files(sleeper.watch.host, sleeper.run, {"data": data})
    install.fetch_storage(sleeper.watch.host, sleeper.run, tmp_path / "storage")
    assert [path.name for path in (tmp_path / "storage").rglob("*")] == ["t-0", "0.log"]
    assert (tmp_path / "storage" / "t-0" / "0.log").stat().st_size == 300_000


@on_hosts
def test_a_connection_that_drops_amid_a_fault_is_not_an_outcome(ssh_hosts, sleeper):
    """Its process on the host is killed with a request in it, again and again; the watched one lives, freezes, and thaws."""
    pid, seen = sleeper.start(), []
    for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP):
        assert ssh_hosts.ask(0, "signal", word=" bridge ", number=signal.SIGSTOP)
        asking = threading.Thread(target=lambda number=number: sleeper.watch.ask("signal", number=int(number)))
        asking.start()
        assert ssh_hosts.ask(0, "signal", word="sshd: ", number=signal.SIGKILL)
        asking.join()
        ssh_hosts.ask(0, "signal", word=" bridge ", number=signal.SIGCONT)
        frozen = number == signal.SIGSTOP
        assert until(lambda frozen=frozen: (sleeper.watch.ask("status")["state"] == "T") == frozen)
        seen.append(sleeper.watch.ask("status")["pid"])
    assert seen == [pid, pid, pid]
    assert sleeper.watch._epoch > len(seen)


@on_hosts
def test_a_request_that_was_held_up_with_its_connection_is_never_done_late(ssh_hosts, sleeper, monkeypatch):
    """A connection hangs with a SIGKILL in it; it is given up, and the SIGKILL sent anew. Then the old one goes on."""
    monkeypatch.setattr(watcher_client, "_ANSWER_S", 1.5)
    first = sleeper.start()
    ssh_hosts.ask(0, "signal", word=" bridge ", number=signal.SIGSTOP)
    sleeper.watch.ask("signal", number=int(signal.SIGKILL))
    assert until(lambda: sleeper.watch.ask("status")["pid"] is None)
    second = sleeper.start()
    assert second not in (None, first)
    ssh_hosts.ask(0, "signal", word=" bridge ", number=signal.SIGCONT)
    time.sleep(0.5)  # for what should not happen
    assert sleeper.watch.ask("status")["pid"] == second


@on_hosts
def test_a_request_that_comes_again_is_answered_and_not_done_again(sleeper):
    """A clock that is asked twice shows two times, and one that is asked once, over two connections, shows one."""
    first, again, other = (sleeper.watch._exchange({"do": "clock", "request_number": number}) for number in (1000, 1000, 1001))
    assert first == again != other


@on_hosts
@pytest.mark.parametrize("tool", ["nft", "iptables"])
def test_rules_drop_count_and_go(ssh_hosts, host, tool):
    """By either program: dropped on arrival and on leaving, counted by name, removed by name, in any order; by chance, too."""
    script = f"""
import json, sys, time
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from fencepost.clusters.ssh.remote import host_rules
made = {{"nft": host_rules.Nft, "iptables": host_rules.Iptables}}[{tool!r}]("tools", {ssh_hosts.options["sudo"]})
try:
    made.open()
except host_rules.ProgramError as error:
    sys.exit(print(json.dumps(str(error))))
rules = host_rules.Rules(made)
import socket
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(("127.0.0.1", 9333))
ear.settimeout(1.0)
def arrives():
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9333))
        return bool(ear.recv(9))
    except OSError:
        return False
drop = {{"address": "127.0.0.1", "protocol": "udp", "side": "dport", "ports": [9330, 9340], "do": "drop"}}
other = {{"way": "in", "address": "192.0.2.1", "protocol": "tcp", "side": "sport", "ports": [22, 22], "do": "drop"}}
seen = [arrives()]
rules.add("x", [other]), rules.add("a", [{{**drop, "way": "in"}}, other]), rules.add("a", [other])
seen += [arrives(), rules.packets()]
rules.remove("x"), rules.add("b", [{{**drop, "way": "out"}}]), rules.remove("a"), rules.remove("a")
seen += [arrives(), rules.packets()]
rules.remove("b")
seen += [arrives(), rules.packets()]
rules.add("c", [{{**drop, "way": "in", "do": "count"}}, {{**drop, "way": "in", "share": 0.5}}])
ear.setblocking(False)
came, end = sum(arrives() for _ in range(400)), time.monotonic() + 60
while came < 400 - rules.packets()["c"][1] and time.monotonic() < end:  # a packet may be held up
    try:
        came += bool(ear.recv(9))
    except BlockingIOError:
        time.sleep(0.01)
seen += [rules.packets()["c"][0], sum(rules.packets()["c"]) - 800 + came, 100 < came < 300]
host_rules.close_all("tools", {ssh_hosts.options["sudo"]})
print(json.dumps(seen))
"""
    seen = json.loads(host.run(f"{host._python} -", lambda stdin: stdin.write(script.encode())))
    if isinstance(seen, str):
        pytest.skip(seen)
    assert seen[:7] == [True, False, {"x": [0, 0], "a": [1, 1]}, False, {"b": [1, 1]}, True, {}]
    assert seen[7:] == [400, 0, True]
    assert [rule for rule in ssh_hosts.rules() if "tools" in rule] == []


@pytest.fixture
def linked(ssh_hosts, host, sleeper, tmp_path):
    """Two hosts that are watched, and their network."""
    second = come_in(ssh_hosts, 1)
    retry_dropped(second, "begin", lambda: second.install_program(ssh_hosts.options["directory"]), 120)
    other = Sleeper(ssh_hosts, second, tmp_path, "other", number=1)
    watches, addresses = {"n1": sleeper.watch, "n2": other.watch}, {"n1": sleeper.address, "n2": other.address}
    network = Network(watches, addresses, 9192, lambda: ("c0",))
    assert (network.trouble(), network.missing_capabilities()) == ("", {})
    yield network
    network.close()
    other.watch.end()
    assert until(lambda: other.left() == []), other.left()


@on_hosts
def test_links_between_hosts_are_slow_and_lossy_one_way_and_a_slow_one_can_be_cut(ssh_hosts, linked):
    """By real datagrams. When the program that holds packets back is killed, they pass, and the next request says so."""
    there, back = ("n1", "n2"), ("n2", "n1")

    def took(pair, packets=9, within_s=120.0):
        return [delay_ms for delay_ms in linked.measure([pair], packets, within_s=within_s)[pair] if delay_ms is not None]

    def is_quick(pair):  # a pause of this machine makes packets slower
        return until(lambda: median(took(pair, within_s=10.0) or [150]) < 100)

    slow = linked.slow([there], delay_ms=150)
    assert median(took(there)) >= 100, "150 ms, but for what the hosts' clocks seem to differ"
    assert is_quick(back)
    assert until(lambda: all(linked.probe([there, ("c0", "n2")]).values()))
    linked.drop([there])
    assert took(there, within_s=0.5) == []
    linked.undrop([there])
    assert linked.unslow(slow)[there][0] > 9
    lossy = linked.lose([there], 0.5)
    arrived = len(took(there, 200, within_s=0.7))
    seen, lost = linked.unlose(lossy)[there]
    assert (seen, 40 < lost < 160, 0 < arrived <= seen - lost) == (200, True, True)
    assert len(took(there, 50)) == 50
    linked.slow([there, ("c0", "n2"), ("n2", "c0")], delay_ms=150)
    assert [median(took(pair)) >= 100 for pair in [("c0", "n2"), ("n2", "c0")]] == [True, True]
    assert is_quick(("c0", "n1"))
    assert ssh_hosts.ask(1, "signal", word=" delay ", number=signal.SIGKILL)
    assert is_quick(there)  # what it held is lost
    with pytest.raises(ClusterError, match=r"n2 .*the program that holds packets back ended with status -9"):
        linked.slow([there], delay_ms=100)


# ---- the lease


def silent(sleeper):
    """The harness says nothing more."""
    sleeper.watch._over.set()
    sleeper.watch._lease_thread.join()


@on_hosts
def test_a_lease_that_runs_out_undoes_everything(ssh_hosts, host, tmp_path):
    """A frozen program and every hurt, as long as it is renewed; then nothing of that, nor of the run. An error, no outcome.

    It runs out with megabytes of answers that are not taken, as when the network fails amid them.
    """
    sleeper = Sleeper(ssh_hosts, host, tmp_path, "lease", lease_s=8)
    sleeper.start("'x' * (1 << 18)")
    assert until(lambda: sleeper.watch.fetch_log() or (tmp_path / "logs" / "n1.log").stat().st_size > 1 << 18)
    sleeper.hurt()
    sleeper.watch.ask("signal", number=int(signal.SIGSTOP))
    time.sleep(9)  # longer than the lease
    assert (sleeper.watch.ask("status")["state"], sleeper.left() != []) == ("T", True)
    silent(sleeper)
    request = json.dumps({"do": "renew", "log": 0, "epoch": sleeper.watch._epoch}).encode() + b"\n"
    sleeper.watch._channel.sendall(request * 40)
    assert until(lambda: sleeper.left() == []), sleeper.left()
    sleeper.watch._channel = None
    with pytest.raises(ClusterError, match=r"watcher of n1 .* has ended, and the broker with it: .* for 8 s \(its lease\)"):
        sleeper.watch.ask("status")


@on_hosts
@pytest.mark.parametrize("dies", ["watcher", "guard"])
def test_when_watcher_or_guard_is_killed_the_other_cleans_up(ssh_hosts, host, tmp_path, dies):
    sleeper = Sleeper(ssh_hosts, host, tmp_path, "half")
    sleeper.start()
    sleeper.hurt()
    silent(sleeper)
    pids = sorted(int(pid) for pid, command in ssh_hosts.ask(0, "processes").items() if f" serve {sleeper.run}" in command)
    assert len(pids) == 2
    ssh_hosts.ask(0, "kill", pid=pids[dies == "watcher"])
    assert until(lambda: sleeper.left() == []), sleeper.left()


@on_hosts
def test_when_both_are_killed_the_next_run_cleans_up_and_leaves_the_living_alone(ssh_hosts, host, sleeper, tmp_path):
    dead = Sleeper(ssh_hosts, host, tmp_path, "dead", port=9292)
    dead.start()
    dead.hurt()
    silent(dead)
    ssh_hosts.ask(0, "signal", word=f" serve {dead.run}", number=signal.SIGKILL)
    pid = sleeper.start()
    assert any(CONFIG in command for command in dead.left())
    third = Sleeper(ssh_hosts, host, tmp_path, "third", port=9292)
    assert dead.left() == []
    assert sleeper.watch.ask("status")["pid"] == pid
    third.watch.end()


@on_hosts
def test_ports_that_are_taken_are_named(ssh_hosts, host, sleeper, tmp_path):
    with pytest.raises(ClusterError, match=r"n1 \(10\.73\..*, ports 9192 and up: .*in use\. Does another run use these ports"):
        Sleeper(ssh_hosts, host, tmp_path, "second")
    assert until(lambda: ssh_hosts.remains("second") == [])
