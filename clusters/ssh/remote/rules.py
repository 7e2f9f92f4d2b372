"""Packets dropped on this host: rules in a table (nft) or in chains (iptables) of the run's own, each counting.

A rule drops what one IPv4 address sends ("in", on arrival) or is sent ("out", on leaving), of one protocol, from or to a range of
ports: {"way", "address", "protocol", "side": "sport" or "dport", "ports": [first, last]}. No other port is touched, ssh's
least of all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from typing import Any

Rule = dict[str, Any]
WAYS = ("in", "out")
_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
_RUN_S = 15.0


class RuleError(Exception):
    """A program that changes rules said no; the text is what it said."""


class Tool:
    """nft or iptables, by sudo where told. Every name it makes bears the run's token."""

    name = ""

    def __init__(self, token: str, sudo: bool) -> None:
        self.token, self._sudo = token, sudo

    def run(self, *words: str) -> str:
        """What the program answers. Raises RuleError."""
        program = shutil.which(self.name, path=_SBIN)
        if program is None:
            raise RuleError(f"{self.name} is not installed")
        argv = [*(["sudo", "-n"] if self._sudo else []), program, *words]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RUN_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RuleError(f"{' '.join(argv)}: {error}") from error
        if done.returncode != 0:
            raise RuleError(f"{' '.join(argv)}: {' '.join((done.stderr or done.stdout).split())}")
        return done.stdout

    def attempt(self, *words: str) -> None:
        """The same where it does not matter what comes: removing what may not be there."""
        with suppress(RuleError):
            self.run(*words)


class Nft(Tool):
    name = "nft"

    @property
    def _table(self) -> str:
        return f"fencepost_{self.token}"

    def open(self) -> None:
        self.run("add", "table", "ip", self._table)
        for way, hook in (("in", "input"), ("out", "output")):
            chain = f"{{ type filter hook {hook} priority 0 ; policy accept ; }}"
            self.run("add", "chain", "ip", self._table, f"fp_{way}", chain)

    def close(self) -> None:
        self.attempt("delete", "table", "ip", self._table)

    def add(self, rule: Rule) -> None:
        whose = "saddr" if rule["way"] == "in" else "daddr"
        ports = "{}-{}".format(*rule["ports"])
        words = ["ip", whose, rule["address"], rule["protocol"], rule["side"], ports, "counter", "drop"]
        self.run("add", "rule", "ip", self._table, f"fp_{rule['way']}", *words)

    def delete(self, way: str, index: int) -> None:
        self.run("delete", "rule", "ip", self._table, f"fp_{way}", "handle", self._listed(way)[index][1])

    def packets(self, way: str) -> list[int]:
        return [int(packets) for packets, _ in self._listed(way)]

    def _listed(self, way: str) -> list[tuple[str, str]]:
        """Packets and handle of every rule, in order."""
        text = self.run("-a", "list", "chain", "ip", self._table, f"fp_{way}")
        return re.findall(r"counter packets (\d+) bytes \d+ drop # handle (\d+)", text)


class Iptables(Tool):
    name = "iptables"

    def _chain(self, way: str) -> str:
        return f"fencepost-{self.token}-{way}"

    def open(self) -> None:
        for way, hook in (("in", "INPUT"), ("out", "OUTPUT")):
            self.run("-w", "-N", self._chain(way))
            self.run("-w", "-I", hook, "1", "-j", self._chain(way))

    def close(self) -> None:
        for way, hook in (("in", "INPUT"), ("out", "OUTPUT")):
            self.attempt("-w", "-D", hook, "-j", self._chain(way))
            self.attempt("-w", "-F", self._chain(way))
            self.attempt("-w", "-X", self._chain(way))

    def add(self, rule: Rule) -> None:
        whose = "-s" if rule["way"] == "in" else "-d"
        ports = "{}:{}".format(*rule["ports"])
        words = [whose, rule["address"], "-p", rule["protocol"], f"--{rule['side']}", ports, "-j", "DROP"]
        self.run("-w", "-A", self._chain(rule["way"]), *words)

    def delete(self, way: str, index: int) -> None:
        self.run("-w", "-D", self._chain(way), str(index + 1))

    def packets(self, way: str) -> list[int]:
        return [int(line.split()[0]) for line in self.run("-w", "-nvxL", self._chain(way)).splitlines()[2:]]


class Rules:
    """Rules by name: each name drops by one rule or several. Raises RuleError when neither program can be used."""

    def __init__(self, token: str, sudo: bool) -> None:
        self._book: dict[str, list[str]] = {way: [] for way in WAYS}  # the names, in the order of the kernel's rules
        self._tool = opened(token, sudo)

    def add(self, name: str, rules: list[Rule]) -> None:
        """Drop from now on, counted from zero; nothing if this name drops already."""
        if any(name in names for names in self._book.values()):
            return
        try:
            for rule in rules:
                self._tool.add(rule)
                self._book[rule["way"]].append(name)
        except RuleError:
            self.remove(name)
            raise

    def remove(self, name: str) -> None:
        """Drop no longer; nothing if this name drops nothing."""
        for way, names in self._book.items():
            for index in reversed(range(len(names))):
                if names[index] == name:
                    self._tool.delete(way, index)
                    del names[index]

    def packets(self) -> dict[str, int]:
        """Packets dropped by each name."""
        counted: dict[str, int] = {}
        for way, names in self._book.items():
            for index, packets in enumerate(self._tool.packets(way) if names else []):
                counted[names[index]] = counted.get(names[index], 0) + packets
        return counted


def opened(token: str, sudo: bool) -> Nft | Iptables:
    """The first program that can be used here, its table or chains made."""
    said = []
    for tool in (Nft(token, sudo), Iptables(token, sudo)):
        try:
            tool.open()
        except RuleError as error:
            said.append(str(error))
            tool.close()
        else:
            return tool
    raise RuleError("; ".join(said))


def close_all(token: str, sudo: bool) -> None:
    """Remove all that a run may have, whichever program made it."""
    for tool in (Nft(token, sudo), Iptables(token, sudo)):
        tool.close()
