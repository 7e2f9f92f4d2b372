"""Hosts to log in to, made by root on this machine: `python ssh_hosts.py DIRECTORY USER COUNT`.

Every host is a network namespace on a bridge that this machine is joined to, with a real sshd of its own (own keys, own address)
and its own directory where all have the same path. First line out: how to come in, as JSON. After that each line in is a request,
answered by a line; the end of standard input is the end of the hosts, whatever runs on them.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from pyroute2 import IPRoute

from fencepost.clusters.local.network import _BRIDGE, _CLONE_NEWNET, Network
from fencepost.harness.system.parent_death import die_with

PORT = 2222
SSHD = "/usr/sbin/sshd"
CONFIG = """Port {port}
ListenAddress {address}
HostKey {own}/host_key
AuthorizedKeysFile {place}/authorized_keys
PidFile none
StrictModes no
UsePAM {pam}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {user}
MaxStartups 100
Subsystem sftp internal-sftp
"""


def keygen(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)


def join_bridge(home, name, address):
    """A cable from this namespace's bridge into the one that `home` is, where it gets `address`."""
    with IPRoute() as links:
        links.link("add", ifname=f"{name}h", kind="veth", peer={"ifname": name, "net_ns_fd": home})
        bridge = links.link_lookup(ifname=_BRIDGE)[0]
        links.link("set", index=links.link_lookup(ifname=f"{name}h")[0], master=bridge, state="up")
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None)
    assert libc.setns(home, _CLONE_NEWNET) == 0
    with IPRoute() as links:
        index = links.link_lookup(ifname=name)[0]
        links.addr("add", index=index, address=address, prefixlen=24)
        links.link("set", index=index, state="up")
    assert libc.setns(here, _CLONE_NEWNET) == 0


def locked(user):
    """True if the account has no password at all, so that sshd lets it in through PAM only."""
    fields = [line.split(":") for line in Path("/etc/shadow").read_text().splitlines()]
    return any(field[0] == user and field[1].startswith("!") for field in fields)


class Host:
    """One namespace, its sshd, and its directory."""

    def __init__(self, network, place, number, address, user, directory):
        self.network, self.name, self.address = network, f"h{number}", address
        self.own = place / self.name
        (self.own / "directory").mkdir(parents=True)
        os.chown(self.own / "directory", os.stat(place).st_uid, -1)
        keygen(self.own / "host_key")
        network.add(self.name, address)
        pam = "yes" if locked(user) else "no"
        config = CONFIG.format(port=PORT, address=address, own=self.own, place=place, user=user, pam=pam)
        (self.own / "config").write_text(config)
        shown = f'mount --bind "{self.own}/directory" "{directory}" && exec {SSHD} -D -e -f "{self.own}/config"'
        with network.inside(self.name), open(self.own / "log", "wb") as log:
            self.namespace = os.stat("/proc/thread-self/ns/net").st_ino
            self.sshd = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", shown],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with(os.getpid()),
            )

    def known(self):
        return f"[{self.address}]:{PORT} " + " ".join((self.own / "host_key.pub").read_text().split()[:2])

    def processes(self):
        """Process id -> command line of all that runs here but the sshd itself."""
        commands = {}
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and os.stat(entry / "ns/net").st_ino == self.namespace
                    and int(entry.name) != self.sshd.pid
                ):
                    commands[int(entry.name)] = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                    )
            except (OSError, ProcessLookupError):
                continue
        return commands

    def rules(self):
        """Every rule of this host that is ours, whichever program made it."""
        text = []
        for argv in (["iptables", "-S"], ["iptables", "-t", "mangle", "-S"], ["nft", "list", "ruleset"]):
            try:
                text += self.network.run(
                    self.name, lambda argv=argv: subprocess.run(argv, capture_output=True, text=True)
                ).stdout.splitlines()
            except FileNotFoundError:
                continue
        return [line.strip() for line in text if "fencepost-" in line or "fencepost_" in line or "drop" in line]

    def disks(self):
        """Mount points of our small disks."""
        lines = Path(f"/proc/{self.sshd.pid}/mountinfo").read_text().splitlines()
        return [line.split()[4] for line in lines if " tmpfs fencepost " in line]

    def signal(self, word, number):
        """Send a signal to the processes whose command line contains `word`; which those are."""
        doomed = [pid for pid, command in self.processes().items() if word in command]
        for pid in doomed:
            os.kill(pid, number)
        return doomed

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def end(self):
        self.sshd.kill()
        self.sshd.wait()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def main(place, user, count):
    os.makedirs("/run/sshd", exist_ok=True)
    place, directory = Path(place), Path(place, "mounted")
    directory.mkdir()
    session = 16 + os.getpid() % 200
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    assert ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0, "hosts need root"
    network = Network()
    join_bridge(home, f"fp{session}", f"10.73.{session}.100")
    hosts = [Host(network, place, i, f"10.73.{session}.{i}", user, directory) for i in range(1, count + 1)]
    (place / "known_hosts").write_text("".join(host.known() + "\n" for host in hosts))
    addresses = {"hosts": [f"{host.address}:{PORT}" for host in hosts], "directory": str(directory), "session": session}
    print(json.dumps(addresses), flush=True)
    try:
        for line in sys.stdin:
            request = json.loads(line)
            host = hosts[request.pop("host")]
            answer = getattr(host, request.pop("do"))(**request)
            print(json.dumps(answer), flush=True)
    finally:
        for host in hosts:
            host.end()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
