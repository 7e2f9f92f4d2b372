"""Texts with placeholders for a node: its command line, its settings file, its variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from fencepost.clusters.kafka.broker_config import BROKER, CLIENT, CONTROLLER, PlannedNode
from fencepost.harness.system import command_words

_PLACEHOLDER = re.compile(r"(?<!\$)\{(\{?)([a-z_]+)\}(\}?)")  # `${name}` is a shell's
OF_A_PEER = ("node", "id", "host", "port", "internal_port", "controller_port")
PLACEHOLDERS: Mapping[str, str] = {
    "node": "the node's name: n1",
    "id": "its number: 1",
    "host": "its address",
    "port": "the port for clients",
    "listen_port": "the port at which it listens for clients: another one with `proxy`, else the same",
    "internal_port": "a port for other brokers",
    "controller_port": "a third port",
    "data": "its data directory, empty at the first start",
    "config": "its settings file, made of `config`",
    "brokers": "the number of brokers",
    "replication": "replicas of a topic of three, or as many as there are brokers",
    "bootstrap": "host:port of every node, with commas",
    "ports": "the ports for clients of all nodes, with commas",
    "peers": "every node as `peer` has it, with `separator`",
    "others": "every other node, likewise",
    "cluster_id": "an id that all nodes share: 22 letters and digits",
    "settings": "`settings`, a line `name=value` each",
    "python": "the Python that runs fencepost",
    "examples": "the folder of examples that comes with fencepost",
}


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with a value in the place of each placeholder; `{{name}}` stands for `{name}`. Raises KeyError."""

    def value(match: re.Match[str]) -> str:
        before, name, after = match.groups()
        return f"{{{name}}}" if before and after else f"{before}{values[name]}{after}"

    return _PLACEHOLDER.sub(value, text)


def mistakes(text: str, known: Sequence[str] = tuple(PLACEHOLDERS)) -> list[str]:
    """The unknown placeholders in a text, a sentence each."""
    names = [name for before, name, after in _PLACEHOLDER.findall(text) if not (before and after)]
    return [_unknown(name, known) for name in dict.fromkeys(names) if name not in known]


def _unknown(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {{{near[0]}}}?" if near else f"there are {', '.join(f'{{{each}}}' for each in known)}"
    return f"there is no placeholder {{{name}}}; {hint} A brace of your own is doubled: {{{{{name}}}}}"


def values(
    node: PlannedNode,
    nodes: Sequence[PlannedNode],
    *,
    data: Path,
    config: Path,
    cluster_id: str,
    settings: Mapping[str, str],
    peer: str,
    separator: str,
) -> dict[str, str]:
    """The value of each placeholder for a node among all nodes."""
    described = {each.name: filled(peer, peer_values(each)) for each in nodes}
    return {
        **peer_values(node),
        "listen_port": str(node.own_listeners[CLIENT][1]),
        "data": str(data),
        "config": str(config),
        "brokers": str(len(nodes)),
        "replication": str(min(3, len(nodes))),
        "bootstrap": ",".join("{}:{}".format(*each.address) for each in nodes),
        "ports": ",".join(str(each.address[1]) for each in nodes),
        "peers": separator.join(described.values()),
        "others": separator.join(text for name, text in described.items() if name != node.name),
        "cluster_id": cluster_id,
        "settings": "\n".join(f"{name}={value}" for name, value in settings.items()),
        **command_words.PLACEHOLDERS,
    }


def peer_values(node: PlannedNode) -> dict[str, str]:
    """The values of the placeholders that a node has among its peers."""
    ports = {"port": CLIENT, "internal_port": BROKER, "controller_port": CONTROLLER}
    return {
        "node": node.name,
        "id": str(node.id),
        "host": node.address[0],
        **{name: str(node.listeners[listener][1]) for name, listener in ports.items()},
    }
