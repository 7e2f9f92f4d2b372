"""The agent in a node's helper container (`python -m clusters.docker.helper_agent`): sends and receives probes, drops packets.

The helper's network namespace is the node's own, and its process-id namespace too: when this process ends, the kernel ends
the node with it, frozen or not, and with the last of them the address and every rule. It ends when its standard input does, and
that ends when the harness does; and when nothing has come over it for `LEASE_S` seconds, because the harness hangs.

One JSON object per line, each answered by one; what fails is answered by {"error": text}.

    {"do": "drop", "address": A, "share": S} -> {"handle": H}      {"do": "undrop", "handle": H}
    {"do": "counters"} -> {"counters": {H: [seen, dropped]}}
    {"do": "send", "train": T, "to": {LINK: A, ...}, "packets": N, "size": BYTES}
    {"do": "heard", "train": T, "beyond": N} -> {"heard": [[LINK, number, milliseconds, A, port], ...]}    but for the first N
    {"do": "slow", "number": N, "address": A, "how": {...}} -> {}      {"do": "unslow", "number": N, "address": A}
        -> {"counted": [seen, dropped]}: `clusters.fault_tools.delays.Slower`, which is started when it is first needed
    {"do": "lacks"} -> {"lacks": {capability: why it cannot be had here}}
    {"do": "renew"} -> {}: nothing but the lease
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from clusters.fault_tools.probes import Ports

if TYPE_CHECKING:
    from clusters.fault_tools.delays import Slower

PORT = 9099
LEASE_S = 60.0


class Agent:
    """Answers one request at a time."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self._lease_s = lease_s
        self._ports = Ports(("", PORT))
        self._slower: Slower | None = None

    def serve(self) -> None:
        """Until standard input ends, or the lease does."""
        self._tell({"ready": True})
        from clusters.fault_tools import packet_rules  # takes half a second, and nobody has to wait for it

        packet_rules.open_chain()
        pending, expires = b"", time.monotonic() + self._lease_s
        while True:
            waited: list[Any] = [0, *self._ports.sockets]
            ready, _, _ = select.select(waited, [], [], max(0.0, expires - time.monotonic()))
            if 0 not in ready and time.monotonic() >= expires:
                self._tell({"error": f"the harness has not renewed the lease for {self._lease_s:g} s"})
                return
            self._ports.hear()
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    return
                expires = time.monotonic() + self._lease_s
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    self._tell(self._answer(json.loads(line)))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        from clusters.fault_tools import packet_rules
        from clusters.fault_tools.delays import Slower, lacks

        try:
            match request["do"]:
                case "renew":
                    pass
                case "drop":
                    return {"handle": packet_rules.add_rule(request["address"], request["share"])}
                case "undrop":
                    packet_rules.delete_rule(request["handle"])
                case "counters":
                    return {"counters": packet_rules.counters()}
                case "send":
                    to = {link: (address, PORT) for link, address in request["to"].items()}
                    self._ports.send(request["train"], to, request["packets"], request["size"])
                case "heard":
                    return {"heard": self._ports.heard(request["train"], request["beyond"])}
                case "slow":
                    self._slower = self._slower or Slower()
                    self._slower.slow(request["number"], request["address"], **request["how"])
                case "unslow":
                    assert self._slower is not None, "nothing is slow here"
                    return {"counted": self._slower.unslow(request["number"], request["address"])}
                case "lacks":
                    return {"lacks": lacks()}
                case other:
                    return {"error": f"cannot do {other}"}
        except Exception as error:  # noqa: BLE001 - netlink has errors of its own; all of them are the asker's to see
            return {"error": f"{type(error).__name__}: {error}"}
        return {}

    def _tell(self, message: dict[str, Any]) -> None:
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    Agent(*map(float, sys.argv[1:])).serve()
