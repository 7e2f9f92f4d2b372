"""The agent in a node's helper container (`python -m` this module): sends and receives probes, drops packets.

The node shares the helper's network namespace and process-id namespace: when this process ends, the kernel ends the node too,
frozen or not, and then removes the address and every rule. The agent ends when its standard input ends, as it does with the
harness, and when no request has come for `LEASE_S` seconds, because the harness hangs.

One JSON object per line, each answered by one; what fails is answered by {"error": text}.

    {"do": "drop", "address": A, "share": S} -> {"handle": H}      {"do": "undrop", "handle": H}
    {"do": "counters"} -> {"counters": {H: [seen, dropped]}}
    {"do": "send", "series": T, "to": {LINK: A, ...}, "packets": N, "size": BYTES}
    {"do": "received", "series": T, "known": N} -> {"received": [[LINK, number, ms, A, port], ...]}, without the first N
    {"do": "slow", "number": N, "address": A, "how": {...}} -> {}      {"do": "unslow", "number": N, "address": A}
        -> {"counted": [seen, dropped]}: by `clusters.fault_tools.namespace_delays`, whose program the first `slow` starts
    {"do": "missing_capabilities"} -> {"missing_capabilities": {capability: reason}}
    {"do": "renew"} -> {}: nothing but the lease
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any

from fencepost.clusters.fault_tools.probes import ProbePorts

if TYPE_CHECKING:
    from fencepost.clusters.fault_tools.namespace_delays import NamespaceDelays

PORT = 9099
LEASE_S = 60.0


class HelperAgent:
    """Answers one request at a time."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self._lease_s = lease_s
        self._ports = ProbePorts(("", PORT))
        self._delays: NamespaceDelays | None = None

    def serve(self) -> None:
        """Serve requests until standard input ends, or the lease does."""
        self._write({"ready": True})
        # takes half a second, in which the node may start already, and which is not of the first lease
        from fencepost.clusters.fault_tools import namespace_delays, packet_rules  # noqa: F401

        packet_rules.open_chain()
        pending, expires = b"", time.monotonic() + self._lease_s
        while True:
            waited: list[Any] = [0, *self._ports.sockets]
            ready, _, _ = select.select(waited, [], [], max(0.0, expires - time.monotonic()))
            if 0 not in ready and time.monotonic() >= expires:
                self._write({"error": f"the harness has not renewed the lease for {self._lease_s:g} s"})
                return
            self._ports.receive()
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    return
                expires = time.monotonic() + self._lease_s
                *lines, pending = (pending + read).split(b"\n")
                for line in lines:
                    self._write(self._answer(json.loads(line)))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        from fencepost.clusters.fault_tools import packet_rules
        from fencepost.clusters.fault_tools.namespace_delays import NamespaceDelays, missing_capabilities

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
                    self._ports.send(request["series"], to, request["packets"], request["size"])
                case "received":
                    return {"received": self._ports.received(request["series"], request["known"])}
                case "slow":
                    self._delays = self._delays or NamespaceDelays()
                    self._delays.slow(request["number"], request["address"], **request["how"])
                case "unslow":
                    assert self._delays is not None, "nothing is slow here"
                    return {"counted": self._delays.unslow(request["number"], request["address"])}
                case "missing_capabilities":
                    return {"missing_capabilities": missing_capabilities()}
                case other:
                    return {"error": f"cannot do {other}"}
        except Exception as error:  # noqa: BLE001 - netlink has errors of its own; the harness reports all of them
            return {"error": f"{type(error).__name__}: {error}"}
        return {}

    def _write(self, message: dict[str, Any]) -> None:
        os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    HelperAgent(*map(float, sys.argv[1:])).serve()
