"""Packet rules on this host that drop, count or queue: in a table (nft) or in chains (iptables) of the run's own.

A rule matches what one IPv4 address sends ("in", on input) or receives ("out", on output), of one protocol, from or to a range
of ports: {"way", "address", "protocol", "side": "sport" or "dport", "ports": [first, last]}. No other port is touched, above all
not that of ssh. "do" is the action: DROP (all, or a random "share"), COUNT, or QUEUE (the queue of this "number"; while no
process has it open, packets pass). Each rule counts its packets.

Drops come before this host's other rules, queues among them, so that a delayed packet does not bypass a drop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fencepost.clusters.ssh.remote.root_programs import ProgramError, run

Rule = dict[str, Any]
WAYS = ("in", "out")
DROP, COUNT, QUEUE = "drop", "count", "queue"
_MATCHES_NOTHING = {"way": "in", "address": "0.0.0.1", "protocol": "udp", "side": "dport", "ports": [9, 9]}
_SHARE_UNITS = 1_000_000  # the resolution of a share


class Tool:
    """nft or iptables, with sudo if set. Every name it makes has the run's token.

    late: rules come among this host's other rules, not before them.
    """

    name = ""

    def __init__(self, token: str, sudo: bool, late: bool = False) -> None:
        self.token, self._sudo, self._late = token, sudo, late

    def run(self, *words: str) -> str:
        """The program's answer. Raises ProgramError."""
        return run(self.name, *words, sudo=self._sudo)

    def attempt(self, *words: str) -> None:
        """Run the program and ignore failures: to remove what may not be there."""
        with suppress(ProgramError):
            self.run(*words)


class Nft(Tool):
    name = "nft"

    @property
    def _table(self) -> str:
        return f"fencepost_{self.token}"

    def open(self) -> None:
        self.run("add", "table", "ip", self._table)
        for way, hook in (("in", "input"), ("out", "output")):
            chain = f"{{ type filter hook {hook} priority {0 if self._late else -150} ; policy accept ; }}"
            self.run("add", "chain", "ip", self._table, f"fp_{way}", chain)

    def close(self) -> None:
        self.attempt("delete", "table", "ip", self._table)

    def add(self, rule: Rule) -> None:
        field = "saddr" if rule["way"] == "in" else "daddr"
        ports = "{}-{}".format(*rule["ports"])
        words = ["ip", field, rule["address"], rule["protocol"], rule["side"], ports, *self._action(rule)]
        self.run("add", "rule", "ip", self._table, f"fp_{rule['way']}", *words)

    def _action(self, rule: Rule) -> list[str]:
        if rule["do"] == COUNT:
            return ["counter"]
        if rule["do"] == QUEUE:
            return ["counter", "queue", "num", str(rule["number"]), "bypass"]
        if "share" not in rule:
            return ["counter", "drop"]
        return ["numgen", "random", "mod", str(_SHARE_UNITS), "<", str(round(rule["share"] * _SHARE_UNITS)), "counter", "drop"]

    def delete(self, way: str, index: int) -> None:
        self.run("delete", "rule", "ip", self._table, f"fp_{way}", "handle", self._listed(way)[index][1])

    def packets(self, way: str) -> list[int]:
        return [int(packets) for packets, _ in self._listed(way)]

    def _listed(self, way: str) -> list[tuple[str, str]]:
        """Packets and handle of every rule, in order."""
        text = self.run("-a", "list", "chain", "ip", self._table, f"fp_{way}")
        return re.findall(r"counter packets (\d+) bytes \d+.* # handle (\d+)", text)


class Iptables(Tool):
    name = "iptables"

    def _chain(self, way: str) -> str:
        return f"fencepost-{self.token}-{way}"

    def _words(self, *words: str) -> list[str]:
        """Arguments for the table that is evaluated first, or for the usual one."""
        return ["-w", "-t", "filter" if self._late else "mangle", *words]

    def open(self) -> None:
        for way, hook in (("in", "INPUT"), ("out", "OUTPUT")):
            self.run(*self._words("-N", self._chain(way)))
            self.run(*self._words("-I", hook, "1", "-j", self._chain(way)))

    def close(self) -> None:
        for way, hook in (("in", "INPUT"), ("out", "OUTPUT")):
            self.attempt(*self._words("-D", hook, "-j", self._chain(way)))
            self.attempt(*self._words("-F", self._chain(way)))
            self.attempt(*self._words("-X", self._chain(way)))

    def add(self, rule: Rule) -> None:
        field = "-s" if rule["way"] == "in" else "-d"
        ports = "{}:{}".format(*rule["ports"])
        words = [field, rule["address"], "-p", rule["protocol"], f"--{rule['side']}", ports, *self._action(rule)]
        self.run(*self._words("-A", self._chain(rule["way"]), *words))

    def _action(self, rule: Rule) -> list[str]:
        if rule["do"] == COUNT:
            return []
        if rule["do"] == QUEUE:
            return ["-j", "NFQUEUE", "--queue-num", str(rule["number"]), "--queue-bypass"]
        chance = ["-m", "statistic", "--mode", "random", "--probability", f"{rule['share']:.6f}"] if "share" in rule else []
        return [*chance, "-j", "DROP"]

    def delete(self, way: str, index: int) -> None:
        self.run(*self._words("-D", self._chain(way), str(index + 1)))

    def packets(self, way: str) -> list[int]:
        return [int(line.split()[0]) for line in self.run(*self._words("-nvxL", self._chain(way))).splitlines()[2:]]


class Rules:
    """Rules by name: each name stands for one rule or several, made by one tool."""

    def __init__(self, tool: Nft | Iptables) -> None:
        self._made: dict[str, list[tuple[str, str]]] = {way: [] for way in WAYS}  # (name, action), as the kernel's rules lie
        self._removing: set[str] = set()  # names whose rules are being removed, or could not be
        self._tool = tool

    def add(self, name: str, rules: Sequence[Rule]) -> None:
        """Make rules, counted from zero; nothing if this name has any. Raises ProgramError, and then removes those made
        (what could not be removed, `remove` tries again)."""
        if name in self._removing:
            self.remove(name)
        if name in self.names():
            return
        try:
            for rule in rules:
                self._tool.add(rule)
                self._made[rule["way"]].append((name, rule["do"]))
        except ProgramError:
            with suppress(ProgramError):  # the cause says more
                self.remove(name)
            raise

    def remove(self, name: str) -> None:
        """Remove rules; nothing if this name has none. Raises ProgramError; the next call tries again what is left."""
        self._removing.add(name)
        for way, made in self._made.items():
            for index in reversed(range(len(made))):
                if made[index][0] == name:
                    self._tool.delete(way, index)
                    del made[index]
        self._removing.discard(name)

    def names(self) -> set[str]:
        return {name for made in self._made.values() for name, _ in made}

    def packets(self) -> dict[str, tuple[int, int]]:
        """Packets (seen, dropped) by name; without a COUNT rule, as many are seen as dropped."""
        counted: dict[tuple[str, str], int] = {}
        for way, made in self._made.items():
            for index, packets in enumerate(self._tool.packets(way) if made else []):
                counted[made[index]] = counted.get(made[index], 0) + packets
        dropped = {name: counted.get((name, DROP), 0) for name in self.names()}
        return {name: (counted.get((name, COUNT), packets), packets) for name, packets in dropped.items()}

    def trouble(self, **action: Any) -> str:
        """The reason why this host has no such rules, by a trial rule that matches nothing; else empty."""
        try:
            self.add("trial", [{**_MATCHES_NOTHING, **action}])
            self.remove("trial")
        except ProgramError as error:
            return str(error)
        return ""


def drops(token: str, sudo: bool) -> Rules:
    """Rules that drop, by the first program that can be used here. Raises ProgramError when none can."""
    return _opened([tool(token, sudo) for tool in (Nft, Iptables)], lambda _rules: "")


def queues(token: str, sudo: bool, number: int) -> Rules:
    """Rules that queue packets, by the first program that can make them. Raises ProgramError when none can."""
    return _opened(_late(token, sudo), lambda rules: rules.trouble(do=QUEUE, number=number))


def _late(token: str, sudo: bool) -> list[Nft | Iptables]:
    return [tool(f"{token}q", sudo, late=True) for tool in (Nft, Iptables)]


def _opened(tools: Sequence[Nft | Iptables], trouble: Callable[[Rules], str]) -> Rules:
    failures = []
    for tool in tools:
        try:
            tool.open()
            rules = Rules(tool)
            if not (why := trouble(rules)):
                return rules
        except ProgramError as error:
            why = str(error)
        tool.close()
        failures.append(why)
    raise ProgramError("; ".join(failures))


def close_all(token: str, sudo: bool) -> None:
    """Remove all that a run may have, whichever program made it."""
    for tool in (Nft(token, sudo), Iptables(token, sudo), *_late(token, sudo)):
        tool.close()
